//! GCRA, the generic cell rate algorithm: its whole state is one time.
//!
//! The word is the *theoretical arrival time* (TAT): the instant at which everything admitted so far will have drained.
//! It is counted in ticks (see [`crate::ticks`]). A unit of cost is 2^k ticks:
//!
//! ```text
//! admit iff  max(TAT, now) + cost - now <= burst        (equality conforms)
//! then       TAT = max(TAT, now) + cost
//! ```
//!
//! This is the virtual scheduling form of ITU-T I.371 with interval = one unit and a bucket of `burst` units. The token
//! bucket with greedy refill and the leaky bucket as a meter are the same function. The tokens are the unused part of
//! the burst. The level of the leaky bucket is TAT - now, which is called the *debt* below.
//!
//! At most `burst + floor(rate * W)` units are admitted in any closed interval of length W, plus the one tick by which
//! a reading of the clock may be rounded.

use super::{Algorithm, Decides, GRANULES, Held, Kernel, Moment};
use crate::sync::{Fault, planted};
use crate::ticks::TickScale;

/// GCRA for one quota, with one length of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gcra {
    pub(super) scale: TickScale,
    pub(super) burst_ticks: u64,
    /// A power of two.
    pub(super) unit_ticks: u64,
}

impl Gcra {
    /// The caller chooses `unit_bits` such that `burst << unit_bits` is below 2^63.
    pub(crate) const fn new(count: u64, period_ns: u64, burst: u64, unit_bits: u8) -> Self {
        Self {
            scale: TickScale::new(count, period_ns, unit_bits),
            burst_ticks: burst << unit_bits,
            unit_ticks: 1 << unit_bits,
        }
    }

    /// The same quota with ticks twice as long, if a unit has more than one tick.
    pub(crate) fn halved(&self) -> Option<Self> {
        let Self { scale, burst_ticks, unit_ticks } = *self;
        let is_divisible = unit_ticks > 1; // then the burst is divisible, too
        Some(Self {
            scale: scale.halved()?,
            burst_ticks: burst_ticks / 2,
            unit_ticks: unit_ticks / 2,
        })
        .filter(|_| is_divisible)
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.burst_ticks >> self.unit_ticks.ilog2()
    }

    /// The number of whole ticks that have passed at `at`, in 128 bits.
    pub(super) fn ticks(&self, at_ns: u64) -> u128 {
        self.scale.ticks(at_ns)
    }

    /// The time in which this number of ticks passes, in nanoseconds, rounded up.
    pub(super) fn ns_of(&self, ticks: u64) -> u64 {
        self.scale.first_ns(ticks.into())
    }

    /// TAT = max(TAT, min(max(TAT, now) + cost, now + most)): the cost is charged in full, or as much of it as leaves
    /// the TAT no further ahead than `most`. The TAT never goes back. `held.ahead` is max(TAT, now) - now.
    #[inline(always)]
    pub(super) fn charge_up_to(&self, held: Held, _: Moment, cost: u64, most: u64) -> Held {
        // A word whose debt is already above `most` stays as it is: earlier admissions are not forgiven.
        let charged = held.ahead.saturating_add(cost.saturating_mul(self.unit_ticks));
        Held { ahead: held.ahead.max(charged.min(most)), ..Held::IDLE }
    }

    /// The state after a denied cost was charged with [`charge_up_to`](Self::charge_up_to). The state stays as it was
    /// if the charge would raise it by less than a [granule](GRANULES).
    pub(super) fn charge_denied(&self, held: Held, moment: Moment, cost: u64, most: u64) -> Held {
        let charged = self.charge_up_to(held, moment, cost, most);
        let raised = charged.ahead - held.ahead;
        // At a debt of `most`, one unit would wait for C, the longest wait. The subtractions saturate, since during a
        // change of quota the numbers may be read half old and half new.
        let wait = most.saturating_sub(self.burst_ticks.saturating_sub(self.unit_ticks));
        // A charge in full raises the debt by at least a unit.
        let is_granule = raised >= self.unit_ticks || raised.saturating_mul(GRANULES) >= wait;
        if is_granule { charged } else { held }
    }

