//! The certificates of the addresses, from flags and variables.

use std::path::PathBuf;

use tollgate_service::TlsFiles;

use super::environment::Environment;
use super::given::Given;
use super::setting::{Setting, SettingError, SettingSource, optional};

/// The flags of a certificate, its key, and the authority of its clients.
type TlsNames = [&'static str; 3];

const HTTP: TlsNames = ["--http-tls-cert", "--http-tls-key", "--http-tls-client-ca"];
const GRPC: TlsNames = ["--grpc-tls-cert", "--grpc-tls-key", "--grpc-tls-client-ca"];
const OF_ENVOYPROXY: TlsNames =
    ["GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY", "GRPC_CLIENT_TLS_CACERT"];

pub(super) fn http_tls(given: &Given) -> Result<Setting<Option<TlsFiles>>, SettingError> {
    let args = &given.args;
    let files = [&args.http_tls_cert, &args.http_tls_key, &args.http_tls_client_ca];
    Ok(optional(of_flags(given, files, HTTP)?, (None, "")))
}

pub(super) fn grpc_tls(
    given: &Given,
    environment: &Environment,
) -> Result<Setting<Option<TlsFiles>>, SettingError> {
    let args = &given.args;
    let files = [&args.grpc_tls_cert, &args.grpc_tls_key, &args.grpc_tls_client_ca];
    let of_flags = of_flags(given, files, GRPC)?;
    let uses_tls = environment.truth("GRPC_SERVER_USE_TLS")?.unwrap_or(false);
    let of_variables = if uses_tls && of_flags.0.is_none() {
        let [certificate, key, authority] =
            OF_ENVOYPROXY.map(|name| environment.text(name).map(PathBuf::from));
        if certificate.is_none() && key.is_none() {
            let (found, missing) = ("GRPC_SERVER_USE_TLS".to_owned(), "GRPC_SERVER_TLS_CERT");
            return Err(SettingError::Half { found, missing });
        }
        whole([&certificate, &key, &authority], OF_ENVOYPROXY, str::to_owned)?
    } else {
        None
    };
    Ok(optional(of_flags, (of_variables, "GRPC_SERVER_USE_TLS")))
}

fn of_flags(
    given: &Given,
    files: [&Option<PathBuf>; 3],
    names: TlsNames,
) -> Result<(Option<TlsFiles>, SettingSource), SettingError> {
    let name = |flag: &str| flag.trim_start_matches('-').to_owned();
    let files = whole(files, names, |flag| given.name_of(&name(flag)))?;
    Ok((files, given.source(&name(names[0]))))
}

/// A certificate with its key. Fails if only one of them is given, or an authority of clients without them. `told`
/// returns the name by which the user has given a setting.
fn whole(
    [certificate, key, authority]: [&Option<PathBuf>; 3],
    names: TlsNames,
    told: impl Fn(&str) -> String,
) -> Result<Option<TlsFiles>, SettingError> {
    let (found, missing) = match (certificate, key) {
        (None, None) if authority.is_none() => return Ok(None),
        (Some(certificate), Some(key)) => {
            let files = TlsFiles::new(certificate, key);
            return Ok(Some(TlsFiles { client_ca: authority.clone(), ..files }));
        }
        (Some(_), None) => (names[0], names[1]),
        (None, Some(_)) => (names[1], names[0]),
        (None, None) => (names[2], names[0]),
    };
    Err(SettingError::Half { found: told(found), missing })
}
