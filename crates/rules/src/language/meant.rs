//! Guesses which accepted word was meant by an unknown word.

/// The accepted word that is nearest to an unknown word, if the edit distance is at most one for each three characters
/// of the accepted word. Upper and lower case are equal.
pub(crate) fn meant<'a>(unknown: &str, accepted: &[&'a str]) -> Option<&'a str> {
    // Keys of a file may be long, and the time of a comparison grows with their length.
    if unknown.len() > 64 {
        return None;
    }
    let unknown = unknown.to_lowercase();
    let near = |&word: &&'a str| (strsim::damerau_levenshtein(&unknown, word), word);
    let (slips, word) = accepted.iter().map(near).min_by_key(|(slips, _)| *slips)?;
    (slips * 3 <= word.len()).then_some(word)
}

/// Keys that files of other services, or policies, use: each with the text to write in a rule file instead, which
/// begins with a key.
const ELSEWHERE: [(&str, &str); 16] = [
    ("count_denied", "count_rejected"),
    ("timeout", "wait"),
    ("max_wait", "wait"),
    ("soft", "mode: soft 5%"),
    ("hard", "mode: hard"),
    ("elastic", "mode: elastic"),
    ("dynamic", "mode: elastic"),
    ("limit", "requests_per_unit"),
    ("requests", "requests_per_unit"),
    ("count", "requests_per_unit"),
    ("period", "window"),
    ("interval", "window"),
    ("policy", "algorithm"),
    ("capacity", "burst"),
    ("timezone", "time_zone"),
    ("shadow", "shadow_mode"),
];

/// The text to write in place of a key that is used elsewhere, if the key in that text is accepted.
pub(crate) fn elsewhere(unknown: &str, accepted: &[&str]) -> Option<&'static str> {
    let unknown = unknown.to_lowercase().replace('-', "_");
    let is_accepted =
        |here: &str| here.split(':').next().is_some_and(|key| accepted.contains(&key));
    let found = ELSEWHERE.iter().find(|(there, here)| *there == unknown && is_accepted(here));
    found.map(|(_, here)| *here)
}

#[cfg(test)]
mod tests {
    use super::{elsewhere, meant};

    #[test]
    fn what_is_near_is_meant_and_what_is_far_is_not() {
        let keys = ["key", "value", "rate_limit", "requests_per_unit"];
        for (unknown, expected) in [
            ("request_per_unit", Some("requests_per_unit")),
            ("-key", Some("key")),
            ("Value", Some("value")),
            ("kye", Some("key")),
            ("ratelimit", Some("rate_limit")),
            ("requests", None),
            ("", None),
        ] {
            assert_eq!(meant(unknown, &keys), expected, "{unknown}");
        }
        assert_eq!(meant(&"key".repeat(30), &keys), None);
    }

    #[test]
    fn a_key_of_another_file_is_known_where_its_own_is_accepted() {
        assert_eq!(elsewhere("Count-Denied", &["count_rejected"]), Some("count_rejected"));
        assert_eq!(elsewhere("soft", &["mode", "wait"]), Some("mode: soft 5%"));
        assert_eq!(elsewhere("timeout", &["mode", "queue"]), None);
    }
}
