//! Counters and logs name the policy and the outcome, never the client. Each warning is logged once.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{from, gate, keyed, named, one, served, status, with};
use http::Request;
use metrics::{Counter, Gauge, Histogram, KeyName, Metadata, Recorder, SharedString, Unit};
use tollgate::{KeyedLimiter, ManualClock, Quota, WhenFull};
use tollgate_tower::keys::Everyone;
use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};

/// Counters by their names and labels.
#[derive(Default)]
struct Counts(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &metrics::Key, _: &Metadata<'_>) -> Counter {
        let mut name = key.name().to_owned();
        for label in key.labels() {
            write!(name, " {}={}", label.key(), label.value()).unwrap();
        }
        Counter::from_arc(Arc::clone(self.0.lock().unwrap().entry(name).or_default()))
    }

    fn register_gauge(&self, key: &metrics::Key, _: &Metadata<'_>) -> Gauge {
        let name = format!("{} as the bits of a number", key.name());
        Gauge::from_arc(Arc::clone(self.0.lock().unwrap().entry(name).or_default()))
    }

    fn register_histogram(&self, _: &metrics::Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

impl Counts {
    fn above_zero(&self) -> Vec<(String, u64)> {
        let counters = self.0.lock().unwrap();
        let counts = counters.iter().map(|(name, it)| (name.clone(), it.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

#[test]
fn outcomes_are_counted_by_policy_and_the_series_do_not_grow() {
    let _turn = TURNS.lock();
    let counts = Counts::default();
    metrics::with_local_recorder(&counts, || {
        let clock = ManualClock::new();
        let gates = [
            gate("client", keyed("1/h", &clock)),
            Gate::new(one("30/h", &clock), Everyone).named(named("tried")).shadow(),
        ];
        let mut service = served(&RateLimitLayer::all(gates).unwrap());
        for last in 0..50 {
            status(&mut service, from(&format!("203.0.113.{last}")));
        }
        status(&mut service, from("203.0.113.7"));
        status(&mut service, Request::new(()));
    });
    let series = |policy, outcome, count| {
        (format!("tollgate_requests_total policy={policy} outcome={outcome}"), count)
    };
    assert_eq!(
        counts.above_zero(),
        [
            series("client", "allowed", 51),
            series("client", "denied", 1),
            series("client", "no_key", 1),
            series("tried", "allowed", 30),
            series("tried", "shadowed", 21),
        ]
    );
    assert_eq!(counts.0.lock().unwrap().len(), 18);
}

fn two_thousand_clients_ask(layer: &RateLimitLayer) {
    let mut service = served(layer);
    for client in 0..2_000 {
        status(&mut service, from(&format!("203.0.{}.{}", client / 250, client % 250)));
    }
}

#[test]
fn a_layer_records_what_its_tables_hold_when_it_is_asked() {
    let _turn = TURNS.lock();
    let counts = Counts::default();
    metrics::with_local_recorder(&counts, || {
        let clock = ManualClock::new();
        let small = KeyedLimiter::builder(Quota::per_hour(1)).clock(clock).build(1).unwrap();
        let layer = RateLimitLayer::of(gate("crowd", small.when_full(WhenFull::Deny).unwrap()));
        two_thousand_clients_ask(&layer);
        layer.record_tables();
    });
    let counted = counts.above_zero().into_iter().collect::<BTreeMap<_, _>>();
    let live = f64::from_bits(counted["tollgate_table_live as the bits of a number"]);
    let full = counted["tollgate_table_full_total policy=crowd"];
    assert_eq!(full, counted["tollgate_requests_total policy=crowd outcome=table_full"]);
    assert_eq!((live, full), (f64::from(2_000 - u32::try_from(full).unwrap()), full));
}

/// A denial in the spill is counted separately from denials by the client's own count. A request that slept without a
/// place is counted as delayed.
#[test]
fn what_the_spill_denies_and_what_waits_for_a_window_have_outcomes_of_their_own() {
    let _turn = TURNS.lock();
    let counts = Counts::default();
    metrics::with_local_recorder(&counts, || {
        let clock = ManualClock::new();
        let small =
            KeyedLimiter::builder(Quota::per_hour(1)).clock(clock.clone()).build(1).unwrap();
        two_thousand_clients_ask(&RateLimitLayer::of(gate("crowd", small)));
        let window = Gate::new(one("fixed-window 1/s", &clock), Everyone).named(named("window"));
        let sleep = move |pause| {
            clock.advance(pause);
            std::future::ready(())
        };
        let mut service = served(&RateLimitLayer::of(window.delay(Duration::from_secs(9), sleep)));
        for _ in 0..3 {
            assert_eq!(status(&mut service, from("203.0.113.7")), 200);
        }
    });
    let found: Vec<_> = counts
        .above_zero()
        .into_iter()
        .map(|(name, count)| (name.replace("tollgate_requests_total policy=", ""), count))
        .collect();
    let of =
        |name: &str| found.iter().find(|(told, _)| told == name).map_or(0, |(_, count)| *count);
    assert_eq!(of("crowd outcome=allowed") + of("crowd outcome=spilled"), 2_000, "{found:?}");
    assert!(of("crowd outcome=spilled") > 500, "{found:?}");
    assert_eq!([of("window outcome=allowed"), of("window outcome=delayed")], [1, 2]);
}

/// A log call stays off for good if it is first reached while no subscriber listens, so the tests of this file take
/// turns.
static TURNS: Mutex<()> = Mutex::new(());

/// Each event as its level and fields.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push((*event.metadata().level(), text.0));
    }
}

#[test]
fn a_warning_is_told_once_and_a_flood_of_denials_is_no_flood_of_lines() {
    let _turn = TURNS.lock();
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        let clock = ManualClock::new();
        let layer = RateLimitLayer::new(keyed("1/h", &clock), ClientAddress::peer());
        let mut service = served(&layer);
        for _ in 0..500 {
            status(&mut service, with("203.0.113.7", &[("x-forwarded-for", "192.0.2.1\t")]));
            status(&mut service.clone(), Request::new(()));
        }
    });
    let lines = lines.0.lock().unwrap();
    let of = |level| lines.iter().filter(move |line| line.0 == level).map(|line| &*line.1);
    let warnings: Vec<_> = of(Level::WARN).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("forwarding header, which is ignored"));
    assert!(warnings[1].contains("no peer address"));
    // 998 were denied. The log has ten at once and ten a second; a slow machine may take seconds.
    let denials: Vec<_> = of(Level::DEBUG).collect();
    assert!((10..100).contains(&denials.len()), "{}", denials.len());
    for denial in denials {
        assert!(denial.contains("policy=\"default\""), "{denial}");
        assert!(!denial.contains("203.0.113.7") && !denial.contains("192.0.2.1"), "{denial}");
    }
}
