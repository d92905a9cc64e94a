//! Finds the known word that an unknown one was meant to be.

/// ` (did you mean "burst"?)` for `bursts`, if one of the words is near: at most one slip in three letters.
pub(super) fn meant<'a>(unknown: &str, words: impl Iterator<Item = &'a str>) -> String {
    // Normalized as in the comparison with known words.
    let unknown = &*unknown.to_ascii_lowercase().replace(['_', ' '], "-");
    let near = words.map(|word| (slips(unknown, word), word)).min();
    match near {
        // A word without slips is right, but not in this place.
        Some((slips, word)) if slips * 3 <= word.len() && slips > 0 => {
            format!(" (did you mean {word:?}?)")
        }
        _ => String::new(),
    }
}

/// The least number of letters to add, leave out or replace (Levenshtein's distance).
fn slips(unknown: &str, word: &str) -> usize {
    // The text may have any length, but a misspelt word is short.
    if unknown.len() > 32 {
        return usize::from(u16::MAX);
    }
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (line, letter) in unknown.bytes().enumerate() {
        // Only the line before is needed: `row` still holds it to the right of this column.
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, other) in word.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[word.len()]
}

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn what_is_near_is_meant_and_what_is_far_is_not() {
        let of = |unknown| meant(unknown, ["burst", "soft", "from-first"].into_iter());
        assert_eq!(of("bursts"), " (did you mean \"burst\"?)");
        assert_eq!(of("form-first"), " (did you mean \"from-first\"?)");
        assert_eq!(of("sof"), " (did you mean \"soft\"?)");
        assert_eq!([of("burst"), of("five"), of(""), of(&"burst".repeat(99))], [""; 4]);
    }
}
