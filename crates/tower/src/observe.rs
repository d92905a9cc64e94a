//! Counters and logs. They name the policy, never a key, path or client, so that clients cannot create new time series.

#[cfg(feature = "tracing")]
use std::sync::LazyLock;

#[cfg(feature = "tracing")]
use tollgate::{Limiter, Quota};
use tollgate_http::headers::PolicyName;

/// The outcome of a request at one gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateOutcome {
    Allowed,
    Denied,
    /// Denied because the table had no cell for a new key.
    TableFull,
    /// Denied in the spill, the sketch that decides keys for which a full table has no cell. Either the key still has
    /// no cell, or it would get one but its charges in the spill deny it.
    Spilled,
    Delayed,
    /// Let through, although above the limit of a shadow gate.
    Shadowed,
    /// The request had no key of its own. Counted in addition to another outcome.
    NoKey,
    /// Under a tier that the limit does not have: denied or passed on, as the gate is set.
    UnknownTier,
    /// Admitted by the gate's lender. Counted in addition to [`Allowed`](Self::Allowed).
    Borrowed,
}

/// The counters of one gate. They are registered when the first request is counted: by then the application has
/// installed its recorder.
#[derive(Default)]
pub(crate) struct GateTally {
    #[cfg(feature = "metrics")]
    counters: std::sync::OnceLock<[metrics::Counter; 9]>,
    /// Limits the number of denials that are logged.
    #[cfg(feature = "tracing")]
    log: Events,
}

/// The maximum number of log events per second for each gate, so that a flood of requests does not flood the log.
#[cfg(feature = "tracing")]
struct Events(LazyLock<Limiter>);

#[cfg(feature = "tracing")]
impl Default for Events {
    fn default() -> Self {
        const EVENTS: Quota = Quota::per_second(10);
        Self(LazyLock::new(|| Limiter::new(EVENTS)))
    }
}

impl GateTally {
    #[cfg(feature = "metrics")]
    #[inline]
    pub(crate) fn count(&self, name: &PolicyName, outcome: GateOutcome) {
        self.counters.get_or_init(|| register(name))[outcome as usize].increment(1);
    }

    #[cfg(not(feature = "metrics"))]
    #[inline]
    pub(crate) fn count(&self, _: &PolicyName, _: GateOutcome) {}

    /// Logs a request above the limit at the level DEBUG.
    #[cfg(feature = "tracing")]
    pub(crate) fn log(&self, name: &PolicyName, denial: &tollgate::Denial, outcome: GateOutcome) {
        if tracing::enabled!(tracing::Level::DEBUG) && self.log.0.check().is_allowed() {
            let outcome = label(outcome);
            tracing::debug!(policy = name.as_str(), cost = denial.cost(), outcome, "{denial}");
        }
    }

    #[cfg(not(feature = "tracing"))]
    pub(crate) fn log(&self, _: &PolicyName, _: &tollgate::Denial, _: GateOutcome) {}
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
const fn label(outcome: GateOutcome) -> &'static str {
    match outcome {
        GateOutcome::Allowed => "allowed",
        GateOutcome::Denied => "denied",
        GateOutcome::TableFull => "table_full",
        GateOutcome::Spilled => "spilled",
        GateOutcome::Delayed => "delayed",
        GateOutcome::Shadowed => "shadowed",
        GateOutcome::NoKey => "no_key",
        GateOutcome::UnknownTier => "unknown_tier",
        GateOutcome::Borrowed => "borrowed",
    }
}

#[cfg(feature = "metrics")]
fn register(name: &PolicyName) -> [metrics::Counter; 9] {
    const NAME: &str = "tollgate_requests_total";
    metrics::describe_counter!(NAME, "Requests at a limit, by what has become of them.");
    // The names, in the order of the enum.
    [
        GateOutcome::Allowed,
        GateOutcome::Denied,
        GateOutcome::TableFull,
        GateOutcome::Spilled,
        GateOutcome::Delayed,
        GateOutcome::Shadowed,
        GateOutcome::NoKey,
        GateOutcome::UnknownTier,
        GateOutcome::Borrowed,
    ]
    .map(|outcome| metrics::counter!(NAME, "policy" => name.shared(), "outcome" => label(outcome)))
}
