//! The certificates of the addresses, from flags and variables.

use std::path::PathBuf;

use tollgate_service::TlsFiles;

use super::args::ServeArgs;
use super::environment::Environment;
use super::setting::{Setting, SettingError, optional};

pub(super) fn http_tls(args: &ServeArgs) -> Result<Option<TlsFiles>, SettingError> {
    let names = ["--http-tls-cert", "--http-tls-key"];
    let files = pair([&args.http_tls_cert, &args.http_tls_key], names)?;
    Ok(files.map(|files| TlsFiles { client_ca: args.http_tls_client_ca.clone(), ..files }))
}

pub(super) fn grpc_tls(
    args: &ServeArgs,
    environment: &Environment,
) -> Result<Setting<Option<TlsFiles>>, SettingError> {
    let names = ["--grpc-tls-cert", "--grpc-tls-key"];
    let of_flags = pair([&args.grpc_tls_cert, &args.grpc_tls_key], names)?
        .map(|files| TlsFiles { client_ca: args.grpc_tls_client_ca.clone(), ..files });
    let uses_tls = environment.truth("GRPC_SERVER_USE_TLS")?.unwrap_or(false);
    let names = ["GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY"];
    let path = |name| environment.text(name).map(PathBuf::from);
    let of_variables = match (uses_tls && of_flags.is_none()).then(|| names.map(path)) {
        Some([None, None]) => {
            let (found, missing) = ("GRPC_SERVER_USE_TLS", "GRPC_SERVER_TLS_CERT");
            return Err(SettingError::Half { found, missing });
        }
        Some([certificate, key]) => pair([&certificate, &key], names)?
            .map(|files| TlsFiles { client_ca: path("GRPC_CLIENT_TLS_CACERT"), ..files }),
        None => None,
    };
    Ok(optional((of_flags, "--grpc-tls-cert"), (of_variables, "GRPC_SERVER_USE_TLS")))
}

/// A certificate and its key, both or none.
fn pair(
    [certificate, key]: [&Option<PathBuf>; 2],
    [certificate_name, key_name]: [&'static str; 2],
) -> Result<Option<TlsFiles>, SettingError> {
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles::new(certificate, key))),
        (Some(_), None) => Err(SettingError::Half { found: certificate_name, missing: key_name }),
        (None, Some(_)) => Err(SettingError::Half { found: key_name, missing: certificate_name }),
    }
}
