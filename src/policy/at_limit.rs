//! [`AtLimit`]: what a policy does when its limit is reached. The options are checked here, and implemented in
//! `algorithm/at_limit.rs`.

use std::time::Duration;

use super::Policy;
use crate::algorithm::bits_for;
use crate::error::{BuildError, PolicyError};
use crate::percent::Percent;
use crate::wait::Wait;

/// The options of a policy for requests at its limit. With none of these options, a request is denied and nothing
/// else happens.
///
/// L is the limit that the policy names: GCRA's burst, or a window's count. The *horizon* is the time after which no
/// admitted unit counts any more. For GCRA it is the time in which L (or S) units drain. It is W for fixed and
/// segmented windows, windows of the calendar and sliding logs, and 2W for sliding windows.
///
/// * **Soft**, `soft 5%`: the limit is softened to S = floor(L * 105 %). S takes the place of L in the algorithm's test
///   and in its bound; the rate does not change. A request that L alone would have denied is admitted with a mark
///   ([`Permit::is_over`](crate::Permit::is_over)). The answers `limit` and `remaining` refer to L, and `retry_after`
///   refers to S.
/// * **Counting denials**, `count-denied`: a denied request is charged as if it had been admitted, so that a client
///   that keeps sending requests stays denied. The charge is cut so that because of denials a unit never has to wait
///   longer than C, which is the horizon by default. So a client that pauses for C is always admitted again. Under
///   GCRA, TAT = max(TAT, min(max(TAT, now) + cost, now + L - 1 unit + C)), unless that raises it by less than a
///   [granule](#granules). A window has no C: its current count grows by the cost and stops at L. (Under
///   `sliding-window` and `sliding-window exact` the count stops at 2L, since it also has an effect in the next
///   window.) A sliding log records denied units like admitted units, and keeps the newest L (or S) of all these units,
///   to within a [granule](#granules). With this option no more is ever admitted than without it.
/// * **Penalty**, `penalty 10m after 3`, for all algorithms but windows of the calendar and `sliding-log`: from the
///   third denial in a row on, everything is refused for ten minutes. After that the limit is like a limit that was
///   never used. An admission sets the number of denials in a row to 0. Peeks and costs that never fit do not count.
///   With `extended` each denial during the penalty moves the end to ten minutes after that denial, if this is later by
///   a [granule](#granules) or more. A penalty is at least as long as the horizon (plus C, if GCRA counts denials), so
///   after a penalty nothing is admitted that would be denied without the penalty.
///
/// * **Queue**, `queue 50` and `wait 2s`, for GCRA and sliding logs: `reserve`, `queue` and `acquire` promise a turn to
///   at most 50 waiting units, and no turn later than in 2 s. A request that would have to wait longer, or behind more
///   units, is denied at once, even if the caller's [`Wait`](crate::Wait) allows more. Every word, even the word of a
///   key, has room for the whole queue. A check never waits, and a queue does not change its answer.
///
/// * **Debt**, `debt 100x`, for all algorithms but `segmented-window` and `sliding-log`: a
///   [`charge`](crate::Entry::charge) that does not fit is remembered up to 100 times the limit, beyond the limit
///   itself. Without this option, the word of a key under GCRA remembers a debt of one burst beyond the burst, and the
///   count of a window stops at its limit. Under GCRA the debt drains at the rate of the quota, which may take long:
///   for 1000/h, a debt of 100 times the limit takes 100 hours. The current count of a window may reach 101 times the
///   limit. The debt ends when a fixed window or a window of the calendar ends. In a sliding window it also counts in
///   the next window. A check of a key without a debt is decided as without this option. A debt takes room in the word
///   of a key: see *how much debt a word remembers* in the guide. In the spill of a table, where keys share words, this
///   option has no effect on a debt.
///
/// A key of a [`KeyedLimiter`](crate::KeyedLimiter) may be forgotten like any other idle key when its penalty is over
/// by the table's time. A later request with an earlier time is then decided as if it came after the penalty. If a new
/// key is denied only because its request comes late, the denial is not counted, since the key has no word.
///
/// # Granules
/// A denial that is charged is a write, and if many threads write to one word, they contend for its cache line. So a
/// denial is written only if it changes the state by at least a granule:
///
/// * Under GCRA the granule is a thousandth of C, or the time of one unit if that is shorter. Once the debt is full, at
///   most one denial is written in each granule, no matter how many there are. If every denial were charged, the debt
///   would be higher, but always by less than a granule. The difference does not grow over time, so a request is
///   admitted less than a granule earlier than if every denial were charged. A client that requests single units
///   without a pause is still denied all the time, and no more is ever admitted than without `count-denied`. Under
///   `gcra 10/m burst 5 count-denied 30s` the granule is 30 ms. So a client that sends a million requests a second
///   causes 33 writes a second. One unit then waits for more than 29.97 s and at most 30 s.
/// * The end of an extended penalty moves by a thousandth of its length or more, or not at all. So a penalty of ten
///   minutes ends more than 9 min 59.4 s after the last denial, and at most ten minutes after it. A penalty that is not
///   extended lasts for its whole length.
/// * The count of a window is exact. When it has reached its largest value, denials write nothing until the window is
///   over.
/// * A sliding log records no denial as long as all of its units are from the last thousandth of its window. So denials
///   write to each slot at most once in that time. If all denials were recorded, each unit would have a later time, but
///   by less than that thousandth.
///
/// # In all that is built on a limit
/// * Every verb of [`Limiter`](crate::Limiter) and [`KeyedLimiter`](crate::KeyedLimiter) supports all of these options.
///   A denied `take_up_to` or `reserve` counts like a denied check, unless its cost could never fit. A `charge` during
///   a penalty charges nothing, and returns the whole cost. An admission sets the number of denials in a row to 0, even
///   if it is cancelled later. A refund leaves the number unchanged.
/// * [`check_all`](crate::check_all): each limit counts its own denials only.
/// * [`check_or`](crate::Entry::check_or): a request that the other limit admits does not count as denied, is not over
///   the limit, and does not end denials in a row. During a penalty the other limit is not tried.
/// * [`Lease`](crate::Lease): taking a lease counts as one request, and so does each request that the lease passes on
///   to the limiter.
/// * Snapshots include the number of denials in a row and the penalties, so a restart ends neither.
/// * Each of several [tiers](crate::KeyedBuilder::tier) has options of its own. A change of quota keeps denials in a
///   row and penalties ([`set_quota`](crate::Changing)). If a key [moves](crate::Entry::move_to) during a penalty, its
///   whole old limit counts as used.
/// * Stripes and sketches can be soft. They refuse policies that count denials
///   ([`BuildError::Policy`](crate::BuildError::Policy)), because a stripe sees only some of the denials, and cells of
///   a sketch are shared by keys.
///
/// Peeks and costs that never fit write nothing under any of these options. The end of a penalty is rounded up to the
/// resolution of the word. This is a tick for GCRA. For windows it is a power of ten nanoseconds, at most 1/1000 of the
/// window (1/4096 in a [`KeyedLimiter`](crate::KeyedLimiter)).
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
    /// The share by which the limit is softened; 0 % means that it is not soft.
    pub soft: Percent,
    /// Says if denied requests are charged, and up to what wait.
    pub count_denied: CountDenied,
    /// The penalty that follows several denials in a row.
    pub penalty: Option<Penalty>,
    /// How long requests may wait for their turn, and behind how many units.
    pub queue: Option<Wait>,
    /// The largest debt from a charge beyond the limit, as a multiple of the limit. If it is 0, the debt under GCRA is
    /// bounded only by the room in the word, which is at least one burst, and a window has no debt.
    pub debt: u32,
}

