//! [`WorkedExample`]: textbook examples as data, for the tests of every layer that decides.

/// Policies, requests, and the decisions about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkedExample {
    /// The number of the example, from 1. Several examples may have the same number.
    pub number: u32,
    /// The point that the example shows.
    pub title: &'static str,
    /// The policies, in the words of `tollgate::Policy`. A request is charged to all of them or to none.
    pub policies: Vec<&'static str>,
    /// The times of the requests, as text.
    pub requests: &'static str,
    /// The decision about each request, as text.
    pub decisions: &'static str,
}

impl WorkedExample {
    /// The time of each request, in nanoseconds after an instant at which every aligned window begins, and the units
    /// that it asks for.
    ///
    /// # Panics
    /// Panics if `requests` is not a list of times in the expected form.
    #[must_use]
    pub fn asked(&self) -> Vec<(u64, u64)> {
        self.requests.split_whitespace().flat_map(asked).collect()
    }

    /// One letter for each request: `A` if it is admitted, else `D`.
    ///
    /// # Panics
    /// Panics if a count in `decisions` is not a number.
    #[must_use]
    pub fn expected(&self) -> String {
        let mut expected = String::new();
        for word in self.decisions.split_whitespace() {
            let (letters, count) = word.split_at(word.trim_end_matches(is_digit).len());
            let last = letters.chars().last().expect("a letter");
            expected += letters;
            if !count.is_empty() {
                let count: usize = count.parse().expect("a number");
                expected.extend(std::iter::repeat_n(last, count - 1));
            }
        }
        expected
    }

    /// Whether requests wait for their turn.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.policies.iter().any(|policy| policy.contains(" queue "))
    }

    /// Whether a request asks for more than one unit.
    #[must_use]
    pub fn has_costs(&self) -> bool {
        self.requests.contains('(')
    }
}

fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
}

/// Parses `0:05`, `0:05*3` and `0:05*3/0.1` (a time, a count, and a step in seconds); each may have a cost in
/// parentheses after its time: `0:05(8)*3`.
fn asked(word: &str) -> impl Iterator<Item = (u64, u64)> {
    let (time, times) = word.split_once('*').unwrap_or((word, "1"));
    let (count, step) = times.split_once('/').unwrap_or((times, "0"));
    let (time, cost) = time.split_once('(').unwrap_or((time, "1)"));
    let (minutes, seconds) = time.split_once(':').expect("minutes and seconds");
    let start = minutes.parse::<u64>().expect("minutes") * 60_000 + millis(seconds);
    let cost = cost.trim_end_matches(')').parse().expect("a cost");
    let step = millis(step);
    let count: u64 = count.parse().expect("a count");
    (0..count).map(move |n| ((start + n * step) * 1_000_000, cost))
}

/// Seconds with up to three decimals.
fn millis(seconds: &str) -> u64 {
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let fraction: u64 = format!("{fraction:0<3}").parse().expect("up to three decimals");
    whole.parse::<u64>().expect("seconds") * 1_000 + fraction
}

/// All examples, in their order.
///
/// ```
/// let examples = tollgate_oracle::worked_examples();
/// let first = &examples[0];
/// assert_eq!((first.number, &first.policies[..]), (1, &["fixed-window 3/60s"][..]));
/// assert_eq!(first.asked()[1], (15_000_000_000, 1));
/// assert_eq!(first.expected(), "AAAAADA");
/// ```
///
/// # Panics
/// Panics if the table is not in the form that its head describes.
#[must_use]
pub fn worked_examples() -> Vec<WorkedExample> {
    let (mut number, mut title) = (0, "");
    let mut examples = Vec::new();
    for line in include_str!("worked.txt").lines() {
        if let Some(heading) = line.strip_prefix("== ") {
            let (digits, text) = heading.split_once(' ').expect("a number and a title");
            (number, title) = (digits.parse().expect("a number"), text);
        } else if !line.starts_with('#') && !line.is_empty() {
            let mut fields = line.split(" | ");
            let mut field = || fields.next().expect("policies, requests and decisions");
            let policies = field().split(" + ").collect();
            let (requests, decisions) = (field(), field());
            examples.push(WorkedExample { number, title, policies, requests, decisions });
        }
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_an_example_and_each_request_a_decision() {
        let examples = worked_examples();
        let mut numbers: Vec<_> = examples.iter().map(|example| example.number).collect();
        numbers.dedup();
        assert_eq!(numbers, (1..=37).collect::<Vec<_>>());
        for example in &examples {
            let (asked, expected) = (example.asked(), example.expected());
            assert_eq!(asked.len(), expected.len(), "{example:?}");
            assert!(asked.is_sorted_by_key(|(now_ns, _)| *now_ns), "{example:?}");
            assert_eq!(expected.trim_matches(['A', 'D']), "", "{example:?}");
        }
    }

    #[test]
    fn the_short_forms_stand_for_what_the_head_says() {
        let example = |requests, decisions| WorkedExample {
            number: 1,
            title: "",
            policies: Vec::new(),
            requests,
            decisions,
        };
        let short = example("1:00.5 0:01(8)*2 0:02*3/0.1", "A DD A3");
        let second = 1_000_000_000;
        let asked =
            [(121, 1), (2, 8), (2, 8), (4, 1)].map(|(half, cost)| (half * second / 2, cost));
        assert_eq!(short.asked()[..4], asked);
        assert_eq!(short.asked()[4..], [(2_100_000_000, 1), (2_200_000_000, 1)]);
        assert_eq!(short.expected(), "ADDAAA");
    }
}
