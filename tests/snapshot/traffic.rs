//! Audits of snapshots taken while threads charge. Every admission that was known before a snapshot began must be in it
//! or have drained, and no admission may be in it that was never made.
//!
//! All stamps come from one counter. An admission is stamped after its answer is known, and a snapshot before it
//! begins. So an admission with a smaller stamp was charged before the snapshot. Requests are also stamped before they
//! are made, and a snapshot is stamped when it has ended. So a request that was stamped after the end of a snapshot
//! cannot be in that snapshot.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use tollgate::{KeyedLimiter, ManualClock, Timestamp, WhenFull};

use crate::common::policy;

const THREADS: u64 = 3;
const SNAPSHOTS: u64 = 40;

/// One admission.
#[derive(Clone, Copy, Debug)]
struct Admission {
    key: u64,
    now_ns: u64,
    cost: u64,
    asked: u64,
    told: u64,
}

/// A snapshot, with the stamps of its beginning and its end.
struct Taken {
    file: Vec<u8>,
    began: u64,
    ended: u64,
}

/// Threads charge at their own times while snapshots are taken. `request` returns a thread's nth key, now and cost.
/// Neither the threads nor the snapshots get ahead of each other by more than two fortieths of the run, however busy
/// the machine is.
fn run(
    table: &KeyedLimiter<u64>,
    requests: u64,
    request: impl Fn(u64, u64) -> (u64, u64, u64) + Sync,
) -> (Vec<Admission>, Vec<Taken>) {
    let (stamps, allowed) = (AtomicU64::new(0), AtomicU64::new(0));
    let stamp = || stamps.fetch_add(1, SeqCst);
    let work = |thread: u64| {
        let mut admitted = Vec::new();
        for nth in 0..requests {
            while stamps.load(SeqCst) >= allowed.load(SeqCst) {
                thread::yield_now();
            }
            let (key, now_ns, cost) = request(thread, nth);
            let asked = stamp();
            if table.entry(&key).at(Timestamp::from_nanos(now_ns)).check_n(cost).is_allowed() {
                admitted.push(Admission { key, now_ns, cost, asked, told: stamp() });
            }
        }
        admitted
    };
    let step = THREADS * requests / SNAPSHOTS;
    let snapshot = |nth: u64| {
        while stamps.load(SeqCst) < nth * step {
            thread::yield_now();
        }
        allowed.store((nth + 2) * step, SeqCst);
        let (began, mut file) = (stamp(), Vec::new());
        table.snapshot(&mut file).unwrap();
        Taken { file, began, ended: stamp() }
    };
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || work(n))).collect();
        let taken = (0..SNAPSHOTS).map(snapshot).collect();
        allowed.store(u64::MAX, SeqCst);
        (threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect(), taken)
    })
}

fn restore(text: &str, file: &[u8]) -> KeyedLimiter<u64> {
    KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).restore(file).unwrap()
}

fn mixed(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33
}

/// The units that a key was admitted in those admissions for which `is_in` is true.
fn units(admitted: &[Admission], key: u64, is_in: impl Fn(&Admission) -> bool) -> u64 {
    admitted.iter().filter(|one| one.key == key && is_in(one)).map(|one| one.cost).sum()
}

const KEYS: u64 = 40;
const STILL: &str = "gcra 1/30d burst 30000";

/// A run at one instant, in which nothing drains, so every unit can be counted.
fn charges_at_one_instant() -> (Vec<Admission>, Vec<Taken>) {
    let table =
        KeyedLimiter::builder(policy(STILL)).clock(ManualClock::new()).build(3_000).unwrap();
    run(&table, 30_000, |thread, nth| {
        (mixed(nth * THREADS + thread) % KEYS, 5_000_000_000, 1 + nth % 3)
    })
}

#[test]
fn every_charge_before_the_snapshot_is_in_it_and_none_that_was_asked_for_after() {
    let (admitted, taken) = charges_at_one_instant();
    for Taken { file, began, ended } in &taken {
        let restored = restore(STILL, file);
        for key in 0..KEYS {
            let left = restored.entry(&key).at(Timestamp::from_secs(5)).peek(0).remaining();
            let charged = 30_000 - left;
            let least = units(&admitted, key, |one| one.told < *began);
            let most = units(&admitted, key, |one| one.asked < *ended);
            assert!(least <= charged && charged <= most, "{least} <= {charged} <= {most}");
        }
    }
}

#[test]
fn a_snapshot_of_an_earlier_moment_is_caught() {
    // This is a control: each snapshot is judged as if it had begun when the second snapshot after it began.
    let (admitted, taken) = charges_at_one_instant();
    let lost = taken.iter().zip(taken.iter().skip(2)).any(|(earlier, later)| {
        let restored = restore(STILL, &earlier.file);
        (0..KEYS).any(|key| {
            let left = restored.entry(&key).at(Timestamp::from_secs(5)).peek(0).remaining();
            units(&admitted, key, |one| one.told < later.began) > 30_000 - left
        })
    });
    assert!(lost);
}

#[test]
fn in_a_storm_of_reclaims_nothing_that_has_not_drained_is_lost() {
    // There are far more keys than cells, debts last for milliseconds, times leap by whole epochs, and some requests
    // are late. So words are forgotten and move all the time, and floors advance. Most keys are in none of the
    // snapshots.
    let text = "gcra 1000/s burst 2";
    let table = KeyedLimiter::builder(policy(text)).clock(ManualClock::new()).build(60).unwrap();
    // The threads ask for more than a burst at once, at times further apart than a burst takes to drain. A spill
    // promises nothing for such requests.
    let table = table.when_full(WhenFull::Deny).unwrap();
    let (admitted, taken) = run(&table, 60_000, |thread, nth| {
        let leap_ns = nth / 5_000 * 100_000_000_000;
        let late_ns = if nth % 50 == 0 { 3_000_000 } else { 0 };
        let now_ns = 1_000_000_000 + leap_ns + nth * 20_000 + mixed(nth ^ thread << 20) % 2_000_000;
        (mixed(nth * THREADS + thread) % 300, now_ns - late_ns, 1 + nth % 2)
    });
    assert!(admitted.len() > 1_000);
    for Taken { file, began, .. } in &taken {
        // The restore also checks that no key is there twice and that no install is unfinished.
        let restored = restore(text, file);
        let mut before: Vec<_> = admitted.iter().filter(|one| one.told < *began).collect();
        before.sort_unstable_by_key(|one| (one.key, one.now_ns));
        for of_key in before.chunk_by(|one, other| one.key == other.key) {
            // The debt is measured by the time until it has drained. All units that were admitted after an instant
            // drain after that instant. A tick is at most 1/256 of a unit.
            let (mut owed_ns, mut drained_ns) = (0, 0);
            for one in of_key.iter().rev() {
                owed_ns += one.cost * 1_000_000;
                drained_ns = drained_ns.max(one.now_ns + owed_ns);
            }
            let now_ns = of_key[of_key.len() - 1].now_ns;
            let debt_ns = (drained_ns - now_ns).saturating_sub(1_000_000 / 256);
            let most = 2_000_000_u64.saturating_sub(debt_ns) / 1_000_000;
            let key = of_key[0].key;
            let left = restored.entry(&key).at(Timestamp::from_nanos(now_ns)).peek(0).remaining();
            assert!(left <= most, "key {key}: {left} left of {most} at {now_ns}");
        }
    }
}
