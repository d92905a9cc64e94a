//! [`Wire`]: a connection to a server or to a cluster, and the calls over it.
//!
//! All calls of a batch to one server are sent as one pipeline. In a cluster each call is sent by itself. It is sent
//! again if its slot has moved or is moving, since the keys of a moving slot are partly at one node and partly at
//! another.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{Cmd, Value};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::{Fault, StoreError};
use crate::store::evictions;
use crate::store::pipeline::{answered, pipelined};
use crate::store::redirects::Redirects;

/// The maximum number of times that a call is sent again because its slot was at another node. Normally, fewer are
/// enough to find the slot, or the deadline passes first.
const DIRECTIONS: u32 = 8;

/// A connection. Clones share it.
#[derive(Clone)]
pub(crate) enum Wire {
    One(MultiplexedConnection),
    Cluster {
        connection: ClusterConnection,
        redirects: Arc<Redirects>,
        /// The maximum time of a call, including all redirections.
        within: Duration,
    },
}

impl Wire {
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster { .. })
    }

    /// From now on, waits for replies no longer than `deadline`.
    pub(crate) fn set_deadline(&mut self, deadline: Duration) {
        match self {
            Self::One(connection) => connection.set_response_timeout(deadline),
            Self::Cluster { within, .. } => *within = deadline,
        }
    }

    /// Loads the script into the server, or into the node of the cluster that has the key. Returns the script's
    /// digest.
    pub(crate) async fn load(&mut self, text: &str, key: &[u8]) -> Result<String, StoreError> {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(text);
        let value = match self {
            Self::One(connection) => connection.req_packed_command(&load).await,
            Self::Cluster { connection, .. } => {
                let route =
                    SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master));
                connection.route_command(load, RoutingInfo::SingleNode(route)).await
            }
        };
        match answered(value)? {
            Value::BulkString(digest) => {
                Ok(String::from_utf8(digest).map_err(|_| Fault::Unexpected)?)
            }
            Value::SimpleString(digest) => Ok(digest),
            _ => Err(Fault::Unexpected.into()),
        }
    }

    /// Asks the server how many keys it has evicted since it was started. The nodes of a cluster are not asked.
    pub(crate) async fn evicted(&mut self) -> Result<u64, StoreError> {
        let Self::One(connection) = self else { return Err(Fault::Unexpected.into()) };
        let mut info = redis::cmd("INFO");
        info.arg("stats");
        let value = answered(connection.req_packed_command(&info).await)?;
        let text = redis::from_redis_value::<String>(value).map_err(|_| Fault::Unexpected)?;
        Ok(evictions::of_info(&text).ok_or(Fault::Unexpected)?)
    }

    /// Sends calls, and returns the replies in their order.
    pub(crate) async fn send(&mut self, calls: Vec<Cmd>) -> Vec<Result<Value, StoreError>> {
        match self {
            Self::One(connection) => pipelined(connection, &calls).await,
            Self::Cluster { connection, redirects, within } => {
                each(connection, redirects, *within, calls).await
            }
        }
    }
}

async fn each(
    connection: &ClusterConnection,
    redirects: &Arc<Redirects>,
    within: Duration,
    calls: Vec<Cmd>,
) -> Vec<Result<Value, StoreError>> {
    let mut values = vec![Err(Fault::Disconnected.into()); calls.len()];
    let mut under_way = JoinSet::new();
    for (n, call) in calls.into_iter().enumerate() {
        let (mut connection, redirects) = (connection.clone(), Arc::clone(redirects));
        under_way.spawn(async move {
            let value = timeout(within, followed(&mut connection, &redirects, &call)).await;
            (n, value.unwrap_or(Err(Fault::Deadline.into())))
        });
    }
    while let Some(Ok((n, value))) = under_way.join_next().await {
        values[n] = value;
    }
    values
}

/// Sends a call, and sends it again if its slot is at another node.
async fn followed(
    connection: &mut ClusterConnection,
    redirects: &Arc<Redirects>,
    call: &Cmd,
) -> Result<Value, StoreError> {
    for _ in 0..DIRECTIONS {
        let error = match connection.req_packed_command(call).await {
            Ok(value) => return answered(Ok(value)),
            Err(error) => error,
        };
        match (error.code(), error.redirect_node()) {
            (Some("ASK"), Some((node, _))) => {
                let value = redirects.ask(node, call).await;
                if !value.as_ref().is_err_and(|error| error.fault == Fault::Moved) {
                    return value;
                }
            }
            // The client library has also seen this answer, and reads the nodes of all slots anew.
            (Some("MOVED"), _) => {}
            _ => return Err(StoreError::of(&error)),
        }
    }
    Err(Fault::Moved.into())
}
