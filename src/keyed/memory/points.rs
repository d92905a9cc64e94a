//! The points at which the models break the table's protocol. The name of each function says what is right at its
//! point.
//!
//! Under loom and shuttle a model plants one [`Fault`], and the point of that fault does the wrong thing. Everywhere
//! else [`planted`] is the constant `false`, and each function here does exactly what its name says. The functions are
//! in one file so that a reader of the protocol sees only its steps, and a reader of the models sees everything that
//! can be broken. The points of a step on a single word or header are in the files of [`Shard`], the type that takes
//! the step.
//!
//! Only the points on the path of a hit are marked for inlining. The others compile to nothing anyway.

use std::ops::Range;

use crate::hash::Tag;
use crate::sync::{Fault, Ordering, fence, planted};

use super::layout::{Division, Kind};
use super::shard::{Header, Shard, TableWord};
use crate::keyed::memory::rival::Rival;

// Words and headers.

/// In a sweep, loads the header that dates a word which has just been loaded. `before` was loaded before the word.
pub(in crate::keyed) fn header_behind_swept(shard: &Shard, before: Header) -> Header {
    // A word that was written under a newer floor but is read under the older one could seem to have been idle for an
    // epoch.
    if planted(Fault::SweepWithStaleHeader) { before } else { shard.header() }
}

/// As [`header_behind_swept`], for a survey, which judges by this header which cells may be taken over.
pub(in crate::keyed) fn header_behind_survey(shard: &Shard, before: Header) -> Header {
    // With an older header a live word could seem idle, and its key would lose a cell in which it still owes something.
    if planted(Fault::SurveyWithStaleHeader) { before } else { shard.header() }
}

/// As [`header_behind_swept`], for a snapshot, whose file dates the words by this header.
pub(in crate::keyed) fn header_behind_copy(shard: &Shard, before: Header) -> Header {
    // With an older header the word would be read wrongly after a restore, since the file names no other floor.
    if planted(Fault::SnapshotWithStaleHeader) { before } else { shard.header() }
}

// Floors.

/// Sweeps before a floor is published, and returns the result of the sweep.
pub(in crate::keyed) fn sweeps(sweep: impl FnOnce() -> Option<bool>) -> Option<bool> {
    // A published floor promises that every key without a word was idle at that instant. Without a sweep, words would
    // remain that the new floor can no longer date.
    if planted(Fault::PublishWithoutSweep) { Some(true) } else { sweep() }
}

/// The kind of the word that a sweep finds in a cell.
pub(in crate::keyed) fn kind_swept(word: TableWord) -> Kind {
    // A claim that the sweep leaves there could be opened after the floor has advanced any number of times.
    match Kind::of(word) {
        Kind::Claim if planted(Fault::SweepSparesClaims) => Kind::Vacant,
        kind => kind,
    }
}

/// True if a word that a sweep leaves in place limits the next floor, so that the word stays readable under that floor.
pub(in crate::keyed) fn bounds_floor(live: bool) -> bool {
    // Beyond an epoch the low bits of a word's time may name several instants.
    live && !planted(Fault::JumpOverLiveWords)
}

// Surveys.

/// True if a word is the key's own.
pub(in crate::keyed) fn is_own(division: &Division, word: TableWord, tag: Tag) -> bool {
    // If the word were taken for another key's, the key would get a second cell, or lose its cell.
    division.is_live(word, tag) && !planted(Fault::OwnWordForStrangers)
}

/// Judges another key's word: whether it is idle at the published floor, and whether it is idle at the latest floor
/// that the present time allows. The word's cell is free only if the word is idle at the published floor.
pub(in crate::keyed) fn judged([is_idle, is_idle_soon]: [bool; 2]) -> [bool; 2] {
    // If the cell were taken before the word is idle at the published floor, its key would come back without its debt.
    let is_evicted =
        planted(Fault::EvictLive) || (is_idle_soon && planted(Fault::ForgetByOwnClock));
    [is_idle || is_evicted, is_idle_soon]
}

// Installs.

/// True if a thread opens a claim that it has found, although another thread made it.
pub(in crate::keyed) fn opens_as_found(is_own_claim: bool) -> bool {
    // This is never right: two threads would hold one claim, and the second would open a claim that it has not
    // verified.
    is_own_claim && planted(Fault::HelpWithoutReclaim)
}

