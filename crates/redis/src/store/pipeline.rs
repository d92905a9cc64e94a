//! Sends several calls together to one server.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisError, Value};

use crate::error::{Fault, StoreError};

pub(crate) async fn pipelined(
    connection: &mut MultiplexedConnection,
    calls: &[Cmd],
) -> Vec<Result<Value, StoreError>> {
    let mut pipeline = Pipeline::with_capacity(calls.len());
    for call in calls {
        pipeline.add_command(call.clone());
    }
    match connection.req_packed_commands(&pipeline, 0, calls.len()).await {
        Ok(values) => {
            let mut values = values.into_iter();
            let next = |_| answered(Ok(values.next().ok_or(Fault::Unexpected)?));
            calls.iter().map(next).collect()
        }
        Err(error) => vec![Err(StoreError::of(&error)); calls.len()],
    }
}

/// Converts an error that the server sent in place of a reply to a fault.
pub(crate) fn answered(value: Result<Value, RedisError>) -> Result<Value, StoreError> {
    match value {
        Ok(Value::ServerError(error)) => Err(StoreError::of_server(&error)),
        Ok(value) => Ok(value),
        Err(error) => Err(StoreError::of(&error)),
    }
}
