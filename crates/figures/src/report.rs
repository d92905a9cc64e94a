//! What is printed, and whether the figures hold.

use std::fmt::Write;

use anyhow::{Result, ensure};

use crate::limits::{FigureLimit, LimitException, LimitVerdict, LimitsFile};

/// One place that counts against a limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Offender {
    pub(crate) path: String,
    /// As an editor counts: from 1.
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// What was counted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FigureCount {
    Value(f64),
    /// As many as there are, less those that are excepted.
    Places(Vec<Offender>),
}

/// One figure beside its limit.
#[derive(Debug)]
struct HeldFigure<'a> {
    limit: &'a FigureLimit,
    value: f64,
    places: Vec<Offender>,
}

#[derive(Debug)]
pub(crate) struct FiguresReport<'a> {
    figures: Vec<HeldFigure<'a>>,
    unused: Vec<&'a LimitException>,
}

impl<'a> FiguresReport<'a> {
    /// The figures, in the order of their limits.
    pub(crate) fn of(
        limits: &'a LimitsFile,
        count: impl Fn(&FigureLimit) -> Result<FigureCount>,
    ) -> Result<Self> {
        let mut unused: Vec<&LimitException> = limits.exception.iter().collect();
        let mut figures = Vec::new();
        for limit in &limits.limit {
            let (value, places) = match count(limit)? {
                FigureCount::Value(value) => (value, Vec::new()),
                FigureCount::Places(mut places) => {
                    places.retain(|place| {
                        let before = unused.len();
                        unused.retain(|exception| !excepts(exception, limit, place));
                        let all = &limits.exception;
                        before == unused.len()
                            && !all.iter().any(|other| excepts(other, limit, place))
                    });
                    (as_value(places.len()), places)
                }
            };
            figures.push(HeldFigure { limit, value, places });
        }
        Ok(Self { figures, unused })
    }

    pub(crate) fn table(&self) -> String {
        let mut table = format!("{:<26}{:>9}  {:>9} {:>9}\n", "figure", "today", "limit", "goal");
        for HeldFigure { limit, value, .. } in &self.figures {
            let [value, bound, goal] =
                [*value, limit.bound(), limit.goal].map(|value| shown(limit, value));
            let sign = if limit.floor.is_some() { "≥" } else { "≤" };
            let _ = writeln!(table, "{:<26}{value:>9} {sign}{bound:>9} {goal:>9}", limit.figure);
        }
        table
    }

    /// The places that count against these figures; against all of them if none is named.
    pub(crate) fn places(&self, figures: &[String]) -> Result<String> {
        let mut list = String::new();
        for figure in figures {
            ensure!(
                self.figures.iter().any(|known| known.limit.figure == *figure),
                "there is no figure {figure}"
            );
        }
        for held in &self.figures {
            let figure = &held.limit.figure;
            if !held.places.is_empty() && (figures.is_empty() || figures.contains(figure)) {
                let _ = writeln!(list, "{figure}:\n{}", held.listed());
            }
        }
        Ok(list)
    }

    /// What has to be done; nothing if every figure holds.
    pub(crate) fn complaints(&self) -> String {
        let mut all: String = self.figures.iter().map(HeldFigure::complaint).collect();
        for LimitException { figure, file, what, .. } in &self.unused {
            let _ =
                writeln!(all, "{figure}: the exception for \"{what}\" in {file} excepts nothing.");
        }
        all
    }
}

impl HeldFigure<'_> {
    fn listed(&self) -> String {
        let mut list = String::new();
        for Offender { path, line, what } in &self.places {
            let _ = writeln!(list, "  {path}:{line}: {what}");
        }
        list
    }

    fn complaint(&self) -> String {
        let FigureLimit { figure, why, floor, .. } = self.limit;
        let (bound, mend) = if floor.is_some() { ("floor", "raise") } else { ("ceiling", "lower") };
        let [value, stands] =
            [self.value, self.limit.bound()].map(|value| shown(self.limit, value));
        match self.limit.verdict(self.value) {
            LimitVerdict::Held => String::new(),
            LimitVerdict::Broken => {
                let list = self.listed();
                format!("{figure}: {value} is beyond the {bound} of {stands}. {why}\n{list}")
            }
            LimitVerdict::Tighten(to) => {
                let to = shown(self.limit, to);
                format!(
                    "{figure}: {value} is better than the {bound} of {stands}: {mend} the {bound} to {to}.\n"
                )
            }
        }
    }
}

fn excepts(exception: &LimitException, limit: &FigureLimit, place: &Offender) -> bool {
    exception.figure == limit.figure
        && exception.file == place.path
        && says_whole(&place.what, &exception.what)
}

