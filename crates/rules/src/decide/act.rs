//! [`Act`]: the purpose of a request; and [`Manner`]: the treatment of one descriptor's cost.

use std::time::Duration;

use tollgate::Wait;

use crate::rule::LocalLimit;

/// The purpose of a request: see [`DecisionMaker::act`](crate::DecisionMaker::act).
///
/// ```
/// use tollgate_rules::Act;
/// assert_ne!(Act::Check, Act::CheckNow);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Act {
    /// Asks whether [`Check`](Act::Check) would admit it. Charges and counts nothing.
    Peek,
    /// Asks to be admitted. A limit with a queue (`queue`, `wait`) gives it a place, and the answer says
    /// [how long to wait](crate::Answer::wait).
    Check,
    /// Asks to be admitted at once. Where it would have to wait it is denied, and takes no place. For a caller that
    /// cannot wait, such as Envoy.
    CheckNow,
    /// [`CheckNow`](Act::CheckNow) as Envoy asks. A cost of 0 is a question: it is denied once nothing is left of the limit.
    /// Under [`compat`](crate::Settings::compat) it is denied once the limit is exceeded, if the limit remembers that.
    CheckEnvoy,
    /// Like [`Check`](Act::Check), with a [`Receipt`](crate::Receipt) that gives back what was charged.
    Reserve {
        /// The longest wait. If it is given, limits without a queue of their own give places as well, provided that
        /// their algorithm is GCRA or a sliding log and they do not borrow (`mode: elastic`). `None`: as long as the
        /// rules say.
        max_wait: Option<Duration>,
    },
    /// Charges every limit of its rules, whether the cost fits or not, also in shadow and quota mode: for a cost that
    /// was not known before. [`Status::uncharged`](crate::Status::uncharged) says how much of it a limit could not
    /// remember. The answer is never a denial.
    Charge,
}

/// The way in which the cost of a descriptor is treated.
///
/// ```
/// assert_eq!(tollgate_rules::Manner::default(), tollgate_rules::Manner::Together);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Manner {
    /// Charged together with the others, if all fit.
    #[default]
    Together,
    /// Charged in full, since it was used already, and denied if nothing had been left. A cost of 0 from Envoy is
    /// treated so too, as a question, even if the rule does not say `usage`.
    Used,
    /// Given back. Never over the limit.
    Back,
}

impl Act {
    /// The time that this limit lets the request wait; `None` if it is admitted at once or not at all.
    pub(super) fn wait(self, gate: &LocalLimit) -> Option<Wait> {
        match self {
            // A limit with a pool lends or denies; nothing waits.
            _ if gate.pool.is_some() => None,
            Self::Reserve { max_wait: Some(max_wait) } => Some(Wait::at_most(max_wait)),
            Self::Peek | Self::Check | Self::Reserve { .. } if gate.has_queue => {
                // The policy's own bounds count as well.
                Some(Wait::at_most(Duration::MAX))
            }
            _ => None,
        }
    }

    /// Whether what was charged can be given back.
    pub(super) fn keeps(self) -> bool {
        matches!(self, Self::Reserve { .. })
    }

    /// Whether it is counted in metrics.
    pub(super) fn counts(self) -> bool {
        self != Self::Peek
    }
}
