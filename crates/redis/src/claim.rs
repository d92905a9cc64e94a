//! [`RedisClaim`]: one limit, and the cost of a request under it.

use crate::entry::RedisEntry;
use crate::inner::Inner;
use crate::weight::Weight;

/// One of several limits of a request, with the cost under it. It is made by [`RedisEntry::cost`], for
/// [`check_all`](crate::check_all).
#[derive(Clone, Copy, Debug)]
pub struct RedisClaim<'a> {
    pub(crate) entry: RedisEntry<'a>,
    pub(crate) cost: u64,
    group: usize,
    pub(crate) weight: Weight,
}

impl<'a> RedisEntry<'a> {
    /// A claim to this many units of this limit, for a request under several limits: see
    /// [`check_all`](crate::check_all).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tollgate_redis::{RedisLimiter, Settings, Store, check_all};
    /// # let store = Store::open("redis://127.0.0.1:1/")?;
    /// let clients = RedisLimiter::new(&store, Settings::new("10/m".parse()?).name("clients"))?;
    /// let pages = RedisLimiter::new(&store, Settings::new("99/m".parse()?).name("pages"))?;
    /// let claims = [clients.entry("203.0.113.7").cost(1), pages.entry("/search").cost(1)];
    /// assert!(check_all(&claims).await.is_allowed());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cost(self, units: u64) -> RedisClaim<'a> {
        RedisClaim { entry: self, cost: units, group: 0, weight: Weight::Denies }
    }
}

impl<'a> RedisClaim<'a> {
    /// The same claim in another group. A group, such as the limits of one rule, is charged as a whole or not at all,
    /// and its weight says whether it can deny the request. Claims with the same group number and weight are one group.
    /// Without this call a claim is in group 0, of the weight [`Weight::Denies`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate_redis::{RedisLimiter, Settings, Store, Weight, check_all};
    /// let store = Store::open("redis://127.0.0.1:1/")?;
    /// let limiter = |policy: &str| -> Result<_, Box<dyn std::error::Error>> {
    ///     Ok(RedisLimiter::new(&store, Settings::new(policy.parse()?).name(policy))?)
    /// };
    /// let (minute, hour, trial) = (limiter("10/m")?, limiter("99/h")?, limiter("2/m")?);
    /// let tried = trial.entry("alice").cost(3).in_group(1, Weight::Counts);
    /// let joint = check_all(&[minute.entry("alice").cost(3), hour.entry("alice").cost(3), tried]).await;
    /// let over: Vec<bool> = joint.decisions().iter().map(|one| one.is_denied()).collect();
    /// assert_eq!((joint.is_allowed(), over), (true, vec![false, false, true]));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn in_group(self, number: usize, weight: Weight) -> Self {
        Self { group: number, weight, ..self }
    }

    pub(crate) fn inner(&self) -> &'a Inner {
        self.entry.inner()
    }

    pub(crate) fn is_grouped_with(&self, next: &Self) -> bool {
        (self.group, self.weight) == (next.group, next.weight)
    }

    /// Whether both claims have the same limit and the same key.
    pub(crate) fn has_limit_of(&self, other: &Self) -> bool {
        std::ptr::eq(self.inner(), other.inner()) && self.entry.key == other.entry.key
    }

    /// Whether the claim only counts, and never denies the request.
    pub(crate) fn is_tried(&self) -> bool {
        self.weight == Weight::Counts
    }
}
