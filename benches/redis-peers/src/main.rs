//! Measures decisions per second against one redis-server, in interleaved rounds: of a plain limiter in Lua, of
//! limitador's storages on Redis, and of Tollgate's modes. It asserts the number of admissions, but no times.
//!
//! ```text
//! apt-get install redis-server libssl-dev
//! cargo run --release --manifest-path benches/redis-peers/Cargo.toml -- --rounds 5
//! ```

#[path = "../../../crates/redis/benches/race/mod.rs"]
mod race;
#[path = "../../../crates/redis/tests/common/server.rs"]
mod server;

use std::collections::HashMap;
use std::sync::Arc;

use limitador::AsyncRateLimiter;
use limitador::limit::{Context, Expression, Limit};
use limitador::storage::AsyncCounterStorage;
use limitador::storage::redis::{AsyncRedisStorage, CachedRedisStorage};
use race::{RaceContender, RaceRow, race};
use server::Server;
use tollgate_redis::Mode;

/// A limit for each window of a second, so high that no contender can use it up.
const LIMIT: u64 = 100_000_000;

/// One limit for each value of `key`, built as in limitador's documentation.
fn limitador(storage: Box<dyn AsyncCounterStorage>) -> RaceContender {
    let limiter = Arc::new(AsyncRateLimiter::new_with_storage(storage));
    let variable = Expression::parse("key").expect("an expression");
    limiter.add_limit(Limit::new("bench", LIMIT, 1, [], [variable]));
    let namespace = Arc::new("bench".into());
    RaceContender::Other(Arc::new(move |key| {
        let (limiter, namespace) = (Arc::clone(&limiter), Arc::clone(&namespace));
        let values = HashMap::from([("key".to_string(), key.to_string())]);
        Box::pin(async move {
            let context = Context::from(values);
            let checked = limiter.check_rate_limited_and_update(&namespace, &context, 1).await;
            !checked.expect("an answer").limited
        })
    }))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let server = Server::start();
    let address = server.address();
    let plain = RaceContender::plain(&address).await;
    let storage = AsyncRedisStorage::new(&address).await.expect("a connection");
    let theirs = limitador(Box::new(storage));
    let storage = CachedRedisStorage::new(&address).await.expect("a connection");
    let cached = limitador(Box::new(storage));
    let (exact, _) = RaceContender::ours(&address, Mode::Exact).await;
    let (leased, _) = RaceContender::ours(&address, Mode::Leased).await;
    let (counted, _) = RaceContender::ours(&address, Mode::Async).await;
    let row = |name, contender: &RaceContender, requests, keys, beside| {
        let contender = contender.clone();
        RaceRow { name, contender, requests, keys, beside }
    };
    let rows = [
        row("plain, one call per check, 1,000 keys", &plain, 500, 1_000, 0),
        row("limitador, AsyncRedisStorage, 1,000 keys", &theirs, 500, 1_000, 0),
        row("exact, 1,000 keys", &exact, 500, 1_000, 0),
        row("plain, one hot key", &plain, 500, 1, 3),
        row("limitador, AsyncRedisStorage, one key", &theirs, 500, 1, 3),
        row("exact, one hot key", &exact, 500, 1, 3),
        row("limitador, CachedRedisStorage, one key", &cached, 5_000, 1, 3),
        row("leased, one hot key", &leased, 100_000, 1, 3),
        row("async, one hot key", &counted, 100_000, 1, 3),
    ];
    race(&rows).await;
}
