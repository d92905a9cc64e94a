//! `tollgate serve --redis`: limits that hold for many nodes.

use std::time::Duration;

use tollgate_service::Global;

/// Limits that hold for all nodes together
#[derive(clap::Args)]
#[command(next_help_heading = "Over many nodes")]
pub(crate) struct RedisArgs {
    /// Keep the limits in Redis, for all nodes that use the same: redis://user:password@host:port/database
    ///
    /// Each rule's `accuracy` says how (exact, or leased: the default), its `on_error` what happens while
    /// Redis does not answer (local: the default, allow, deny).
    #[arg(long, value_name = "URL")]
    redis: Option<String>,

    /// How many nodes share the limits: decides the share of each while Redis does not answer
    #[arg(long, value_name = "NODES", default_value_t = 1, requires = "redis")]
    nodes: u64,

    /// How many milliseconds a request waits for Redis at most
    #[arg(long, value_name = "MS", default_value_t = 5, requires = "redis")]
    redis_deadline: u64,

    /// What all keys in Redis begin with
    #[arg(long, value_name = "TEXT", default_value = "tollgate", requires = "redis")]
    redis_prefix: String,
}

impl RedisArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.redis.is_some()
    }

    pub(crate) fn global(&self) -> Option<Global> {
        self.redis.as_ref().map(|address| Global {
            nodes: self.nodes,
            deadline: Duration::from_millis(self.redis_deadline),
            prefix: self.redis_prefix.clone(),
            ..Global::new(address)
        })
    }
}
