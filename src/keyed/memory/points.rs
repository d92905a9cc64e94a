//! The points that the proofs of the table lean on, each by a name that says what is right there.
//!
//! Under loom and shuttle a model plants one [`Fault`], and the point that asks for it does the wrong thing; everywhere
//! else [`planted`] is the constant `false`, and each of these is what it says and nothing more. They stand in one file
//! so that a reader of the protocol meets its steps, and a reader of the models all that can be broken. What concerns one
//! step on a word or a header is in the type that takes it, [`Shard`].
//!
//! Those on the path of a hit are in line by order, the others because nothing is left of them.

use std::ops::Range;

use crate::hash::Tag;
use crate::sync::{Fault, Ordering, fence, planted};

use super::layout::{Division, Kind};
use super::shard::{Header, Shard, TableWord};
use crate::keyed::memory::rival::Rival;

// Words and headers.

/// The header, loaded after a word that a sweep is to date by it. `before` was loaded before the word.
pub(in crate::keyed) fn header_behind_swept(shard: &Shard, before: Header) -> Header {
    // A word of a newer floor, read by the older one, could pass for one that has been idle for an
    // epoch.
    if planted(Fault::SweepWithStaleHeader) { before } else { shard.header() }
}

/// The same for a survey, which takes cells by it.
pub(in crate::keyed) fn header_behind_survey(shard: &Shard, before: Header) -> Header {
    // It could pass for idle: its key would lose a cell in which it still owes something.
    if planted(Fault::SurveyWithStaleHeader) { before } else { shard.header() }
}

/// The same for a copy, which dates words by it in a file.
pub(in crate::keyed) fn header_behind_copy(shard: &Shard, before: Header) -> Header {
    // It would be read wrongly after a restore, which has nothing but that floor.
    if planted(Fault::SnapshotWithStaleHeader) { before } else { shard.header() }
}

// Floors.

/// Sweeps before a floor is published; says what the sweep does.
pub(in crate::keyed) fn sweeps(sweep: impl FnOnce() -> Option<bool>) -> Option<bool> {
    // A floor is a promise of what is not here: unswept, words that it can no longer date are left
    // beneath it.
    if planted(Fault::PublishWithoutSweep) { Some(true) } else { sweep() }
}

/// What a sweep meets in a cell.
pub(in crate::keyed) fn kind_swept(word: TableWord) -> Kind {
    // A claim that is left standing could be opened below any number of newer floors.
    match Kind::of(word) {
        Kind::Claim if planted(Fault::SweepSparesClaims) => Kind::Vacant,
        kind => kind,
    }
}

/// Whether words that remain bound the next floor: they must be readable under it.
pub(in crate::keyed) fn bounds_floor(live: bool) -> bool {
    // Beyond an epoch the low bits of a word's time no longer name one instant.
    live && !planted(Fault::JumpOverLiveWords)
}

// Surveys.

/// Whether a word is the key's own.
pub(in crate::keyed) fn is_own(division: &Division, word: TableWord, tag: Tag) -> bool {
    // Were it taken for another key's, the key would get a second cell, or lose the one that it
    // has.
    division.is_live(word, tag) && !planted(Fault::OwnWordForStrangers)
}

/// Whether another key's word is idle at the published floor, and whether it is at the one that now allows. Only the
/// first makes its cell free.
pub(in crate::keyed) fn judged([is_idle, is_idle_soon]: [bool; 2]) -> [bool; 2] {
    // Taken any sooner, the cell's key would come back without what it still owes.
    let is_evicted =
        planted(Fault::EvictLive) || (is_idle_soon && planted(Fault::ForgetByOwnClock));
    [is_idle || is_evicted, is_idle_soon]
}

// Installs.

/// Whether the claim of another thread is opened as it was found.
pub(in crate::keyed) fn opens_as_found(is_own_claim: bool) -> bool {
    // Never: two threads would hold one claim, and the second would open what it has not verified.
    is_own_claim && planted(Fault::HelpWithoutReclaim)
}

/// Orders a claim before the scan that verifies it.
pub(in crate::keyed) fn fence_after_claim() {
    // Without it two threads may both scan before they see each other's claim, and both open.
    if !planted(Fault::NoFence) {
        // SeqCst: see the caller.
        fence(Ordering::SeqCst);
    }
}

