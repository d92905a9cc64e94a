//! [`Lend`] and [`RemoteLend`]: lenders that may admit a request which the limit of a gate denies for now.
//!
//! A loan can be given back, so that a request under several gates is charged everywhere or nowhere.

use std::sync::Arc;

use tollgate::{Changing, Denial, Limiter, Permit};

use crate::remote_limit::Answering;

/// A lender for [`Gate::or`](crate::Gate::or): spare capacity that clients share, or a larger account.
///
/// A [`Limiter`] lends if it admits the cost itself. With the feature `elastic` a `tollgate_elastic::SparePool` lends
/// what the server can spare. Either can be in an `Arc`, to be shared with other code.
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_tower::Lend;
/// let reserve = Limiter::new(Quota::per_hour(9));
/// let own = Limiter::new(Quota::per_hour(1));
/// assert!(own.check().is_allowed());
/// let denial = own.check().into_result().expect_err("nothing is left");
/// let loan = reserve.lend(&denial).expect("nine are left");
/// reserve.give_back(loan);
/// assert_eq!(reserve.entry().peek(1).remaining(), 9);
/// ```
pub trait Lend: Send + Sync {
    /// Lends the [cost](Denial::cost) of a request that a limit has denied for now, or returns `None`.
    fn lend(&self, denial: &Denial) -> Option<Permit>;

    /// Takes a loan back, as far as it has not drained since: another gate of the layer has denied the request.
    fn give_back(&self, loan: Permit);
}

impl Lend for Limiter {
    fn lend(&self, denial: &Denial) -> Option<Permit> {
        self.check_n(denial.cost()).into_result().ok()
    }

    fn give_back(&self, loan: Permit) {
        self.entry().refund(loan);
    }
}

#[cfg(feature = "elastic")]
impl Lend for tollgate_elastic::SparePool {
    fn lend(&self, denial: &Denial) -> Option<Permit> {
        self.lend(denial, None)
    }

    fn give_back(&self, loan: Permit) {
        self.give_back(loan, None);
    }
}

impl<L: Lend + ?Sized> Lend for Arc<L> {
    fn lend(&self, denial: &Denial) -> Option<Permit> {
        (**self).lend(denial)
    }

    fn give_back(&self, loan: Permit) {
        (**self).give_back(loan);
    }
}

impl<L: Lend> Lend for Changing<L> {
    fn lend(&self, denial: &Denial) -> Option<Permit> {
        (**self).lend(denial)
    }

    fn give_back(&self, loan: Permit) {
        (**self).give_back(loan);
    }
}

/// A lender for [`Gate::or_elsewhere`](crate::Gate::or_elsewhere), beside a limit that is kept elsewhere.
///
/// With the feature `redis`, `tollgate_redis::SharedPool` lends what all nodes together can spare.
pub trait RemoteLend: Send + Sync {
    /// Lends the [cost](Denial::cost) of a request that a limit has denied for now, or returns `None`. The loan is a
    /// future that gives the units back: it is awaited if another gate of the layer has denied the request, and
    /// otherwise dropped.
    fn lend<'a>(&'a self, denial: &'a Denial) -> Answering<'a, Option<Answering<'static, ()>>>;
}

#[cfg(feature = "redis")]
impl RemoteLend for tollgate_redis::SharedPool {
    fn lend<'a>(&'a self, denial: &'a Denial) -> Answering<'a, Option<Answering<'static, ()>>> {
        Box::pin(async move {
            let (loan, pool) = (self.lend(denial).await?, self.clone());
            let back: Answering<'static, ()> = Box::pin(async move {
                // If the store does not take it back, it stays charged until it drains.
                _ = pool.give_back(loan).await;
            });
            Some(back)
        })
    }
}
