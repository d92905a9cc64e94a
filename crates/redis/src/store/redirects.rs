//! [`Redirects`]: connections to cluster nodes to which a slot is moving.
//!
//! While a slot moves, its old node redirects a call to the new node if the call's key has already moved. Until the
//! move ends, the new node accepts a call for the slot only directly after the command `ASKING`. The client library
//! sends `ASKING` and the call separately, and a command of another task in between would use up the `ASKING`. The
//! library also does not know the new node if that node has no slots yet. So this module makes its own connections to
//! such nodes, and sends both commands as one pipeline. A connection is made when first needed, and kept until it
//! fails.

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
    /// Makes a client for the address of a node.
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

    /// Sends a call to the node to which the call's slot is moving.
    pub(crate) async fn ask(self: &Arc<Self>, node: &str, call: &Cmd) -> Result<Value, StoreError> {
        let (this, name) = (Arc::clone(self), node.to_string());
        // A separate task makes the connection. So it is made even if this future is dropped, and the next caller can
        // use it.
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