/// True if a charge that only a raised quota admits is decided anew.
pub(in crate::keyed) fn decides_anew() -> bool {
    // Otherwise the request would be admitted with the answer of a request that does not charge.
    !planted(Fault::RaisedWithoutCharge)
}

/// Orders a claim before the scan that verifies it.
pub(in crate::keyed) fn fence_after_claim() {
    // Without the fence two threads may both scan before they see each other's claim, and both open.
    if !planted(Fault::NoFence) {
        // SeqCst: see the caller.
        fence(Ordering::SeqCst);
    }
}

/// True if a claim is opened without a scan, which is never right.
#[inline(always)]
pub(in crate::keyed) fn skips_scan() -> bool {
    // If the key already has a live word, a claim that is opened unverified makes a second one.
    planted(Fault::NoVerify)
}

/// Returns the rival to which a claim gives way after its scan: any word of the same key.
pub(in crate::keyed) fn heeded(rival: Option<Rival>) -> Option<Rival> {
    // If one of the three kinds of rival were ignored, some order of two installs would let both open: see `install`.
    rival.filter(|rival| {
        !planted(match rival {
            Rival::Live => Fault::VerifyIgnoresLive,
            Rival::LowerClaim => Fault::VerifyIgnoresLower,
            Rival::HigherClaim => Fault::VerifyIgnoresHigher,
        })
    })
}

/// The word that the opening of a cell replaces, which must be the claim that was verified.
pub(in crate::keyed) fn openable(shard: &Shard, cell: usize, claim: TableWord) -> TableWord {
    // If the cell has another word, another thread has vacated the claim or put its own in its place.
    if planted(Fault::OpenWithoutExactWord) { shard.load(cell) } else { claim }
}

/// True if an install that does not open its claim removes it.
pub(in crate::keyed) fn gives_back() -> bool {
    // A claim that is left behind occupies its cell until the next sweep of its shard.
    !planted(Fault::GiveBackForgotten)
}

/// The floor at which a new key starts: the highest of its shards' floors. The first floor in the array belongs to the
/// shard that holds the claim.
pub(in crate::keyed) fn highest<const N: usize>(floors_ns: [u64; N]) -> u64 {
    // The key may have been forgotten below any of these floors.
    if planted(Fault::FloorLeftOutOfBase) {
        0
    } else if planted(Fault::OneFloorLeftOut) {
        floors_ns[0]
    } else {
        floors_ns.into_iter().fold(0, u64::max)
    }
}

/// True if a word of this shard can express the instant at which its key starts.
pub(in crate::keyed) fn can_start(division: &Division, header: Header, base_ns: u64) -> bool {
    // A word that is written at an instant far from its floor would be read as another instant.
    header.is_near(base_ns, division.epoch) || planted(Fault::FloorLeftOutOfBase)
}

/// By how much a request came before the instant at which its key starts. The request is tested at its own time.
pub(in crate::keyed) fn lateness(late: u64) -> u64 {
    // If it were tested at the floor, a late request would get units that were refilled after its own time.
    if planted(Fault::LateTestedAtFloor) { 0 } else { late }
}

/// Reads the floors too early, namely before the claim, if a model plants this fault.
pub(in crate::keyed) fn floors_read_early<T>(read: impl FnOnce() -> T) -> Option<T> {
    // A floor that is published between this reading and the claim is missed, and with it the keys that were forgotten
    // below it.
    planted(Fault::FloorsBeforeClaim).then(read)
}

/// Like [`floors_read_early`], for the debt of a key in the spill.
pub(in crate::keyed) fn owed_read_early<T>(read: impl FnOnce() -> T) -> Option<T> {
    // Another thread may charge the spill after this reading, and look for a claim before there is one. Then neither
    // thread notices the other, and the charge is lost.
    planted(Fault::EstimateBeforeClaim).then(read)
}

// The spill.

/// The result of a second look for a key that was decided in the spill. `stands` is the result that a model plants.
pub(in crate::keyed) fn look_again<T>(stands: T, look: impl FnOnce() -> T) -> T {
    // An installer that read the sketch before this charge may have opened the key meanwhile.
    if planted(Fault::SpillUnscanned) { stands } else { look() }
}

