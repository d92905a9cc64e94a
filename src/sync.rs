//! The one file that chooses where atomics come from: the standard library, loom's models of them, or
//! atomics at each of which shuttle may run another thread.
//!
//! Everything in this crate that two threads may touch goes through here, so that the same code runs
//! in production, under the model checker (`RUSTFLAGS="--cfg loom"`, crate `loom-tests`) and under the
//! random scheduler (`RUSTFLAGS="--cfg shuttle"`, its test `worlds`).
//!
//! A model that cannot fail proves nothing. So the places that the proofs lean on ask [`planted`]
//! whether to do the wrong thing. Under loom and shuttle a test plants one [`Fault`] and expects to
//! notice; everywhere else the answer is the constant `false`, and the question compiles to nothing.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::atomic::AtomicU64;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{Ordering, fence};
#[cfg(any(loom, shuttle))]
pub(crate) use modelled::AtomicU64;
// Under shuttle threads take turns on one thread of the system: a fence has nothing to order.
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{Ordering, fence};

/// Also under loom: what an `Arc` counts orders nothing that a decision reads, and the standard one may
/// be dropped while a failed model unwinds.
pub(crate) use std::sync::Arc;

/// A counter of statistics. No decision reads one, so loom need not explore its orders.
pub(crate) use std::sync::atomic::AtomicU64 as Tally;

