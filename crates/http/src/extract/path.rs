//! [`NormalPath`]: a path in one normal form for all of its spellings.

use percent_encoding::percent_decode;

use super::{Extract, Head, NoKey};
use crate::key::Key;

/// The length in bytes of the longest path that has a key of its own. Real pages have shorter paths.
const PATH_MAX: usize = 512;

/// The path, normalised: for servers without a router that names its routes (with axum use `Route`).
///
/// Servers differ in which spellings of a path they treat as one page, and a client that finds two spellings has two
/// limits. So all spellings that some server treats as equal have one key here: `/login`, `/Login`, `/login/`,
/// `//login`, `/./login`, `/x/../login`, `/%6Cogin`, `/login;v=1`. When in doubt two paths share a key. Paths of more
/// than 512 bytes share one key.
///
/// If a path has parts that clients choose (`/users/7`), each value makes a key of its own: limit such paths by route.
///
/// ```
/// use http::Request;
/// use tollgate_http::keys::{Extract, Head, Key, NormalPath};
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

impl NormalPath {
    /// The normal form of a path, whatever its length; `/` for the root. Bytes that are not UTF-8 become U+FFFD. A
    /// query or a fragment is left out.
    ///
    /// ```
    /// use tollgate_http::keys::NormalPath;
    /// assert_eq!(NormalPath::of("/x/..//%6Cogin;v=1/?next=/"), "/login");
    /// assert_eq!(NormalPath::of(""), "/");
    /// ```
    #[must_use]
    pub fn of(path: &str) -> String {
        let mut room = vec![0; path.len() + 1];
        match normal(path, &mut room) {
            None | Some(b"") => "/".to_owned(),
            Some(path) => String::from_utf8_lossy(path).into_owned(),
        }
    }
}

impl Extract for NormalPath {
    fn extract(&self, head: &Head<'_>, key: &mut Key) -> Result<(), NoKey> {
        match normal(head.uri.path(), &mut [0; PATH_MAX + 1]) {
            Some(path) => key.push(path),
            None => key.push_absent(),
        }
        Ok(())
    }
}

/// The normal form: a slash before each segment, in lower case and without parameters; no empty segments and no dots.
/// `None` if there is no room for the decoded path and a slash before it.
fn normal<'r>(path: &str, room: &'r mut [u8]) -> Option<&'r [u8]> {
    // The first byte is for the slash that a path may lack.
    let mut end = 1;
    for byte in percent_decode(path.as_bytes()) {
        // Some servers treat a backslash as a slash.
        let byte = if byte == b'\\' { b'/' } else { byte.to_ascii_lowercase() };
        *room.get_mut(end)? = byte;
        end += 1;
    }
    let is_end = |byte: &u8| matches!(byte, b'?' | b'#');
    let end = room[1..end].iter().position(is_end).map_or(end, |at| at + 1);
    // Kept segments only move to the left: each is written at or before the place where it was read.
    let (mut start, mut kept) = (1, 0);
    while start <= end {
        let length = room[start..end].iter().position(|&byte| byte == b'/').unwrap_or(end - start);
        let segment = &room[start..start + length];
        let bare = segment.iter().position(|&byte| byte == b';').unwrap_or(length);
        match &segment[..bare] {
            b"" | b"." => {}
            b".." => kept = room[..kept].iter().rposition(|&byte| byte == b'/').unwrap_or(0),
            _ => {
                room[kept] = b'/';
                room.copy_within(start..start + bare, kept + 1);
                kept += 1 + bare;
            }
        }
        start += length + 1;
    }
    Some(&room[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> Option<String> {
        let mut room = [0; PATH_MAX + 1];
        normal(path, &mut room).map(|path| String::from_utf8_lossy(path).into_owned())
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
        assert_eq!(text(&"/x".repeat(256)), Some("/x".repeat(256)));
        assert_eq!(text(&"/x".repeat(257)), None);
    }

    #[test]
    fn a_text_has_its_normal_form_whatever_its_length() {
        let long = "/X".repeat(10_000);
        assert_eq!(NormalPath::of(&long), "/x".repeat(10_000));
        assert_eq!(NormalPath::of(&format!("{long}/{}admin", "../".repeat(10_000))), "/admin");
        assert_eq!(NormalPath::of(&"x".repeat(600)), format!("/{}", "x".repeat(600)));
        for root in ["", "/", "//", "?a=/b", "/..", "/;v=1", "\\"] {
            assert_eq!(NormalPath::of(root), "/", "{root}");
        }
        assert_eq!(NormalPath::of("/%ff%C3%9C"), "/\u{fffd}\u{dc}");
    }
}
