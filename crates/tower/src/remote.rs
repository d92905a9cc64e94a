//! Limits that are kept elsewhere: the service of a [`RemoteLayer`](crate::RemoteLayer) asks them, and waits.
//!
//! Exemptions, keys, costs, headers, denials, counters and logs are those of any layer (`decide.rs`). The difference is
//! in this file: an answer arrives later, so the request is kept while its gates wait for their answers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrayvec::ArrayVec;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate::{Decision, DecisionSummary, Denial, DenialReason};
use tower_service::Service;

use crate::ask::{Asks, GATES_MAX, GateRequest, asks};
use crate::decide::{GateRules, PassMarks, tier_at};
use crate::deny::Deny;
use crate::extract::Head;
use crate::future::ResponseFuture;
use crate::gate::{GateMode, RemoteGate};
use crate::headers::Stamp;
use crate::joint::GateDecision;
use crate::key::Key;
use crate::observe::GateOutcome;
use crate::place::Remote;
use crate::refusal::Refusal;
use crate::remote_limit::RemoteAsk;
use crate::service::RateLimit;
use crate::settle::{ChargedGate, RemoteSettle, Shadowed};
use crate::shared::LayerState;

type RemoteRequests<'g> = Asks<'g, Remote>;
type RemoteRules = GateRules<Remote>;
type RemoteVerdict<'g> = Result<PassMarks<RemoteSettle>, Box<Refusal<'g>>>;

/// What a gate asks, without a borrow of the gate.
struct WaitingAsk {
    /// The index of the gate in the layer.
    gate: usize,
    key: Key,
    cost: u64,
}

/// The state of a request before any limit is awaited.
enum Question<'g> {
    /// The request was decided at once.
    Told(RemoteVerdict<'g>),
    Ask(Vec<WaitingAsk>),
}

impl RemoteRules {
    fn question(&self, head: &Head<'_>) -> Question<'_> {
        let nothing = PassMarks { stamp: Stamp::NOTHING, settle: None, shadowed: None };
        if self.is_exempt(head) {
            return Question::Told(Ok(nothing));
        }
        let asks = match asks(self.gates.iter(), head) {
            Ok(asks) => asks,
            Err(gate) => return Question::Told(Err(Box::new(gate.refuse_tier()))),
        };
        match asks.as_slice() {
            [] => Question::Told(Ok(nothing)),
            [only] if !only.gate.is_shadow() && only.gate.max_wait().is_none() => {
                let borrows = matches!(only.gate.mode, GateMode::Borrow { .. });
                match only.gate.limit.check_now(&only.key, only.cost) {
                    // A denial is not final yet at a gate that borrows.
                    Some(found) if found.is_allowed() || !borrows => Question::Told(self.verdict(
                        &asks,
                        Some(GateDecision { ask: 0, decision: found }),
                        None,
                    )),
                    _ => Question::Ask(self.waiting(&asks)),
                }
            }
            _ => Question::Ask(self.waiting(&asks)),
        }
    }

    fn waiting(&self, asks: &RemoteRequests<'_>) -> Vec<WaitingAsk> {
        let place = |ask: &GateRequest<'_, _>| {
            self.gates.iter().position(|gate| std::ptr::eq(gate, ask.gate))
        };
        let waiting = |ask: &GateRequest<'_, _>| {
            Some(WaitingAsk { gate: place(ask)?, key: ask.key, cost: ask.cost })
        };
        asks.iter().filter_map(waiting).collect()
    }

    /// Asks the limits, those of shadow gates last and only if the request is admitted.
    async fn ask(&self, waiting: Vec<WaitingAsk>) -> RemoteVerdict<'_> {
        let of = |WaitingAsk { gate, key, cost }| {
            Some(GateRequest { gate: self.gates.get(gate)?, key, cost })
        };
        let requests = waiting.into_iter().filter_map(of);
        let (tried, asks): (Vec<_>, Vec<_>) = requests.partition(|ask| ask.gate.is_shadow());
        let found = decide(&asks).await;
        let mut would_deny = Vec::new();
        if found.as_ref().is_none_or(|found| found.decision.is_allowed()) {
            for ask in &tried {
                if ask.tries(&ask.gate.limit.check(&ask.key, ask.cost).await) {
                    would_deny.push(ask.gate.name.clone());
                }
            }
        }
        self.verdict(&asks, found, Shadowed::by(would_deny.into_iter()))
    }

    /// What becomes of the request by this decision.
    fn verdict<'g>(
        &self,
        asks: &[GateRequest<'g, Remote>],
        found: Option<GateDecision<Decision>>,
        shadowed: Option<Shadowed>,
    ) -> RemoteVerdict<'g> {
        let found = found.and_then(|found| Some((asks.get(found.ask)?, found.decision)));
        let Some((ask, decision)) = found else {
            return Ok(PassMarks { stamp: Stamp::NOTHING, settle: None, shadowed });
        };
        let tier_of = |gate: &RemoteGate| tier_at(asks, gate);
        match &decision {
            Decision::Denied(denial) => {
                Err(Box::new(self.refuse(ask.gate, &ask.key, &tier_of, denial)))
            }
            Decision::Allowed(permit) => {
                asks.iter().for_each(|ask| ask.count(GateOutcome::Allowed));
                let stamp = self.stamp(ask.gate, &tier_of, || permit.summary(), permit.is_over());
                let charged =
                    asks.iter().map(|ask| ChargedGate { gate: ask.gate.clone(), key: ask.key });
                let settle = self.settle.then(|| RemoteSettle::new(charged));
                Ok(PassMarks { stamp, settle, shadowed })
            }
        }
    }
}

