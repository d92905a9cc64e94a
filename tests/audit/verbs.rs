//! A ledger: at one instant nothing drains, so the debt is exactly the units that were charged and not given back.

use std::thread;
use std::time::Duration;

use tollgate::{Entry, KeyedLimiter, Limiter, ManualClock};

use crate::common::policy;
use crate::run::{Random, rounds};

const BURST: u64 = 10_000;
const HOUR: Duration = Duration::from_secs(3_600);

/// One limit, in a `Limiter` or in a table.
trait Subject: Sync {
    fn entry(&self) -> Entry<'_>;
}

impl Subject for Limiter {
    fn entry(&self) -> Entry<'_> {
        self.entry()
    }
}

impl Subject for KeyedLimiter<str> {
    fn entry(&self) -> Entry<'_> {
        self.entry("key")
    }
}

/// Runs one thread's share of the requests, and returns the units that stay charged.
fn work(subject: &impl Subject, random: &mut Random, requests: u64) -> i64 {
    let (mut ledger, mut permits) = (0_i64, Vec::new());
    let signed = |units: u64| i64::try_from(units).unwrap();
    for _ in 0..requests {
        let cost = random.below(5) + 1;
        match random.below(8) {
            0 | 1 => permits.extend(subject.entry().check_n(cost).into_result().ok()),
            2 => permits.extend(subject.entry().take_up_to(cost).into_result().ok()),
            3 => ledger += signed(cost - subject.entry().charge(cost)),
            4 => {
                if let Some(place) = subject.entry().reserve(cost, HOUR).ok()
                    && !subject.entry().cancel(place)
                {
                    ledger += signed(cost);
                }
            }
            _ => {
                if let Some(permit) = permits.pop() {
                    let charged = permit.cost();
                    let refunded = subject.entry().refund(permit);
                    assert!(refunded <= charged, "{refunded} of {charged}");
                    ledger += signed(charged - refunded);
                }
            }
        }
    }
    ledger + permits.iter().map(|permit| signed(permit.cost())).sum::<i64>()
}

/// Runs four threads on one limit, and asserts that the debt at the end is exactly the sum of their ledgers.
fn balances(subject: &impl Subject, requests: u64) {
    let ledger: i64 = thread::scope(|scope| {
        let threads: Vec<_> = (1..=4)
            .map(|seed| scope.spawn(move || work(subject, &mut Random::new(seed), requests / 4)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // One unit drains in a second.
    let owed = subject.entry().peek(1).reset_after();
    assert_eq!(
        owed,
        Duration::from_secs(u64::try_from(ledger).unwrap()),
        "the ledger says {ledger}"
    );
}

#[test]
fn what_is_owed_is_what_was_charged_less_what_was_given_back() {
    let text = format!("gcra 1/s burst {BURST}");
    rounds(|decisions| {
        balances(&Limiter::builder(policy(&text)).clock(ManualClock::new()).build(), decisions / 2);
        let table =
            KeyedLimiter::builder(policy(&text)).clock(ManualClock::new()).build(10).unwrap();
        balances(&table, decisions / 2);
        usize::try_from(decisions).unwrap()
    });
}
