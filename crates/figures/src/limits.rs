//! `figures.toml`: what each figure may be, why, and which places are excepted.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsFile {
    pub(crate) limit: Vec<FigureLimit>,
    #[serde(default)]
    pub(crate) exception: Vec<LimitException>,
}

/// One figure's limit. It has a ceiling, or a floor where more is better.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FigureLimit {
    pub(crate) figure: String,
    /// Where the figure is to come to.
    pub(crate) goal: f64,
    /// Where it stands today: it may not rise above this.
    pub(crate) ceiling: Option<f64>,
    pub(crate) floor: Option<f64>,
    /// The ceiling is a multiple of this, so that not every line that is added or removed changes it.
    #[serde(default = "one")]
    pub(crate) step: f64,
    /// For figures that count what is too large: the size from which on it is.
    pub(crate) each: Option<usize>,
    /// For figures about words: which.
    #[serde(default)]
    pub(crate) words: Vec<String>,
    /// Names of folders in which nothing is counted.
    #[serde(default)]
    pub(crate) outside: Vec<String>,
    pub(crate) why: String,
}

/// One place, or several in one file, that count against no limit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitException {
    pub(crate) figure: String,
    pub(crate) file: String,
    /// Whole names of what is printed of the place, behind its line.
    pub(crate) what: String,
    pub(crate) why: String,
}

/// What is to be done about a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LimitVerdict {
    Held,
    Broken,
    /// It is better than its ceiling says, which is to say so: else it could become as bad again.
    Tighten(f64),
}

fn one() -> f64 {
    1.0
}

impl LimitsFile {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let limits: Self = toml::from_str(text)?;
        for limit in &limits.limit {
            limit.validate().with_context(|| format!("the limit of {}", limit.figure))?;
        }
        for exception in &limits.exception {
            let (figure, file) = (&exception.figure, &exception.file);
            ensure!(
                !exception.why.trim().is_empty(),
                "the exception of {figure} in {file} has no reason"
            );
            ensure!(
                !exception.what.is_empty(),
                "the exception of {figure} in {file} names no place"
            );
        }
        Ok(limits)
    }
}

impl FigureLimit {
    fn validate(&self) -> Result<()> {
        ensure!(!self.why.trim().is_empty(), "has no reason");
        ensure!(self.ceiling.is_some() != self.floor.is_some(), "needs a ceiling, or a floor");
        ensure!(self.step > 0.0, "needs a step above 0");
        let (sign, bound) = self.upwards();
        ensure!(sign * self.goal <= bound, "is stricter than its goal");
        Ok(())
    }

    /// The ceiling or the floor.
    pub(crate) fn bound(&self) -> f64 {
        self.ceiling.or(self.floor).unwrap_or(self.goal)
    }

    /// A floor is a ceiling of the same figure below 0.
    fn upwards(&self) -> (f64, f64) {
        let sign = if self.floor.is_some() { -1.0 } else { 1.0 };
        (sign, sign * self.bound())
    }

    pub(crate) fn verdict(&self, value: f64) -> LimitVerdict {
        /// Less than any figure's last digit, more than what decimal fractions are off in binary.
        const NOTHING: f64 = 1e-6;
        let (sign, bound) = self.upwards();
        let value = sign * value;
        let tight = ((value / self.step - NOTHING).ceil() * self.step).max(sign * self.goal);
        if value > bound + NOTHING {
            LimitVerdict::Broken
        } else if tight < bound - NOTHING {
            // No zero has a sign that is printed.
            LimitVerdict::Tighten(sign * tight + 0.0)
        } else {
            LimitVerdict::Held
        }
    }

    /// Whether a file is in none of the folders that are left out.
    pub(crate) fn covers(&self, path: &str) -> bool {
        let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
        !folders.split('/').any(|folder| self.outside.iter().any(|name| name == folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> FigureLimit {
        let text = format!("[[limit]]\nfigure = \"x\"\nwhy = \"y\"\n{text}");
        LimitsFile::parse(&text).unwrap().limit.remove(0)
    }

    #[test]
    fn a_figure_is_held_to_its_ceiling_and_the_ceiling_to_the_figure() {
        let limit = limit("goal = 4\nceiling = 9");
        assert_eq!(limit.verdict(9.0), LimitVerdict::Held);
        assert_eq!(limit.verdict(10.0), LimitVerdict::Broken);
        assert_eq!(limit.verdict(8.0), LimitVerdict::Tighten(8.0));
        assert_eq!(limit.verdict(3.0), LimitVerdict::Tighten(4.0));
    }

    #[test]
    fn below_its_goal_a_figure_may_move() {
        let limit = limit("goal = 4\nceiling = 4");
        assert_eq!(limit.verdict(4.0), LimitVerdict::Held);
        assert_eq!(limit.verdict(1.0), LimitVerdict::Held);
        assert_eq!(limit.verdict(5.0), LimitVerdict::Broken);
    }

    #[test]
    fn a_ceiling_in_steps_stands_less_than_a_step_above_the_figure() {
        let limit = limit("goal = 100\nceiling = 300\nstep = 50");
        assert_eq!(limit.verdict(251.0), LimitVerdict::Held);
        assert_eq!(limit.verdict(300.0), LimitVerdict::Held);
        assert_eq!(limit.verdict(250.0), LimitVerdict::Tighten(250.0));
    }

    #[test]
    fn a_floor_is_held_from_above() {
        let limit = limit("goal = 0.12\nfloor = 0.02\nstep = 0.01");
        assert_eq!(limit.verdict(0.0235), LimitVerdict::Held);
        assert_eq!(limit.verdict(0.0199), LimitVerdict::Broken);
        let LimitVerdict::Tighten(floor) = limit.verdict(0.0712) else { panic!() };
        assert!((floor - 0.07).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        let bad = |text: &str| LimitsFile::parse(text).is_err();
        assert!(bad("[[limit]]\nfigure = \"x\"\ngoal = 4\nceiling = 9\nwhy = \" \""));
        assert!(bad("[[limit]]\nfigure = \"x\"\ngoal = 4\nwhy = \"y\""));
        assert!(bad("[[limit]]\nfigure = \"x\"\ngoal = 4\nceiling = 3\nwhy = \"y\""));
        assert!(bad(
            "limit = []\n[[exception]]\nfigure = \"x\"\nfile = \"a\"\nwhat = \"b\"\nwhy = \"\""
        ));
        assert!(!bad(
            "limit = []\n[[exception]]\nfigure = \"x\"\nfile = \"a\"\nwhat = \"b\"\nwhy = \"y\""
        ));
    }

    #[test]
    fn a_folder_is_left_out_wherever_it_is() {
        let limit = limit("goal = 0\nceiling = 0\noutside = [\"tests\"]");
        assert!(!limit.covers("crates/redis/tests/common/load.rs"));
        assert!(!limit.covers("tests/verbs.rs"));
        assert!(limit.covers("src/tests.rs"));
        assert!(limit.covers("README.md"));
    }
}