/// Whether a claim is opened without a scan: never.
#[inline(always)]
pub(in crate::keyed) fn skips_scan() -> bool {
    // A claim that is opened unverified makes a second live word where the key has one.
    planted(Fault::NoVerify)
}

/// What the scan after a claim heeds of the words that it meets: all that are of the key.
pub(in crate::keyed) fn heeded(rival: Option<Rival>) -> Option<Rival> {
    // Each of them, left out, lets one order of two installs pass in which both open: see
    // `install`.
    rival.filter(|rival| {
        !planted(match rival {
            Rival::Live => Fault::VerifyIgnoresLive,
            Rival::LowerClaim => Fault::VerifyIgnoresLower,
            Rival::HigherClaim => Fault::VerifyIgnoresHigher,
        })
    })
}

/// The word that must stand in a cell for it to be opened: the claim that was verified.
pub(in crate::keyed) fn openable(shard: &Shard, cell: usize, claim: TableWord) -> TableWord {
    // What stands there otherwise is another thread's: a vacated cell, or another key's claim.
    if planted(Fault::OpenWithoutExactWord) { shard.load(cell) } else { claim }
}

/// Whether an install that does not open its claim gives it back.
pub(in crate::keyed) fn gives_back() -> bool {
    // Forgotten, it holds a cell until the next sweep of its shard.
    !planted(Fault::GiveBackForgotten)
}

/// The floor that a new key starts at: the highest of its shards', its own claim's first.
pub(in crate::keyed) fn highest<const N: usize>(floors_ns: [u64; N]) -> u64 {
    // The key may have been forgotten below any of them.
    if planted(Fault::FloorLeftOutOfBase) {
        0
    } else if planted(Fault::OneFloorLeftOut) {
        floors_ns[0]
    } else {
        floors_ns.into_iter().fold(0, u64::max)
    }
}

/// Whether a word of this shard can say the instant that its key starts at.
pub(in crate::keyed) fn can_start(division: &Division, header: Header, base_ns: u64) -> bool {
    // Written at an instant that is far from its floor, the word would be read as another
    // instant's.
    header.is_near(base_ns, division.epoch) || planted(Fault::FloorLeftOutOfBase)
}

/// By how much a request came before the instant that its key starts at: it is tested at its own.
pub(in crate::keyed) fn lateness(late: u64) -> u64 {
    // At the floor, a late request would be granted what has come back since its own time.
    if planted(Fault::LateTestedAtFloor) { 0 } else { late }
}

/// What is read before a claim although it must be read behind it: nothing, unless a model plants it.
pub(in crate::keyed) fn floors_read_early<T>(read: impl FnOnce() -> T) -> Option<T> {
    // A floor that is published between the two would be missed, and with it what was forgotten below it.
    planted(Fault::FloorsBeforeClaim).then(read)
}

/// The same of what a key owes in the spill.
pub(in crate::keyed) fn owed_read_early<T>(read: impl FnOnce() -> T) -> Option<T> {
    // A charge between the two would be missed, by a thread that does not see the claim either.
    planted(Fault::EstimateBeforeClaim).then(read)
}

// The spill.

/// Looks once more for a key that was decided in the spill.
pub(in crate::keyed) fn look_again<T>(stands: T, look: impl FnOnce() -> T) -> T {
    // An installer that read the sketch before this charge may have opened the key meanwhile.
    if planted(Fault::SpillUnscanned) { stands } else { look() }
}

/// Orders a charge in the spill before the look at the key's shards.
pub(in crate::keyed) fn fence_after_charge() {
    // Without it the look may miss a claim, and its install the charge.
    if !planted(Fault::SpillWithoutFence) {
        // SeqCst: see the caller.
        fence(Ordering::SeqCst);
    }
}

/// Whether a charge in the spill vacates a claim of its key.
pub(in crate::keyed) fn vacates_rival(is_rival: bool) -> bool {
    // Its install may have read what the key owes before this charge.
    is_rival && !planted(Fault::SpillIgnoresClaims)
}

/// Whether a charge in the spill is decided anew, since a floor has passed it.
pub(in crate::keyed) fn is_decided_anew(is_passed: bool) -> bool {
    // The key may have lived and been forgotten since, with charges that count at this request's
    // time.
    is_passed && !planted(Fault::SpillFloorsReadOnce)
}