    #[inline]
    pub(crate) fn passed(&self, from_ns: u64, to_ns: u64) -> u64 {
        // Usually no tick has passed, since most words are read at the request's own time.
        if from_ns >= to_ns {
            return 0;
        }
        self.passed_since(self.scale.ticks(from_ns), to_ns)
    }

    pub(crate) fn remaining(&self, held: Held, late: u64) -> u64 {
        self.burst_ticks.saturating_sub(held.ahead.saturating_add(late)) >> self.unit_ticks.ilog2()
    }

    pub(crate) fn burst_ticks(&self) -> u64 {
        self.burst_ticks
    }

    pub(crate) fn unit_ticks(&self) -> u64 {
        self.unit_ticks
    }

    /// A cost in ticks, and the largest debt that leaves room for it; `None` if the cost is above the burst.
    #[inline(always)]
    pub(crate) fn room_for(&self, cost: u64) -> Option<(u64, u64)> {
        let ticks = cost.checked_mul(self.unit_ticks)?;
        Some((ticks, self.burst_ticks.checked_sub(ticks)?))
    }

    pub(crate) fn cost_ticks(&self, cost: u64) -> Option<u64> {
        cost.checked_mul(self.unit_ticks)
    }

    /// Gives back `units` that were charged `passed` ticks ago. Returns the debt afterwards, and how many units come
    /// back, rounded up. Units that have drained cannot be given back. `owed` is the debt at now, while `held` may be
    /// measured from an earlier instant.
    ///
    /// The units of the last charge in the word may be used from `now` on or, if places are reserved, from one burst
    /// before the TAT on: see `refund.rs`. This function assumes that their instant has come, even if the clock was
    /// read long before this word.
    pub(crate) fn given_back(&self, held: Held, owed: u64, units: u64, passed: u64) -> (Held, u64) {
        // This is max(now, TAT - burst) less the time of the charge. This difference is the sum of the time that has
        // passed by now and the time by which TAT - burst is later than now.
        let drained = passed.saturating_add(owed.saturating_sub(self.burst_ticks));
        let drained = if planted(Fault::ReturnWhatDrained) { 0 } else { drained };
        self.less_owed(held, owed, units, drained)
    }

    /// [`given_back`](Self::given_back) for a word with the bits that the charge left. `passed` is the number of ticks
    /// since the [turn](Self::turn) of the charge.
    pub(crate) fn undone(&self, held: Held, owed: u64, units: u64, passed: u64) -> (Held, u64) {
        let drained = if planted(Fault::UndoWhatDrained) { 0 } else { passed };
        self.less_owed(held, owed, units, drained)
    }

    /// Subtracts `units` from the debt, except for the `drained` ticks of them that have drained already. The debt
    /// never falls below 0.
    pub(crate) fn less_owed(&self, held: Held, owed: u64, units: u64, drained: u64) -> (Held, u64) {
        let back = units.saturating_mul(self.unit_ticks).saturating_sub(drained);
        // No more comes back than the debt that is owed now, and no more than the debt of the word when it was read.
        let back = back.min(owed).min(held.ahead);
        // A unit is a power of two of ticks, so a shift rounds up. A division would take longer than the rest of this
        // function.
        let part = back & (self.unit_ticks - 1);
        let units = (back >> self.unit_ticks.ilog2()) + u64::from(part > 0);
        (Held { ahead: held.ahead - back, ..held }, units)
    }

    /// The instant from which `units` may be used, in ticks. It is the later of two instants: the time of their charge,
    /// and the instant at which the debt after the charge (`held`, measured from `at`) has drained to the burst. A
    /// charge of more than a burst may be used from the beginning of its place on, and also drains from then on.
    pub(crate) fn turn(&self, held: Held, at_ns: u64, charged_ns: u64, units: u64) -> u128 {
        // A place is as long as the time in which its units drain. Units beyond a burst also drain one by one from the
        // beginning of the place.
        let size = u128::from(units) * u128::from(self.unit_ticks);
        let place = self.tat(held, at_ns).saturating_sub(size.max(u128::from(self.burst_ticks)));
        place.max(self.scale.ticks(charged_ns))
    }

