//! [`Purpose`] is the purpose of a request. [`CostKind`] is the treatment of one descriptor's cost.

use std::time::Duration;

use tollgate::Wait;

use crate::set::rule::LocalLimit;

/// The purpose of a request: see [`DecisionMaker::decide`](crate::DecisionMaker::decide).
///
/// ```
/// use tollgate_rules::Purpose;
/// assert_ne!(Purpose::Check, Purpose::CheckNow);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Asks whether [`Check`](Purpose::Check) would admit the request. Charges and counts nothing.
    Peek,
    /// Asks to be admitted. If the request does not fit now, a limit with a queue (`queue`, `wait`) gives it a place,
    /// and the answer says [how long to wait](crate::Answer::wait).
    Check,
    /// Asks to be admitted at once. A request that would have to wait is denied, and takes no place. This is for a
    /// caller that cannot wait, such as Envoy.
    CheckNow,
    /// [`CheckNow`](Purpose::CheckNow) for a request from Envoy. A cost of 0 is a question: the request is denied if
    /// nothing is left of the limit. Under [`compat`](crate::RuleSettings::compat) it is denied only if the limit has
    /// been exceeded, if the limit can remember that.
    CheckEnvoy,
    /// Like [`Check`](Purpose::Check), but the answer has a [`Receipt`](crate::Receipt), by which the charges can be
    /// given back.
    Reserve {
        /// The longest wait. If it is given, limits without a queue give places as well, provided that their algorithm
        /// is GCRA or a sliding log and they do not borrow (`mode: elastic`). If it is `None`, the rules say which
        /// limits give places, and for how long.
        max_wait: Option<Duration>,
    },
    /// Charges every limit of the request's rules, whether the cost fits or not, also in shadow and quota mode. This is
    /// for a cost that was not known before. [`Status::uncharged`](crate::Status::uncharged) says how much of the cost
    /// a limit could not remember. The answer is never a denial.
    Charge,
}

/// How the cost of a descriptor is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CostKind {
    /// The cost is charged together with the costs of the other descriptors, if all of them fit.
    Asked,
    /// The cost was used already, so it is charged in full, and the request is denied if nothing was left before. A
    /// cost of 0 from Envoy is a question, and is treated in this way even if its rule does not have the key `usage`.
    Used,
    /// The cost is given back. Such a claim is never over its limit.
    Returned,
}

impl Purpose {
    /// How long this limit lets the request wait; `None` if it admits the request at once or denies it.
    pub(super) fn wait(self, gate: &LocalLimit) -> Option<Wait> {
        match self {
            // If a limit with a pool denies, the pool lends the units or refuses, so no request waits.
            _ if gate.pool.is_some() => None,
            Self::Reserve { max_wait: Some(max_wait) } => Some(Wait::at_most(max_wait)),
            Self::Peek | Self::Check | Self::Reserve { .. } if gate.has_queue => {
                // The core also applies the bounds that the policy sets for its queue.
                Some(Wait::at_most(Duration::MAX))
            }
            _ => None,
        }
    }

    /// Whether the charges are kept, so that a receipt can give them back.
    pub(super) fn keeps(self) -> bool {
        matches!(self, Self::Reserve { .. })
    }

    /// Whether a request with this purpose is counted in metrics.
    pub(super) fn counts(self) -> bool {
        self != Self::Peek
    }
}
