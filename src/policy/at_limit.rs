//! [`AtLimit`]: what a policy does when its limit is reached. Checked here, carried out in
//! `algorithm/at_limit.rs`.

use std::time::Duration;

use super::Policy;
use crate::algorithm::bits_for;
use crate::error::{BuildError, PolicyError};
use crate::percent::Percent;
use crate::wait::Wait;

/// What a policy does when its limit is reached. Without any of it, it denies, and that is all.
///
/// L is the limit that the policy names: GCRA's burst, or a window's count. The *horizon* is the longest
/// time after which nothing that was admitted counts any more: L (or S) units at the rate for GCRA, the
/// window W for fixed and segmented windows, those of the calendar and sliding logs, 2W for sliding windows.
///
/// * **Soft**, `soft 5%`: the limit is softened to S = floor(L * 105 %). S takes the place of L in the
///   algorithm's test and in its bound; the rate is what it was. What L alone would have denied is
///   admitted with a mark ([`Permit::is_over`](crate::Permit::is_over)). `limit` and `remaining` speak
///   of L, `retry_after` of S.
/// * **Counting denials**, `count-denied`: a denied request is charged as if it had been admitted, so that
///   a client that keeps asking is kept out. The charge is cut where one unit would have to wait longer than
///   C, by default the horizon; a client that pauses so long is always let in again. In GCRA's words, TAT = max(TAT,
///   min(max(TAT, now) + cost, now + L - 1 unit + C)), unless that raises it by less than a [granule](#granules).
///   Windows take no C: the current count grows by the cost and stops at L (for `sliding-window` and its `exact` at 2L,
///   which the next window feels). A sliding log records what was denied as it does what was admitted, and keeps the newest L (or S) units of
///   both, to a [granule](#granules). At most as much is admitted as without.
/// * **Penalty**, `penalty 10m after 3`, of all but windows of the calendar and `sliding-log`: the third denial in a row
///   refuses everything for ten minutes from then on; after that the limit is as never used. An admission in between
///   begins the row anew; peeks and costs that never fit do not count. `extended`: each denial during the penalty moves its end
///   to ten minutes after itself, if that is later by a [granule](#granules) or more. It is at least as long as the horizon (and C), so a penalty never
///   admits what the limit alone would have denied.
///
/// * **Queue**, `queue 50` and `wait 2s`, of GCRA and sliding logs: `reserve`, `queue` and `acquire` promise a turn to
///   at most 50 units that wait, and none that comes later than in 2 s; whatever the caller's [`Wait`](crate::Wait) says
///   beyond that is denied at once. A word has room for all of it, a key's too. A check never waits and does not see it.
///
/// * **Debt**, `debt 100x`, of all but `segmented-window` and `sliding-log`: a [`charge`](crate::Entry::charge) that does
///   not fit is remembered up to 100 times the limit beyond it. Without this word a GCRA word of a key remembers
///   once the burst beyond it, and a window's count stops at its limit. Under GCRA the debt drains at the
///   rate, however long that takes: 100 times a limit of 1000/h for 100 hours. The current count of a window reaches
///   101 times the limit: it is over with a fixed window and with a month or year, and after a sliding one it weighs in the next,
///   too. Checks see no difference: none is admitted or denied that would not have been without it. What a debt costs
///   is room in the word of a key, see *how much debt a word remembers* in the guide. In the spill of a table, where keys
///   share words, a debt is remembered as without this word.
///
/// A key of a [`KeyedLimiter`](crate::KeyedLimiter) whose penalty is over by the table's time may be
/// forgotten like any other that is idle; and a request that then comes with an older time is placed after the
/// penalty, not in it. A new key that is denied only because it comes late has no word to count that in.
///
/// # Granules
/// A denial that is charged is a write, and for a flood of writes to one word threads wait for each other's cache line.
/// So a denial is written only if it changes something that matters:
///
/// * Under GCRA the granule is a thousandth of C, or the time of one unit if that is shorter. From when the debt
///   is full, at most one denial is written in each granule, however many there are. The debt is always less than a granule
///   short of what it would be if every denial were charged. That does not add up, so a request is admitted less than a
///   granule earlier. A client that asks for single units without a pause is kept out all the same, and no more is ever admitted
///   than without `count-denied`. Under `gcra 10/m burst 5 count-denied 30s` the granule is 30 ms: a client that asks a
///   million times a second causes 33 writes a second, and one unit then waits for more than 29.97 s, and 30 s at most.
/// * The end of an extended penalty moves by a thousandth of its length or more, or not at all. So a penalty of ten minutes
///   ends more than 9 min 59.4 s after the last denial, and ten minutes after it at most. A penalty that is not extended
///   lasts for its whole length.
/// * The count of a window is exact. When it has come to where it stops, denials write nothing until its time is over.
/// * A sliding log records no denial as long as all units in it are of the last thousandth of its window. So denials write to
///   each of its slots once in that time at most, and each of the units is less than that older than if all were recorded.
///
/// # In all that is built on a limit
/// * Every verb of [`Limiter`](crate::Limiter) and [`KeyedLimiter`](crate::KeyedLimiter) knows all of it. A
///   `take_up_to` or `reserve` that is denied is a denial like a check's, unless a check of that cost could
///   never fit. A `charge` charges nothing during a penalty, and says so. An admission ends the row of
///   denials also if it is cancelled later; a refund leaves the row as it is.
/// * [`check_all`](crate::check_all): each limit counts its own denials, and none of another's.
/// * [`check_or`](crate::Entry::check_or): what is admitted elsewhere was not denied, is not over, and ends no row.
///   During a penalty nothing is.
/// * [`Lease`](crate::Lease): taking one is one request; so is each that it passes on to the limiter.
/// * Snapshots hold it all: a restart ends neither a row nor a penalty.
/// * Each of several [tiers](crate::KeyedBuilder::tier) has its own, and a quota that changes takes rows and penalties along
///   ([`set_quota`](crate::Changing)). A key that [moves](crate::Entry::move_to) under a penalty has used
///   all of its old limit.
/// * Stripes and sketches can be soft. They refuse what counts denials ([`BuildError::Policy`](crate::BuildError::Policy)):
///   a stripe sees only some of them, and cells of a sketch are shared by keys.
///
/// A cost that never fits, and a peek, change nothing under any of them. The end of a penalty is rounded
/// up to what a word can tell apart: ticks for GCRA, and for windows a power of ten nanoseconds of which
/// there are at least 1000 in a window (4096 in the words of a [`KeyedLimiter`](crate::KeyedLimiter)).
///
/// ```
/// use tollgate::{CountDenied, Percent, Policy};
/// let policy: Policy = "gcra 100/m soft 5% count-denied 30s penalty 10m after 3".parse()?;
/// let at_limit = policy.at_limit();
/// assert_eq!(at_limit.soft, Percent::new(5));
/// assert_eq!(at_limit.count_denied, CountDenied::UpTo(std::time::Duration::from_secs(30)));
/// assert_eq!(at_limit.penalty.map(|penalty| penalty.after), Some(3));
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AtLimit {
    /// By how much the limit is softened; 0 % is hard.
    pub soft: Percent,
    /// Whether denied requests are charged.
    pub count_denied: CountDenied,
    /// What follows on denials in a row.
    pub penalty: Option<Penalty>,
    /// How long requests may wait for their turn, and behind how many units.
    pub queue: Option<Wait>,
    /// How many times the limit a charge into debt may reach beyond it. 0 says nothing of that: GCRA then remembers as much
    /// as its word has room for, once the burst at least, and a window nothing.
    pub debt: u32,
}

