//! The planted faults that the random worlds catch. Each is listed with its message and the family of worlds that needs
//! the fewest schedules to catch it.
//!
//! With the seeds of the controls a fault is caught after 1 to about 100,000 schedules, and most faults after fewer
//! than 1,000. Any change of the library changes these numbers.
//!
//! The following faults are not listed, because only loom, or only a long run, catches them:
//!
//! - `EstimateBeforeClaim`, `FloorsBeforeClaim`, `SurveyWithStaleHeader` and `HelpWithoutReclaim` are caught, but only
//!   after 10,000 to 100,000 schedules, which is too long for a control.
//! - `NoFence`, `SpillWithoutFence`, `ConfirmWithoutFence` and `RelaxedWords` cannot be caught. They change nothing as
//!   long as every order is sequentially consistent, as it is here.
//! - `FloorReadUnmarked`, `SweepSparesClaims`, `PublishWithoutSweep`, `OwnWordForStrangers`, `FullestRowDecides` and
//!   `UndoLeftOut` are not caught. They refuse requests that should be admitted. For tables and sketches the worlds
//!   check only that not too much is admitted.
//! - `EqualNonces`, `SpillIgnoresClaims`, `SpillFloorsReadOnce`, `ChargeLeftBehind` and `SnapshotKeepsTwins` are not
//!   caught in 100,000 schedules. They need three threads in one rare order.
//! - `OneFloorLeftOut` is not caught in 400,000 schedules. It shows only if a key becomes idle and loses its cell to
//!   another key. The key must then come back at a time before it was idle, in a shard whose floor is further behind.
//!   Two of loom's models have this fault as a control.
//! - `RaisedWithoutCharge` was not tried. It is a control of loom's model of an install with a large cost.
//! - `QuotaReadTorn`, `ChangeSparesClaims` and `RowPassedOver` are not caught. In a world a quota changes only once, so
//!   no index is used twice; and logs have only one row.
//! - `ReportPricesAnew`, `DenialNotCounted`, `DenialCountedTwice`, `DenialsOutliveAdmission`, `DenialNotWritten` and
//!   `SlotsInUseFirst` were not tried. The worlds have no elastic limits and no policies that count denials, and they
//!   give nothing back without a permit.
//! - `AskedQuotaIgnored`, `CarriedAsTime`, `CarriedBeforeCharge`, `PermitOutlivesQuota`, `PinLeavesMark`,
//!   `FreedUnseen`, `PlaceTakenInUse`, `PlaceGivenEarly`, `TakenPlaceFound` and `VersionUnchecked` were not tried. In
//!   the worlds no caller brings its own quota. Each of these faults is a control of loom's models in `own`.

use tollgate::control::Fault;

use crate::history::{ABOVE_BOUND, LOST_CHARGE, REFUSED};
use crate::kinds::Family::{self, Gcra, LiveLog, Log, Logs, Sketch, Striped, Tiers, Windows};
use crate::verdict::{LEFT_CLAIM, REFUSED_FILE};

/// The most schedules of a control, which is many times what any control takes. If a control has caught nothing by
/// then, it no longer works. One schedule takes a tenth of a millisecond.
pub(crate) const SCHEDULES_MAX: u64 = 400_000;

/// The messages when a charge is lost: one admission too many or, if time stands still, too many units left.
const EXCESS: &[&str] = &[ABOVE_BOUND, LOST_CHARGE];
/// The message of the core when an install leaves a key live in two cells.
const TWO_LIVE: &[&str] = &["live cells carry one key"];
/// The messages for an install over a lost claim: either it leaves a key live in two cells, or its charge is
/// overwritten.
const TWO_LIVE_OR_EXCESS: &[&str] = &["live cells carry one key", ABOVE_BOUND, LOST_CHARGE];
const REFUSAL: &[&str] = &[REFUSED];
const CLAIM: &[&str] = &[LEFT_CLAIM];
const FILE: &[&str] = &[REFUSED_FILE];

pub(crate) struct Control {
    pub(crate) fault: Fault,
    pub(crate) family: Family,
    /// The expected messages. The world must fail with one of them.
    pub(crate) messages: &'static [&'static str],
}

