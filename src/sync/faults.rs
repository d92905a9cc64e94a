//! [`Fault`]: the bugs that models plant, to show that each model can fail.

/// Bugs that a model can plant. Each breaks one thing that a proof depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(loom, shuttle)), expect(unreachable_pub, reason = "exported for the models"))]
#[cfg_attr(
    not(any(loom, shuttle)),
    allow(dead_code, reason = "some are asked only by their atomics")
)]
pub enum Fault {
    /// A charge is stored although the word may have changed since it was read.
    PlainStoreForCas,
    /// A charge that was not written counts as written.
    FailureTakenForSuccess,
    /// A claim is opened without a look at the other cells.
    NoVerify,
    /// There is no fence between a claim and the scan that verifies it.
    NoFence,
    /// The scan ignores a live word of the same key.
    VerifyIgnoresLive,
    /// The scan ignores a claim of the same key in a lower cell.
    VerifyIgnoresLower,
    /// The scan ignores a claim of the same key in a higher cell.
    VerifyIgnoresHigher,
    /// A claim is opened although it has been replaced.
    OpenWithoutExactWord,
    /// Another thread's claim of the same key is opened as it was found, without being claimed anew or verified.
    HelpWithoutReclaim,
    /// All claims of a key have the same bits.
    EqualNonces,
    /// An idle cell is taken or cleared although its word may have changed.
    ReclaimWithoutExactWord,
    /// A cell is taken if it is idle by the newcomer's own clock, and not only if it is idle at a published floor.
    ForgetByOwnClock,
    /// A newcomer whose key was installed meanwhile counts that word as another key's.
    OwnWordForStrangers,
    /// A cell is taken although its key still limits something.
    EvictLive,
    /// A new key starts at its own now, even if that is below a floor.
    FloorLeftOutOfBase,
    /// A new key considers only the floor of the shard that it goes to.
    OneFloorLeftOut,
    /// A new key's floors are read before its claim is made.
    FloorsBeforeClaim,
    /// An opener reads its floor without a trace, so that a newer one may be published past its word.
    FloorReadUnmarked,
    /// A late newcomer is tested at the floor, not at its own now.
    LateTestedAtFloor,
    /// A word is dated by a header that was read before the word.
    HeaderOnlyBeforeWords,
    /// Words are loaded without the edge that brings their writer's floor.
    RelaxedWords,
    /// A word is dated by the caller's now instead of the floor.
    DecodeAgainstNow,
    /// A sweep judges words by an older floor, although they were written under a newer one.
    SweepWithStaleHeader,
    /// A newcomer judges words by an older floor, although they were written under a newer one.
    SurveyWithStaleHeader,
    /// A sweep leaves claims in place, which may then be opened below any number of newer floors.
    SweepSparesClaims,
    /// A floor is published over cells that no sweep has looked at.
    PublishWithoutSweep,
    /// A floor advances to its goal in one step, even past live words.
    JumpOverLiveWords,
    /// An install that ends in a denial leaves its claim behind.
    GiveBackForgotten,
    /// The second shard does not lead back to the first.
    OverlappingShardPairs,
    /// A striped limit denies when the thread's own stripe has too little.
    OwnStripeOnly,
    /// Units that a lowered quota cuts off are forgotten.
    SurplusForgotten,
    /// A refund gives back twice what was charged.
    ReturnTwice,
    /// A refund also gives back units that have drained meanwhile.
    ReturnWhatDrained,
    /// A cancellation also gives back units that have drained meanwhile, if the word has the bits that the charge left.
    UndoWhatDrained,
    /// A charge into debt is admitted and leaves no trace.
    ChargeForgotten,
    /// A policy with the option `debt` remembers no more debt than a policy without this option.
    DebtStopsAtLimit,
    /// A charge is undone although another request has built on it.
    UndoWhatChanged,
    /// A log takes slots that another request has marked.
    MarkedSlotTaken,
    /// A log admits a request for which it has marked fewer slots than it asks for.
    ShortGatherAdmitted,
    /// A log's denied request leaves its marks behind.
    MarksForgotten,
    /// A log's denied request turns the slots that it had marked into unused ones.
    MarksEndUnused,
    /// A slot that is given back is written although it may have changed since it was read.
    GivenBackWhatever,
    /// A reserved slot is taken for now, not for its turn.
    ReservedFromNow,
    /// A log is lowered beside a slot that a request has marked, and that is earlier than those that are closed.
    ClosedBesideMarks,
    /// A log that is raised uses the slots with the earliest times again, not those with the latest.
    EarliestOpened,
    /// A refund lowers a slot of a log while the log's count changes.
    GivenBackInChange,
    /// A permit gives back a unit of a log whose count has been changed and changed back.
    PermitOutlivesChange,
    /// Units that are given back without a permit come out of slots in use, while other slots count beyond the limit.
    SlotsInUseFirst,
    /// A row of a log is treated as taken for longer than its slots are.
    RowPassedOver,
    /// A unit is charged although the log may belong to another key by the time it is written.
    ChargeUnconfirmed,
    /// A unit that was written into another key's log is left there.
    ChargeLeftBehind,
    /// There is no fence between the write of a unit and the check of the log's owner.
    ConfirmWithoutFence,
    /// A log is forgotten without a second check of the time at which it was last charged.
    ForgetAtFirstSight,
    /// A key's new log starts below the floor at which its old log was forgotten.
    LogBelowFloor,
    /// A sketch charges only the row that decides.
    OthersNotCharged,
    /// A sketch charges the other rows only after it has decided.
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
    /// A request that is decided in the spill leaves claims of its key in place.
    SpillIgnoresClaims,
    /// There is no fence between a charge in the spill and the look at the shards.
    SpillWithoutFence,
    /// A decision in the spill is kept although a floor has passed the request meanwhile.
    SpillFloorsReadOnce,
    /// A charge in the spill leaves no mark.
    SpillUnmarked,
    /// A key that gets a cell loses its debt in the spill.
    EstimateLeftOut,
    /// A key's debt in the spill is read before the key's claim is made.
    EstimateBeforeClaim,
    /// A snapshot dates words by a floor that was read before the words.
    SnapshotWithStaleHeader,
    /// A snapshot keeps both words of a key that moved while it was taken.
    SnapshotKeepsTwins,
    /// A snapshot keeps installs in progress.
    SnapshotKeepsClaims,
    /// The charges of several limits stay although one of the limits has denied.
    UndoLeftOut,
    /// A sketch is charged in the order of the claims, before limits that may still deny.
    SketchChargedInTurn,
    /// An undo restores the word from before the charge, whatever has been charged since.
    UndoOverAnother,
    /// A report of headroom computes the price of earlier loans anew.
    ReportPricesAnew,
    /// A denial of a policy with a penalty leaves the denials in a row as they were.
    DenialNotCounted,
    /// A denial of a policy with a penalty is counted as two denials.
    DenialCountedTwice,
    /// An admission leaves the denials in a row as they were.
    DenialsOutliveAdmission,
    /// A denial that must be counted is not written.
    DenialNotWritten,
    /// Numbers of a quota are used as they were read, even if they were being written.
    QuotaReadTorn,
    /// A changed quota's numbers overwrite the old numbers, whose index words still carry.
    QuotaWrittenInPlace,
    /// A change of quota forgets what was spent.
    RebaseForgets,
    /// A word of the old quota is read in the ticks of the new quota.
    RebaseReadsOldTicks,
    /// Words of the old quota are left as they are.
    OldTicksLeft,
    /// A change of quota leaves claims in place, which may be opened with the old quota's index.
    ChangeSparesClaims,
    /// A key is limited by the quota of its last request, not by the quota that the present request brings along.
    AskedQuotaIgnored,
    /// A word that is carried over to another quota keeps the time that it takes to drain, not its units.
    CarriedAsTime,
    /// A quota's place is freed although a thread is about to write its index into a word.
    PinLeavesMark,
    /// A quota's place is freed although words carry its index.
    FreedUnseen,
    /// A quota's place is taken although another quota has it by now.
    PlaceTakenInUse,
    /// A quota's place is given to other threads before its numbers are written.
    PlaceGivenEarly,
    /// A quota is found in a place that no thread can pin yet.
    TakenPlaceFound,
    /// A request is decided by another quota, which has taken the place of its quota.
    VersionUnchecked,
    /// A permit gives back its units although they have drained at a faster rate since.
    PermitOutlivesQuota,
    /// A word is carried over to another quota at a time that was read before the word.
    CarriedBeforeCharge,
    /// A key that moves is cleared in its old tier before it is charged in its new one.
    MoveClearsFirst,
    /// A clock's offset is stored over a higher offset that another thread has stored.
    CorrectionOverwritten,
    /// Several threads correct the clock for the same time, although only one thread may do so.
    CorrectedByAll,
    /// A clock that has lost its counter may read less than before.
    SpareBelowCounter,
    /// A request that has waited is admitted even if the limit denies it.
    WaitedIsAdmitted,
}
