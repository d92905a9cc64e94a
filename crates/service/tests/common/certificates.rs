//! Files of certificates, and clients that check them.

#![allow(dead_code)] // each test file uses only a part

#[path = "authority.rs"]
mod authority;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tollgate_service::TlsFiles;

pub(crate) use authority::{Authority, Issued};

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

/// The paths of a test's files. The files do not exist yet.
pub(crate) fn files(test: &str) -> (PathBuf, TlsFiles) {
    let path = crate::common::directory(&format!("tls_{test}"));
    let files = TlsFiles::new(path.join("tls.crt"), path.join("tls.key"));
    (path, files)
}

pub(crate) fn write(path: &Path, text: &str) -> PathBuf {
    fs::write(path, text).expect("a file below target");
    path.to_owned()
}

/// Does a handshake with a server that must be `localhost`; returns the stream, or the error. A client's certificate is
/// checked only after the client has finished its handshake, so the client learns of a refusal only when it reads.
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