/// Whether a key that gets a cell owes nothing in the spill: the mark of its shards lies behind.
pub(in crate::keyed) fn owes_nothing(is_mark_passed: bool) -> bool {
    // Before the mark what was charged in the spill still counts.
    is_mark_passed || planted(Fault::EstimateLeftOut)
}

/// Whether a charge in the spill raises the mark of its shards, which is lower.
pub(in crate::keyed) fn raises_mark(is_lower: bool) -> bool {
    // Unmarked, a charge is not looked for by any install.
    is_lower && !planted(Fault::SpillUnmarked)
}

// Quotas that change.

/// Whether the numbers that were read are those of one quota, or a word still stands behind them.
#[inline(always)]
pub(in crate::keyed) fn is_whole(is_whole: bool) -> bool {
    // Half of one quota's numbers and half of another's are a quota that was never set.
    is_whole || planted(Fault::QuotaReadTorn)
}

/// Whether a change writes over the numbers that words still speak of. Never: it takes an index that no word carries.
pub(in crate::keyed) fn overwrites_numbers() -> bool {
    // A word would be read in the ticks of a quota that it is not counted in.
    planted(Fault::QuotaWrittenInPlace)
}

/// The versions of numbers while they are written, and behind that.
pub(in crate::keyed) fn versions_behind(version: u64) -> [u64; 2] {
    // Odd while numbers are written, even behind that, and never twice the same.
    let steps = if overwrites_numbers() { [0, 0] } else { [1, 2] };
    steps.map(|step| version + step)
}

/// What a change meets in a cell.
pub(in crate::keyed) fn kind_changed(word: TableWord) -> Kind {
    // A claim that is left standing could be opened with the retired index.
    match Kind::of(word) {
        Kind::Claim if planted(Fault::ChangeSparesClaims) => Kind::Vacant,
        kind => kind,
    }
}

/// Whether a word is left in its ticks: those of the quota in force.
pub(in crate::keyed) fn keeps_ticks(is_current: bool) -> bool {
    // Left in old ticks, a word outlives the numbers that read it: its index is free when the
    // change returns.
    is_current || planted(Fault::OldTicksLeft)
}

/// The cells of the spill that a change brings over: all of its tier's.
pub(in crate::keyed) fn brought_over(cells: Range<usize>) -> Range<usize> {
    // A cell that is left out would name a retired index when that is free to be written again.
    if planted(Fault::OldTicksLeft) { 0..0 } else { cells }
}

/// Clears the old word of a key that moves before its debt stands elsewhere: never.
pub(in crate::keyed) fn clears_first(clear: impl FnOnce() -> bool) -> bool {
    // A request between the two would find the debt in neither tier.
    planted(Fault::MoveClearsFirst) && clear()
}

// Undoing.

/// Whether a word still has the bits that a charge left, so that the charge is undone as what came last.
pub(in crate::keyed) fn is_as_left(is_same: bool) -> bool {
    // Otherwise another request has built on it, and only what has not drained can be given back.
    is_same || planted(Fault::UndoWhatChanged)
}

/// The same under several limits.
pub(in crate::keyed) fn is_last(is_same: bool) -> bool {
    // Put back over a later charge, the word from before would take that one back as well.
    is_same || planted(Fault::UndoOverAnother)
}

/// The charge that an undo takes back no more of than has not drained.
pub(in crate::keyed) fn bounded_by<T>(charge: Option<T>) -> Option<T> {
    // Equal bits may be another charge's, so the undo is bounded by its own.
    charge.filter(|_| !planted(Fault::UndoOverAnother))
}

// Snapshots.

/// Whether a word is left out of a copy: an install in progress is.
pub(in crate::keyed) fn is_left_out(word: TableWord) -> bool {
    // No thread of another process would finish it.
    Kind::of(word) == Kind::Claim && !planted(Fault::SnapshotKeepsClaims)
}

/// The words that a copy leaves out because another of their key follows: all of them.
pub(in crate::keyed) fn left_out<T>(twins: Vec<T>) -> Vec<T> {
    // With both a key would come back with twice its quota.
    if planted(Fault::SnapshotKeepsTwins) { Vec::new() } else { twins }
}
