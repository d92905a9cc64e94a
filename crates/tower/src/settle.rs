//! [`Settle`]: corrects the charge of a request once its real cost is known.

use std::sync::{Arc, Mutex, PoisonError};

use tollgate::Permit;
use tollgate_http::headers::PolicyName;
use tollgate_http::keys::Key;

use crate::answer::LimitAnswer;
use crate::gate::Gate;

/// Corrects the charge of a request once its real cost is known. It is in the extensions of every admitted request, if
/// the layer is set to [`settle_later`](crate::RateLimitLayer::settle_later).
///
/// It may be cloned, sent to other threads and used after the response. Each unit is given back at most once, however
/// many clones there are.
///
/// ```
/// use http::Request;
/// use tollgate_tower::gates::Settle;
/// fn answer(request: &Request<()>) -> String {
///     let settle: Option<&Settle> = request.extensions().get();
///     let (text, tokens) = ("...".to_owned(), 120);
/// // The gate has charged 500, as an estimate.
///     settle.map(|settle| settle.refund(500 - tokens));
///     text
/// }
/// # answer(&Request::new(()));
/// ```
#[derive(Clone, Debug)]
pub struct Settle {
    charged: Arc<[GateCharge]>,
}

/// The charge of one gate.
#[derive(Debug)]
pub(crate) struct GateCharge {
    gate: Gate,
    key: Key,
    /// The rest of the permit. Clones may give back at the same moment, so the lock is held while a part is split off.
    permit: Mutex<Option<Permit>>,
}

impl GateCharge {
    pub(crate) fn new(gate: &Gate, key: Key, permit: Option<Permit>) -> Self {
        Self { gate: gate.clone(), key, permit: Mutex::new(permit) }
    }

    fn refund(&self, units: u64) -> u64 {
        let part = {
            let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
            permit.as_mut().map(|permit| permit.split_off(units))
        };
        let entry = self.gate.limit.full_entry(&self.key);
        entry.zip(part).map_or(0, |(entry, part)| entry.refund(part))
    }

    fn charge(&self, units: u64) -> LimitAnswer<u64> {
        self.gate.limit.charge(&self.key, units)
    }
}

impl Settle {
    pub(crate) fn new(charged: impl IntoIterator<Item = GateCharge>) -> Self {
        Self { charged: charged.into_iter().collect() }
    }

    /// Keeps the permit of the only gate, once a request that has waited for its turn there is admitted.
    pub(crate) fn hold(&self, permit: Permit) {
        if let [only] = &*self.charged {
            *only.permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
        }
    }

    /// Gives back up to this many units of each gate's charge, and returns the minimum that any gate took back. Units
    /// that have drained meanwhile cannot be given back. Limits that are kept elsewhere take nothing back: charge less
    /// at first, and the rest with [`charge`](Settle::charge) once it is known.
    ///
    /// ```
    /// use tollgate_tower::gates::Settle;
    /// fn found_in_cache(settle: &Settle) {
    ///     settle.refund(u64::MAX);
    /// }
    /// ```
    #[expect(clippy::must_use_candidate, reason = "how much came back is seldom of interest")]
    pub fn refund(&self, units: u64) -> u64 {
        self.charged.iter().map(|charged| charged.refund(units)).min().unwrap_or(0)
    }

    /// Charges this many more units at each gate, even if they do not fit, and answers with the maximum that any gate
    /// could not charge. Later requests are denied until the debt is paid. [`Entry::charge`](tollgate::Entry::charge)
    /// says how far limits remember a debt. Limits of this process have charged when the call returns; limits that are
    /// kept elsewhere charge while the answer is awaited, one after the other.
    ///
    /// ```
    /// use tollgate_tower::gates::Settle;
    /// async fn after_the_answer(settle: &Settle, tokens: u64, estimate: u64) -> u64 {
    ///     settle.charge(tokens.saturating_sub(estimate)).wait().await
    /// }
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge(&self, units: u64) -> LimitAnswer<u64> {
        let (mut most, mut later) = (0, Vec::new());
        for charged in &*self.charged {
            match charged.charge(units) {
                LimitAnswer::Now(left) => most = left.max(most),
                LimitAnswer::Later(left) => later.push(left),
            }
        }
        if later.is_empty() {
            return LimitAnswer::Now(most);
        }
        LimitAnswer::later(async move {
            for left in later {
                most = left.await.max(most);
            }
            most
        })
    }

    /// [`charge`](Settle::charge) at the gate with this name, if it was asked.
    ///
    /// ```
    /// use tollgate_tower::gates::Settle;
    /// // At a limit of this process the answer is there now.
    /// fn after_the_answer(settle: &Settle, tokens: u64) -> Option<u64> {
    ///     settle.charge_at("tokens", tokens)?.now()
    /// }
    /// ```
    #[must_use = "what was not charged is not limited"]
    pub fn charge_at(&self, gate: &str, units: u64) -> Option<LimitAnswer<u64>> {
        self.named(gate).map(|charged| charged.charge(units))
    }

    /// [`refund`](Settle::refund) at the gate with this name, if it was asked.
    ///
    /// ```
    /// use tollgate_tower::gates::Settle;
    /// fn after_the_answer(settle: &Settle, unused: u64) -> Option<u64> {
    ///     settle.refund_at("tokens", unused)
    /// }
    /// ```
    #[expect(clippy::must_use_candidate, reason = "how much came back is seldom of interest")]
    pub fn refund_at(&self, gate: &str, units: u64) -> Option<u64> {
        self.named(gate).map(|charged| charged.refund(units))
    }

    fn named(&self, name: &str) -> Option<&GateCharge> {
        self.charged.iter().find(|charged| charged.gate.name.as_str() == name)
    }
}

/// A mark in the extensions of a request that shadow gates would have denied, with the names of these gates. See
/// [`Gate::shadow`].
///
/// ```
/// use http::Request;
/// use tollgate_tower::gates::Shadowed;
/// fn is_above_the_new_limit(request: &Request<()>) -> bool {
///     request.extensions().get::<Shadowed>().is_some()
/// }
/// # is_above_the_new_limit(&Request::new(()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// The gates that would have denied.
    pub by: Vec<PolicyName>,
}

impl Shadowed {
    /// Returns `None` if there are no names.
    pub(crate) fn by(names: impl Iterator<Item = PolicyName>) -> Option<Self> {
        let by: Vec<_> = names.collect();
        (!by.is_empty()).then_some(Self { by })
    }
}