impl AtLimit {
    /// Whether a check is denied at the limit, and that is all: it knows no queue and no debt.
    pub(crate) fn is_plain(&self) -> bool {
        Self { queue: None, ..self.without_debt() } == Self::default()
    }

    /// The same without what only charges know.
    pub(crate) fn without_debt(&self) -> Self {
        Self { debt: 0, ..*self }
    }

    /// How many times the limit a key's word under GCRA holds at least: the limit, and its debt.
    pub(crate) fn bursts(&self) -> u64 {
        1 + u64::from(self.debt.max(1))
    }

    /// Bits of the field that counts denials in a row: none without a penalty.
    pub(crate) fn denial_bits(&self) -> u32 {
        self.penalty.map_or(0, |penalty| u32::from(bits_for(penalty.after.into())))
    }

    /// The length of the penalty; 0 without one, and cut at the longest time.
    pub(crate) fn penalty_ns(&self) -> u64 {
        let length_ns = self.penalty.map_or(0, |penalty| penalty.length.as_nanos());
        u64::try_from(length_ns).unwrap_or(u64::MAX)
    }
}

/// Refuses all but a soft limit, where a denial is not one of this limit and a turn is of no caller.
pub(crate) fn is_soft_at_most(of: Policy, why: &str, other: &str) -> Result<(), BuildError> {
    let soft = AtLimit { soft: of.at_limit.soft, ..AtLimit::default() };
    if of.at_limit == soft {
        return Ok(());
    }
    let (why, but) = match of.at_limit.queue {
        Some(_) if of.at_limit == (AtLimit { queue: of.at_limit.queue, ..soft }) => {
            ("no verb waits for a turn here", "queue and wait")
        }
        // Stripes owe in whole words; the cells of a sketch are shared by keys, as those of a spill are.
        None if of.at_limit.without_debt() == soft => {
            ("how far a debt is remembered is not said by the policy here", "debt")
        }
        _ => (why, "all but soft"),
    };
    Err(BuildError::Policy(format!(
        "{why}, so {of} cannot be kept; leave out {but}, or use a {other}"
    )))
}

