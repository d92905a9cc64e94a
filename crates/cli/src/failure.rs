//! The errors that end a command early. Each message says what would have been right.

use std::fmt;
use std::io;

use crate::traffic::TrafficError;
use tollgate_rules::RuleError;
#[cfg(feature = "serve")]
use tollgate_service::AddressError;

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An input could not be opened or read.
    Unreadable {
        /// The file as it was named on the command line.
        file: String,
        /// The system's error.
        error: io::Error,
    },
    /// An input was read and contains nothing useful.
    Useless {
        /// The file as it was named on the command line.
        file: String,
        /// The content that was found, and the content that was expected.
        reason: String,
    },
    /// A picture, a page or a table could not be written.
    Unwritable {
        /// The file as it was named on the command line.
        file: String,
        /// The system's error.
        error: io::Error,
    },
    /// An output would overwrite an input.
    OutputIsInput {
        /// The file as it was named on the command line.
        file: String,
    },
    /// The traffic to simulate cannot be generated.
    Traffic(TrafficError),
    /// More distinct keys than a 32-bit number can count.
    TooManyKeys,
    /// Rule files were refused because of at least one error.
    Rules(Vec<RuleError>),
    /// A directory without rule files.
    NoRules {
        /// The directory as it was named on the command line.
        path: String,
    },
    /// The command line needs a feature that this build does not have.
    #[cfg(not(feature = "serve"))]
    WithoutService {
        /// The argument that needs the feature.
        what: &'static str,
    },
    /// A hash in Redis without rules.
    #[cfg(feature = "serve")]
    NoTexts {
        /// The address of the hash, without a password.
        address: String,
    },
    /// An invalid address.
    #[cfg(feature = "serve")]
    Address(AddressError),
    /// Rules could not be written to Redis.
    #[cfg(feature = "serve")]
    Push(io::Error),
    /// The domain is ambiguous, or does not exist.
    Domain {
        /// The value of `--domain`.
        named: Option<String>,
        /// The domains of the rules.
        known: Vec<String>,
    },
    /// The rules could not decide the requests, for this reason.
    Asking(String),
    /// The address that is given to `tollgate health` cannot be read.
    #[cfg(all(unix, feature = "serve"))]
    HealthAddress { address: String },
    /// The service could not start.
    #[cfg(feature = "serve")]
    Serve(String),
    /// The output could not be written.
    Output(io::Error),
}

impl Failure {
    /// The exit code, which clap also uses for a wrong option. It says that the call must be changed, not repeated.
    pub(crate) const EXIT_CODE: u8 = 2;
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { file, error } => write!(
                f,
                "cannot read {file}: {error}; give a log file, plain or compressed, or - for standard input"
            ),
            Self::Useless { file, reason } => write!(f, "nothing to replay in {file}: {reason}"),
            Self::Unwritable { file, error } => {
                write!(f, "cannot write {file}: {error}; give a file in a directory that exists")
            }
            Self::OutputIsInput { file } => write!(
                f,
                "{file} is to be read and to be written, and would be lost; give another file to write"
            ),
            Self::Traffic(error) => error.fmt(f),
            Self::TooManyKeys => write!(
                f,
                "more than {} different keys; choose a --key that many requests share",
                u32::MAX
            ),
            Self::Rules(errors) => {
                let lines: Vec<String> = errors.iter().map(RuleError::to_string).collect();
                f.write_str(&lines.join("\ntollgate: "))
            }
            Self::NoRules { path } => {
                write!(f, "no rules in {path}: there is no file whose name ends in .yaml or .yml")
            }
            #[cfg(not(feature = "serve"))]
            Self::WithoutService { what } => write!(
                f,
                "{what}: not in this build; add `--features serve` to the `cargo run` or `cargo install` \
                 that it comes from"
            ),
            #[cfg(feature = "serve")]
            Self::NoTexts { address } => {
                write!(f, "no rules in {address}: the hash has no field but version")
            }
            #[cfg(feature = "serve")]
            Self::Address(error) => error.fmt(f),
            #[cfg(feature = "serve")]
            Self::Push(error) => error.fmt(f),
            Self::Domain { named, known } => {
                match named {
                    Some(named) => write!(f, "--domain {}: no such domain", named.escape_debug())?,
                    None => f.write_str("--domain is needed")?,
                }
                match known.as_slice() {
                    [] => f.write_str("; the rules have no domain at all"),
                    _ => write!(f, "; the rules have {}", known.join(", ").escape_debug()),
                }
            }
            Self::Asking(reason) => write!(f, "the rules cannot be asked: {reason}"),
            #[cfg(all(unix, feature = "serve"))]
            Self::HealthAddress { address } => write!(
                f,
                "'{}' is no address; give a host and a port, as in 127.0.0.1:8080",
                address.escape_debug()
            ),
            #[cfg(feature = "serve")]
            Self::Serve(reason) => f.write_str(reason),
            Self::Output(error) => write!(f, "cannot write the report: {error}"),
        }
    }
}
