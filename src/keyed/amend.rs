//! Changes to the word of a key that is there: refunds, cancellations, resets. A key that is not there
//! owes nothing, so nothing is installed.
//!
//! Unlike a charge, an amendment may write a time *below* the one that it found, though never below the
//! floor that it read. Should its thread then sleep, between that reading and its CAS, while the
//! floor advances twice, and the word stay as it was all the while, what it writes lies out of the
//! word's reach and is read as far ahead: the key is denied until that has passed (fail closed). Two
//! epochs are two minutes, or what twice the burst takes to come back if that is less; a hit rests on a
//! sleep shorter than a whole wrap in the same way.

use crate::algorithm::Decides;
use crate::clock::Timestamp;
use crate::refund::{Amendment, Found};

use super::points;
use super::price::amend::amend_priced;
use super::table::Table;
use crate::hash::{Identity, shards_of};

/// Amends the key's word, and says how many units that gave back, rounded up: none if the key has no
/// word, or a charge cannot be undone any more.
pub(super) fn amend(
    table: &Table,
    identity: Identity,
    second: usize,
    now: &impl Fn() -> Timestamp,
    amendment: Amendment<'_>,
) -> u64 {
    if let Some(logs) = table.logs() {
        return logs.amend(identity, second, now().as_nanos(), amendment);
    }
    let Identity { first, tag } = identity;
    // In the first shard that has the key. In none of them: it was forgotten, was never given a cell, or has
    // just moved between them, and nothing is given back.
    let amended = shards_of(first, second).find_map(|index| match &table.book {
        Some(book) => amend_priced(table, book, index, tag, now, amendment),
        None => amend_in(table, index, tag, now, amendment),
    });
    amended.unwrap_or(0)
}

/// In one shard: `None` if the key is not there. Lock-free as `hit` is.
fn amend_in(
    table: &Table,
    index: usize,
    tag: u64,
    now: &impl Fn() -> Timestamp,
    amendment: Amendment<'_>,
) -> Option<u64> {
    let shard = table.shard(index);
    loop {
        // Header, word, header: as in every reading of a word.
        let before = shard.header();
        let (cell, word) = table.find(shard, tag)?;
        let header = shard.header();
        // A floor was published between the loads: unknown which of the two dates the word.
        if header.floor() != before.floor() {
            continue;
        }
        // Only now: see `Cell::amend`.
        let now_ns = now().as_nanos();
        // Where the word can be read as it is, and what is written can be read back.
        let latest_ns = table.layout.latest_ns(header.floor());
        let at_ns = now_ns.clamp(header.floor_ns(), latest_ns.max(header.floor_ns()));
        let ruled = table.ruled();
        let moment = ruled.moment(at_ns);
        let held = table.layout.unpack(word, &ruled, moment);
        // Time has come as far as the floor, whatever the caller's now: see `Gcra::given_back`.
        let found = Found { held, at_ns, now_ns: now_ns.max(at_ns) };
        let (next, units) = ruled.amend(found, amendment, |charge| {
            // The bits that the charge left, if no other thread has changed the word since.
            let moment = ruled.moment(charge.at_ns);
            let left = table.layout.live(tag, ruled.left(charge), &ruled, moment);
            points::is_as_left(word == left)
        });
        // Nothing to give back: nothing is written.
        if next == held {
            return Some(0);
        }
        // Lock-free: if the CAS fails, another thread has changed the word.
        if shard.charge(cell, word, table.layout.live(tag, next, &ruled, moment)) {
            return Some(units);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::KeyedLimiter;
    use super::super::floor::{LAG_NS, advance};
    use super::super::shard::GRANULE_BITS;
    use super::*;
    use crate::{ManualClock, Quota, Tiers};

    /// The time of a shard is the floor, if the caller's clock is behind it.
    #[test]
    fn the_floor_tells_a_refund_what_has_drained_where_the_clock_is_behind() {
        let start = Timestamp::from_nanos(1_000 << GRANULE_BITS);
        let quota = Quota::per_second(1).burst(10);
        let one = KeyedLimiter::with_clock(quota, 1, ManualClock::new()).expect("it fits");
        let tiers = Tiers::of(quota).build_with_clock(1, ManualClock::new()).expect("it fits");
        let first =
            [one.entry(&7_u64).at(start).check_n(5), tiers.entry(&7_u64).at(start).check_n(5)];
        // Others are eight seconds ahead: five units have drained, and one is owed to them.
        let later = start + Duration::from_secs(8);
        assert!(one.entry(&7).at(later).check().is_allowed());
        assert!(tiers.entry(&7).at(later).check().is_allowed());
        for limiter in [&one, &tiers] {
            let now_ns = later.as_nanos() + LAG_NS;
            (0..limiter.table.shards()).for_each(|index| advance(&limiter.table, index, now_ns));
        }
        let [permit, tiers_permit] = first.map(|decision| decision.into_result().expect("fits"));
        assert_eq!(one.entry(&7).at(start).refund(permit), 0);
        assert_eq!(tiers.entry(&7).at(start).refund(tiers_permit), 0);
        let left = [one.entry(&7).at(later).peek(0), tiers.entry(&7).at(later).peek(0)];
        assert_eq!(left.map(|decision| decision.remaining()), [9, 9]);
    }
}
