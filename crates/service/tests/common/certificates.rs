//! Authorities, certificates and clients that check them, all made by the test.

#![allow(dead_code)] // each test file uses only a part

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tollgate_service::TlsFiles;

/// An authority that signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("it signs itself"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for `localhost`.
    pub(crate) fn issue(&self) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        // A different name than its issuer's: otherwise OpenSSL treats it as self-signed.
        params.distinguished_name.push(DnType::CommonName, "localhost");
        let certificate = params.signed_by(&key, &self.0).expect("it signs");
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Issued {
    /// Replaces both files.
    pub(crate) fn write(&self, files: &TlsFiles) {
        fs::write(&files.certificate, &self.certificate).expect("a file below target");
        fs::write(&files.key, &self.key).expect("a file below target");
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("a certificate")
    }
}

/// The paths of a test's files, none of which exists yet.
pub(crate) fn files(test: &str) -> (PathBuf, TlsFiles) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tls_{test}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory below target");
    let files = TlsFiles::new(path.join("tls.crt"), path.join("tls.key"));
    (path, files)
}

pub(crate) fn write(path: &Path, text: &str) -> PathBuf {
    fs::write(path, text).expect("a file below target");
    path.to_owned()
}

/// A handshake as `localhost`; returns the stream, or the error. A client's certificate is checked only after the
/// client has finished its handshake, so its refusal appears when the client reads.
pub(crate) async fn connect(
    address: SocketAddr,
    authority: &Authority,
    client: Option<&Issued>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    let pem = authority.pem();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some(issued) => {
            let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).expect("a key");
            builder.with_client_auth_cert(vec![issued.der()], key).expect("they fit")
        }
    };
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}