/// Orders a charge in the spill before the look at the key's shards.
pub(in crate::keyed) fn fence_after_charge() {
    // Without the fence the look may miss a claim, and its install may miss the charge.
    if !planted(Fault::SpillWithoutFence) {
        // SeqCst: see the caller.
        fence(Ordering::SeqCst);
    }
}

/// True if a charge in the spill vacates a claim of its key.
pub(in crate::keyed) fn vacates_rival(is_rival: bool) -> bool {
    // The install behind that claim may have read the key's debt before this charge.
    is_rival && !planted(Fault::SpillIgnoresClaims)
}

/// True if a charge in the spill is decided again because a floor has passed its time.
pub(in crate::keyed) fn is_decided_anew(is_passed: bool) -> bool {
    // Meanwhile the key may have had a cell and been forgotten, although its charges there count at this request's
    // time.
    is_passed && !planted(Fault::SpillFloorsReadOnce)
}

/// True if a key that gets a cell owes nothing in the spill, because the instant of its shards' mark has passed.
pub(in crate::keyed) fn owes_nothing(is_mark_passed: bool) -> bool {
    // Until the instant of the mark, charges in the spill still count.
    is_mark_passed || planted(Fault::EstimateLeftOut)
}

/// True if a charge in the spill raises the mark of its shards, because the mark is too low for the charge.
pub(in crate::keyed) fn raises_mark(is_lower: bool) -> bool {
    // Without the mark no install looks for the charge.
    is_lower && !planted(Fault::SpillUnmarked)
}

// Quotas that change.

/// True if the numbers that were read belong to one quota. They do if the word, or the numbers' version, is unchanged
/// after the reading.
#[inline(always)]
pub(in crate::keyed) fn is_whole(is_whole: bool) -> bool {
    // A mixture of two quotas' numbers is a quota that was never set.
    is_whole || planted(Fault::QuotaReadTorn)
}

/// True if a change writes over the numbers of a quota whose index is still in words. This is never right: a change
/// takes an index that no word carries.
pub(in crate::keyed) fn overwrites_numbers() -> bool {
    // With this fault, a word would be read in the ticks of a quota that does not count it.
    planted(Fault::QuotaWrittenInPlace)
}

/// The version of a quota's numbers while they are written, and their version afterwards.
pub(in crate::keyed) fn versions_behind(version: u64) -> [u64; 2] {
    // The version is an odd number while numbers are written, and an even number afterwards. No version comes twice.
    let steps = if overwrites_numbers() { [0, 0] } else { [1, 2] };
    steps.map(|step| version + step)
}

/// True if the word's index names the quota of the request. Such a request can be decided at once; any other must first
/// carry the word over to its quota.
#[inline(always)]
pub(in crate::keyed) fn is_asked(is_asked: bool) -> bool {
    // Otherwise the key would be limited by the quota of an earlier request.
    is_asked || planted(Fault::AskedQuotaIgnored)
}

/// The state of a word that is carried over to another quota: it keeps its number of units. `as_time` is the state that
/// keeps its time instead.
pub(in crate::keyed) fn carried<T>(units: T, as_time: impl FnOnce() -> T) -> T {
    // In a faster quota the same time stands for more units, and in a slower one for fewer.
    if planted(Fault::CarriedAsTime) { as_time() } else { units }
}

/// True if the permits of a key become worthless when it is carried over to a faster quota.
pub(in crate::keyed) fn voids_permits() -> bool {
    // The charge of an earlier permit drains faster from then on than the permit's quota says.
    !planted(Fault::PermitOutlivesQuota)
}

/// The time at which a word is carried over: the clock is read after the word.
pub(in crate::keyed) fn behind_word(now_ns: u64) -> u64 {
    // With an earlier time, units that have just been charged would seem to have drained at the faster rate since that
    // time.
    if planted(Fault::CarriedBeforeCharge) { 0 } else { now_ns }
}

/// True if a pass over the table, before it frees a place, looks for words that carry the place's index.
pub(in crate::keyed) fn looks_before_freeing() -> bool {
    // Otherwise such words would be read in the ticks of the quota that gets the place next.
    !planted(Fault::FreedUnseen)
}