/// Charges all limits or none. Returns the decision that is reported; `None` if there are no limits.
///
/// Where the denial is that of a gate that borrows, its part is asked of what it borrows from, and the others again without
/// it. What was lent goes back if one of them denies.
async fn decide(asks: &[GateRequest<'_, Remote>]) -> Option<GateDecision<Decision>> {
    if let [only] = asks
        && let Some(max_wait) = only.gate.max_wait()
    {
        let decision = only.gate.limit.acquire(&only.key, only.cost, max_wait).await;
        return Some(GateDecision { ask: 0, decision });
    }
    let mut places: ArrayVec<usize, GATES_MAX> = (0..asks.len()).collect();
    let mut lent = Vec::new();
    loop {
        let found = charge(asks, &places).await;
        let Some(GateDecision { ask: place, decision: Decision::Denied(denial) }) = found else {
            let lent: Vec<(GateDecision<Decision>, _)> = lent;
            lent.iter().for_each(|(found, _)| asks[found.ask].count(GateOutcome::Borrowed));
            let borrowed = lent.into_iter().map(|(found, _)| found);
            let all = found.into_iter().chain(borrowed);
            return all.min_by_key(|found| found.decision.remaining());
        };
        let loan = match &asks[place].gate.mode {
            // Something else may admit it if the quota alone has denied it. A cost of 0 wants no units.
            GateMode::Borrow { lender }
                if denial.reason() == DenialReason::OverLimit && denial.cost() > 0 =>
            {
                lender.lend(&denial).await
            }
            _ => None,
        };
        let Some(loan) = loan else {
            for (_, back) in lent {
                back.await;
            }
            return found;
        };
        places.retain(|asked| *asked != place);
        lent.push((GateDecision { ask: place, decision: passed_by(&denial) }, loan));
    }
}

/// The same for some of the gates, without borrowing.
async fn charge(
    asks: &[GateRequest<'_, Remote>],
    places: &[usize],
) -> Option<GateDecision<Decision>> {
    let [first, others @ ..] = places else { return None };
    let GateRequest { gate, key, cost } = &asks[*first];
    if others.is_empty() {
        let decision = gate.limit.check(key, *cost).await;
        return Some(GateDecision { ask: *first, decision });
    }
    let asked = |place: &usize| {
        let GateRequest { gate, key, cost } = &asks[*place];
        RemoteAsk { limit: &*gate.limit, key, cost: *cost }
    };
    let several: Vec<_> = places.iter().map(asked).collect();
    let (index, decision) = gate.limit.check_all(&several).await;
    Some(GateDecision { ask: *places.get(index)?, decision })
}

/// The admission of a request that a limit has denied and a lender admits. It has the figures of the limit, as with
/// [`tollgate::Entry::check_or`].
fn passed_by(denial: &Denial) -> Decision {
    DecisionSummary { denied: None, retry_after: None, ..denial.summary() }.into()
}

/// Calls the inner service, or answers in its place.
fn follow<S, D, R, B>(
    inner: &mut S,
    layer: &LayerState<D, Remote>,
    mut request: Request<R>,
    verdict: RemoteVerdict<'_>,
) -> ResponseFuture<S, R, B>
where
    S: Service<Request<R>, Response = Response<B>>,
    D: Deny<B>,
{
    match verdict {
        Ok(marks) => {
            let stamp = marks.note(&mut request);
            ResponseFuture { called: Some(inner.call(request)), stamp, uncalled: None }
        }
        Err(refusal) => ResponseFuture::denied(layer.answer(*refusal, Head::of(&request))),
    }
}

impl<S, D, R, B> Service<Request<R>> for RateLimit<S, D, Remote>
where
    S: Service<Request<R>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    D: Deny<B> + Send + Sync + 'static,
    R: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = RemoteFuture<S, R, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        match shared.rules.question(&Head::of(&request)) {
            Question::Told(verdict) => {
                RemoteFuture::now(follow(&mut self.inner, &shared, request, verdict))
            }
            Question::Ask(waiting) => {
                // Only the instance that was polled ready may be called, so it is moved, and a clone takes its place.
                let clone = self.inner.clone();
                let mut ready = std::mem::replace(&mut self.inner, clone);
                let shared = Arc::clone(&self.shared);
                RemoteFuture::later(Box::pin(async move {
                    let answer = {
                        let verdict = shared.rules.ask(waiting).await;
                        follow(&mut ready, &shared, request, verdict)
                    };
                    answer.await
                }))
            }
        }
    }
}

