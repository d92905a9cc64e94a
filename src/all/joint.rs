//! [`JointDecision`]: one answer for several limits; and [`JointDenial`], which names the limit that denied.

use std::fmt;

use crate::decision::{Decision, Denial};

/// The answer of several limits to one request: see [`check_all`](crate::check_all).
///
/// ```
/// use tollgate::{Limiter, ManualClock, Quota, check_all};
/// let limit = |quota| Limiter::builder(quota).clock(ManualClock::new()).build();
/// let [posts, friends] = [limit(Quota::per_minute(60).burst(1)), limit(Quota::per_day(150))];
/// let both = || check_all(&mut [friends.entry().cost(1), posts.entry().cost(1)]);
/// let admitted = both();
/// assert!(admitted.is_allowed() && admitted.denied_by().is_none());
/// // None is left of the posts: the answer is that of the limit with the fewest units left.
/// assert_eq!(admitted.decision().map(|decision| decision.remaining()), Some(0));
/// let denied = both();
/// assert_eq!(denied.denied_by(), Some(1));
/// assert_eq!(denied.into_result().unwrap_err().denial().retry_after_secs(), Some(1));
/// assert_eq!(friends.entry().peek(1).remaining(), 149);
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct JointDecision {
    pub(super) answer: Option<(usize, Decision)>,
}

impl JointDecision {
    /// True if the request is admitted. Then every limit was charged. Otherwise no limit was, with the exceptions that
    /// [`check_all`](crate::check_all) names.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.answer.as_ref().is_none_or(|(_, decision)| decision.is_allowed())
    }

    /// The index of the claim that denied, counted from 0. If several claims denied, it is the claim with the longest
    /// wait. `None` if the request was admitted.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, check_all};
    /// let [wide, tight] = [9, 5].map(|count| Limiter::new(Quota::per_hour(count)));
    /// let ask = |cost| check_all(&mut [wide.entry().cost(cost), tight.entry().cost(cost)]);
    /// assert_eq!([5, 1].map(|cost| ask(cost).denied_by()), [None, Some(1)]);
    /// ```
    #[must_use]
    pub fn denied_by(&self) -> Option<usize> {
        let (index, decision) = self.answer.as_ref()?;
        decision.is_denied().then_some(*index)
    }

    /// The index of the claim whose [`decision`](JointDecision::decision) is reported, counted from 0. The decision may
    /// be an admission or a denial. Use it for answers that name the limit. `None` only if there were no claims.
    ///
    /// ```
    /// use tollgate::{Limiter, Quota, check_all};
    /// let [wide, tight] = [9, 5].map(|count| Limiter::new(Quota::per_hour(count)));
    /// let told = check_all(&mut [wide.entry().cost(1), tight.entry().cost(1)]);
    /// assert_eq!((told.reported_by(), told.denied_by()), (Some(1), None));
    /// assert_eq!(check_all(&mut []).reported_by(), None);
    /// ```
    #[must_use]
    pub fn reported_by(&self) -> Option<usize> {
        self.answer.as_ref().map(|(index, _)| *index)
    }

    /// The one decision that answers for all limits. If some limits denied, it is the denial with the longest wait.
    /// Otherwise it is the decision of the limit with the fewest units left. `None` if there were no claims. The charge
    /// of each limit is in its claim: see [`take_permit`](crate::Claim::take_permit).
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        self.answer.as_ref().map(|(_, decision)| decision)
    }

    /// The one decision that answers for all limits, by value. Its permit gives nothing back, since each claim holds
    /// its own charge.
    #[must_use]
    pub fn into_decision(self) -> Option<Decision> {
        self.answer.map(|(_, decision)| match decision {
            Decision::Allowed(permit) => permit.summary().into(),
            denied => denied,
        })
    }

    /// The answer as a `Result`, for `?`.
    ///
    /// # Errors
    /// The denial with the longest wait, and the number of its claim.
    ///
    /// ```
    /// use tollgate::{JointDenial, Limiter, Quota, check_all};
    /// fn serve(limits: &[Limiter; 2]) -> Result<&'static str, JointDenial> {
    ///     check_all(&mut [limits[0].entry().cost(1), limits[1].entry().cost(1)]).into_result()?;
    ///     Ok("served")
    /// }
    /// let limits = [1, 2].map(|count| Limiter::new(Quota::per_hour(count)));
    /// assert!(serve(&limits).is_ok());
    /// assert_eq!(serve(&limits).map_err(|denied| denied.index()), Err(0));
    /// ```
    pub fn into_result(self) -> Result<(), JointDenial> {
        match self.answer {
            Some((index, Decision::Denied(denial))) => Err(JointDenial { index, denial }),
            _ => Ok(()),
        }
    }

    /// Returns the decision that answers for both: either the answer so far, or the decision of the claim `index`.
    fn or(self, index: usize, decision: Decision) -> Self {
        let Some((_, answer)) = &self.answer else {
            return Self { answer: Some((index, decision)) };
        };
        // If neither decision has priority, the answer so far stays.
        let weightier = match (answer, &decision) {
            (Decision::Denied(longest), Decision::Denied(denial)) => wait(denial) > wait(longest),
            (Decision::Allowed(_), Decision::Allowed(_)) => {
                decision.remaining() < answer.remaining()
            }
            (_, decision) => decision.is_denied(),
        };
        if weightier { Self { answer: Some((index, decision)) } } else { self }
    }
}

