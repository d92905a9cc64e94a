//! Reads the page of `/metrics` back, in OpenMetrics as this service writes it.

/// A series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PageSeries<'p> {
    /// The text before its amount, which no other series of the page has.
    pub(super) id: &'p str,
    /// Its name in the page, without the ending of its kind.
    pub(super) name: &'p str,
    pub(super) labels: Vec<(&'p str, String)>,
    pub(super) amount: LineAmount,
    pub(super) is_counter: bool,
}

/// A value: whole, or a fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LineAmount {
    Whole(u64),
    Real(f64),
}

impl LineAmount {
    fn read(text: &str) -> Option<Self> {
        let real = || text.parse().ok().filter(|value: &f64| value.is_finite()).map(Self::Real);
        text.parse().ok().map(Self::Whole).or_else(real)
    }

    /// The gain of a counter. A counter that is smaller than before has begun anew, because its rule was gone and came
    /// back.
    pub(super) fn gained(self, before: Option<Self>) -> Self {
        match (self, before) {
            (Self::Whole(now), Some(Self::Whole(before))) if now >= before => {
                Self::Whole(now - before)
            }
            (Self::Real(now), Some(Self::Real(before))) if now >= before => {
                Self::Real(now - before)
            }
            // A sum of seconds may happen to be whole.
            (Self::Real(_), Some(Self::Whole(before))) => self.gained(Some(Self::real(before))),
            (Self::Whole(now), Some(Self::Real(_))) => Self::real(now).gained(before),
            _ => self,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "of a sum that is one of fractions")]
    fn real(whole: u64) -> Self {
        Self::Real(whole as f64)
    }

    pub(super) fn is_zero(self) -> bool {
        matches!(self, Self::Whole(0)) || self == Self::Real(0.0)
    }
}

impl std::fmt::Display for LineAmount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(whole) => whole.fmt(f),
            Self::Real(real) => real.fmt(f),
        }
    }
}

/// The counters and gauges of a page, and the count and sum of each histogram. Series of type `unknown` are left out:
/// they only repeat our own counts under the names of envoyproxy/ratelimit.
pub(super) fn series(page: &str) -> impl Iterator<Item = PageSeries<'_>> {
    let mut family = ("", "");
    page.lines().filter_map(move |line| {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            family = typed.split_once(' ').unwrap_or_default();
        }
        if line.starts_with('#') {
            return None;
        }
        let (name, kind) = family;
        let ending = line.strip_prefix(name)?;
        let (ending, rest) = ending.split_at(ending.find(['{', ' '])?);
        let (name, is_counter) = match (kind, ending) {
            ("counter", "_total") => (name, true),
            ("gauge", "") => (name, false),
            ("histogram", "_count" | "_sum") => (&line[..name.len() + ending.len()], true),
            _ => return None,
        };
        let (labels, amount) = labels(rest)?;
        let id = &line[..line.len() - amount.len()];
        Some(PageSeries { id, name, labels, amount: LineAmount::read(amount)?, is_counter })
    })
}

/// Splits `{name="value",name="value"} 5`, or ` 5`, into the labels and the rest.
fn labels(text: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    let Some(mut rest) = text.strip_prefix('{') else { return Some((labels, text.trim_start())) };
    while let Some((name, more)) = rest.split_once("=\"") {
        let (value, more) = quoted(more)?;
        labels.push((name.trim_start_matches(','), value));
        rest = more;
        if let Some(amount) = rest.strip_prefix('}') {
            return Some((labels, amount.trim_start()));
        }
    }
    None
}

/// Splits off a value up to the quote that ends it; returns it and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP a_hits Hits # TYPE\n# TYPE a_hits counter\n\
                        a_hits_total{domain=\"d\",rule=\"x\\\"} 9 \\\\ \\n,=\"} 3\n\
                        # TYPE a_live gauge\na_live 2\na_live{domain=\"\"} 0.5\n\
                        # TYPE a_seconds histogram\na_seconds_sum{p=\"q\"} 0.25\na_seconds_count{p=\"q\"} 4\n\
                        a_seconds_bucket{le=\"0.1\",p=\"q\"} 4\n\
                        # TYPE their_hits unknown\ntheir_hits 3\n# EOF\n";

    #[test]
    fn counters_and_gauges_are_read_and_what_a_page_gives_no_type_is_not() {
        let of = |id, name, labels: &[(&'static str, &str)], amount, is_counter| PageSeries {
            id,
            name,
            labels: labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            amount,
            is_counter,
        };
        let expected = [
            of(
                "a_hits_total{domain=\"d\",rule=\"x\\\"} 9 \\\\ \\n,=\"} ",
                "a_hits",
                &[("domain", "d"), ("rule", "x\"} 9 \\ \n,=")],
                LineAmount::Whole(3),
                true,
            ),
            of("a_live ", "a_live", &[], LineAmount::Whole(2), false),
            of("a_live{domain=\"\"} ", "a_live", &[("domain", "")], LineAmount::Real(0.5), false),
            of(
                "a_seconds_sum{p=\"q\"} ",
                "a_seconds_sum",
                &[("p", "q")],
                LineAmount::Real(0.25),
                true,
            ),
            of(
                "a_seconds_count{p=\"q\"} ",
                "a_seconds_count",
                &[("p", "q")],
                LineAmount::Whole(4),
                true,
            ),
        ];
        assert_eq!(series(PAGE).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_cut_off_is_no_series() {
        for length in 0..PAGE.len() {
            assert!(series(&PAGE[..length]).count() <= 5);
        }
        assert_eq!(series("# TYPE a gauge\na{b=\"c\na{b} 1\na NaN\na x\n").count(), 0);
    }

    #[test]
    fn a_counter_gains_the_difference_and_one_that_began_anew_all_it_has() {
        use LineAmount::{Real, Whole};
        for (now, before, gained) in [
            (Whole(7), None, Whole(7)),
            (Whole(7), Some(Whole(5)), Whole(2)),
            (Whole(u64::MAX), Some(Whole(u64::MAX - 1)), Whole(1)),
            (Whole(3), Some(Whole(5)), Whole(3)),
            (Real(1.5), Some(Whole(1)), Real(0.5)),
            (Whole(2), Some(Real(1.5)), Real(0.5)),
        ] {
            assert_eq!(now.gained(before), gained);
        }
        assert!(Whole(0).is_zero() && Real(0.0).is_zero() && !Whole(1).is_zero());
    }
}
