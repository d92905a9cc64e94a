//! The certificate of gRPC, from the variables of envoyproxy/ratelimit.

use super::environment::Environment;
use super::setting::SettingError;
use super::values::Values;

const SWITCH: &str = "GRPC_SERVER_USE_TLS";
const CERTIFICATE: &str = "GRPC_SERVER_TLS_CERT";
const KEY: &str = "GRPC_SERVER_TLS_KEY";
const AUTHORITY: &str = "GRPC_CLIENT_TLS_CACERT";

const SETTINGS: [(&str, &str); 3] =
    [(CERTIFICATE, "grpc-tls-cert"), (KEY, "grpc-tls-key"), (AUTHORITY, "grpc-tls-client-ca")];

/// Sets the settings to the files that the variables name, unless another source gives any of these files: files from
/// two sources do not belong together.
pub(super) fn layer(values: &mut Values, environment: &Environment) -> Result<(), SettingError> {
    let uses_tls = environment.truth(SWITCH)?.unwrap_or(false);
    if !uses_tls || SETTINGS.iter().any(|(_, name)| values.has(name)) {
        return Ok(());
    }
    let is_set = |name| environment.text(name).is_some();
    let half = |found: &str, missing: &str| {
        Err(SettingError::Half { found: found.to_owned(), missing: missing.to_owned() })
    };
    match (is_set(CERTIFICATE), is_set(KEY)) {
        (false, false) => return half(SWITCH, CERTIFICATE),
        (true, false) => return half(CERTIFICATE, KEY),
        (false, true) => return half(KEY, CERTIFICATE),
        (true, true) => {}
    }
    for (variable, name) in SETTINGS {
        if let Some(file) = environment.text(variable) {
            values.put_of(variable, name, file);
        }
    }
    Ok(())
}
