//! The word that was meant by one that is unknown.

/// The accepted word next to an unknown one, if one is near: at most one slip in three characters, whatever the case.
pub(crate) fn meant<'a>(unknown: &str, accepted: &[&'a str]) -> Option<&'a str> {
    // A key of any length may be in a file: the time that a comparison takes grows with it.
    if unknown.len() > 64 {
        return None;
    }
    let unknown = unknown.to_lowercase();
    let near = |&word: &&'a str| (strsim::damerau_levenshtein(&unknown, word), word);
    let (slips, word) = accepted.iter().map(near).min_by_key(|(slips, _)| *slips)?;
    (slips * 3 <= word.len()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::meant;

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
}
