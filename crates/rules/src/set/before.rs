//! [`Before`]: the state that a load begins with.

use std::sync::Arc;

use crate::counts::room::Room;
use crate::set::linger::Lingering;
use crate::set::rule_set::RuleSet;

/// The state that previous loads have left.
#[derive(Clone, Copy)]
pub(crate) struct Before<'a> {
    pub(crate) rules: Option<&'a RuleSet>,
    pub(crate) lingering: &'a Lingering,
    /// The room for the series of all rules.
    pub(crate) room: &'a Arc<Room>,
    /// Domains that have no rule any more and whose last rules are given up.
    pub(crate) dropped: &'a [Box<str>],
    /// Whether rules without a capacity may begin anew, with tables of another size, if the rules do not fit otherwise.
    pub(crate) anew: bool,
}
