//! TLS to a real server, with certificates of authorities that the tests create, and with named users.

use std::path::PathBuf;

use crate::common::server::{Server, free_port};
use crate::common::{PATIENT, degraded_by, limiter};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tollgate_redis::{Fault, Mode, Source, Store, StoreOptions};

/// An authority that signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for `localhost`, and its key.
    fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        // The name must differ from the issuer's name, since OpenSSL otherwise treats the certificate as self-signed.
        params.distinguished_name.push(DnType::CommonName, "localhost");
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// A server with TLS on a second port.
struct Secure {
    server: Server,
    port: u16,
    authority: Authority,
}

/// Starts a server with TLS. `clients` says whether clients must have a certificate, too.
fn secure(test: &str, clients: &str) -> Secure {
    let authority = Authority::new();
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&directory).unwrap();
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (certificate, key) = authority.issue();
    let (certificate, key) = (write("tls.crt", certificate), write("tls.key", key));
    let trusted = write("ca.crt", authority.0.pem());
    let port = free_port();
    let number = port.to_string();
    let settings = [
        ["--tls-port", &number],
        ["--tls-cert-file", &certificate],
        ["--tls-key-file", &key],
        ["--tls-ca-cert-file", &trusted],
        ["--tls-auth-clients", clients],
    ];
    Secure { server: Server::start_with(&settings.concat()), port, authority }
}

impl Secure {
    fn options(&self, login: &str) -> StoreOptions {
        let address = format!("rediss://{login}localhost:{}/", self.port);
        StoreOptions::new(address).deadline(PATIENT).prefix("test")
    }
}

async fn decides(store: &Store) {
    tokio::time::timeout(PATIENT, store.ready()).await.expect("no connection");
    let limiter = limiter(store, "10/h", Mode::Exact, 1);
    let decision = limiter.check("key").await;
    assert_eq!((decision.source(), decision.fault()), (Source::Store, None));
}

/// Waits until an attempt to connect has failed, because the server was not trusted.
async fn refused(store: &Store) {
    degraded_by(store, &Fault::ALL).await;
    assert_eq!(store.stats().connections, 0);
}

#[tokio::test]
async fn a_server_with_a_certificate_of_the_authority_is_believed_and_no_other() {
    let secure = secure("tls_server", "no");
    decides(&secure.options("").trust(secure.authority.0.pem()).open().unwrap()).await;
    refused(&secure.options("").trust(Authority::new().0.pem()).open().unwrap()).await;
    // Without `trust` the test's authority is not trusted.
    refused(&secure.options("").open().unwrap()).await;
    // A certificate for another name is not trusted.
    let address = format!("rediss://127.0.0.1:{}/", secure.port);
    let options = StoreOptions::new(address).trust(secure.authority.0.pem());
    refused(&options.open().unwrap()).await;
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_this_ones() {
    let secure = secure("tls_clients", "yes");
    let options = || secure.options("").trust(secure.authority.0.pem());
    let (certificate, key) = secure.authority.issue();
    decides(&options().identity(certificate, key).open().unwrap()).await;
    refused(&options().open().unwrap()).await;
    let (certificate, key) = Authority::new().issue();
    refused(&options().identity(certificate, key).open().unwrap()).await;
}

/// Bad input 123, over TLS: a user with no rights but to run this script on the store's keys.
#[tokio::test]
async fn bad_input_123_a_user_with_few_rights_is_enough_over_tls() {
    let secure = secure("tls_user", "no");
    let rules = "ACL SETUSER limiter on >a@b/c ~test:* -@all +script|load +evalsha +eval +time +get +set +hello +client";
    secure.server.run::<()>(&rules.split(' ').collect::<Vec<_>>());
    let options = |login: &str| secure.options(login).trust(secure.authority.0.pem());
    decides(&options("limiter:a%40b%2Fc@").open().unwrap()).await;
    let store = options("limiter:wrong@").open().unwrap();
    refused(&store).await;
    assert!(store.stats().faults(Fault::Unauthenticated) > 0);
}
