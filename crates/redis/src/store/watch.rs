//! Asks the server at intervals how many keys it has evicted.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::error::{Fault, StoreError};
use crate::store::stats::StoreCounters;
use crate::store::wire::Wire;

/// The interval between two readings. A reading takes the server 3 us (`INFO commandstats` of Redis 7.0).
const EVERY: Duration = Duration::from_secs(5);

/// The faults after which no reading on this connection can succeed.
const ENDS: [Fault; 3] = [Fault::Forbidden, Fault::Unexpected, Fault::Disconnected];

/// Reads the number of evictions at intervals, until the connection breaks or its user turns out to have no right to
/// read it. Returns the reason. Because of these readings, the loss of a server is noticed even if no request is sent
/// to it.
pub(crate) async fn watch_evictions(mut wire: Wire, counters: Arc<StoreCounters>) -> StoreError {
    loop {
        match wire.evicted().await {
            Ok(evicted) => counters.evictions.read(evicted),
            Err(error) if ENDS.contains(&error.fault) => return error,
            Err(_) => {} // the next reading may work
        }
        sleep(EVERY).await;
    }
}