/// Whether a text has a part that neither begins nor ends within a name or a path: `Meter` is no part of
/// `MeterPool`, nor of `Meter::check`.
fn says_whole(text: &str, part: &str) -> bool {
    let in_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(part).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + part.len()..]);
        !before.ends_with(in_name)
            && !before.ends_with("::")
            && !after.starts_with(in_name)
            && !after.starts_with("::")
    })
}

/// Counts of this repository are far below 2^53, up to which a float holds each.
#[expect(clippy::cast_precision_loss)]
pub(crate) fn as_value(count: usize) -> f64 {
    count as f64
}

/// Counts in groups of three, shares with two digits.
fn shown(limit: &FigureLimit, value: f64) -> String {
    if limit.step.fract() > 0.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = r#"
        [[limit]]
        figure = "long"
        goal = 0
        ceiling = 1
        why = "Long ones are hard to read."
        [[limit]]
        figure = "share"
        goal = 0.12
        floor = 0.02
        step = 0.01
        why = "Reasons are missing."
        [[exception]]
        figure = "long"
        file = "a.rs"
        what = "parse"
        why = "A table."
    "#;

    /// The complaints about these functions of `a.rs` and this share.
    fn complaints(long: &[&str], share: f64) -> String {
        let limits = LimitsFile::parse(LIMITS).unwrap();
        let place = |what: &&str| Offender { path: "a.rs".into(), line: 3, what: (*what).into() };
        let count = |limit: &FigureLimit| {
            Ok(match limit.figure.as_str() {
                "long" => FigureCount::Places(long.iter().map(place).collect()),
                _ => FigureCount::Value(share),
            })
        };
        FiguresReport::of(&limits, count).unwrap().complaints()
    }

    #[test]
    fn figures_within_their_limits_give_no_complaint() {
        assert_eq!(complaints(&["parse", "draw"], 0.025), "");
    }

    #[test]
    fn a_figure_beyond_its_limit_is_told_with_its_places_and_its_reason() {
        assert_eq!(
            complaints(&["parse", "draw", "drive"], 0.025),
            "long: 2 is beyond the ceiling of 1. Long ones are hard to read.\n  \
             a.rs:3: draw\n  a.rs:3: drive\n"
        );
        assert_eq!(
            complaints(&["parse", "draw"], 0.01),
            "share: 0.01 is beyond the floor of 0.02. Reasons are missing.\n"
        );
    }

    #[test]
    fn a_better_figure_asks_for_a_stricter_limit() {
        assert_eq!(
            complaints(&["parse"], 0.034),
            "long: 0 is better than the ceiling of 1: lower the ceiling to 0.\n\
             share: 0.03 is better than the floor of 0.02: raise the floor to 0.03.\n"
        );
    }

    #[test]
    fn an_exception_that_excepts_nothing_is_told() {
        assert_eq!(
            complaints(&["draw"], 0.025),
            "long: the exception for \"parse\" in a.rs excepts nothing.\n"
        );
    }

    #[test]
    fn an_exception_names_its_place_and_no_other_that_is_called_alike() {
        let text = "tollgate::Meter: 3 types";
        for part in [text, "tollgate::Meter", "3 types"] {
            assert!(says_whole(text, part), "{part}");
        }
        for part in ["Meter", "tollgate", "tollgate::Met", "type"] {
            assert!(!says_whole(text, part), "{part}");
        }
        assert_eq!(
            complaints(&["parse_all", "draw"], 0.025),
            "long: 2 is beyond the ceiling of 1. Long ones are hard to read.\n  \
             a.rs:3: parse_all\n  a.rs:3: draw\n\
             long: the exception for \"parse\" in a.rs excepts nothing.\n"
        );
    }

    #[test]
    fn the_places_of_a_figure_are_listed_by_its_name() {
        let limits = LimitsFile::parse(LIMITS).unwrap();
        let place = Offender { path: "b.rs".into(), line: 7, what: "draw".into() };
        let count = |limit: &FigureLimit| {
            Ok(match limit.figure.as_str() {
                "long" => FigureCount::Places(vec![place.clone()]),
                _ => FigureCount::Value(0.0),
            })
        };
        let report = FiguresReport::of(&limits, count).unwrap();
        let list = "long:\n  b.rs:7: draw\n\n";
        assert_eq!(report.places(&[]).unwrap(), list);
        assert_eq!(report.places(&["long".to_owned()]).unwrap(), list);
        assert_eq!(report.places(&["share".to_owned()]).unwrap(), "");
        assert!(report.places(&["tall".to_owned()]).is_err());
    }

    #[test]
    fn counts_are_grouped() {
        let limits = LimitsFile::parse(LIMITS).unwrap();
        let told = |value| shown(&limits.limit[0], value);
        assert_eq!([told(0.0), told(999.0), told(26_413.0)], ["0", "999", "26,413"]);
    }
}