/// Bugs that a model can plant: each breaks one thing that a proof leans on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(loom, shuttle)), expect(unreachable_pub, reason = "exported for the models"))]
#[cfg_attr(
    not(any(loom, shuttle)),
    allow(dead_code, reason = "some are asked only by their atomics")
)]
pub enum Fault {
    /// A charge is stored, whatever the word has become since it was read.
    PlainStoreForCas,
    /// A charge that was not written counts as written.
    FailureTakenForSuccess,
    /// A claim is opened without a look at the other cells.
    NoVerify,
    /// No total order between a claim and the scan that verifies it.
    NoFence,
    /// The scan does not mind a live word of the same key.
    VerifyIgnoresLive,
    /// The scan does not mind a claim of the same key in a lower cell.
    VerifyIgnoresLower,
    /// The scan leaves a claim of the same key in a higher cell standing.
    VerifyIgnoresHigher,
    /// A claim is opened although it no longer stands.
    OpenWithoutExactWord,
    /// Another's claim of the same key is opened as it was found: neither claimed anew nor verified.
    HelpWithoutReclaim,
    /// All claims of a key look the same.
    EqualNonces,
    /// An idle cell is taken or cleared whatever it holds by now.
    ReclaimWithoutExactWord,
    /// A cell is taken when it is idle by the newcomer's own clock, below no published floor.
    ForgetByOwnClock,
    /// A newcomer whose key was installed meanwhile counts that word as another key's.
    OwnWordForStrangers,
    /// A cell is taken although its key still limits something.
    EvictLive,
    /// A new key starts at its own now, also below a floor.
    FloorLeftOutOfBase,
    /// A new key heeds the floor of the shard that it goes to only.
    OneFloorLeftOut,
    /// A new key's floors are read before its claim stands.
    FloorsBeforeClaim,
    /// An opener reads its floor without a trace, so that a newer one may be published past its word.
    FloorReadUnmarked,
    /// A late newcomer is tested at the floor, not at its own now.
    LateTestedAtFloor,
    /// A word is dated by a header that was read before it.
    HeaderOnlyBeforeWords,
    /// Words are loaded without the edge that brings their writer's floor.
    RelaxedWords,
    /// A word is dated by the caller's now instead of the floor.
    DecodeAgainstNow,
    /// A sweep judges words written under a newer floor by the older one.
    SweepWithStaleHeader,
    /// A newcomer judges words written under a newer floor by the older one.
    SurveyWithStaleHeader,
    /// A sweep leaves claims standing: they may be opened below any number of newer floors.
    SweepSparesClaims,
    /// A floor is published over cells that no sweep has looked at.
    PublishWithoutSweep,
    /// A floor goes straight to its goal, also over live words.
    JumpOverLiveWords,
    /// An install that ends in a denial leaves its claim behind.
    GiveBackForgotten,
    /// The second shard does not lead back to the first.
    OverlappingShardPairs,
    /// A striped limit denies when the thread's own stripe has too little.
    OwnStripeOnly,
    /// A refund gives back twice what was charged.
    ReturnTwice,
    /// A refund gives back what has drained meanwhile.
    ReturnWhatDrained,
    /// A cancellation gives back what has drained meanwhile, if the word has the bits that it left.
    UndoWhatDrained,
    /// A charge into debt is admitted and leaves no trace.
    ChargeForgotten,
    /// A charge is undone although another request has built on it.
    UndoWhatChanged,
    /// A log takes slots that another request has marked.
    MarkedSlotTaken,
    /// A log admits a request for which it has marked fewer slots than it asks for.
    ShortGatherAdmitted,
    /// A log's denied request leaves its marks behind.
    MarksForgotten,
    /// A log's denied request leaves the slots that it had marked as never used.
    MarksEndUnused,
    /// A row of a log is said to be taken for longer than its slots say.
    RowPassedOver,
    /// A unit counts, whatever key the log belongs to by the time it is written.
    ChargeUnconfirmed,
    /// A unit that was written into another key's log is left there.
    ChargeLeftBehind,
    /// No total order between a unit and the look at whose log it is.
    ConfirmWithoutFence,
    /// A log is forgotten without a second look at when it was taken last.
    ForgetAtFirstSight,
    /// A key's new log starts below the floor that its old one was forgotten at.
    LogBelowFloor,
    /// A sketch charges the row that decides, and no other.
    OthersNotCharged,
    /// A sketch charges the other rows when it has decided.
    OthersChargedLate,
    /// An add to a row forgets what the row held.
    AddLowersRow,
    /// An add to a row stops one burst ahead of now, not two.
    AddStopsAtBurst,
    /// The fullest row decides, not the emptiest.
    FullestRowDecides,
    /// A row decides although its window has turned since it was chosen.
    TurnedRowDecides,
    /// A request that is decided in the spill does not look at its shards again.
    SpillUnscanned,
    /// A request that is decided in the spill leaves claims of its key standing.
    SpillIgnoresClaims,
    /// No total order between a spilled charge and the look at the shards.
    SpillWithoutFence,
    /// A request that is decided in the spill stands although a floor has passed it meanwhile.
    SpillFloorsReadOnce,
    /// A charge in the spill leaves no mark.
    SpillUnmarked,
    /// A key that gets a cell owes nothing.
    EstimateLeftOut,
    /// What a key owes is read before its claim stands.
    EstimateBeforeClaim,
    /// A snapshot dates words by a floor that was read before them.
    SnapshotWithStaleHeader,
    /// A snapshot keeps both words of a key that moved while it was taken.
    SnapshotKeepsTwins,
    /// A snapshot keeps installs in progress.
    SnapshotKeepsClaims,
    /// What several limits were charged before one of them denied stays charged.
    UndoLeftOut,
    /// A charge is undone to what was found before it, whatever has been charged since.
    UndoOverAnother,
    /// A report of headroom prices anew what was lent before.
    ReportPricesAnew,
    /// A denial of a policy with a penalty leaves the denials in a row as they were.
    DenialNotCounted,
    /// A denial of a policy with a penalty counts for two.
    DenialCountedTwice,
    /// An admission leaves the denials in a row as they were.
    DenialsOutliveAdmission,
    /// A denial that counts is not written.
    DenialNotWritten,
    /// Numbers of a quota are taken as they were read, also while they are written.
    QuotaReadTorn,
    /// A changed quota's numbers overwrite the old ones, which words still speak of.
    QuotaWrittenInPlace,
    /// A change of quota forgets what was spent.
    RebaseForgets,
    /// A word of the old quota is read in the new one's ticks.
    RebaseReadsOldTicks,
    /// Words of the old quota are left as they are.
    OldTicksLeft,
    /// A change of quota leaves claims standing, which may be opened with the old quota's index.
    ChangeSparesClaims,
    /// A key that moves is cleared in its old tier before it is charged in its new one.
    MoveClearsFirst,
}

/// Whether a test has planted this fault: never, outside of loom and shuttle.
#[cfg(not(any(loom, shuttle)))]
#[inline(always)]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}
#[cfg(any(loom, shuttle))]
pub(crate) use control::planted;

/// A number for this thread: threads that start one after the other get numbers one after the other.
#[cfg(not(any(loom, shuttle)))]
#[inline]
pub(crate) fn thread_number() -> u32 {
    use std::sync::atomic::AtomicU32;
    static STARTED: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        // Relaxed: all that is asked of it is that numbers differ.
        static NUMBER: u32 = STARTED.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that is ending has no thread-locals any more: any stripe is as good.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}
#[cfg(any(loom, shuttle))]
pub(crate) use control::thread_number;

