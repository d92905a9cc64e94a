//! [`TlsError`]: says which file of a listener's certificate is bad, and why.

use std::fmt;
use std::path::PathBuf;

/// The reason why a listener cannot speak TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsError {
    pub(crate) file: PathBuf,
    pub(crate) problem: TlsProblem,
}

/// A problem with a file of a certificate.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use tollgate_service::{Options, StartError, TlsFiles, TlsProblem, start};
/// let files = TlsFiles::new("no/such/tls.crt", "no/such/tls.key");
/// let any = || ([127, 0, 0, 1], 0).into();
/// let options = Options { http: any(), grpc: any(), admin: any(), grpc_tls: Some(files), ..Options::new("rules") };
/// let error = start(options, |_| ()).await.unwrap_err();
/// assert!(error.to_string().starts_with("no/such/tls.crt: cannot be read: "));
/// assert!(matches!(error, StartError::Tls { problem: TlsProblem::Unreadable { .. }, .. }));
/// # });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsProblem {
    /// The file could not be read.
    Unreadable {
        /// The system's error message.
        reason: String,
    },
    /// The file is larger than `most` bytes.
    TooLarge {
        /// The maximum number of bytes.
        most: usize,
    },
    /// The file is damaged.
    Pem {
        /// The parser's message.
        reason: String,
    },
    /// The file contains no certificate.
    NoCertificate,
    /// The file contains no private key.
    NoKey,
    /// The certificate, the key or the client authority is of a kind that is not accepted.
    Refused {
        /// The message of the TLS library.
        reason: String,
    },
    /// The key does not belong to the certificate.
    OtherKey {
        /// The file of the certificate.
        certificate: PathBuf,
    },
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.problem)
    }
}

impl fmt::Display for TlsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { reason } => write!(f, "cannot be read: {reason}"),
            Self::TooLarge { most } => {
                write!(f, "is larger than {most} bytes; give a PEM file with one chain or key")
            }
            Self::Pem { reason } => write!(f, "is no whole PEM file: {reason}"),
            Self::NoCertificate => {
                f.write_str("holds no certificate; give a PEM file with BEGIN CERTIFICATE")
            }
            Self::NoKey => f.write_str(
                "holds no private key; give a PEM file with BEGIN PRIVATE KEY, not encrypted",
            ),
            Self::Refused { reason } => write!(f, "is not accepted: {reason}"),
            Self::OtherKey { certificate } => write!(
                f,
                "is not the key of the certificate in {}; give the two that were made together",
                certificate.display()
            ),
        }
    }
}
