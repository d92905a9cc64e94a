//! Finds the known word that was probably meant by an unknown word.

/// Returns ` (did you mean "burst"?)` for `bursts`, if one of the words is similar: at most one wrong letter in three.
pub(super) fn meant<'a>(unknown: &str, words: impl Iterator<Item = &'a str>) -> String {
    // The word is normalized in the same way as in the comparison with known words.
    let unknown = &*unknown.to_ascii_lowercase().replace(['_', ' '], "-");
    let near = words.map(|word| (slips(unknown, word), word)).min();
    match near {
        // A word without a wrong letter is spelt correctly, but is not allowed in this place.
        Some((slips, word)) if slips * 3 <= word.len() && slips > 0 => {
            format!(" (did you mean {word:?}?)")
        }
        _ => String::new(),
    }
}

/// The least number of letters that have to be added, removed or replaced (Levenshtein's distance).
fn slips(unknown: &str, word: &str) -> usize {
    // A long text is not compared: it may have any length, while a misspelt word is short.
    if unknown.len() > 32 {
        return usize::from(u16::MAX);
    }
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (line, letter) in unknown.bytes().enumerate() {
        // Only the previous line of the table is needed. From this column on, `row` still contains that line.
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
