//! Builds the text of a limit's policy from the limit's keys.

use std::time::Duration;

use tollgate::{Algorithm, Policy, PolicyError, Quota};

use crate::language::lowered::LoweredRate;

/// The parts of a policy's text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PolicyParts<'a> {
    pub(super) is_pool: bool,
    pub(super) algorithm: &'a str,
    /// The rate with its period, or a count alone for windows of the calendar.
    pub(super) rate: &'a str,
    pub(super) burst: Option<u64>,
    pub(super) soft: Option<&'a str>,
    /// The maximum wait that counting denials may cause: empty if there is no maximum; `None` if denials are not
    /// counted.
    pub(super) count_denied: Option<&'a str>,
    pub(super) penalty: Option<&'a str>,
    pub(super) queue: Option<u64>,
    pub(super) wait: Option<&'a str>,
    pub(super) debt: Option<&'a str>,
}

impl<'a> PolicyParts<'a> {
    pub(super) fn pool(rate: &'a str, burst: Option<u64>) -> Self {
        Self { is_pool: true, algorithm: "gcra", rate, burst, ..Self::default() }
    }

    /// The policy. A rate may be too high to be counted exactly. For a fixed window or a pool it is then lowered to the
    /// highest rate that can be counted, because other services treat such a rate as no limit. Anything else that the
    /// core cannot count is refused.
    pub(super) fn policy(
        &self,
        asked: u32,
        window: Duration,
    ) -> Result<(Policy, Option<LoweredRate>), PolicyError> {
        let refused = match self.text().parse::<Policy>() {
            Ok(policy) => return Ok((policy, None)),
            Err(refused) => refused,
        };
        // The policy was refused for a reason other than its rate, or it has windows of the calendar, which have no
        // rate.
        if window.is_zero() || Quota::try_per(asked.into(), window).is_ok() {
            return Err(refused);
        }
        let is_lowered = |policy: &Policy| match policy.algorithm() {
            Algorithm::Gcra => self.is_pool,
            algorithm => algorithm == Algorithm::FixedWindow,
        };
        let counted_as = |requests: u32| {
            let rate = format!("{requests}/{}ns", window.as_nanos());
            PolicyParts { rate: &rate, ..*self }.text().parse::<Policy>().ok()
        };
        // Binary search: `fits` can be counted, `too_many` cannot.
        let (mut fits, mut too_many) = (0, asked);
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            if counted_as(middle).is_some() { fits = middle } else { too_many = middle }
        }
        let policy = counted_as(fits).filter(is_lowered).ok_or(refused)?;
        Ok((policy, Some(LoweredRate { asked, counted: fits, window })))
    }

    /// The policy in the core's syntax: `<algorithm> [option] <rate> [burst <n>] [at the limit]`.
    pub(super) fn text(&self) -> String {
        let name = match self.algorithm.trim() {
            "" => "fixed-window",
            name => name,
        };
        let mut text = format!("{name} {}", self.rate);
        if let Some(burst) = self.burst {
            text += &format!(" burst {burst}");
        }
        for (word, given) in
            [("soft", self.soft), ("count-denied", self.count_denied), ("penalty", self.penalty)]
        {
            if let Some(given) = given {
                text = format!("{text} {word} {given}").trim_end().to_owned();
            }
        }
        if let Some(places) = self.queue {
            text += &format!(" queue {places}");
        }
        for (word, given) in [("wait", self.wait), ("debt", self.debt)] {
            if let Some(given) = given {
                text = text + " " + word + " " + given;
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policys_text_is_put_together_in_the_cores_order() {
        let plain = PolicyParts { rate: "100/m", ..PolicyParts::default() };
        assert_eq!(plain.text(), "fixed-window 100/m");
        let all = PolicyParts {
            algorithm: "segmented-window x6",
            burst: Some(20),
            soft: Some("5%"),
            count_denied: Some(""),
            penalty: Some("10m after 5"),
            ..plain
        };
        assert_eq!(
            all.text(),
            "segmented-window x6 100/m burst 20 soft 5% count-denied penalty 10m after 5"
        );
        let waits = PolicyParts { algorithm: "gcra", count_denied: Some("30s"), ..plain };
        assert_eq!(waits.text(), "gcra 100/m count-denied 30s");
    }
}
