//! The same requests over Redis, in each mode. The time is the server's, so all requests come at one instant, under
//! quotas of a day: no unit comes back meanwhile.

use std::time::Duration;

use tollgate_redis::{Mode, RedisLimiter, Settings, Store, check_all};

use crate::ask::{Asked, COSTS, Row, at_one_instant};
use crate::decided::Answers;

async fn of_mode(text: &str, mode: Mode, store: &Store) -> Answers {
    let settings = Settings::new(text.parse().unwrap()).name(format!("{text} {mode:?}")).mode(mode);
    let limiter = RedisLimiter::new(store, settings).map_err(|error| error.to_string())?;
    let mut answers = Vec::new();
    let waits = limiter.policy().at_limit().queue.is_some();
    for cost in COSTS {
        answers.push(match waits {
            true => limiter.entry("a").reserve(cost, Duration::MAX).await.is_ok(),
            false => limiter.check_n("a", cost).await.is_allowed(),
        });
    }
    Ok(answers)
}

const MODES: [(&str, Mode); 3] =
    [("Redis exact", Mode::Exact), ("Redis leased", Mode::Leased), ("Redis async", Mode::Async)];

async fn store(address: &str) -> Store {
    let store = Store::with(address, Duration::from_secs(10), "test").unwrap();
    store.ready().await;
    store
}

pub(crate) async fn at_each_mode(row: &Row, address: &str) -> Vec<Asked> {
    let text = [("6/m", "6/d"), ("penalty 2m", "penalty 2d"), ("wait 25s", "wait 10h")]
        .iter()
        .fold(row.policy.to_owned(), |text, (minutes, day)| text.replace(minutes, day));
    let store = store(address).await;
    let mut asked = Vec::new();
    for (place, mode) in MODES {
        let answers = of_mode(&text, mode, &store).await;
        asked.push(Asked { place, answers, reference: at_one_instant(&text) });
    }
    asked
}

/// Tests charges of all or nothing in each mode, in addition to the modes' own tests.
pub(crate) async fn all_or_nothing_is_as_told(address: &str) {
    let store = store(address).await;
    for (place, mode) in MODES {
        let [wide, tight] = ["5/d", "1/d"].map(|policy| {
            let name = format!("{policy} {mode:?}").replace('/', " ");
            let settings = Settings::new(policy.parse().unwrap()).name(name).mode(mode);
            RedisLimiter::new(&store, settings).unwrap()
        });
        let both = async || {
            check_all(&[wide.entry("a").cost(1), tight.entry("a").cost(1)]).await.is_allowed()
        };
        assert_eq!([both().await, both().await], [true, false], "{place}");
        let left = wide.entry("a").peek(1).await.decision().remaining();
        assert_eq!(left, 4, "{place}: a denied request was charged");
    }
}
