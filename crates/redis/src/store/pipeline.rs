//! Several calls sent together to one server.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisError, Value};

use crate::error::Fault;

pub(crate) async fn pipelined(
    connection: &mut MultiplexedConnection,
    calls: &[Cmd],
) -> Vec<Result<Value, Fault>> {
    let mut pipeline = Pipeline::with_capacity(calls.len());
    for call in calls {
        pipeline.add_command(call.clone());
    }
    match connection.req_packed_commands(&pipeline, 0, calls.len()).await {
        Ok(values) => {
            let mut values = values.into_iter();
            let next =
                |_| values.next().ok_or(Fault::Unexpected).and_then(|value| answered(Ok(value)));
            calls.iter().map(next).collect()
        }
        Err(error) => vec![Err(Fault::of(&error)); calls.len()],
    }
}

/// An error of the server that came in place of a reply is a fault.
pub(crate) fn answered(value: Result<Value, RedisError>) -> Result<Value, Fault> {
    match value {
        Ok(Value::ServerError(error)) => Err(Fault::of_code(error.code())),
        Ok(value) => Ok(value),
        Err(error) => Err(Fault::of(&error)),
    }
}
