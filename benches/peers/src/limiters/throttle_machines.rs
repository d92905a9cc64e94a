//! throttle-machines 0.5. Its manifest asks for Rust 1.99, newer than the compiler of this workspace. So it is measured
//! only on request. Older compilers build it, too, when Cargo is told to ignore that:
//!
//! ```text
//! RUSTFLAGS="--cfg throttle_machines" cargo bench --ignore-rust-version --bench peers
//! ```

use std::hash::Hash;

use super::Boxed;
use crate::drive::Expect;

/// A map of each key's state in 16 shards, each with a lock.
pub(crate) fn keyed<K>(keys: u64, expect: Expect) -> Option<Boxed<K>>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
{
    #[cfg(throttle_machines)]
    {
        // Every shard has room for all keys, because this limiter refuses new keys above its cap. Below the cap it
        // sweeps idle keys.
        let limiter = throttle_machines::KeyedGcra::new(enabled::params(keys, expect))
            .max_keys_per_shard(keys as usize)
            .evict_at(usize::MAX);
        Some(crate::contender::single("throttle-machines", move |key: &K| {
            limiter.check(key).allowed
        }))
    }
    #[cfg(not(throttle_machines))]
    {
        let _ = (keys, expect);
        None
    }
}

/// Its GCRA without keys is a function of a state that the caller keeps, here behind a lock.
pub(crate) fn direct(expect: Expect) -> Option<Boxed<()>> {
    #[cfg(throttle_machines)]
    {
        use std::sync::{Mutex, PoisonError};
        use std::time::Instant;

        use throttle_machines::{Gate, Gcra};

        let params = enabled::params(1, expect);
        let (state, begun) = (Mutex::new(0.0), Instant::now());
        Some(crate::contender::single("throttle-machines", move |()| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let decision = Gcra::check(*state, begun.elapsed().as_secs_f64(), params);
            *state = decision.state;
            decision.allowed
        }))
    }
    #[cfg(not(throttle_machines))]
    {
        let _ = expect;
        None
    }
}

#[cfg(throttle_machines)]
mod enabled {
    use throttle_machines::GcraParams;

    use crate::drive::Expect;
    use crate::limiters::keyed_peers::rate_and_burst;

    pub(super) fn params(keys: u64, expect: Expect) -> GcraParams {
        let (rate, burst, period) = rate_and_burst(keys, expect);
        GcraParams::from_rate(f64::from(rate) / period.as_secs_f64(), burst)
    }
}
