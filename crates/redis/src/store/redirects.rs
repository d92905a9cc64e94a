//! [`Redirects`]: connections to the nodes of a cluster that a slot is moving to.
//!
//! While a slot moves, its old node redirects calls for keys that have moved to the new node. The new node takes a call
//! for the slot only directly after the command `ASKING`, so both are sent as one pipeline. The cluster's client sends
//! them one after the other, and a command of another task in between would use up the `ASKING`. The client does not
//! know the new node either, if that has no other slot yet. So these connections are made here when first needed, and
//! kept until they fail.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, RedisError, Value};
use tokio::sync::Mutex;

use crate::error::{Fault, StoreError};
use crate::store::pipeline::pipelined;

type OpenClient = Box<dyn Fn(&str) -> Result<Client, RedisError> + Send + Sync>;

pub(crate) struct Redirects {
    /// Makes a client for a node.
    open: OpenClient,
    connections: Mutex<HashMap<String, MultiplexedConnection>>,
}

impl fmt::Debug for Redirects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redirects")
    }
}

impl Redirects {
    pub(crate) fn new(open: OpenClient) -> Arc<Self> {
        Arc::new(Self { open, connections: Mutex::default() })
    }

    /// Asks a node that the slot is moving to.
    pub(crate) async fn ask(self: &Arc<Self>, node: &str, call: &Cmd) -> Result<Value, StoreError> {
        let (this, name) = (Arc::clone(self), node.to_string());
        // The connection is made in a task of its own: if the caller leaves before it is made, the next caller uses it.
        let connecting = tokio::spawn(async move { this.connection(name).await });
        let mut connection = connecting.await.map_err(|_| Fault::Disconnected)??;
        let mut values = pipelined(&mut connection, &[redis::cmd("ASKING"), call.clone()]).await;
        let value = values.pop().unwrap_or(Err(Fault::Unexpected.into()));
        if value.as_ref().is_err_and(|error| error.fault == Fault::Disconnected) {
            self.connections.lock().await.remove(node);
        }
        value
    }

    async fn connection(&self, node: String) -> Result<MultiplexedConnection, StoreError> {
        let mut connections = self.connections.lock().await;
        if let Some(connection) = connections.get(&node) {
            return Ok(connection.clone());
        }
        let client = (self.open)(&node).map_err(|error| StoreError::of(&error))?;
        let connection = client.get_multiplexed_async_connection().await;
        let connection = connection.map_err(|error| StoreError::of(&error))?;
        connections.insert(node, connection.clone());
        Ok(connection)
    }
}
