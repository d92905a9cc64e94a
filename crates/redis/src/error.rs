//! Typed errors: why a limit could not be built, and why the store did not decide.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate::Policy;

/// Why a store or a limit could not be built.
///
/// ```
/// use tollgate_redis::{RedisBuildError, Settings};
/// let error = Settings::new("0/s".parse().unwrap_or("1/s".parse()?)).nodes(0).check().unwrap_err();
/// assert_eq!(error.to_string(), "0 nodes share nothing; use at least 1");
/// # Ok::<(), tollgate::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedisBuildError {
    /// The address, or the certificates given with it, are not valid.
    Address {
        /// Why the address or the certificates are not valid, without any password.
        reason: String,
    },
    /// The store was opened outside of a tokio runtime, which it needs.
    NoRuntime,
    /// A window, or a segment of a window, that is not a whole number of microseconds, the unit of Redis' clock.
    WindowTooFine {
        /// The length of the window or segment.
        window: Duration,
    },
    /// A policy whose numbers exceed 2^53 - 1, even if time is counted in whole seconds.
    TooLarge {
        /// The policy.
        policy: Box<Policy>,
    },
    /// An algorithm that the store's script does not support.
    Unknown {
        /// The policy.
        policy: Box<Policy>,
    },
    /// A policy that works only in the mode [`Mode::Exact`](crate::Mode::Exact), with another mode.
    OnlyExact {
        /// The policy.
        policy: Box<Policy>,
        /// Why.
        reason: &'static str,
    },
    /// The number of nodes is 0.
    NoNodes,
    /// The policy's share for one node cannot be counted.
    Share {
        /// The policy.
        policy: Box<Policy>,
        /// The number of nodes.
        nodes: u64,
        /// Why that share cannot be counted.
        reason: String,
    },
    /// A policy that envoyproxy/ratelimit does not support.
    NotOfEnvoyproxy {
        /// The policy.
        policy: Box<Policy>,
    },
    /// A setting that is out of range.
    Setting {
        /// The name of the setting.
        setting: &'static str,
        /// The values that are accepted.
        accepted: &'static str,
    },
}

impl fmt::Display for RedisBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { reason } => write!(
                f,
                "the address of the store is not understood: {reason}; \
                 write redis://host:port/database, unix:///path, redis+cluster://host:port,host:port or \
                 redis+sentinel://host:port,host:port/name, with rediss for TLS",
            ),
            Self::NoRuntime => {
                f.write_str("a store works on tokio; open it inside of a tokio runtime")
            }
            Self::WindowTooFine { window } => write!(
                f,
                "a window or segment of {window:?} is no whole number of microseconds, which is what \
                 the clock of the store counts; use one that is, or gcra",
            ),
            Self::TooLarge { policy } => write!(
                f,
                "{policy} cannot be computed exactly by a script, whose numbers end at 2^53; \
                 use a smaller burst or limit, a shorter period, or a count that divides it",
            ),
            Self::Unknown { policy } => write!(f, "there is no script for {policy}"),
            Self::OnlyExact { policy, reason } => {
                write!(f, "{policy} needs mode exact (in a rule `accuracy: exact`): {reason}")
            }
            Self::NoNodes => f.write_str("0 nodes share nothing; use at least 1"),
            Self::Share { policy, nodes, reason } => {
                write!(f, "the share of {policy} for one of {nodes} nodes: {reason}")
            }
            Self::NotOfEnvoyproxy { policy } => write!(
                f,
                "{policy} cannot be counted in the keys of envoyproxy/ratelimit; use a fixed window of a second, minute, \
                 hour, day, week, 30 days or 365 days",
            ),
            Self::Setting { setting, accepted } => {
                write!(f, "{setting} is out of range; use {accepted}")
            }
        }
    }
}

impl std::error::Error for RedisBuildError {}

/// The reason why the store did not decide. The request may have been charged nevertheless.
///
/// ```
/// use tollgate_redis::Fault;
/// assert_eq!(Fault::ReadOnly.to_string(), "the server is a read-only replica");
/// assert_eq!(Fault::ALL.len(), 19);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// There was no reply within the deadline.
    Deadline,
    /// The connection is down or does not answer in time; the store is reconnecting in the background.
    Unreachable,
    /// The connection broke while the request was under way.
    Disconnected,
    /// More requests wait for the connection than it can take.
    Overloaded,
    /// The server is a read-only replica.
    ReadOnly,
    /// The server is loading its data.
    Loading,
    /// The server is busy with another client's script.
    Busy,
    /// The server has no memory left for writes.
    OutOfMemory,
    /// The server does not write because it cannot save, or has too few replicas.
    NotDurable,
    /// The key belongs to another node of a cluster.
    Moved,
    /// The cluster does not serve the key, or not at the moment.
    ClusterDown,
    /// The replica has lost its master.
    MasterDown,
    /// The server requires other credentials.
    Unauthenticated,
    /// The user has no right to run the command.
    Forbidden,
    /// The server forgot the script twice in one request.
    NoScript,
    /// The script was stopped, or failed.
    Script,
    /// The server's answer could not be understood.
    Unexpected,
    /// The limits of one request belong to different stores.
    MixedStores,
    /// A limit counts in windows of the calendar, and the clocks of the server and of this node are a whole window
    /// apart.
    ClocksApart,
}