/// The marks that a thread removes from a place when it pins the place: both `free` and `leaving`.
pub(in crate::keyed) fn unmarked([free, leaving]: [u64; 2]) -> u64 {
    // If the place stayed marked as leaving, it would be freed although a thread may have written its index into a word
    // meanwhile.
    if planted(Fault::PinLeavesMark) { free } else { free | leaving }
}

/// True if a thread may write a quota in a place: only if the place was free.
pub(in crate::keyed) fn takes(was_free: bool) -> bool {
    // Otherwise the numbers of a quota that another thread has pinned would change.
    was_free || planted(Fault::PlaceTakenInUse)
}

/// Writes a quota in a place, and then gives the place to other threads.
pub(in crate::keyed) fn written_and_given(write: impl FnOnce(), give: impl FnOnce()) {
    // Otherwise a thread that has pinned the place for its former quota would see the numbers change.
    if planted(Fault::PlaceGivenEarly) {
        give();
        write();
    } else {
        write();
        give();
    }
}

/// True if a quota is found in a place. It is not found while a thread writes there, even if its numbers are whole
/// already.
pub(in crate::keyed) fn is_found(is_taken: bool) -> bool {
    // While a thread writes, no thread can pin the place. So the request would be denied although its quota has a
    // place.
    !is_taken || planted(Fault::TakenPlaceFound)
}

/// True if a place still has the quota that a request was made for.
#[inline(always)]
pub(in crate::keyed) fn is_same_quota(is_same: bool) -> bool {
    // Otherwise the request would be decided by the quota of another customer.
    is_same || planted(Fault::VersionUnchecked)
}

/// The kind of the word that a change finds in a cell.
pub(in crate::keyed) fn kind_changed(word: TableWord) -> Kind {
    // A claim that is left there could be opened with the retired index.
    match Kind::of(word) {
        Kind::Claim if planted(Fault::ChangeSparesClaims) => Kind::Vacant,
        kind => kind,
    }
}

/// True if a word keeps its ticks, because they are those of the quota in force.
pub(in crate::keyed) fn keeps_ticks(is_current: bool) -> bool {
    // A word in old ticks would outlive the numbers by which it is read, since its index is free when the change
    // returns.
    is_current || planted(Fault::OldTicksLeft)
}

/// The cells of the spill that a change converts: all cells of its tier.
pub(in crate::keyed) fn brought_over(cells: Range<usize>) -> Range<usize> {
    // A cell that is left out would name a retired index when that index is free to be written again.
    if planted(Fault::OldTicksLeft) { 0..0 } else { cells }
}

/// Clears the old word of a key that moves before its debt is charged in the other tier. This is never right.
pub(in crate::keyed) fn clears_first(clear: impl FnOnce() -> bool) -> bool {
    // A request between the two steps would find the debt in neither tier.
    planted(Fault::MoveClearsFirst) && clear()
}

// Undoing.

/// True if a word still has the bits that a charge left. Then the state before the charge can be put back.
pub(in crate::keyed) fn is_as_left(is_same: bool) -> bool {
    // Otherwise a later request has changed the word, and only the part of the charge that has not drained can be given
    // back.
    is_same || planted(Fault::UndoWhatChanged)
}

/// Like [`is_as_left`], for an undo under several limits.
pub(in crate::keyed) fn is_last(is_same: bool) -> bool {
    // If the earlier word were restored over a later charge, that charge would be undone as well.
    is_same || planted(Fault::UndoOverAnother)
}

/// The charge that bounds an undo: the undo gives back only the part of it that has not drained.
pub(in crate::keyed) fn bounded_by<T>(charge: Option<T>) -> Option<T> {
    // The same bits may come from another charge, so the undo is bounded by its own charge.
    charge.filter(|_| !planted(Fault::UndoOverAnother))
}

// Snapshots.

/// True if a copy leaves out a word, because it is an install in progress.
pub(in crate::keyed) fn is_left_out(word: TableWord) -> bool {
    // After a restore no thread would finish the install.
    Kind::of(word) == Kind::Claim && !planted(Fault::SnapshotKeepsClaims)
}

/// The words that a copy leaves out: all words of a key that are followed by another word of the same key.
pub(in crate::keyed) fn left_out<T>(twins: Vec<T>) -> Vec<T> {
    // If a copy had both words, the key would come back with twice its quota.
    if planted(Fault::SnapshotKeepsTwins) { Vec::new() } else { twins }
}
