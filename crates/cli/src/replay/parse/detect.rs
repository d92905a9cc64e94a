//! Finds the format of a file by its first lines, and does not guess.
//!
//! A format reads a line if the line has all fields of the format; more text may follow. A format fits if it reads
//! every line that any format reads. If several formats fit, they have to read the same times and keys. Then the choice
//! does not matter, and the format that reads the most lines to their ends is named.

use std::fmt;

use super::asked::Asked;
use super::format::{COLUMNS, ChosenFormat, ChosenShape, FileFormat, FormatChoice};
use super::line::{LineRead, LineReader, NumberedLine, lines};
use super::named::{GENERAL, names};
use super::propose::proposed;
use super::time::instant;
use crate::replay::text::shortened;

/// The number of first lines that decide about the format.
const FIRST_LINES: usize = 100;

/// The number of first lines that rule out most formats.
const FEW_LINES: usize = 10;

/// The maximum length of a line in a message.
const SHOWN_CHARS: usize = 60;

/// The reason why the format of a file is not known. Lines are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DetectError {
    /// No format reads any of the lines.
    Unknown { line: usize, text: String, proposed: Option<String> },
    /// Every format fails on some line that another format reads.
    Mixed { first: (usize, &'static str), second: (usize, &'static str) },
    /// Two formats read different times or keys in a line.
    Unsure { line: usize, first: (&'static str, String), second: (&'static str, String) },
}

impl fmt::Display for DetectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { line, text, proposed } => {
                write!(
                    f,
                    "no format that has a name reads its first lines; line {line}: \"{text}\"; give --format \
                     with a format as a server's configuration has it"
                )?;
                if let Some(proposed) = proposed {
                    write!(f, ", such as '{proposed}'")?;
                }
                write!(f, ", or one of {}", names().join(", "))
            }
            Self::Mixed { first, second } => write!(
                f,
                "its first lines are of several formats: line {} can be read as {}, line {} as {}; give the \
                 --format that counts, all others are bad lines then",
                first.0, first.1, second.0, second.1
            ),
            Self::Unsure { line, first, second } => write!(
                f,
                "line {line} can be read as {} ({}) and as {} ({}); give --format {} or --format {}",
                first.0, first.1, second.0, second.1, first.0, second.0
            ),
        }
    }
}

impl std::error::Error for DetectError {}

/// A format, and its readings of the first lines.
struct Candidate<'c> {
    format: &'c ChosenFormat,
    /// The time and the key of each line that the format reads.
    readings: Vec<Option<(u64, Vec<u8>)>>,
    /// The number of lines that the format reads to their ends.
    whole: usize,
}

impl<'c> Candidate<'c> {
    fn new(format: &'c ChosenFormat, asked: &Asked, lines: &[NumberedLine<'_>]) -> Self {
        let mut candidate = Self { format, readings: Vec::new(), whole: 0 };
        let mut reader = LineReader::new(asked, format.of_file(asked).lines);
        for (_, line) in lines {
            let reading = match reader.read(line) {
                Ok(LineRead::Request(nanos, key)) => {
                    asked.wanted.canonical(&key).ok().map(|key| (nanos, key.into_owned()))
                }
                Ok(LineRead::LeftOut | LineRead::Nothing) | Err(_) => None,
            };
            // A line that lacks the last fields of the format has another format, even if it begins in the same way.
            let reading = reading.zip(reader.behind_all(line));
            candidate.whole +=
                usize::from(reading.as_ref().is_some_and(|(_, rest)| rest.is_empty()));
            candidate.readings.push(reading.map(|(reading, _)| reading));
        }
        candidate
    }

    /// Returns the index of the first line that the format reads.
    fn first(&self) -> Option<usize> {
        self.readings.iter().position(Option::is_some)
    }

    /// Returns the name of the format, and its reading of a line, for a message.
    fn told(&self, place: usize) -> (&'static str, String) {
        let told = match &self.readings[place] {
            Some((nanos, key)) => {
                format!("{}, \"{}\"", instant(*nanos), shortened(key, SHOWN_CHARS))
            }
            None => String::new(),
        };
        (self.format.name, told)
    }
}

/// Returns the formats that read any of the lines.
fn readers<'c>(
    formats: &[&'c ChosenFormat],
    asked: &Asked,
    lines: &[NumberedLine<'_>],
) -> Vec<Candidate<'c>> {
    let candidates = formats.iter().map(|format| Candidate::new(format, asked, lines));
    candidates.filter(|candidate| candidate.first().is_some()).collect()
}