/// The answer of limits that were decided together elsewhere, such as in Redis, made from the index and the decision of
/// each claim. Of several denials with the same wait, or admissions with the same number of units left, the first one
/// answers.
///
/// ```
/// use tollgate::{JointDecision, Limiter, Quota};
/// let limits = [9, 5, 5].map(|count| Limiter::new(Quota::per_hour(count)));
/// let ask = |cost| limits.iter().map(|limit| limit.entry().peek(cost)).enumerate().collect::<JointDecision>();
/// assert_eq!((ask(3).reported_by(), ask(3).denied_by()), (Some(1), None));
/// assert_eq!(ask(6).denied_by(), Some(1));
/// ```
impl FromIterator<(usize, Decision)> for JointDecision {
    fn from_iter<T: IntoIterator<Item = (usize, Decision)>>(decisions: T) -> Self {
        let none = Self { answer: None };
        decisions.into_iter().fold(none, |joint, (index, decision)| joint.or(index, decision))
    }
}

/// The denial of a request by one of several limits, with the number of that limit.
///
/// ```
/// use tollgate::{DenialReason, JointDenial, Limiter, ManualClock, Quota, check_all};
/// let limit = |quota| Limiter::builder(quota).clock(ManualClock::new()).build();
/// let [wide, tight] = [limit(Quota::per_hour(9)), limit(Quota::per_hour(5))];
/// let denied: JointDenial =
///     check_all(&mut [wide.entry().cost(6), tight.entry().cost(6)]).into_result().unwrap_err();
/// assert!(denied.index() == 1 && denied.denial().reason() == DenialReason::NeverFits);
/// assert_eq!(denied.to_string(), "limit 1: rate limited: a cost of 6 never fits in a limit of 5");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JointDenial {
    index: usize,
    denial: Denial,
}

impl JointDenial {
    /// The index of the claim that denied, counted from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The denial of that claim.
    #[must_use]
    pub fn denial(&self) -> &Denial {
        &self.denial
    }
}

/// Keeps only the denial, for callers that need not know which limit denied.
impl From<JointDenial> for Denial {
    fn from(joint: JointDenial) -> Self {
        joint.denial
    }
}

impl fmt::Display for JointDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {}: {}", self.index, self.denial)
    }
}

impl std::error::Error for JointDenial {}

/// The wait of a denial. A cost that never fits has the longest wait.
fn wait(denial: &Denial) -> std::time::Duration {
    denial.retry_after().unwrap_or(std::time::Duration::MAX)
}