impl AtLimit {
    /// True if a check at the limit is only denied. Queues and debts do not matter here, since a check ignores them.
    pub(crate) fn is_plain(&self) -> bool {
        Self { queue: None, ..self.without_debt() } == Self::default()
    }

    /// The same options without the debt, which only charges use.
    pub(crate) fn without_debt(&self) -> Self {
        Self { debt: 0, ..*self }
    }

    /// A key's word under GCRA can hold at least this multiple of the limit: the limit itself and the debt beyond it.
    pub(crate) fn bursts(&self) -> u64 {
        1 + u64::from(self.debt.max(1))
    }

    /// The width of the field that counts denials in a row; 0 without a penalty.
    pub(crate) fn denial_bits(&self) -> u32 {
        self.penalty.map_or(0, |penalty| u32::from(bits_for(penalty.after.into())))
    }

    /// The length of the penalty, cut to the longest time; 0 without a penalty.
    pub(crate) fn penalty_ns(&self) -> u64 {
        let length_ns = self.penalty.map_or(0, |penalty| penalty.length.as_nanos());
        u64::try_from(length_ns).unwrap_or(u64::MAX)
    }
}

/// Refuses all options but a soft limit. This is for stores in which a denial or a turn cannot be attributed to one key
/// or caller.
pub(crate) fn is_soft_at_most(of: Policy, why: &str, other: &str) -> Result<(), BuildError> {
    let soft = AtLimit { soft: of.at_limit.soft, ..AtLimit::default() };
    if of.at_limit == soft {
        return Ok(());
    }
    let (why, but) = match of.at_limit.queue {
        Some(_) if of.at_limit == (AtLimit { queue: of.at_limit.queue, ..soft }) => {
            ("no verb waits for a turn here", "queue and wait")
        }
        // A debt of a stripe is bounded by the room in its word, and the cells of a sketch or a spill are shared by
        // keys.
        None if of.at_limit.without_debt() == soft => {
            ("how far a debt is remembered is not said by the policy here", "debt")
        }
        _ => (why, "all but soft"),
    };
    Err(BuildError::Policy(format!(
        "{why}, so {of} cannot be kept; leave out {but}, or use a {other}"
    )))
}

