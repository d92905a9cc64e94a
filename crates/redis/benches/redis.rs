//! Decisions per second against one redis-server, in interleaved rounds. The contenders are a plain limiter in Lua with
//! one call per check, as users write it; the mode `exact`; and on a hot key the modes `leased` and `async`. The
//! benchmark asserts how many requests were admitted, but no times. (For limiters of other crates:
//! `benches/redis-peers`.)
//!
//! `cargo bench -p tollgate-redis --bench redis -- --rounds 5`

#![allow(clippy::cast_precision_loss, reason = "figures for people")]

#[path = "../tests/common/mod.rs"]
mod common;
mod race;

use common::server::Server;
use race::{RaceContender, RaceRow, race};
use tollgate_redis::{Mode, Source};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let server = Server::start();
    let address = server.address();
    let plain = RaceContender::plain(&address).await;
    let (exact, exact_store) = RaceContender::ours(&address, Mode::Exact).await;
    let (leased, leased_store) = RaceContender::ours(&address, Mode::Leased).await;
    let (counted, counted_store) = RaceContender::ours(&address, Mode::Async).await;
    let row = |name, contender: &RaceContender, requests, [keys, beside]: [u64; 2]| {
        let contender = contender.clone();
        RaceRow { name, contender, requests, keys, beside: usize::try_from(beside).unwrap_or(0) }
    };
    let rows = [
        row("plain, one call per check, 1,000 keys", &plain, 500, [1_000, 0]),
        row("exact, 1,000 keys", &exact, 500, [1_000, 0]),
        row("plain, one hot key", &plain, 500, [1, 2]),
        row("exact, one hot key", &exact, 500, [1, 2]),
        row("leased, one hot key", &leased, 100_000, [1, 2]),
        row("async, one hot key", &counted, 100_000, [1, 2]),
    ];
    let took = race(&rows).await;
    let stats = exact_store.stats();
    println!("exact: {} calls for {} decisions", stats.calls, stats.allowed(Source::Store));
    let local = [(&leased_store, Source::Lease, took[4]), (&counted_store, Source::Count, took[5])];
    for (store, source, took) in local {
        let (stats, seconds) = (store.stats(), took.as_secs_f64());
        println!(
            "{source:?}: {} leases of {} units in all, {} calls for {} decisions, {:.1} calls/s",
            stats.leases,
            stats.leased,
            stats.calls,
            stats.allowed(source),
            stats.calls as f64 / seconds,
        );
    }
}