type RemoteCall<S, R, B> =
    Pin<Box<dyn Future<Output = Result<Response<B>, <S as Service<Request<R>>>::Error>> + Send>>;

pin_project! {
    /// The future that a call of a service behind a [`RemoteLayer`](crate::RemoteLayer) returns.
    pub struct RemoteFuture<S, R, B>
    where
        S: Service<Request<R>>,
    {
        #[pin]
        state: State<S, R, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, R, B>
    where
        S: Service<Request<R>>,
    {
        // Decided at once.
        Now { #[pin] future: ResponseFuture<S, R, B> },
        Later { waiting: RemoteCall<S, R, B> },
    }
}

impl<S: Service<Request<R>>, R, B> RemoteFuture<S, R, B> {
    fn now(future: ResponseFuture<S, R, B>) -> Self {
        Self { state: State::Now { future } }
    }

    fn later(waiting: RemoteCall<S, R, B>) -> Self {
        Self { state: State::Later { waiting } }
    }
}

impl<S, R, B> Future for RemoteFuture<S, R, B>
where
    S: Service<Request<R>, Response = Response<B>>,
{
    type Output = Result<Response<B>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Now { future } => future.poll(cx),
            StateProjection::Later { waiting } => waiting.as_mut().poll(cx),
        }
    }
}

impl<S: Service<Request<R>>, R, B> fmt::Debug for RemoteFuture<S, R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Now { .. } => "now",
            State::Later { .. } => "later",
        };
        f.debug_tuple("RemoteFuture").field(&state).finish()
    }
}