impl Fault {
    /// Every fault, in the order of its counter.
    pub const ALL: [Self; 19] = [
        Self::Deadline,
        Self::Unreachable,
        Self::Disconnected,
        Self::Overloaded,
        Self::ReadOnly,
        Self::Loading,
        Self::Busy,
        Self::OutOfMemory,
        Self::NotDurable,
        Self::Moved,
        Self::ClusterDown,
        Self::MasterDown,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NoScript,
        Self::Script,
        Self::Unexpected,
        Self::MixedStores,
        Self::ClocksApart,
    ];

    /// The fault for a server's error code, which is the first word of its message.
    pub(crate) fn of_code(code: &str) -> Self {
        match code {
            "NOSCRIPT" => Self::NoScript,
            "READONLY" => Self::ReadOnly,
            "LOADING" => Self::Loading,
            "BUSY" | "UNKILLABLE" => Self::Busy,
            "OOM" => Self::OutOfMemory,
            "MISCONF" | "NOREPLICAS" => Self::NotDurable,
            "MOVED" | "ASK" | "CROSSSLOT" => Self::Moved,
            "CLUSTERDOWN" | "TRYAGAIN" => Self::ClusterDown,
            "MASTERDOWN" => Self::MasterDown,
            "NOAUTH" | "WRONGPASS" => Self::Unauthenticated,
            "NOPERM" => Self::Forbidden,
            "ERR" | "EXECABORT" | "NOTBUSY" => Self::Script,
            _ => Self::Unexpected,
        }
    }

    /// The fault for an error of the client library. Behind sentinels or in a cluster, one such error is that no server
    /// was found.
    fn of(error: &redis::RedisError) -> Self {
        const NOBODY: [redis::ErrorKind; 3] = [
            redis::ErrorKind::ClusterConnectionNotFound,
            redis::ErrorKind::MasterNameNotFoundBySentinel,
            redis::ErrorKind::NoValidReplicasFoundBySentinel,
        ];
        match error.code() {
            Some(code) => Self::of_code(code),
            None if error.is_timeout() => Self::Deadline,
            None if error.kind() == redis::ErrorKind::AuthenticationFailed => Self::Unauthenticated,
            None if NOBODY.contains(&error.kind()) => Self::Unreachable,
            None if error.is_io_error() || error.is_unrecoverable_error() => Self::Disconnected,
            None => Self::Unexpected,
        }
    }

    /// Returns true if the request was certainly not carried out: it was not sent, or it was refused before anything
    /// was written.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::Overloaded
                | Self::ReadOnly
                | Self::Loading
                | Self::Busy
                | Self::Moved
                | Self::ClusterDown
                | Self::MasterDown
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "no reply within the deadline",
            Self::Unreachable => "no connection to the store answers in time",
            Self::Disconnected => "the connection to the store broke",
            Self::Overloaded => "too many requests wait for the store",
            Self::ReadOnly => "the server is a read-only replica",
            Self::Loading => "the server is loading its data",
            Self::Busy => "the server is busy with a script",
            Self::OutOfMemory => "the server has no memory left",
            Self::NotDurable => "the server refuses writes that it cannot save or replicate",
            Self::Moved => "the key belongs to another node of the cluster",
            Self::ClusterDown => "the cluster does not serve the key",
            Self::MasterDown => "the replica has lost its master",
            Self::Unauthenticated => "the server refuses the credentials",
            Self::Forbidden => "the server's rules forbid this to the user",
            Self::NoScript => "the server keeps forgetting the script",
            Self::Script => "the server refused the call, or stopped the script",
            Self::Unexpected => "the server answered something else",
            Self::MixedStores => "the limits of one request are not of one store",
            Self::ClocksApart => {
                "the clocks of the server and of this node are a whole window of the calendar apart"
            }
        })
    }
}

impl std::error::Error for Fault {}

/// A fault, and its message from the server, the system, or the client library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreError {
    pub(crate) fault: Fault,
    pub(crate) said: Option<Arc<str>>,
}

/// The maximum length of a message that is kept. It is limited because the message is written to the log in one line.
const WORDS: usize = 300;

impl StoreError {
    /// Converts an error of the client library.
    pub(crate) fn of(error: &redis::RedisError) -> Self {
        Self::said(Fault::of(error), error)
    }

    /// Converts an error that the server sent in place of a reply.
    pub(crate) fn of_server(error: &redis::ServerError) -> Self {
        Self::said(Fault::of_code(error.code()), error)
    }

    fn said(fault: Fault, error: &dyn fmt::Display) -> Self {
        let text = error.to_string();
        let words: String = text.chars().take(WORDS).collect();
        Self { fault, said: Some(words.escape_debug().to_string().into()) }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        Self { fault, said: None }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.said {
            Some(said) => write!(f, "{}: {said}", self.fault),
            None => write!(f, "{}", self.fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_server_are_kept_on_one_line_and_no_more_than_a_log_takes() {
        let said = StoreError::said(Fault::Script, &"ERR a\nb\u{1b}[2J").to_string();
        assert_eq!(said, r"the server refused the call, or stopped the script: ERR a\nb\u{1b}[2J");
        let long = StoreError::said(Fault::Script, &"x".repeat(10_000)).said;
        assert_eq!(long.map(|words| words.len()), Some(WORDS));
    }
}
