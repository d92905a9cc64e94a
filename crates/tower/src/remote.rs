//! Limits that are kept elsewhere: the service of a [`RemoteLayer`](crate::RemoteLayer) asks them, and waits.
//!
//! What is exempt, which keys and costs, headers, denials, counters and logs are those of any layer (`decide.rs`). Here
//! is what differs: an answer arrives later, so the request waits beside what the gates ask for it.

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
use crate::gate::{Gate, GateMode, RemoteGate};
use crate::headers::Stamp;
use crate::key::Key;
use crate::observe::GateOutcome;
use crate::place::Remote;
use crate::refusal::Refusal;
use crate::remote_limit::RemoteAsk;
use crate::service::RateLimit;
use crate::settle::{RemoteSettle, Shadowed};
use crate::shared::LayerState;

type RemoteRequests<'g> = Asks<'g, Remote>;
type RemoteRules = GateRules<Remote>;
type RemoteVerdict<'g> = Result<PassMarks<RemoteSettle>, Box<Refusal<'g>>>;

/// What the gates ask, without a borrow of the gates: their places in the layer, keys and costs.
type Waiting = Vec<(usize, Key, u64)>;

/// What is known of a request before any limit is asked.
enum Question<'g> {
    /// All that its gates ask can be decided at once.
    Told(RemoteVerdict<'g>),
    Ask(Waiting),
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
                    // A denial is no answer yet.
                    Some(found) if found.is_allowed() || !borrows => {
                        Question::Told(self.verdict(&asks, Some((0, found)), None))
                    }
                    _ => Question::Ask(self.waiting(&asks)),
                }
            }
            _ => Question::Ask(self.waiting(&asks)),
        }
    }

    fn waiting(&self, asks: &RemoteRequests<'_>) -> Waiting {
        let place = |ask: &GateRequest<'_, _>| {
            self.gates.iter().position(|gate| std::ptr::eq(gate, ask.gate))
        };
        asks.iter().filter_map(|ask| Some((place(ask)?, ask.key, ask.cost))).collect()
    }

    /// Asks the limits, those of shadow gates last and only if the request is admitted.
    async fn ask(&self, waiting: Waiting) -> RemoteVerdict<'_> {
        let of = |(place, key, cost)| Some(GateRequest { gate: self.gates.get(place)?, key, cost });
        let requests = waiting.into_iter().filter_map(of);
        let (tried, asks): (Vec<_>, Vec<_>) = requests.partition(|ask| ask.gate.is_shadow());
        let found = decide(&asks).await;
        let mut would_deny = Vec::new();
        if found.as_ref().is_none_or(|(_, decision)| decision.is_allowed()) {
            for ask in &tried {
                if ask.tries(&ask.gate.limit.check(&ask.key, ask.cost).await) {
                    would_deny.push(ask.gate.name.clone());
                }
            }
        }
        self.verdict(&asks, found, Shadowed::by(would_deny.into_iter()))
    }

    /// What becomes of the request by this decision, which is of the ask in this place.
    fn verdict<'g>(
        &self,
        asks: &[GateRequest<'g, Remote>],
        found: Option<(usize, Decision)>,
        shadowed: Option<Shadowed>,
    ) -> RemoteVerdict<'g> {
        let found = found.and_then(|(index, decision)| Some((asks.get(index)?, decision)));
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
                let charged = asks.iter().map(|ask| (Gate::clone(ask.gate), ask.key));
                let settle = self.settle.then(|| RemoteSettle::new(charged));
                Ok(PassMarks { stamp, settle, shadowed })
            }
        }
    }
}

/// Charges all limits or none: which of them is reported, and its decision. `None` if there are none.
///
/// Where the denial is that of a gate that borrows, its part is asked of what it borrows from, and the others again without
/// it. What was lent goes back if one of them denies.
async fn decide(asks: &[GateRequest<'_, Remote>]) -> Option<(usize, Decision)> {
    if let [only] = asks
        && let Some(max_wait) = only.gate.max_wait()
    {
        return Some((0, only.gate.limit.acquire(&only.key, only.cost, max_wait).await));
    }
    let mut places: ArrayVec<usize, GATES_MAX> = (0..asks.len()).collect();
    let mut lent = Vec::new();
    loop {
        let found = charge(asks, &places).await;
        let Some((place, Decision::Denied(denial))) = found else {
            let lent: Vec<(usize, Decision, _)> = lent;
            lent.iter().for_each(|(place, ..)| asks[*place].count(GateOutcome::Borrowed));
            let borrowed = lent.into_iter().map(|(place, decision, _)| (place, decision));
            return found.into_iter().chain(borrowed).min_by_key(|(_, it)| it.remaining());
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
            for (.., back) in lent {
                back.await;
            }
            return found;
        };
        places.retain(|asked| *asked != place);
        lent.push((place, passed_by(&denial), loan));
    }
}

/// The same for the asks in some places, without borrowing.
async fn charge(asks: &[GateRequest<'_, Remote>], places: &[usize]) -> Option<(usize, Decision)> {
    let [first, others @ ..] = places else { return None };
    let GateRequest { gate, key, cost } = &asks[*first];
    if others.is_empty() {
        return Some((*first, gate.limit.check(key, *cost).await));
    }
    let asked = |place: &usize| {
        let GateRequest { gate, key, cost } = &asks[*place];
        RemoteAsk { limit: &*gate.limit, key, cost: *cost }
    };
    let several: Vec<_> = places.iter().map(asked).collect();
    let (index, decision) = gate.limit.check_all(&several).await;
    Some((*places.get(index)?, decision))
}

/// A request that a limit has denied, and something else admits: with the figures of the limit, as
/// [`tollgate::Entry::check_or`] tells them.
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
                // Only the instance that was polled ready may be called, so it is moved and a clone stays.
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
    /// What a call of a service behind a [`RemoteLayer`](crate::RemoteLayer) returns.
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
