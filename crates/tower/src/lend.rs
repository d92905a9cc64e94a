//! [`Lend`]: a lender that may admit a request which the limit of a gate denies for now.
//!
//! A loan can be given back, so that a request under several gates is charged everywhere or nowhere.

use std::fmt;
use std::sync::Arc;

use tollgate::{Changing, Denial, Limiter, Permit};

use crate::answer::{Later, LimitAnswer};

/// A lender for [`Gate::or`](crate::Gate::or): spare capacity that clients share, or a larger account.
///
/// A [`Limiter`] lends if it admits the cost itself. With the feature `elastic` a `tollgate_elastic::SparePool` lends
/// what the server can spare, and with the feature `redis` a `tollgate_redis::SharedPool` lends what all nodes together
/// can spare. Each of them can be in an `Arc`, to be shared with other code.
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_tower::limits::{Lend, Loan};
/// let reserve = Limiter::new(Quota::per_hour(9));
/// let own = Limiter::new(Quota::per_hour(1));
/// assert!(own.check().is_allowed());
/// let denial = own.check().into_result().expect_err("nothing is left");
/// let loan = reserve.lend(&denial).now().expect("a lender of this process answers now");
/// let Some(Loan::Here(loan)) = loan else { panic!("nine are left") };
/// reserve.give_back(loan);
/// assert_eq!(reserve.entry().peek(1).remaining(), 9);
/// ```
pub trait Lend: Send + Sync {
    /// Lends the [cost](Denial::cost) of a request that a limit has denied for now, or answers `None`.
    fn lend(&self, denial: &Denial) -> LimitAnswer<Option<Loan>>;

    /// Takes a loan of this process back, less the part that has drained since. It is called if another gate of the
    /// layer has denied the request.
    fn give_back(&self, loan: Permit);

    /// Whether every answer is available now. If so, a limit of this process asks the lender while it decides, and
    /// counts no denial if the units are lent; an answer that comes later would be taken for `None`. By default answers
    /// may come later, and the limit decides first.
    fn lends_now(&self) -> bool {
        false
    }
}

/// The units that a lender has lent.
pub enum Loan {
    /// Units of this process. [`Lend::give_back`] takes them back.
    Here(Permit),
    /// Units that are kept elsewhere. The future gives them back: it is awaited if another gate of the layer has denied
    /// the request, and otherwise dropped.
    Elsewhere(Later<()>),
}

impl Loan {
    /// A loan of units that are kept elsewhere, with the future that gives them back.
    pub fn later(back: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::Elsewhere(Box::pin(back))
    }

    /// Gives the units back to the lender.
    pub(crate) async fn back(self, lender: &dyn Lend) {
        match self {
            Self::Here(permit) => lender.give_back(permit),
            Self::Elsewhere(back) => back.await,
        }
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(permit) => f.debug_tuple("Here").field(permit).finish(),
            Self::Elsewhere(_) => f.write_str("Elsewhere"),
        }
    }
}

impl Lend for Limiter {
    fn lend(&self, denial: &Denial) -> LimitAnswer<Option<Loan>> {
        LimitAnswer::Now(self.check_n(denial.cost()).into_result().ok().map(Loan::Here))
    }

    fn give_back(&self, loan: Permit) {
        self.entry().refund(loan);
    }

    fn lends_now(&self) -> bool {
        true
    }
}

#[cfg(feature = "elastic")]
impl Lend for tollgate_elastic::SparePool {
    fn lend(&self, denial: &Denial) -> LimitAnswer<Option<Loan>> {
        LimitAnswer::Now(self.lend(denial, None).map(Loan::Here))
    }

    fn give_back(&self, loan: Permit) {
        self.give_back(loan, None);
    }

    fn lends_now(&self) -> bool {
        true
    }
}

impl<L: Lend + ?Sized> Lend for Arc<L> {
    fn lend(&self, denial: &Denial) -> LimitAnswer<Option<Loan>> {
        (**self).lend(denial)
    }

    fn give_back(&self, loan: Permit) {
        (**self).give_back(loan);
    }

    fn lends_now(&self) -> bool {
        (**self).lends_now()
    }
}

impl<L: Lend> Lend for Changing<L> {
    fn lend(&self, denial: &Denial) -> LimitAnswer<Option<Loan>> {
        (**self).lend(denial)
    }

    fn give_back(&self, loan: Permit) {
        (**self).give_back(loan);
    }

    fn lends_now(&self) -> bool {
        (**self).lends_now()
    }
}
