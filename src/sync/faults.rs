//! [`Fault`]: the bugs that models plant, to show that each model can fail.

/// Bugs that a model can plant. Each bug breaks one condition on which a proof depends.
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
    /// A claim is opened without a scan of the other cells.
    NoVerify,
    /// There is no fence between a claim and the scan that verifies it.
    NoFence,
    /// The scan ignores a live word of the same key.
    VerifyIgnoresLive,
    /// The scan ignores a claim of the same key in a lower cell.
    VerifyIgnoresLower,
    /// The scan ignores a claim of the same key in a higher cell.
    VerifyIgnoresHigher,
    /// A claim is opened although another thread has replaced it.
    OpenWithoutExactWord,
    /// Another thread's claim of the same key is opened as it was found, without a new claim and without a scan.
    HelpWithoutReclaim,
    /// All claims of a key have the same bits.
    EqualNonces,
    /// An idle cell is taken or cleared although its word may have changed.
    ReclaimWithoutExactWord,
    /// A cell is taken if it is idle by the newcomer's own clock, and not only if it is idle at a published floor.
    ForgetByOwnClock,
    /// A newcomer whose key was installed meanwhile treats the installed word as the word of another key.
    OwnWordForStrangers,
    /// A cell is taken although its key is still live.
    EvictLive,
    /// A new key starts at its own `now`, even if that is below a floor.
    FloorLeftOutOfBase,
    /// A new key uses only the floor of the shard in which it is installed.
    OneFloorLeftOut,
    /// A new key's floors are read before its claim is made.
    FloorsBeforeClaim,
    /// The thread that opens a claim reads the floor without a trace, so that a newer floor may be published that is
    /// later than its word.
    FloorReadUnmarked,
    /// A late newcomer is tested at the floor instead of its own `now`.
    LateTestedAtFloor,
    /// The time of a word is computed with a header that was read before the word.
    HeaderOnlyBeforeWords,
    /// Words are loaded without the memory ordering that makes their writer's floor visible.
    RelaxedWords,
    /// The time of a word is computed with the caller's `now` instead of the floor.
    DecodeAgainstNow,
    /// A sweep judges words by an older floor, although they were written under a newer one.
    SweepWithStaleHeader,
    /// A newcomer judges words by an older floor, although they were written under a newer one.
    SurveyWithStaleHeader,
    /// A sweep leaves claims in place, so that they may be opened at a floor that is much older than the present floor.
    SweepSparesClaims,
    /// A floor is published although no sweep has read the cells.
    PublishWithoutSweep,
    /// A floor advances to its goal in one step, even if live words have earlier times.
    JumpOverLiveWords,
    /// An install that does not open its claim leaves the claim behind.
    GiveBackForgotten,
    /// The pairing of shards is not symmetric: the second shard of a key is not paired with the first.
    OverlappingShardPairs,
    /// A striped limit denies if the thread's own stripe denies, without trying the other stripes.
    OwnStripeOnly,
    /// The surplus (the units that a lowered quota cannot count) is forgotten.
    SurplusForgotten,
    /// A refund gives back twice what was charged.
    ReturnTwice,
    /// A refund also gives back units that have drained meanwhile.
    ReturnWhatDrained,
    /// A cancellation also gives back units that have drained meanwhile, if the word has the bits that the charge left.
    UndoWhatDrained,
    /// A charge into debt is admitted but not written.
    ChargeForgotten,
    /// A policy with the option `debt` allows no larger debt than a policy without this option.
    DebtStopsAtLimit,
    /// A charge is undone although another request has been charged after it.
    UndoWhatChanged,
    /// A log takes slots that another request has marked.
    MarkedSlotTaken,
    /// A log admits a request for which it has marked fewer slots than it needs.
    ShortGatherAdmitted,
    /// A denied request does not remove its marks from a log.
    MarksForgotten,
    /// A denied request turns the slots that it had marked into slots that were never taken.
    MarksEndUnused,
    /// A slot that is given back is written although it may have changed since it was read.
    GivenBackWhatever,
    /// A slot is reserved for now instead of its turn.
    ReservedFromNow,
    /// The count of a log is lowered although a marked slot is earlier than the closed slots.
    ClosedBesideMarks,
    /// A log whose count is raised opens the closed slots with the earliest times instead of the latest.
    EarliestOpened,
    /// A refund lowers a slot of a log while the log's count changes.
    GivenBackInChange,
    /// A permit gives back a unit of a log whose count has been changed and changed back.
    PermitOutlivesChange,
    /// Units that are given back without a permit are taken from slots in use, although closed slots still count.
    SlotsInUseFirst,
    /// The lower bound of a row of a log is raised too far, so that free slots are passed over.
    RowPassedOver,
    /// A unit is charged although the log may belong to another key when the unit is written.
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
    /// An add to a row forgets the earlier charges of the row.
    AddLowersRow,
    /// An add to a row stops one burst ahead of now instead of two.
    AddStopsAtBurst,
    /// The row with the largest load decides instead of the row with the least.
    FullestRowDecides,
    /// A row decides although its cell has moved to a later window since it was chosen.
    TurnedRowDecides,
    /// A request that is decided in the spill does not search its shards again.
    SpillUnscanned,
    /// A request that is decided in the spill leaves claims of its key in place.
    SpillIgnoresClaims,
    /// There is no fence between a charge in the spill and the search of the shards.
    SpillWithoutFence,
    /// A decision in the spill is kept although a floor became later than the request meanwhile.
    SpillFloorsReadOnce,
    /// A charge in the spill leaves no mark.
    SpillUnmarked,
    /// A key that gets a cell loses its debt in the spill.
    EstimateLeftOut,
    /// A key's debt in the spill is read before the key's claim is made.
    EstimateBeforeClaim,
    /// A snapshot computes the times of words with a floor that was read before the words.
    SnapshotWithStaleHeader,
    /// A snapshot keeps both words of a key that moved while it was taken.
    SnapshotKeepsTwins,
    /// A snapshot keeps installs in progress.
    SnapshotKeepsClaims,
    /// The charges of several limits stay although one of the limits has denied.
    UndoLeftOut,
    /// A sketch is charged in the order of the claims, before limits that may still deny.
    SketchChargedInTurn,
    /// An undo restores the word from before the charge, even if other requests have been charged since.
    UndoOverAnother,
    /// A report of headroom computes the price of earlier loans a second time.
    ReportPricesAnew,
    /// Under a policy with a penalty, a denial does not change the number of denials in a row.
    DenialNotCounted,
    /// Under a policy with a penalty, a denial counts as two denials.
    DenialCountedTwice,
    /// An admission does not change the number of denials in a row.
    DenialsOutliveAdmission,
    /// A denial that the policy counts is not written.
    DenialNotWritten,
    /// Numbers of a quota are used as they were read, even if they were being written.
    QuotaReadTorn,
    /// The numbers of a new quota overwrite the old numbers, although words still contain the index of the old quota.
    QuotaWrittenInPlace,
    /// A change of quota forgets what was spent.
    RebaseForgets,
    /// A word of the old quota is read in the ticks of the new quota.
    RebaseReadsOldTicks,
    /// Words of the old quota are left as they are.
    OldTicksLeft,
    /// A new key whose cost first never fits, and fits once the quota is raised, is admitted without a charge.
    RaisedWithoutCharge,
    /// A change of quota leaves claims in place, which may be opened with the old quota's index.
    ChangeSparesClaims,
    /// A key is limited by the quota of its last request instead of the quota of the present request.
    AskedQuotaIgnored,
    /// A word that is carried over to another quota keeps the time in which it drains instead of its units.
    CarriedAsTime,
    /// A quota's place is freed although a thread is about to write its index into a word.
    PinLeavesMark,
    /// A quota's place is freed although words carry its index.
    FreedUnseen,
    /// A quota is written in a place that another quota is using.
    PlaceTakenInUse,
    /// A quota's place is made visible to other threads before the quota's numbers are written.
    PlaceGivenEarly,
    /// A quota is found in a place before any thread can pin that place.
    TakenPlaceFound,
    /// A request is decided by a different quota, which has taken the place of the request's quota.
    VersionUnchecked,
    /// A permit gives back units that have already drained, because the key has moved to a faster quota since.
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
