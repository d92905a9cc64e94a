//! [`StoredKeys`]: the names of a limit's keys in the store.
//!
//! ```text
//! prefix:name:{client}     prefix:name:part:{client}     prefix:name:part:{client}+log
//! ```
//!
//! The text in braces is the hash tag. It alone determines the key's slot in a cluster. So the clients of a limit are
//! spread over all nodes, and the limits of one client, whatever their names and parts, are in one slot and decided by
//! one call. If the client is empty, so is the hash tag. In that case the whole key determines the slot, and the limits
//! of this client are in different slots.
//!
//! A client is written as it is, so that operators can read it. Bytes that are not UTF-8, white space, `%`, `{` and `}`
//! are written as `%` and two hexadecimal digits each. A client of more than [`LONGEST`] bytes is written as its
//! digest. No two clients have the same text, unless their digests collide.

use ring::digest::{SHA256, digest};

use crate::script::plan::{PlanKind, ScriptPlan};

/// The longest client, in bytes, that is written in full.
const LONGEST: usize = 128;
/// The number of bytes of a digest that are written. With 16 bytes, nobody can find two clients that have the same
/// text.
const DIGEST: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct StoredKeys {
    /// The beginning of each key, up to the brace before the client.
    pub(crate) head: Vec<u8>,
    tail: &'static [u8],
}

impl StoredKeys {
    /// The prefix, the name and the part contain none of `{`, `}` and `:`, so no two limits have the same key.
    pub(crate) fn new(prefix: &str, name: &str, part: &str, plan: &ScriptPlan) -> Self {
        let colon = if part.is_empty() { "" } else { ":" };
        let head = format!("{prefix}:{name}{colon}{part}:{{").into_bytes();
        // A sliding log stores another type of value, so its keys have a different ending.
        let tail = if matches!(plan.kind, PlanKind::Log { .. }) { "}+log" } else { "}" };
        Self { head, tail: tail.as_bytes() }
    }

    pub(crate) fn of(&self, client: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.head.len() + client.len() + self.tail.len());
        key.extend_from_slice(&self.head);
        if client.len() > LONGEST {
            key.extend_from_slice(b"%sha256-"); // no escaped text contains `%s`, since `s` is no hexadecimal digit
            for byte in &digest(&SHA256, client).as_ref()[..DIGEST] {
                append_digits(&mut key, *byte);
            }
        } else if client.iter().all(|byte| byte.is_ascii_graphic() && !b"%{}".contains(byte)) {
            key.extend_from_slice(client);
        } else {
            append_escaped(&mut key, client);
        }
        key.extend_from_slice(self.tail);
        key
    }
}

fn append_escaped(key: &mut Vec<u8>, client: &[u8]) {
    let escape = |key: &mut Vec<u8>, bytes: &[u8]| {
        for byte in bytes {
            key.push(b'%');
            append_digits(key, *byte);
        }
    };
    for chunk in client.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let is_special = matches!(letter, '%' | '{' | '}');
            let bytes = &mut [0; 4];
            let bytes = letter.encode_utf8(bytes).as_bytes();
            if is_special || letter.is_control() || letter.is_whitespace() {
                escape(key, bytes);
            } else {
                key.extend_from_slice(bytes);
            }
        }
        escape(key, chunk.invalid());
    }
}

fn append_digits(key: &mut Vec<u8>, byte: u8) {
    let digits = b"0123456789ABCDEF";
    key.extend([byte >> 4, byte & 15].map(|half| digits[usize::from(half)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(name: &str, part: &str, policy: &str) -> StoredKeys {
        let plan = ScriptPlan::new(policy.parse().unwrap()).unwrap();
        StoredKeys::new("tollgate", name, part, &plan)
    }

    fn text(client: &[u8]) -> String {
        let key = String::from_utf8(keys("shop", "", "9/m").of(client)).unwrap();
        key.strip_prefix("tollgate:shop:{").unwrap().strip_suffix('}').unwrap().to_string()
    }

    #[test]
    fn a_key_is_readable_text() {
        let of = |name, part, policy| keys(name, part, policy).of(b"203.0.113.7");
        assert_eq!(of("shop", "", "9/m"), b"tollgate:shop:{203.0.113.7}");
        assert_eq!(of("shop", "user/path", "9/m"), b"tollgate:shop:user/path:{203.0.113.7}");
        assert_eq!(of("shop", "a", "sliding-log 9/m"), b"tollgate:shop:a:{203.0.113.7}+log");
        let texts: [(&str, &str); 6] = [
            ("2001:db8::/64", "2001:db8::/64"),
            ("J\u{fc}rgen", "J\u{fc}rgen"),
            ("a b\n", "a%20b%0A"),
            ("100%}{", "100%25%7D%7B"),
            ("a\u{2028}b", "a%E2%80%A8b"),
            ("", ""),
        ];
        for (client, expected) in texts {
            assert_eq!(text(client.as_bytes()), expected);
        }
        assert_eq!(text(b"\xff\x00a"), "%FF%00a");
    }

    #[test]
    fn a_long_client_is_written_as_a_digest_that_no_other_client_has() {
        let longest = "x".repeat(LONGEST);
        assert_eq!(text(longest.as_bytes()), longest);
        let digest = text(format!("{longest}x").as_bytes());
        assert_eq!(digest.len(), "%sha256-".len() + 2 * DIGEST);
        assert_ne!(digest, text(format!("{longest}y").as_bytes()));
        // A client whose name looks like the digest of another client does not get that client's key.
        assert_eq!(text(digest.as_bytes()), digest.replace('%', "%25"));
    }

    #[test]
    fn no_two_limits_make_the_same_key() {
        let limits = [
            ("a", "", "9/m"),
            ("a", "b", "9/m"),
            ("ab", "", "9/m"),
            ("a+log", "", "9/m"),
            ("a", "", "sliding-log 9/m"),
            ("a", "b", "sliding-log 9/m"),
        ];
        let clients: [&[u8]; 8] = [b"", b"b", b"b:{c", b"}+log", b"}", b"%7D", b"\0", b"\xff"];
        let mut all = Vec::new();
        for (name, part, policy) in limits {
            all.extend(clients.map(|client| keys(name, part, policy).of(client)));
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
