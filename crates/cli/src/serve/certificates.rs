//! The certificates of the addresses, from flags and variables.

use std::path::PathBuf;

use tollgate_service::TlsFiles;

use super::environment::Environment;
use super::given::Given;
use super::setting::{Setting, SettingError, VariableValue, optional};

/// Something of each: a certificate, its key, and the authority of its clients.
#[derive(Clone, Copy)]
struct OfTls<T> {
    certificate: T,
    key: T,
    authority: T,
}

const HTTP: OfTls<&str> = OfTls {
    certificate: "--http-tls-cert",
    key: "--http-tls-key",
    authority: "--http-tls-client-ca",
};
const GRPC: OfTls<&str> = OfTls {
    certificate: "--grpc-tls-cert",
    key: "--grpc-tls-key",
    authority: "--grpc-tls-client-ca",
};
const OF_ENVOYPROXY: OfTls<&str> = OfTls {
    certificate: "GRPC_SERVER_TLS_CERT",
    key: "GRPC_SERVER_TLS_KEY",
    authority: "GRPC_CLIENT_TLS_CACERT",
};

pub(super) fn http_tls(given: &Given) -> Result<Setting<Option<TlsFiles>>, SettingError> {
    let args = &given.args;
    let files = OfTls {
        certificate: args.http_tls_cert.clone(),
        key: args.http_tls_key.clone(),
        authority: args.http_tls_client_ca.clone(),
    };
    of_flags(given, files, HTTP)
}

pub(super) fn grpc_tls(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<Option<TlsFiles>>, SettingError> {
    let args = &given.args;
    let files = OfTls {
        certificate: args.grpc_tls_cert.clone(),
        key: args.grpc_tls_key.clone(),
        authority: args.grpc_tls_client_ca.clone(),
    };
    let of_flags = of_flags(given, files, GRPC)?;
    let uses_tls = environment.truth("GRPC_SERVER_USE_TLS")?.unwrap_or(false);
    let of_variables = if uses_tls && of_flags.value.is_none() {
        let file = |name| environment.text(name).map(PathBuf::from);
        let files = OfTls {
            certificate: file(OF_ENVOYPROXY.certificate),
            key: file(OF_ENVOYPROXY.key),
            authority: file(OF_ENVOYPROXY.authority),
        };
        if files.certificate.is_none() && files.key.is_none() {
            let (found, missing) = ("GRPC_SERVER_USE_TLS".to_owned(), "GRPC_SERVER_TLS_CERT");
            return Err(SettingError::Half { found, missing });
        }
        whole(files, OF_ENVOYPROXY, str::to_owned)?
    } else {
        None
    };
    Ok(optional(of_flags, VariableValue::of("GRPC_SERVER_USE_TLS", of_variables)))
}

fn of_flags(
    given: &Given,
    files: OfTls<Option<PathBuf>>,
    names: OfTls<&'static str>,
) -> Result<Setting<Option<TlsFiles>>, SettingError> {
    let name = |flag: &str| flag.trim_start_matches('-').to_owned();
    let files = whole(files, names, |flag| given.name_of(&name(flag)))?;
    Ok(given.setting(&name(names.certificate), files))
}

/// A certificate with its key. Fails if only one of them is given, or an authority of clients without them. `told`
/// returns the name by which the user has given a setting.
fn whole(
    files: OfTls<Option<PathBuf>>,
    names: OfTls<&'static str>,
    told: impl Fn(&str) -> String,
) -> Result<Option<TlsFiles>, SettingError> {
    let (found, missing) = match (files.certificate, files.key) {
        (None, None) if files.authority.is_none() => return Ok(None),
        (Some(certificate), Some(key)) => {
            let of_server = TlsFiles::new(certificate, key);
            return Ok(Some(TlsFiles { client_ca: files.authority, ..of_server }));
        }
        (Some(_), None) => (names.certificate, names.key),
        (None, Some(_)) => (names.key, names.certificate),
        (None, None) => (names.authority, names.certificate),
    };
    Err(SettingError::Half { found: told(found), missing })
}
