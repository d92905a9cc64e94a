//! The same requests over Redis, in each mode. The time is the server's, so all requests come at one instant, under
//! quotas of a day: no unit comes back meanwhile.

use tollgate_redis::{Mode, RedisLimiter, Settings, Store};

use crate::ask::{Answers, Asked, COSTS, Row, at_one_instant};

async fn of_mode(text: &str, mode: Mode, store: &Store) -> Answers {
    let settings = Settings::new(text.parse().unwrap()).name(format!("{text} {mode:?}")).mode(mode);
    let limiter = RedisLimiter::new(store, settings).map_err(|error| error.to_string())?;
    let mut answers = Vec::new();
    for cost in COSTS {
        answers.push(limiter.check_n("a", cost).await.is_allowed());
    }
    Ok(answers)
}

pub(crate) async fn at_each_mode(row: &Row, address: &str) -> Vec<Asked> {
    let text = row.policy.replace("6/m", "6/d").replace("penalty 2m", "penalty 2d");
    let store = Store::with(address, std::time::Duration::from_secs(10), "test").unwrap();
    store.ready().await;
    let mut asked = Vec::new();
    for (place, mode) in
        [("Redis exact", Mode::Exact), ("Redis leased", Mode::Leased), ("Redis async", Mode::Async)]
    {
        let answers = of_mode(&text, mode, &store).await;
        asked.push(Asked { place, answers, reference: at_one_instant(&text) });
    }
    asked
}