/// Returns the format of a file that begins with this block, or none if all lines of the block are blank.
pub(super) fn format(
    choice: &FormatChoice,
    asked: &Asked,
    block: &[u8],
) -> Result<Option<FileFormat>, DetectError> {
    if let [format] = &choice.0[..] {
        return Ok(Some(format.of_file(asked)));
    }
    let numbered = (1..).zip(lines(block)).filter(|(_, line)| !line.trim_ascii().is_empty());
    let first: Vec<NumberedLine<'_>> = numbered.take(FIRST_LINES).collect();
    let Some(&(line, text)) = first.first() else { return Ok(None) };
    // The general format is tried only if no other fits: it reads lines of other formats, too, but with other fields.
    let (general, special): (Vec<_>, Vec<_>) =
        choice.0.iter().partition(|format| format.name == GENERAL);
    let joined = asked.joined();
    for formats in [special, general] {
        // If some formats read any of the first few lines, the others are dropped. Most formats drop out here.
        let few = readers(&formats, &joined, &first[..first.len().min(FEW_LINES)]);
        let few: Vec<_> = few.iter().map(|candidate| candidate.format).collect();
        let formats = if few.is_empty() { formats } else { few };
        if let Some(format) = choose(&readers(&formats, &joined, &first), &first)? {
            return Ok(Some(format.of_file(asked)));
        }
    }
    let built = built_as(choice, asked, &first).map(|format| format.of_file(asked));
    let unknown = || {
        let proposed = proposed(asked, &first);
        DetectError::Unknown { line, text: shortened(text, SHOWN_CHARS), proposed }
    };
    built.map(Some).ok_or_else(unknown)
}

/// Returns the format that fits, if there is one.
fn choose<'c>(
    readers: &[Candidate<'c>],
    lines: &[NumberedLine<'_>],
) -> Result<Option<&'c ChosenFormat>, DetectError> {
    /// Returns the first line that `other` reads and `one` does not.
    fn beyond(one: &Candidate<'_>, other: &Candidate<'_>) -> Option<usize> {
        let mut pairs = one.readings.iter().zip(&other.readings);
        pairs.position(|(one, other)| one.is_none() && other.is_some())
    }
    let fits = |one: &&Candidate<'_>| readers.iter().all(|other| beyond(one, other).is_none());
    let Some(some) = readers.first() else { return Ok(None) };
    let fitting: Vec<_> = readers.iter().filter(fits).collect();
    let Some(first) = fitting.first() else {
        // The format does not fit, so there is a line that only another format reads.
        let of = |place: usize, candidate: &Candidate<'_>| (lines[place].0, candidate.format.name);
        let second = readers.iter().find_map(|other| Some(of(beyond(some, other)?, other)));
        let first = of(some.first().unwrap_or_default(), some);
        return Err(DetectError::Mixed { first, second: second.unwrap_or(first) });
    };
    for other in &fitting {
        let mut pairs = first.readings.iter().zip(&other.readings);
        if let Some(place) = pairs.position(|(one, other)| one != other) {
            let (line, first, second) = (lines[place].0, first.told(place), other.told(place));
            return Err(DetectError::Unsure { line, first, second });
        }
    }
    Ok(fullest(fitting.into_iter()))
}

/// Returns the format that reads the most lines to their ends; if several read equally many, the first of these.
fn fullest<'a, 'c: 'a>(
    candidates: impl DoubleEndedIterator<Item = &'a Candidate<'c>>,
) -> Option<&'c ChosenFormat> {
    // `max_by_key` returns the last of several equal maxima, so the order is reversed.
    candidates.rev().max_by_key(|candidate| candidate.whole).map(|candidate| candidate.format)
}

/// Returns the format to use if no line has all the wanted parts. Reading the lines then reports what is missing in
/// each.
fn built_as<'c>(
    choice: &'c FormatChoice,
    asked: &Asked,
    lines: &[NumberedLine<'_>],
) -> Option<&'c ChosenFormat> {
    let times = asked.of_times();
    let with_times = readers(&choice.0.iter().collect::<Vec<_>>(), &times, lines);
    let has = |start: &[u8]| lines.iter().any(|(_, line)| line.trim_ascii().starts_with(start));
    let is_like = |format: &&ChosenFormat| match format.shape {
        ChosenShape::Text(_) => false,
        ChosenShape::Columns(_) => has(COLUMNS),
        ChosenShape::Json(_) => [&b"{"[..], b"[{", b"[\""].iter().any(|start| has(start)),
    };
    // The search goes backwards, because the general format is the last and is preferred.
    fullest(with_times.iter()).or_else(|| choice.0.iter().rev().find(is_like))
}
