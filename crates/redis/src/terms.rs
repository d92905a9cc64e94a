//! What a [`Holding`](crate::lease::Holding) is told, and what it says.

use crate::error::Fault;
use crate::lease::LIFE_NS;

/// After a denial the store is not asked again for so long, or for an eighth of the time in which an
/// empty limit fills up if that is shorter.
const POLL_NS: u64 = 10_000_000;

/// What holds for every key of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The most units that a node holds of a key; at least 1.
    pub(crate) most: u64,
    /// How long the store is left alone after a denial.
    pub(crate) poll_ns: u64,
    /// Which policy of the limit this is: while it changes, limiters of both spend of one holding. What was learnt
    /// under one is not told under the other; units that were charged under it are spent all the same, for they
    /// count there, too.
    pub(crate) era: u64,
}

impl Terms {
    /// For a limit that is full again `fill_ns` after it was empty.
    pub(crate) fn new(most: u64, fill_ns: u64) -> Self {
        Self { most: most.max(1), poll_ns: POLL_NS.min(fill_ns / 8), era: 0 }
    }

    /// Half of it, so that the next lease is there before the last is spent.
    pub(crate) fn largest(&self) -> u64 {
        (self.most / 2).max(1)
    }
}

/// When units were charged, and under which policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) at: u64,
    pub(crate) era: u64,
}

impl Stamp {
    /// For a refund. Under another policy nobody knows what has drained: 0, for which nothing is given back.
    pub(crate) fn of(self, era: u64) -> u64 {
        if era == self.era { self.at } else { 0 }
    }

    /// Of units of two stamps none counts as charged later than it was.
    pub(crate) fn min(self, other: Self) -> Self {
        Self { at: other.of(self.era).min(self.at), ..self }
    }
}

/// Units charged together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lease {
    pub(crate) left: u64,
    pub(crate) taken: u64,
    pub(crate) since_ns: u64,
    pub(crate) until_ns: u64,
    pub(crate) stamp: Stamp,
}

/// Units of one lease that are spent elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) units: u64,
    pub(crate) until_ns: u64,
    pub(crate) stamp: u64,
    /// For limiters of this policy.
    pub(crate) era: u64,
    /// What the limit has left besides.
    pub(crate) beyond: Beyond,
}

/// What came of a lease that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) units: u64,
    /// When it was asked for.
    pub(crate) asked_ns: u64,
    /// Until its window ends, by the store's clock when it charged; `None` without windows.
    pub(crate) turns_ns: Option<u64>,
    pub(crate) stamp: u64,
    pub(crate) beyond: Beyond,
}

/// What the store said last of the rest: units left, and when all would be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beyond {
    pub(crate) remaining: u64,
    pub(crate) reset_ns: u64,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spend {
    /// It may go. `more` if it is time to ask for the next lease: then the holding waits for its outcome.
    Spent { stamp: u64, more: Option<Want> },
    /// The store has denied as much, and is not to be asked again for so long.
    Denied { retry_ns: u64 },
    /// The store is to be asked, by the caller that gets this; the holding waits for the outcome.
    Ask(Want),
    /// Somebody has asked: look again when it is answered.
    Wait,
    /// The store failed since the request came.
    Failed(Fault),
}

/// Units to ask for. None at all: what is left there is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) want: u64,
    pub(crate) least: u64,
}

/// What the store has denied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denied {
    /// So much, and more.
    pub(crate) least: u64,
    /// Until then, as far as the store knew.
    pub(crate) until_ns: u64,
    /// From then on it is asked again, for it may have learnt better: refunds, or a restart.
    pub(crate) again_ns: u64,
    /// Under this policy. Under another it may have room.
    pub(crate) era: u64,
}

impl Denied {
    pub(crate) fn new(terms: Terms, least: u64, retry_ns: u64, now_ns: u64) -> Self {
        let until_ns = now_ns.saturating_add(retry_ns.max(terms.poll_ns));
        let again_ns = until_ns.min(now_ns.saturating_add(LIFE_NS));
        Self { least, until_ns, again_ns, era: terms.era }
    }
}

/// Units, and when they were charged.
pub(crate) type Expired = [(u64, Stamp); 2];

/// What a holding has, at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Glance {
    pub(crate) left: u64,
    /// Whether units are under way.
    pub(crate) asking: bool,
    pub(crate) asks: u64,
    /// Whether units have expired that are not given back yet.
    pub(crate) has_expired: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Holding;

    #[test]
    fn what_was_charged_beside_units_under_way_is_not_told_as_left() {
        let (mut holding, terms) = (Holding::default(), Terms::new(64, 0));
        assert!(matches!(holding.spend(terms, 4, [0, 0]), Spend::Ask(_)));
        assert_eq!(holding.glance(0).asks, 1);
        holding.charged_beside(3);
        assert_eq!(holding.glance(0).asks, 2, "an older answer does not know of it");
        let beyond = Beyond { remaining: 99, reset_ns: 0 };
        let grant = Grant { units: 4, asked_ns: 0, turns_ns: None, stamp: 0, beyond };
        holding.granted(terms, grant, 0);
        assert_eq!(holding.known(terms).remaining, 4 + 96);
        holding.charged_beside(6);
        assert_eq!(holding.known(terms).remaining, 4 + 90);
    }
}
