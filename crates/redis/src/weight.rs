//! [`Weight`]: the effect of a group of limits on the decision of a request.

/// The effect that a group of limits has on the decision of a request: see
/// [`RedisClaim::in_group`](crate::RedisClaim::in_group).
///
/// ```
/// assert_eq!(tollgate_redis::Weight::default(), tollgate_redis::Weight::Denies);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Weight {
    /// The request is denied if one of the group's limits is exceeded.
    #[default]
    Denies,
    /// The group never denies the request. The group is charged if the request is admitted and fits in the group. Use
    /// this for rules on trial.
    Counts,
    /// The request is denied if all groups of this weight are over their limits. Groups that are over their limits are
    /// not charged.
    DeniesTogether,
}

impl Weight {
    /// The number that stands for this weight in the script's arguments.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Denies => 0,
            Self::Counts => 1,
            Self::DeniesTogether => 2,
        }
    }
}