/// How much of a size is used: all of it, but under loom, which explores every way to use it.
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod scale {
    #[inline(always)]
    pub(crate) const fn cells(most: usize) -> usize {
        most
    }

    #[inline(always)]
    pub(crate) const fn unit(most: usize) -> usize {
        most
    }

    pub(crate) const fn rounds(most: usize) -> usize {
        most
    }

    #[inline(always)]
    pub(crate) const fn vacancies(least: usize) -> usize {
        least
    }

    pub(crate) const fn count_apart() -> Option<u64> {
        None
    }

    #[inline(always)]
    pub(crate) const fn marks_floors() -> bool {
        true
    }

    pub(crate) const fn row_bits(bits: u32) -> u32 {
        bits
    }

    #[inline(always)]
    pub(crate) const fn tells_answers() -> bool {
        true
    }
}
#[cfg(any(loom, shuttle))]
pub(crate) use control::scale;

/// What a model sets before it runs. Loom and shuttle run all threads of a model on one thread of the
/// system, so settings of that thread are the model's own.
#[cfg(any(loom, shuttle))]
pub mod control {
    use std::cell::Cell;

    pub use super::Fault;

    thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
        static SPURIOUS: Cell<u32> = const { Cell::new(0) };
        static CELLS: Cell<usize> = const { Cell::new(if cfg!(loom) { 2 } else { usize::MAX }) };
        static UNIT: Cell<usize> = const { Cell::new(if cfg!(loom) { 1 } else { usize::MAX }) };
        static VACANCIES: Cell<usize> = const { Cell::new(if cfg!(loom) { usize::MAX } else { 0 }) };
        static ROUNDS: Cell<usize> = const { Cell::new(if cfg!(loom) { 3 } else { usize::MAX }) };
        static APART: Cell<Option<u64>> = const { Cell::new(None) };
        static MARKS: Cell<bool> = const { Cell::new(true) };
        static ROW_BITS: Cell<u32> = const { Cell::new(u32::MAX) };
        static ANSWERS: Cell<bool> = const { Cell::new(true) };
    }

    /// Plants a fault, or takes it away.
    pub fn plant(fault: Option<Fault>) {
        PLANTED.set(fault);
    }

    /// The planted fault.
    #[must_use]
    pub fn fault() -> Option<Fault> {
        PLANTED.get()
    }

    pub(crate) fn planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Makes weak compare-and-swaps fail for no reason, as hardware may and loom never does: bit n of
    /// the mask says whether the n-th from now fails.
    pub fn fail_spuriously(mask: u32) {
        SPURIOUS.set(mask);
    }

    pub(crate) fn fails_spuriously() -> bool {
        let mask = SPURIOUS.replace(SPURIOUS.get() >> 1);
        mask & 1 == 1
    }

    #[cfg(loom)]
    loom::thread_local! {
        static NUMBER: Cell<u32> = Cell::new(0);
    }

    /// Says what number this thread of a model has.
    #[cfg(loom)]
    pub fn number_thread(number: u32) {
        NUMBER.with(|own| own.set(number));
    }

    #[cfg(loom)]
    pub(crate) fn thread_number() -> u32 {
        NUMBER.with(Cell::get)
    }

    #[cfg(shuttle)]
    pub use super::switched::{run_in_turns, thread_number, writes};

    /// How many cells of each shard are used.
    pub fn use_cells(cells: usize) {
        CELLS.set(cells);
    }

    /// How many shards a unit has: one or two.
    pub fn use_unit(shards: usize) {
        UNIT.set(shards);
    }

    /// After how many lost rounds an install gives up.
    pub fn use_rounds(rounds: usize) {
        ROUNDS.set(rounds);
    }

    /// Of how many cells that seem vacant an install takes one without reading every word.
    pub fn use_vacancies(least: usize) {
        VACANCIES.set(least);
    }

    /// Whether claims are counted apart from the headers, where loom does not see it.
    ///
    /// The count orders nothing, it only has to differ. In a header it gives every other load of that
    /// header one more value to explore, all with the same floor: a model that does without explores
    /// more threads.
    pub fn count_apart(apart: bool) {
        APART.set(apart.then_some(0));
    }

    /// Whether an opener's reading of its floor leaves a trace in the header. A model of threads that
    /// all stay within an epoch can do without, for the same reason.
    pub fn mark_floors(mark: bool) {
        MARKS.set(mark);
    }

    /// How many slots are in a row of a log, as a power of two.
    pub fn use_row_bits(bits: u32) {
        ROW_BITS.set(bits);
    }

    /// Whether a decision of a log that was charged for reads what it could be asked.
    ///
    /// It decides nothing, but every slot that is read is one more load to explore: a model that does without
    /// explores more threads.
    pub fn tell_answers(tell: bool) {
        ANSWERS.set(tell);
    }

    pub(crate) mod scale {
        pub(crate) fn tells_answers() -> bool {
            super::ANSWERS.get()
        }

        pub(crate) fn row_bits(most: u32) -> u32 {
            super::ROW_BITS.get().min(most)
        }

        pub(crate) fn count_apart() -> Option<u64> {
            let count = super::APART.get();
            super::APART.set(count.map(|count| count + 1));
            count
        }

        pub(crate) fn marks_floors() -> bool {
            super::MARKS.get()
        }

        pub(crate) fn cells(most: usize) -> usize {
            super::CELLS.get().min(most)
        }

        pub(crate) fn unit(most: usize) -> usize {
            super::UNIT.get().min(most)
        }

        pub(crate) fn rounds(most: usize) -> usize {
            super::ROUNDS.get().min(most)
        }

        pub(crate) fn vacancies(least: usize) -> usize {
            let set = super::VACANCIES.get();
            if set == 0 { least } else { set }
        }
    }
}