    pub(crate) fn passed_since(&self, ticks: u128, now_ns: u64) -> u64 {
        let passed = self.scale.ticks(now_ns).saturating_sub(ticks);
        u64::try_from(passed).unwrap_or(u64::MAX)
    }

    /// The number of ticks that must drain before `cost` fits.
    pub(crate) fn shortage(&self, held: Held, cost: u64) -> u64 {
        self.room_for(cost).map_or(u64::MAX, |(_, room)| held.ahead.saturating_sub(room))
    }

    /// The state after the addition of `cost` units that were admitted elsewhere, for a word that keys share: see
    /// [`crate::sketch`].
    ///
    /// The TAT is raised to at most two bursts ahead of now. A key that was just admitted has a debt of at most one
    /// burst, and the second burst covers requests that are in flight. So a word drains within the time of two bursts,
    /// no matter how many units are added. If that bound does not fit in 64 bits, it is `u64::MAX`. A word with this
    /// time admits nothing, since now and the burst are both below 2^63.
    #[inline(always)]
    pub(super) fn add(&self, held: Held, moment: Moment, cost: u64) -> Held {
        let bursts = if planted(Fault::AddStopsAtBurst) { 1 } else { 2 };
        let most = (bursts * self.burst_ticks).min(u64::MAX - moment.unit);
        self.charge_up_to(held, moment, cost, most)
    }

    pub(super) fn ready_ns(&self, held: Held, at_ns: u64, cost: u64) -> u64 {
        // This is the instant at which the debt leaves room for the cost.
        let room = self.burst_ticks - cost * self.unit_ticks;
        self.scale.first_ns(self.tat(held, at_ns).saturating_sub(u128::from(room)))
    }

    pub(super) fn idle_ns(&self, held: Held, at_ns: u64) -> u64 {
        if held.ahead == 0 { at_ns } else { self.scale.first_ns(self.tat(held, at_ns)) }
    }

    /// Takes a state whose TAT lies behind the instant `at`. Returns the same state measured from the last nanosecond
    /// before the TAT, and that instant.
    pub(super) fn seen_before(&self, held: Held, at_ns: u64) -> (Held, u64) {
        let tat = self.scale.ticks(at_ns).saturating_sub(held.behind.into());
        // The last nanosecond before the TAT, from which the TAT lies ahead.
        let before_ns = self.scale.first_ns(tat).saturating_sub(1);
        // This is at most one nanosecond in ticks, and so below 2^63.
        let ahead = u64::try_from(tat.saturating_sub(self.scale.ticks(before_ns)));
        (Held { ahead: ahead.unwrap_or(u64::MAX), behind: 0, ..held }, before_ns)
    }

    /// The arithmetic of this quota with the burst of another quota, as exactly as the ticks of this quota can
    /// represent the burst.
    pub(crate) fn with_burst_of(&self, other: &Self) -> Self {
        let burst_ticks = other.limit().saturating_mul(self.unit_ticks).min(u64::MAX >> 1);
        Self { burst_ticks: burst_ticks.max(self.unit_ticks), ..*self }
    }

    /// True if units come back faster under this quota than under the other.
    pub(crate) fn is_faster(&self, other: &Self) -> bool {
        // The rate is factor / 2^(shift + unit_bits) units in a nanosecond, and every factor has 64 bits. So the quota
        // with the smaller exponent has the higher rate. If the exponents are equal, the quota with the larger factor
        // has the higher rate.
        let rate = |it: &Self| {
            let (factor, shift) = it.scale.parts();
            (std::cmp::Reverse(u32::from(shift) + it.unit_ticks.ilog2()), factor)
        };
        rate(self) > rate(other)
    }

    fn tat(&self, held: Held, at_ns: u64) -> u128 {
        if held.is_cut() {
            return u128::MAX; // later than any clock tells
        }
        self.scale.ticks(at_ns) + u128::from(held.ahead)
    }
}

impl Algorithm for Gcra {
    #[inline(always)]
    fn of(kernel: &Kernel) -> Option<&Self> {
        if let Kernel::Gcra(gcra) = kernel { Some(gcra) } else { None }
    }