/// Whether denied requests are charged, and how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CountDenied {
    /// They are not: a denial writes nothing.
    #[default]
    No,
    /// As far as the horizon.
    Yes,
    /// Until one unit would have to wait so long: GCRA only.
    UpTo(Duration),
}

/// After how many denials in a row everything is refused, and for how long.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Policy, Quota};
/// let policy = Policy::from(Quota::per_minute(10)).penalty(Duration::from_secs(3_600), 5)?;
/// let penalty = policy.at_limit().penalty.expect("one was set");
/// assert_eq!((penalty.length.as_secs(), penalty.after, penalty.extended), (3_600, 5, false));
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Penalty {
    /// How long.
    pub length: Duration,
    /// After how many denials in a row, at least 1.
    pub after: u32,
    /// Whether a denial during the penalty moves its end to the same length after itself, if that is later by a
    /// thousandth of the length or more.
    pub extended: bool,
}

/// The largest share by which a limit is softened: to twice itself.
const SOFT_MAX: Percent = Percent::new(100);

impl Policy {
    /// What happens at the limit.
    #[must_use]
    pub const fn at_limit(&self) -> AtLimit {
        self.at_limit
    }

    /// The same policy, its limit softened by a share of itself. See [`AtLimit`].
    ///
    /// # Errors
    /// A share of 0 % or above 100 %; one that is less than a unit of this limit; what then does not fit in a word.
    ///
    /// ```
    /// use tollgate::{Percent, Policy, Quota};
    /// let policy = Policy::from(Quota::per_minute(500)).soft(Percent::new(5))?;
    /// assert_eq!(policy.to_string(), "gcra 500/m soft 5%");
    /// assert!(Policy::from(Quota::per_minute(10)).soft(Percent::new(5)).is_err());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn soft(self, share: Percent) -> Result<Self, PolicyError> {
        if share.is_zero() || share > SOFT_MAX {
            return Err(PolicyError::soft_share(share));
        }
        self.with(AtLimit { soft: share, ..self.at_limit })
    }

    /// The same policy, charging denied requests too: until one unit would have to wait for `most`, or
    /// for the horizon. See [`AtLimit`].
    ///
    /// # Errors
    /// A wait of its own on a window, and what does not fit in a word.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Policy, Quota};
    /// let policy = Policy::from(Quota::per_minute(10)).count_denied(Some(Duration::from_secs(30)))?;
    /// assert_eq!(policy.to_string(), "gcra 10/m count-denied 30s");
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn count_denied(self, most: Option<Duration>) -> Result<Self, PolicyError> {
        let count_denied = most.map_or(CountDenied::Yes, CountDenied::UpTo);
        self.with(AtLimit { count_denied, ..self.at_limit })
    }

    /// The same policy with a penalty of this length after so many denials in a row. See [`AtLimit`].
    ///
    /// # Errors
    /// No denials at all; a length below the horizon; a policy of the calendar or a sliding log; what does not fit in
    /// a word.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Policy, Quota};
    /// let policy = Policy::from(Quota::per_minute(10)).penalty(Duration::from_secs(600), 3)?;
    /// assert_eq!(policy.to_string(), "gcra 10/m penalty 10m after 3");
    /// let policy = Policy::from(Quota::per_minute(10)).extended_penalty(Duration::from_secs(60), 1)?;
    /// assert_eq!(policy.to_string(), "gcra 10/m penalty 1m after 1 extended");
    /// assert!(Policy::from(Quota::per_minute(10)).penalty(Duration::from_secs(59), 3).is_err());
    /// # Ok::<(), tollgate::PolicyError>(())
    /// ```
    pub fn penalty(self, length: Duration, after: u32) -> Result<Self, PolicyError> {
        let penalty = Some(Penalty { length, after, extended: false });
        self.with(AtLimit { penalty, ..self.at_limit })
    }

    /// As [`penalty`](Policy::penalty); and each denial during the penalty moves its end to the same
    /// length after itself, if that is later by a thousandth of the length or more.
    ///
    /// # Errors
    /// As [`penalty`](Policy::penalty).
    pub fn extended_penalty(self, length: Duration, after: u32) -> Result<Self, PolicyError> {
        let penalty = Some(Penalty { length, after, extended: true });
        self.with(AtLimit { penalty, ..self.at_limit })
    }

    /// The same policy with a queue: requests that wait for their turn have so many places, and wait no longer. See
    /// [`AtLimit`].
    ///
    /// A place is that of a unit beyond the burst: with a burst of 1 and requests of one unit, one leaves at once and
    /// `places` wait.
    ///
    /// # Errors
    /// A window, which knows no turns; no places, no time, or no bound at all; a jitter, which is a caller's; what does
    /// not fit in a word.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{KeyedLimiter, ManualClock, Policy, Quota, Wait};
    /// let queue = Wait::at_most(Duration::MAX).behind(50);
    /// let policy = Policy::from(Quota::per_second(5).burst(1)).queue(queue)?;
    /// assert_eq!(policy.to_string(), "gcra 5/s burst 1 queue 50");
    /// let limiter = KeyedLimiter::<str>::builder(policy).clock(ManualClock::new()).build(100)?;
    /// let places = (0..99).filter_map(|_| limiter.entry("alice").reserve(1, Duration::MAX).ok());
    /// let waits: Vec<_> = places.map(|place| place.wait().as_millis()).collect();
    /// assert_eq!((waits.len(), &waits[..3], waits[50]), (51, &[0, 200, 400][..], 10_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn queue(self, wait: Wait) -> Result<Self, PolicyError> {
        self.with(AtLimit { queue: Some(wait), ..self.at_limit })
    }

    /// The same policy, which remembers a charge into debt up to so many times its limit beyond it. See [`AtLimit`].
    ///
    /// # Errors
    /// 0 times; a segmented window or a sliding log; what does not fit in a word.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, ManualClock, Policy, Quota};
    /// let policy = Policy::from(Quota::per_hour(1_000)).debt(100)?;
    /// assert_eq!(policy.to_string(), "gcra 1000/h debt 100x");
    /// let limiter = KeyedLimiter::<str>::builder(policy).clock(ManualClock::new()).build(100)?;
    /// // 300,000 of 1,000 an hour, of which a hundred times 1,000 are remembered beyond the first 1,000.
    /// let forgotten: u64 = (0..1_000).map(|_| limiter.entry("alice").charge(300)).sum();
    /// assert_eq!(forgotten, 300_000 - 101_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn debt(self, times: u32) -> Result<Self, PolicyError> {
        if times == 0 {
            return Err(PolicyError::fixed(
                "a debt of 0 times the limit is none; use at least debt 1x, or leave it out",
            ));
        }
        self.with(AtLimit { debt: times, ..self.at_limit })
    }
}