const fn control(fault: Fault, family: Family, messages: &'static [&'static str]) -> Control {
    Control { fault, family, messages }
}

pub(crate) const CONTROLS: &[Control] = &[
    control(Fault::PlainStoreForCas, Striped, EXCESS),
    control(Fault::FailureTakenForSuccess, Gcra, EXCESS),
    control(Fault::NoVerify, Gcra, TWO_LIVE),
    control(Fault::VerifyIgnoresLive, Gcra, TWO_LIVE),
    control(Fault::VerifyIgnoresLower, Gcra, TWO_LIVE),
    control(Fault::VerifyIgnoresHigher, Gcra, TWO_LIVE),
    control(Fault::OpenWithoutExactWord, Gcra, TWO_LIVE_OR_EXCESS),
    control(Fault::ReclaimWithoutExactWord, Tiers, EXCESS),
    control(Fault::ForgetByOwnClock, Gcra, EXCESS),
    control(Fault::EvictLive, Gcra, EXCESS),
    control(Fault::FloorLeftOutOfBase, Gcra, EXCESS),
    control(Fault::LateTestedAtFloor, Gcra, EXCESS),
    control(Fault::HeaderOnlyBeforeWords, Windows, EXCESS),
    control(Fault::DecodeAgainstNow, Gcra, EXCESS),
    control(Fault::SweepWithStaleHeader, Windows, EXCESS),
    control(Fault::JumpOverLiveWords, Windows, EXCESS),
    control(Fault::GiveBackForgotten, Gcra, CLAIM),
    control(Fault::OverlappingShardPairs, Tiers, EXCESS),
    control(Fault::OwnStripeOnly, Striped, REFUSAL),
    control(Fault::SurplusForgotten, Tiers, EXCESS),
    control(Fault::ReturnTwice, Gcra, EXCESS),
    control(Fault::ReturnWhatDrained, Gcra, EXCESS),
    control(Fault::UndoWhatDrained, Gcra, EXCESS),
    control(Fault::UndoWhatChanged, Gcra, EXCESS),
    control(Fault::UndoOverAnother, Tiers, EXCESS),
    control(Fault::ChargeForgotten, Gcra, EXCESS),
    control(Fault::DebtStopsAtLimit, Gcra, EXCESS),
    control(Fault::MarkedSlotTaken, Log, EXCESS),
    control(Fault::ShortGatherAdmitted, Log, EXCESS),
    control(Fault::MarksForgotten, Log, REFUSAL),
    control(Fault::MarksEndUnused, Log, EXCESS),
    control(Fault::ClosedBesideMarks, LiveLog, EXCESS),
    control(Fault::EarliestOpened, LiveLog, EXCESS),
    control(Fault::GivenBackInChange, LiveLog, EXCESS),
    control(Fault::PermitOutlivesChange, LiveLog, EXCESS),
    control(Fault::ChargeUnconfirmed, Logs, EXCESS),
    control(Fault::ForgetAtFirstSight, Logs, EXCESS),
    control(Fault::LogBelowFloor, Logs, EXCESS),
    control(Fault::OthersNotCharged, Sketch, EXCESS),
    control(Fault::OthersChargedLate, Sketch, EXCESS),
    control(Fault::AddLowersRow, Sketch, EXCESS),
    control(Fault::AddStopsAtBurst, Sketch, EXCESS),
    control(Fault::TurnedRowDecides, Sketch, EXCESS),
    control(Fault::SpillUnscanned, Windows, EXCESS),
    control(Fault::SpillUnmarked, Windows, EXCESS),
    control(Fault::EstimateLeftOut, Windows, EXCESS),
    control(Fault::SnapshotWithStaleHeader, Gcra, EXCESS),
    control(Fault::SnapshotKeepsClaims, Tiers, FILE),
    control(Fault::QuotaWrittenInPlace, Tiers, EXCESS),
    control(Fault::RebaseForgets, Tiers, EXCESS),
    control(Fault::RebaseReadsOldTicks, Gcra, EXCESS),
    control(Fault::OldTicksLeft, Tiers, EXCESS),
    control(Fault::MoveClearsFirst, Tiers, EXCESS),
    control(Fault::WaitedIsAdmitted, Windows, EXCESS),
];
