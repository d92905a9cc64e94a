//! The control plane of the rules, from the variables of envoyproxy/ratelimit.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_service::{RulesFrom, XdsRules, XdsTls};

use super::environment::Environment;
use super::setting::{SettingError, bad};

/// The variable that asks for a control plane.
pub(super) const TYPE_NAME: &str = "CONFIG_TYPE";

const TYPE: &str = "FILE, or GRPC_XDS_SOTW for a control plane";
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3_600);
const INTERVAL: &str = "a time from 1ms to 1h, as in 10s";
const SHARE: &str = "a share from 0 to 1, as in 0.5";
const METADATA: &str = "CONFIG_GRPC_XDS_NODE_METADATA";
const PAIRS: &str = "names and texts, as in zone=eu,team=shop";
const BYTES: &str = "a number of bytes, as in 4194304";

/// Names the control plane, if `CONFIG_TYPE` asks for one.
pub(super) fn rules(environment: &Environment) -> Result<Option<RulesFrom>, SettingError> {
    match environment.text(TYPE_NAME) {
        None | Some("FILE") => return Ok(None),
        Some("GRPC_XDS_SOTW") => {}
        Some(other) => return Err(bad(TYPE_NAME, other, TYPE)),
    }
    // The default is envoyproxy/ratelimit's.
    let host = environment.text("CONFIG_GRPC_XDS_SERVER_URL").unwrap_or("localhost:18000");
    let mut rules = XdsRules::new(host).map_err(SettingError::Address)?;
    if let Some(node) = environment.text("CONFIG_GRPC_XDS_NODE_ID") {
        node.clone_into(&mut rules.node);
    }
    let pairs = metadata(environment).filter_map(Result::ok);
    rules.metadata = pairs.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    if environment.truth("CONFIG_GRPC_XDS_SERVER_USE_TLS")?.unwrap_or(false) {
        rules.tls = Some(tls(environment)?);
    }
    if let Some(interval) =
        environment.duration("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", INTERVALS, INTERVAL)?
    {
        rules.backoff_initial = interval;
    }
    if let Some(interval) =
        environment.duration("XDS_CLIENT_BACKOFF_MAX_INTERVAL", INTERVALS, INTERVAL)?
    {
        rules.backoff_max = interval;
    }
    if let Some(share) = environment.parsed::<f64>("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", SHARE)? {
        if !(0.0..=1.0).contains(&share) {
            let found = share.to_string();
            return Err(bad("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", &found, SHARE));
        }
        rules.backoff_random = share;
    }
    if environment.truth("XDS_CLIENT_BACKOFF_JITTER")? == Some(false) {
        rules.backoff_random = 0.0;
    }
    if let Some(bytes) = environment.parsed("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", BYTES)? {
        rules.max_message_bytes = bytes;
    }
    Ok(Some(rules.into()))
}

/// Returns the metadata for the control plane, as names and texts. A part that has no `=` is an error.
fn metadata(environment: &Environment) -> impl Iterator<Item = Result<(&str, &str), &str>> {
    let parts = environment.text(METADATA).into_iter().flat_map(|text| text.split(','));
    parts.map(|part| part.split_once('=').ok_or(part))
}

/// Returns a warning for each part of the metadata that is skipped. envoyproxy/ratelimit skips them, too.
pub(super) fn skipped(environment: &Environment) -> impl Iterator<Item = String> {
    metadata(environment)
        .filter_map(Result::err)
        .map(|part| format!("{METADATA}: '{}' is skipped; use {PAIRS}", part.escape_debug()))
}

