//! [`NormalPath`]: a path in one normal form for all of its spellings.

use arrayvec::ArrayVec;
use percent_encoding::percent_decode;

use super::{Extract, Head, NoKey};
use crate::key::Key;

/// Longer paths share one key: real pages have shorter paths.
const PATH_MAX: usize = 512;

/// The path, normalised: for servers without a router that names its routes (with axum use `Route`).
///
/// Servers differ in which spellings of a path they treat as one page, and a client that finds two spellings has two
/// limits. So all spellings that some server treats as equal have one key here: `/login`, `/Login`, `/login/`,
/// `//login`, `/./login`, `/x/../login`, `/%6Cogin`, `/login;v=1`. When in doubt two paths share a key. Paths of more
/// than 512 bytes share one key.
///
/// Where a path has parts that clients choose (`/users/7`), each value is a key of its own: use routes there.
///
/// ```
/// use http::Request;
/// use tollgate_tower::{Extract, Head, Key, NormalPath};
/// let key = |path: &str| {
///     let request = Request::get(path).body(()).expect("a request");
///     let mut key = Key::new();
///     NormalPath.extract(&Head::of(&request), &mut key).map(|()| key)
/// };
/// assert_eq!(key("/Login/?next=/"), key("//%6Cogin;jsessionid=1"));
/// assert_ne!(key("/login"), key("/logout"));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NormalPath;

impl Extract for NormalPath {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        match normal(head.uri.path()) {
            Some(path) => key.push(&path),
            None => key.push_absent(),
        }
        Ok(())
    }
}

type Path = ArrayVec<u8, PATH_MAX>;

/// Each segment after a slash, in lower case, without parameters; no empty segments, no dots.
fn normal(path: &str) -> Option<Path> {
    let mut decoded = Path::new();
    for byte in percent_decode(path.as_bytes()) {
        // Some servers treat a backslash as a slash.
        let byte = if byte == b'\\' { b'/' } else { byte.to_ascii_lowercase() };
        decoded.try_push(byte).ok()?;
    }
    let end = decoded.iter().position(|&byte| matches!(byte, b'?' | b'#')).unwrap_or(decoded.len());
    let mut normal = Path::new();
    for segment in decoded[..end].split(|&byte| byte == b'/') {
        let bare = segment.split(|&byte| byte == b';').next().unwrap_or_default();
        match bare {
            b"" | b"." => {}
            b".." => {
                let parent = normal.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                normal.truncate(parent);
            }
            segment => {
                normal.try_push(b'/').ok()?;
                normal.try_extend_from_slice(segment).ok()?;
            }
        }
    }
    Some(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> Option<String> {
        normal(path).map(|path| String::from_utf8_lossy(&path).into_owned())
    }

    #[test]
    fn all_spellings_of_a_page_are_one_key() {
        for spelling in [
            "/login",
            "/Login",
            "/LOGIN",
            "/login/",
            "//login",
            "/login//",
            "/./login",
            "/login/.",
            "/%6Cogin",
            "/%6cogin",
            "/lo%67in%2F",
            "/%2e/login",
            "/%2E%2E/login",
            "/x/../login",
            "/x/%2e%2e/login",
            "/../../login",
            "/login;v=1",
            "/;a/login;b;c",
            "/login#f",
            "/login%23f",
            "/login%3Fa=b",
            "\\login",
            "/x\\..\\login",
            "login",
        ] {
            assert_eq!(text(spelling).as_deref(), Some("/login"), "{spelling}");
        }
    }

    #[test]
    fn other_pages_are_other_keys() {
        let pages = ["/", "/log", "/login/x", "/x/login", "/login.", "/...", "/%256Cogin", "/%zz"];
        let mut seen: Vec<_> = pages.iter().map(|page| text(page)).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), pages.len());
    }

    #[test]
    fn a_path_that_is_too_long_is_one_of_many() {
        assert!(text(&"/x".repeat(256)).is_some());
        assert_eq!(text(&"/x".repeat(257)), None);
    }
}
