//! [`Tls`]: a listener's certificate, key and client authority, kept up to date with their files.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::tls_error::{TlsError, TlsProblem};

/// The maximum size of a file. A chain of a few certificates has some kilobytes; a bundle of all public authorities has
/// less than this.
const MAX_BYTES: usize = 1 << 20;

/// The files of a TLS listener, in PEM. They are read again when they change. New connections then get the new
/// certificate; if the new files are bad, they get the last good certificate.
///
/// ```
/// use tollgate_service::TlsFiles;
/// let files = TlsFiles::new("tls.crt", "tls.key");
/// assert!(files.client_ca.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by the intermediate certificates up to an authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities of clients' certificates. If set, every client must have a certificate from one of these
    /// authorities.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// A certificate and its key. Clients need no certificate.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into(), client_ca: None }
    }

    /// All files that are set.
    pub(super) fn all(&self) -> impl Iterator<Item = &Path> {
        [&self.certificate, &self.key].into_iter().chain(&self.client_ca).map(PathBuf::as_path)
    }
}

/// The current configuration of a listener's handshakes.
pub(crate) struct Tls {
    files: TlsFiles,
    /// The protocol that the handshake negotiates (ALPN).
    protocol: &'static [u8],
    config: ArcSwap<ServerConfig>,
    /// The last reading of the files. It is locked during a reading; handshakes do not lock it.
    last: Mutex<LastReading>,
}

/// The contents of the files, and the error if these contents are not in force.
struct LastReading {
    texts: Result<Texts, TlsError>,
    refused: Option<TlsError>,
}

/// The contents of the files, in the order of [`TlsFiles::all`].
type Texts = Vec<Vec<u8>>;

/// Omits the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    pub(crate) fn load(files: TlsFiles, protocol: &'static [u8]) -> Result<Self, TlsError> {
        let texts = read(&files)?;
        let config = config(&files, &texts, protocol)?;
        let last = LastReading { texts: Ok(texts), refused: None };
        Ok(Self { files, protocol, config: ArcSwap::from_pointee(config), last: Mutex::new(last) })
    }

    pub(crate) fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Reads the files again; returns whether they have changed, and the error if the present files are not in force.
    pub(crate) fn reload(&self) -> (bool, Result<(), TlsError>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = read(&self.files);
        let has_changed = last.texts != texts;
        if has_changed {
            let config = texts.clone().and_then(|texts| config(&self.files, &texts, self.protocol));
            let refused = config.map(|config| self.config.store(Arc::new(config))).err();
            *last = LastReading { texts, refused };
        }
        (has_changed, last.refused.clone().map_or(Ok(()), Err))
    }

    /// The acceptor for one handshake.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }
}

fn read(files: &TlsFiles) -> Result<Texts, TlsError> {
    files.all().map(read_file).collect()
}

fn read_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    let refused = |problem| TlsError { file: path.to_owned(), problem };
    let unreadable =
        |error: std::io::Error| refused(TlsProblem::Unreadable { reason: error.to_string() });
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_BYTES {
        return Err(refused(TlsProblem::TooLarge { most: MAX_BYTES }));
    }
    Ok(bytes)
}

fn config(files: &TlsFiles, texts: &[Vec<u8>], protocol: &[u8]) -> Result<ServerConfig, TlsError> {
    let refused = |file: &Path, error: &dyn fmt::Display| {
        let problem = TlsProblem::Refused { reason: error.to_string() };
        TlsError { file: file.to_owned(), problem }
    };
    let (certificate, key) = (&files.certificate, &files.key);
    let chain = certificates(certificate, &texts[0])?;
    let private = private_key(key, &texts[1])?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(certificate, &error))?;
    let builder = match (&files.client_ca, texts.get(2)) {
        (Some(file), Some(text)) => {
            builder.with_client_cert_verifier(client_verifier(file, text, provider)?)
        }
        _ => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, private).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let problem = TlsProblem::OtherKey { certificate: certificate.clone() };
            TlsError { file: key.clone(), problem }
        }
        error => refused(certificate, &error),
    })?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

fn certificates(file: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refused = |problem| TlsError { file: file.to_owned(), problem };
    let found: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, pem::Error>>()
        .map_err(|error| refused(TlsProblem::Pem { reason: error.to_string() }))?;
    if found.is_empty() { Err(refused(TlsProblem::NoCertificate)) } else { Ok(found) }
}

fn private_key(file: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| {
        let problem = match error {
            pem::Error::NoItemsFound => TlsProblem::NoKey,
            error => TlsProblem::Pem { reason: error.to_string() },
        };
        TlsError { file: file.to_owned(), problem }
    })
}

fn client_verifier(
    file: &Path,
    text: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let refused = |reason: String| TlsError {
        file: file.to_owned(),
        problem: TlsProblem::Refused { reason },
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file, text)? {
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    verifier.build().map_err(|error| refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    fn issue(files: &TlsFiles) {
        let names = ["localhost".to_owned()];
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(names).expect("a certificate");
        fs::write(&files.certificate, cert.pem()).expect("a file");
        fs::write(&files.key, signing_key.serialize_pem()).expect("a file");
    }

    #[test]
    fn files_that_turn_bad_leave_the_last_good_certificate_and_are_new_once() {
        let path = std::env::temp_dir().join(format!("tollgate-{}-turn-bad", std::process::id()));
        fs::create_dir_all(&path).expect("a directory for temporary files");
        let files = TlsFiles::new(path.join("tls.crt"), path.join("tls.key"));
        issue(&files);
        let tls = Tls::load(files.clone(), b"h2").expect("good files");
        let first = tls.config.load_full();
        assert_eq!(tls.reload(), (false, Ok(())), "nothing has changed");
        let good = fs::read(&files.certificate).expect("the file");
        fs::write(&files.certificate, &good[..100]).expect("a file");
        let (has_changed, refused) = tls.reload();
        let error = refused.expect_err("half a certificate");
        assert!(has_changed && matches!(error.problem, TlsProblem::Pem { .. }), "{error}");
        assert_eq!(tls.reload(), (false, Err(error)), "still the same");
        fs::remove_file(&files.certificate).expect("the file");
        assert!(matches!(
            tls.reload(),
            (true, Err(TlsError { problem: TlsProblem::Unreadable { .. }, .. }))
        ));
        assert!(Arc::ptr_eq(&tls.config.load_full(), &first));
        // The previous files are in force already, so reading them again changes nothing. A new certificate is
        // accepted.
        fs::write(&files.certificate, &good).expect("a file");
        assert_eq!(tls.reload(), (true, Ok(())));
        issue(&files);
        assert_eq!(tls.reload(), (true, Ok(())));
        assert!(!Arc::ptr_eq(&tls.config.load_full(), &first));
        assert_eq!(tls.config.load().alpn_protocols, [b"h2".to_vec()]);
        let _ = fs::remove_dir_all(&path);
    }
}