/// Says if denied requests are charged, and up to what wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CountDenied {
    /// Denied requests are not charged: a denial writes nothing.
    #[default]
    No,
    /// Denied requests are charged, up to a debt with which one unit has to wait for the horizon.
    Yes,
    /// Denied requests are charged, up to a debt with which one unit has to wait for this time. Only for GCRA.
    UpTo(Duration),
}

/// A time for which every request is refused, after a number of denials in a row.
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
    /// The time for which every request is refused.
    pub length: Duration,
    /// The number of denials in a row that begins the penalty, at least 1.
    pub after: u32,
    /// If true, a denial during the penalty moves the end to `length` after that denial, if this is later by a
    /// thousandth of the length or more.
    pub extended: bool,
}

/// The largest share by which a limit can be softened, which doubles the limit.
const SOFT_MAX: Percent = Percent::new(100);

impl Policy {
    /// The options for requests at the limit.
    #[must_use]
    pub const fn at_limit(&self) -> AtLimit {
        self.at_limit
    }

    /// The same policy with its limit softened by a share. See [`AtLimit`].
    ///
    /// # Errors
    /// Returns an error if the share is 0 % or above 100 %, if it is less than a unit of this limit, or if the policy
    /// no longer fits in a word.
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

    /// The same policy, but denied requests are also charged, up to a debt with which one unit has to wait for `most`,
    /// or for the horizon if `most` is `None`. See [`AtLimit`].
    ///
    /// # Errors
    /// Returns an error if `most` is given for a window, or if the policy no longer fits in a word.
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

    /// The same policy with a penalty of this length after this number of denials in a row. See [`AtLimit`].
    ///
    /// # Errors
    /// Returns an error if the number of denials is 0, if the length is below the horizon, if the policy is a window of
    /// the calendar or a sliding log, or if the policy no longer fits in a word.
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

    /// Like [`penalty`](Policy::penalty), but each denial during the penalty moves its end to `length` after that
    /// denial, if this is later by a thousandth of the length or more.
    ///
    /// # Errors
    /// As [`penalty`](Policy::penalty).
    pub fn extended_penalty(self, length: Duration, after: u32) -> Result<Self, PolicyError> {
        let penalty = Some(Penalty { length, after, extended: true });
        self.with(AtLimit { penalty, ..self.at_limit })
    }

    /// The same policy with a queue. The queue bounds the number of waiting units, or the time of their wait, or both.
    /// See [`AtLimit`].
    ///
    /// Each unit beyond the burst takes one place: with a burst of 1 and requests of one unit, one request proceeds at
    /// once and `places` requests wait.
    ///
    /// # Errors
    /// Returns an error if the policy is a window, which has no turns; if the queue has no places, no time, or no bound
    /// at all; if it has a jitter, which only a caller can choose; or if the policy no longer fits in a word.
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

    /// The same policy, with a debt beyond the limit of up to `times` times the limit. See [`AtLimit`].
    ///
    /// # Errors
    /// Returns an error if `times` is 0, if the policy is a segmented window or a sliding log, or if the policy no
    /// longer fits in a word.
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
