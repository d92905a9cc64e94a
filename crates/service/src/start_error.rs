//! [`StartError`]: the reason why a service did not start.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tollgate::BuildError;
use tollgate_redis::RedisBuildError;
use tollgate_rules::RuleError;

use crate::host_port::HostPort;
use crate::listen::TlsProblem;

/// The reason why a service did not start.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use tollgate_service::{Options, start};
/// let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
/// let address = taken.local_addr().unwrap();
/// let options = Options { http: address.into(), ..Options::new("examples/rules") };
/// let error = start(options, |_| ()).await.unwrap_err();
/// assert!(error.to_string().starts_with(&format!("cannot listen on {address}: ")));
/// # });
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The service cannot listen at an address, for example because it is in use or does not belong to this machine.
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The host name of an address cannot be resolved.
    Resolve {
        /// The address.
        address: HostPort,
        /// The system's error.
        error: io::Error,
    },
    /// A unix socket cannot be created.
    Socket {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file of a certificate is bad.
    Tls {
        /// The file.
        file: PathBuf,
        /// The problem with the file.
        problem: TlsProblem,
    },
    /// The path of the rule files does not exist, or contains no rule files. (A service does start if files contain bad
    /// rules, or if Redis does not answer yet.)
    Rules(RuleError),
    /// The tables cannot be built.
    Build(BuildError),
    /// A file for the connection to the store of [shared limits](crate::Global) cannot be read.
    StoreFile {
        /// The path.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// The address or the settings of the store are refused.
    Store(RedisBuildError),
    /// The keys of envoyproxy/ratelimit were asked for without `compat`. These keys need `compat`, because only then is
    /// each descriptor decided by itself.
    NotCompat,
    /// A state file was asked for although limits are kept in Redis, where they outlive the process anyway.
    State,
    /// The path of the state exists but is not a regular file: reading or writing it might block for ever.
    StateFile {
        /// The path.
        path: PathBuf,
        /// The kind of file, as in `a FIFO`.
        kind: &'static str,
    },
    /// More connections were asked for than the system's limit of file descriptors allows.
    Connections {
        /// The number that was asked for.
        asked: usize,
        /// The maximum.
        most: usize,
        /// The limit of descriptors.
        descriptors: u64,
    },
    /// The options for traces are not valid. (A service does start if the collector does not answer.)
    Traces {
        /// The endpoint, without a password.
        endpoint: String,
        /// The mistake in the endpoint or in the share of traced requests, and the values that would be accepted.
        reason: String,
    },
    /// The system cannot start a thread, for example the thread that reads rules or a thread of connections.
    Thread(io::Error),
    /// The built-in description of the protocol cannot be read, so the build is broken.
    Reflection,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, error } => {
                write!(f, "cannot listen on {address}: {error}; choose another address")
            }
            Self::Resolve { address, error } => write!(
                f,
                "{address} does not resolve: {error}; give a name that does, or an IP address with the port"
            ),
            Self::Socket { path, error } => write!(
                f,
                "cannot listen on {}: {error}; choose a path in a directory that may be written, where no \
                 other service listens",
                path.display()
            ),
            Self::Tls { file, problem } => write!(f, "{}: {problem}", file.display()),
            Self::Rules(error) => error.fmt(f),
            Self::Build(error) => write!(f, "{error}"),
            Self::StoreFile { path, reason } => {
                write!(f, "{}: cannot be read: {reason}", path.display())
            }
            Self::Store(error) => write!(f, "{error}"),
            Self::NotCompat => f.write_str(
                "the keys of envoyproxy/ratelimit are counted as there, each descriptor on its own: give --compat, too",
            ),
            Self::State => f.write_str(
                "limits in Redis outlive this process by themselves; leave out either the state's file or Redis",
            ),
            Self::StateFile { path, kind } => write!(
                f,
                "the state's file {} is {kind}; give a regular file, or a path where none is yet",
                path.display()
            ),
            Self::Connections { asked, most, descriptors } => write!(
                f,
                "{asked} connections are refused: of {descriptors} file descriptors some are kept for the process \
                 itself; use 1 to {most}, or raise the limit (ulimit -n)"
            ),
            Self::Traces { endpoint, reason } => {
                write!(f, "traces cannot be sent to {endpoint}: {reason}")
            }
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::Reflection => f.write_str("the description of the protocol cannot be read"),
        }
    }
}

impl std::error::Error for StartError {}