    #[inline(always)]
    fn kernel(&self) -> Kernel {
        Kernel::Gcra(*self)
    }
}

impl Decides for Gcra {
    const COUNTS: bool = false;

    #[inline(always)]
    fn moment(&self, at_ns: u64) -> Moment {
        Moment { unit: self.scale.ticks_low(at_ns), into_ns: 0 }
    }

    /// `held.ahead` is the debt: the distance by which the TAT lies ahead of now, or 0.
    #[inline(always)]
    fn step(&self, held: Held, _: Moment, late: u64, cost: u64) -> Option<Held> {
        let (cost_ticks, room) = self.room_for(cost)?;
        if held.ahead.saturating_add(late) > room {
            return None;
        }
        // The sum does not overflow: it is at most the burst in ticks, which is below 2^63.
        Some(Held { ahead: held.ahead + cost_ticks, ..Held::IDLE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn owed(ahead: u64) -> Held {
        Held { ahead, ..Held::IDLE }
    }

    #[test]
    fn what_is_undone_is_what_is_still_owed_told_in_units_rounded_up() {
        let gcra = Gcra::new(1, 1, 10, 8);
        let undone = |held: Held, units, passed| gcra.undone(held, held.ahead, units, passed);
        assert_eq!(undone(owed(5 << 8), 2, 0), (owed(3 << 8), 2));
        assert_eq!(undone(owed(5 << 8), 2, 1 << 8), (owed(4 << 8), 1));
        assert_eq!(undone(owed(5 << 8), 2, (1 << 8) - 1), (owed((4 << 8) - 1), 2));
        assert_eq!(undone(owed(5 << 8), 2, 2 << 8), (owed(5 << 8), 0));
        assert_eq!(undone(owed((1 << 8) + 7), 2, 0), (owed(0), 2));
        assert_eq!(undone(Held { counts: 3, ..owed(5 << 8) }, 5, 0).0.counts, 3);
    }

    #[test]
    fn what_is_given_back_is_owed_by_now_wherever_the_word_is_read() {
        let gcra = Gcra::new(1, 1, 10, 8);
        // One of the 5 units has drained. When the word was read, the debt was larger than the burst, so a place lay in
        // the future. In the first assertion no place lies in the future any more.
        assert_eq!(gcra.given_back(owed(25 << 8), 5 << 8, 5, 1 << 8), (owed(21 << 8), 4));
        assert_eq!(gcra.given_back(owed(25 << 8), 12 << 8, 5, 1 << 8), (owed(23 << 8), 2));
        assert_eq!(gcra.given_back(owed(25 << 8), 2 << 8, 5, 1 << 8), (owed(23 << 8), 2));
    }

    #[test]
    fn what_is_charged_may_be_used_from_its_turn_on() {
        // A unit drains in each nanosecond, and the burst is 10.
        let gcra = Gcra::new(1, 1, 10, 8);
        let turn = |debt: u64, units| gcra.turn(owed(debt << 8), 100, 100, units) >> 8;
        // Units that fit in the burst may be used at once, and other units as soon as they fit.
        assert_eq!([10, 11, 14].map(|debt| turn(debt, 3)), [100, 101, 104]);
        // A charge of more than the burst may be used from the beginning of its place on.
        assert_eq!([14, 20, 31].map(|debt| turn(debt, 14)), [100, 106, 117]);
        assert_eq!(gcra.turn(owed(4 << 8), 100, 70, 3) >> 8, 94, "measured from a floor");
        assert_eq!(gcra.passed_since(104 << 8, 110), 6 << 8);
        assert_eq!(gcra.passed_since(104 << 8, 103), 0);
    }

    #[test]
    fn a_shortage_is_what_must_drain_first() {
        let gcra = Gcra::new(1, 1, 10, 8);
        assert_eq!(gcra.shortage(owed(9 << 8), 3), 2 << 8);
        assert_eq!(gcra.shortage(owed(7 << 8), 3), 0);
        assert_eq!(gcra.shortage(owed(0), 11), u64::MAX);
    }
}
