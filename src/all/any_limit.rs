//! [`AnyLimit`]: a limit for `check_all`, in any kind of store.

use std::fmt;

use crate::clock::{Clock, Timestamp};
use crate::decision::Decision;
use crate::limit::Limit;
use crate::sketch::KeyCells;
use crate::store::Store;
use crate::striped::StripedLimiter;
use crate::sync::{Fault, planted};
use crate::verb::Verb;

/// A limit in any kind of store.
#[derive(Clone, Copy)]
pub enum AnyLimit<'a> {
    #[doc(hidden)]
    Word(Limit<'a>),
    #[doc(hidden)]
    Stripes(&'a StripedLimiter),
    #[doc(hidden)]
    Cells(KeyCells<'a>),
}

/// Prints the store of the limit.
impl fmt::Debug for AnyLimit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(limit) => limit.fmt(f),
            Self::Stripes(stripes) => stripes.fmt(f),
            Self::Cells(cells) => cells.fmt(f),
        }
    }
}

impl<'a> From<Limit<'a>> for AnyLimit<'a> {
    #[inline(always)]
    fn from(limit: Limit<'a>) -> Self {
        Self::Word(limit)
    }
}

impl<'a> From<&'a StripedLimiter> for AnyLimit<'a> {
    fn from(stripes: &'a StripedLimiter) -> Self {
        Self::Stripes(stripes)
    }
}

impl<'a> From<KeyCells<'a>> for AnyLimit<'a> {
    fn from(cells: KeyCells<'a>) -> Self {
        Self::Cells(cells)
    }
}

impl AnyLimit<'_> {
    /// The clock of a limit, for a request that is decided at the time of this clock.
    #[inline(always)]
    pub(super) fn clock_to_read(&self) -> &Clock {
        match self {
            Self::Word(Limit::Key(place)) => place.clock_to_read(),
            Self::Word(limit) => limit.clock(),
            Self::Stripes(stripes) => stripes.clock(),
            Self::Cells(cells) => cells.clock(),
        }
    }

    /// True if charges are undone. This is true for all limits except sketches: see the top of `all.rs`. (A charge in
    /// the spill of a table stays, too.)
    pub(super) fn gives_back(&self) -> bool {
        !matches!(self, Self::Cells(_)) || planted(Fault::SketchChargedInTurn)
    }

    pub(super) fn peek(&self, cost: u64, now: Timestamp) -> Decision {
        match self {
            // This calls the slow path, so that the fast path is compiled only once.
            Self::Word(Limit::Key(place)) => place.peek(cost, now),
            Self::Word(limit) => limit.decide(cost, Some(now), false),
            Self::Stripes(stripes) => stripes.decide(cost, Some(now), false),
            Self::Cells(cells) => cells.decide(cost, Some(now), false),
        }
    }
}

impl Store for AnyLimit<'_> {
    fn ask(&self, verb: Verb, cost: u64, at: Option<Timestamp>, charge: bool) -> Decision {
        match self {
            Self::Word(limit) => limit.ask(verb, cost, at, charge),
            Self::Stripes(stripes) => stripes.ask(verb, cost, at, charge),
            Self::Cells(cells) => cells.ask(verb, cost, at, charge),
        }
    }

    fn try_check(&self, cost: u64, at: Option<Timestamp>) -> Decision {
        match self {
            Self::Word(limit) => limit.try_check(cost, at),
            Self::Stripes(stripes) => stripes.try_check(cost, at),
            Self::Cells(cells) => cells.try_check(cost, at),
        }
    }

    fn refuse(&self, cost: u64, at: Option<Timestamp>) -> Option<Decision> {
        match self {
            Self::Word(limit) => limit.refuse(cost, at),
            // Only the policy of a word can count denials.
            Self::Stripes(_) | Self::Cells(_) => None,
        }
    }
}
