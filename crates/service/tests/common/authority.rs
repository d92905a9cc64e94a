//! Makes an authority and its certificates for tests.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

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
        // The name of the certificate differs from its issuer's name. Otherwise OpenSSL would treat it as self-signed.
        params.distinguished_name.push(DnType::CommonName, "localhost");
        let certificate = params.signed_by(&key, &self.0).expect("it signs");
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}
