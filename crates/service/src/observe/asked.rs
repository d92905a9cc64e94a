//! [`InWords`]: describes a request for an operator, as a short text on one line.

use tollgate_rules::{Answer, Code, Request};

/// The maximum number of characters of a key, a value or a domain that are logged.
const MAX_WORD: usize = 64;

/// The length in bytes at which no more entries are added to a text, so that a line of a log stays readable.
const MAX_TEXT_BYTES: usize = 512;

/// A request in the form of its protocol.
pub(crate) trait InWords {
    fn domain(&self) -> &str;

    /// Passes on each key and value, in their order, with the number of their descriptor.
    fn entries(&self, each: &mut dyn FnMut(usize, &str, &[u8]));

    /// The units that a descriptor asks for.
    fn hits(&self, descriptor: usize) -> u64;
}

impl InWords for Request<'_> {
    fn domain(&self) -> &str {
        self.domain
    }

    fn entries(&self, each: &mut dyn FnMut(usize, &str, &[u8])) {
        for (n, descriptor) in self.descriptors.iter().enumerate() {
            descriptor.entries.iter().for_each(|(key, value)| each(n, key, value.as_bytes()));
        }
    }

    fn hits(&self, descriptor: usize) -> u64 {
        let own = self.descriptors.get(descriptor).and_then(|descriptor| descriptor.hits);
        own.unwrap_or_else(|| u64::from(self.hits.max(1)))
    }
}

/// The text of a request for logs, the same for every protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestText {
    pub(crate) domain: String,
    /// `user=alice,path=/; plan=free`
    pub(crate) descriptors: String,
}

impl RequestText {
    pub(crate) fn of(asked: &impl InWords) -> Self {
        let (mut text, mut last, mut is_cut) = (String::new(), None, false);
        asked.entries(&mut |n, key, value| {
            if text.len() >= MAX_TEXT_BYTES {
                is_cut = true;
                return;
            }
            match last.replace(n) {
                None => {}
                Some(before) if before == n => text.push(','),
                Some(_) => text.push_str("; "),
            }
            push_word(&mut text, key.as_bytes());
            text.push('=');
            push_word(&mut text, value);
        });
        if is_cut {
            text.push('…');
        }
        Self { domain: word(asked.domain().as_bytes()), descriptors: text }
    }
}

/// A key, a value or a domain in the form in which it is logged.
pub(crate) fn word(word: &[u8]) -> String {
    let mut text = String::new();
    push_word(&mut text, word);
    text
}

/// Appends the beginning of a word. Some characters could be taken for the end of the word, for a new line or for a
/// command of a terminal. They are escaped as in a URL, so that different words stay different.
fn push_word(text: &mut String, word: &[u8]) {
    // A character has at most 4 bytes, so this cut never divides a character that is logged.
    let beginning = &word[..word.len().min(4 * MAX_WORD)];
    for letter in String::from_utf8_lossy(beginning).chars().take(MAX_WORD) {
        let is_plain = !matches!(letter, '%' | ',' | ';' | '=') && letter.escape_debug().len() == 1;
        if is_plain {
            text.push(letter);
        } else {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                *text += &format!("%{byte:02X}");
            }
        }
    }
    let is_whole = std::str::from_utf8(word).is_ok_and(|word| word.chars().count() <= MAX_WORD);
    if !is_whole && word.len() > MAX_WORD {
        text.push('…');
    }
}

/// The descriptors that decided: if the request is denied, those that deny it, and otherwise all of them.
fn deciding(answer: &Answer) -> impl Iterator<Item = usize> {
    let statuses = answer.statuses().iter().enumerate();
    let decides = |code| answer.is_allowed() || code == Code::OverLimit;
    statuses.filter(move |(_, status)| decides(status.code)).map(|(n, _)| n)
}

/// The rules of the descriptors that decided, each rule once.
pub(crate) fn rules_of(answer: &Answer) -> String {
    let mut rules = String::new();
    let mut told: Vec<&str> = Vec::new();
    for rule in deciding(answer).filter_map(|n| answer.rule(n)) {
        if told.contains(&rule.path()) {
            continue;
        }
        if rules.len() >= MAX_TEXT_BYTES {
            rules.push('…');
            break;
        }
        if !told.is_empty() {
            rules.push_str(", ");
        }
        rules.push_str(rule.path());
        told.push(rule.path());
    }
    rules
}

/// The number of units for which the first deciding descriptor asked.
pub(crate) fn hits_of(asked: &impl InWords, answer: &Answer) -> u64 {
    deciding(answer).next().map_or(0, |n| asked.hits(n))
}

#[cfg(test)]
mod tests {
    use tollgate_rules::Descriptor;

    use super::*;

    fn text(domain: &str, descriptors: &[Descriptor<'_>]) -> RequestText {
        RequestText::of(&Request::new(domain, descriptors))
    }

    #[test]
    fn descriptors_are_told_in_their_order_and_none_can_look_like_another_entry_or_line() {
        let (user, plan) = ([("user", "alice"), ("path", "/a b")], [("plan", "free")]);
        let told = text("shop", &[Descriptor::new(&user), Descriptor::new(&plan)]);
        let expected = "user=alice,path=/a b; plan=free";
        assert_eq!((told.domain.as_str(), told.descriptors.as_str()), ("shop", expected));
        let entries = [("k", "a,b=c; d\n%0A"), ("é", "\u{1b}[2J\"\u{202e}ß")];
        let told = text("a\nb", &[Descriptor::new(&entries)]);
        let expected = "k=a%2Cb%3Dc%3B d%0A%250A,é=%1B[2J%22%E2%80%AEß";
        assert_eq!((told.domain.as_str(), told.descriptors.as_str()), ("a%0Ab", expected));
    }

    #[test]
    fn long_values_and_long_requests_are_cut_and_say_so() {
        let (exact, long) = ("é".repeat(MAX_WORD), "é".repeat(MAX_WORD + 1));
        assert_eq!(word(exact.as_bytes()), exact);
        assert_eq!(word(long.as_bytes()), format!("{exact}…"));
        assert_eq!(word(&[b'x'; 1 << 20]), format!("{}…", "x".repeat(MAX_WORD)));
        assert_eq!(word(&[0xff; 300]), format!("{}…", "\u{fffd}".repeat(MAX_WORD)));
        let entries: Vec<_> = (0..1_000).map(|_| ("key", "value")).collect();
        let told = text("d", &[Descriptor::new(&entries)]).descriptors;
        assert!(told.ends_with("key=value…"), "{told}");
        assert!(told.len() < MAX_TEXT_BYTES + 2 * 12 * MAX_WORD);
    }
}
