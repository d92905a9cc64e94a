//! The service with limits and rules in Redis, on servers that the tests start.

#[path = "../common/certificates.rs"]
mod certificates;
#[path = "../../../redis/tests/common/cluster.rs"]
mod cluster;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../../redis/tests/common/sentinel.rs"]
mod sentinel;
#[path = "../../../redis/tests/common/server.rs"]
mod server;

mod acts;
mod at_limit;
mod budgets;
mod envoyproxy;
mod global;
mod global_kinds;
mod near_over;
mod reports;
mod resp_clients;
mod rules_redis;
