//! [`StartError`]: the reason why a service did not start.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tollgate::BuildError;
use tollgate_rules::RuleError;

use crate::global::GlobalError;
use crate::host_port::HostPort;
use crate::listen::TlsError;
use crate::traces::TracesError;

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
    /// A certificate is bad.
    Tls(TlsError),
    /// The path of the rule files does not exist, or contains no rule files. (A service does start if files contain bad
    /// rules, or if Redis does not answer yet.)
    Rules(RuleError),
    /// The tables cannot be built.
    Build(BuildError),
    /// The limits cannot be kept in the store.
    Global(GlobalError),
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
    Traces(TracesError),
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
            Self::Tls(error) => error.fmt(f),
            Self::Rules(error) => error.fmt(f),
            Self::Build(error) => write!(f, "{error}"),
            Self::Global(error) => write!(f, "{error}"),
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
            Self::Traces(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::Reflection => f.write_str("the description of the protocol cannot be read"),
        }
    }
}

impl std::error::Error for StartError {}