#[cfg(shuttle)]
mod switched;

/// Loom's atomic, or one at which shuttle may switch, which also knows its newest value without being asked
/// as a thread, fails spuriously on demand, and forgets to compare when told to.
#[cfg(any(loom, shuttle))]
mod modelled {
    use std::sync::atomic::AtomicU64 as Plain;

    #[cfg(loom)]
    use loom::sync::atomic::AtomicU64 as Engine;
    #[cfg(shuttle)]
    use std::sync::atomic::AtomicU64 as Engine;

    use super::control::{Fault, fails_spuriously, planted};
    use super::{Ordering, Ordering::Relaxed};

    #[derive(Debug)]
    pub(crate) struct AtomicU64 {
        modelled: Engine,
        newest: Plain,
    }

    impl AtomicU64 {
        pub(crate) fn new(bits: u64) -> Self {
            let modelled = Engine::new(bits);
            Self { modelled, newest: Plain::new(bits) }
        }

        /// The last value in modification order. No step of the model: for assertions.
        pub(crate) fn newest(&self) -> u64 {
            // Relaxed: no model orders anything by it.
            self.newest.load(Relaxed)
        }

        /// The atomic, for one step on it.
        fn step(&self) -> &Engine {
            #[cfg(shuttle)]
            super::switched::step();
            &self.modelled
        }

        /// A step has written this. Shuttle switches only before a step, so no other comes between the two.
        fn wrote(&self, bits: u64) {
            #[cfg(shuttle)]
            super::switched::wrote();
            // Relaxed: as in `newest`.
            self.newest.store(bits, Relaxed);
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            self.step().load(order)
        }

        pub(crate) fn store(&self, bits: u64, order: Ordering) {
            self.step().store(bits, order);
            self.wrote(bits);
        }

        pub(crate) fn fetch_add(&self, more: u64, order: Ordering) -> u64 {
            let found = self.step().fetch_add(more, order);
            self.wrote(found.wrapping_add(more));
            found
        }

        pub(crate) fn fetch_max(&self, bits: u64, order: Ordering) -> u64 {
            let found = self.step().fetch_max(bits, order);
            self.wrote(found.max(bits));
            found
        }

        pub(crate) fn fetch_update(
            &self,
            set: Ordering,
            fetch: Ordering,
            mut next: impl FnMut(u64) -> Option<u64>,
        ) -> Result<u64, u64> {
            let mut written = 0;
            let remember = |found| next(found).inspect(|&bits| written = bits);
            let found = self.step().fetch_update(set, fetch, remember)?;
            self.wrote(written);
            Ok(found)
        }

        pub(crate) fn compare_exchange(
            &self,
            current: u64,
            next: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            let found = self.step().compare_exchange(current, next, success, failure)?;
            self.wrote(next);
            Ok(found)
        }

        pub(crate) fn compare_exchange_weak(
            &self,
            current: u64,
            next: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            if planted(Fault::PlainStoreForCas) {
                self.store(next, success);
                return Ok(current);
            }
            let outcome = if fails_spuriously() {
                Err(self.load(failure))
            } else {
                self.compare_exchange(current, next, success, failure)
            };
            if planted(Fault::FailureTakenForSuccess) { Ok(current) } else { outcome }
        }
    }
}