fn tls(environment: &Environment) -> Result<XdsTls, SettingError> {
    let file = |name| environment.text(name).map(PathBuf::from);
    let [certificate_name, key_name] =
        ["CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY"];
    let (certificate, key) = (file(certificate_name), file(key_name));
    let (found, missing) = match (&certificate, &key) {
        (Some(_), None) => (certificate_name, key_name),
        (None, Some(_)) => (key_name, certificate_name),
        _ => {
            let authority = file("CONFIG_GRPC_XDS_SERVER_TLS_CACERT");
            let name = environment.text("CONFIG_GRPC_XDS_SERVER_TLS_SAN").map(str::to_owned);
            return Ok(XdsTls { authority, certificate, key, name });
        }
    };
    Err(SettingError::Half { found: found.to_owned(), missing: missing.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Option<RulesFrom>, String> {
        rules(&Environment::of(pairs)).map_err(|error| error.to_string())
    }

    const XDS: (&str, &str) = ("CONFIG_TYPE", "GRPC_XDS_SOTW");

    #[test]
    fn a_control_plane_is_asked_as_the_variables_say() {
        assert_eq!(of(&[("CONFIG_GRPC_XDS_SERVER_URL", "a:1")]), Ok(None));
        let usual = XdsRules::new("localhost:18000").expect("an address");
        assert_eq!(of(&[XDS]), Ok(Some(usual.into())));
        let mut expected: XdsRules =
            "xdss://plane:1/me?ca=/ca&cert=/c&key=/k&name=n".parse().expect("an address");
        expected.metadata = vec![("zone".to_owned(), "a=b".to_owned())];
        expected.backoff_initial = Duration::from_millis(500);
        expected.backoff_max = Duration::from_secs(120);
        expected.backoff_random = 0.0;
        expected.max_message_bytes = 9;
        let found = of(&[
            XDS,
            ("CONFIG_GRPC_XDS_SERVER_URL", "plane:1"),
            ("CONFIG_GRPC_XDS_NODE_ID", "me"),
            ("CONFIG_GRPC_XDS_NODE_METADATA", "zone=a=b"),
            ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/c"),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "/k"),
            ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/ca"),
            ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "n"),
            ("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "500ms"),
            ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "2m"),
            ("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "0.3"),
            ("XDS_CLIENT_BACKOFF_JITTER", "false"),
            ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "9"),
        ]);
        assert_eq!(found, Ok(Some(expected.into())));
    }

    #[test]
    fn metadata_without_a_name_is_skipped_as_there_and_told() {
        let skip = |text: &str| -> (usize, Vec<String>) {
            let pairs = [("CONFIG_TYPE", "GRPC_XDS_SOTW"), (METADATA, text)];
            let Ok(Some(RulesFrom::Xds(rules))) = of(&pairs) else { panic!("{text} is refused") };
            (rules.metadata.len(), skipped(&Environment::of(&pairs)).collect())
        };
        let told = |part: &str| format!("{METADATA}: '{part}' is skipped; use {PAIRS}");
        assert_eq!(skip("zone=eu,team="), (2, vec![]));
        assert_eq!(skip("zone=eu,"), (1, vec![told("")]));
        assert_eq!(skip("key1:val1,key2=val2"), (1, vec![told("key1:val1")]));
        assert_eq!(skip("a, b"), (0, vec![told("a"), told(" b")]));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_its_name() {
        for (more, says) in [
            (("CONFIG_TYPE", "XDS"), "CONFIG_TYPE is 'XDS' in the environment; use FILE, or GRPC"),
            (("CONFIG_GRPC_XDS_SERVER_URL", "plane"), "the address of the rules is not understood"),
            (("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "soon"), "XDS_CLIENT_BACKOFF_MAX_INTERVAL is"),
            (("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "0s"), "XDS_CLIENT_BACKOFF_MAX_INTERVAL is"),
            (("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "2"), "XDS_CLIENT_BACKOFF_RANDOM_FACTOR is '2'"),
            (("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "-1"), "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES is"),
        ] {
            let error = of(&[XDS, more]).expect_err(says);
            assert!(error.starts_with(says), "{error}");
        }
        let tls = ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "1");
        let half = of(&[XDS, tls, ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/c")]).expect_err("half");
        assert!(half.contains("is given without CONFIG_GRPC_XDS_CLIENT_TLS_KEY"), "{half}");
    }
}
