//! SIGHUP always says in the log what it did: to rules, to certificates, and not to settings.

use crate::common::Scratch;
use crate::serving::{Serving, serve_rules};

const RULES: &str =
    "domain: d\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 1}}\n";

/// Starts a service with these rules, and returns it and their path.
fn serve(scratch: &Scratch, flags: &[&str]) -> (Serving, String) {
    let rules = scratch.file("rules.yaml", RULES).at("rules.yaml");
    (serve_rules(&rules, "", flags, &[]).0, rules)
}

#[test]
fn rules_that_are_unchanged_are_told_of_and_so_are_those_that_are_still_refused() {
    let scratch = Scratch::new("serve_reload_rules");
    let (serving, rules) = serve(&scratch, &[]);
    for _ in 0..2 {
        serving.signal("HUP");
        let line = serving.wait_for("SIGHUP");
        let expected = format!("SIGHUP: reading again rules of {rules}; no certificates");
        assert!(line.contains(" INFO ") && line.ends_with(&expected), "{line}");
        let line = serving.wait_for("rules unchanged");
        assert!(
            line.contains(" INFO ") && line.ends_with("rules unchanged: 1 in 1 domain"),
            "{line}"
        );
    }
    scratch.file("rules.yaml", "domain: ''");
    serving.signal("HUP");
    serving.wait_for("rules refused: ");
    // A watch of the file may have been faster than the signal.
    serving.signal("HUP");
    let line = serving.wait_for("rules unchanged and still refused");
    let expected = "rules unchanged and still refused, 1 in 1 domain stay in force: ";
    assert!(line.contains(" ERROR ") && line.contains(expected), "{line}");
    scratch.file("rules.yaml", RULES.replace("user", "client"));
    serving.signal("HUP");
    serving.wait_for("rules loaded: 1 in 1 domain");
}

/// Reloads until the rules are refused twice for the same reason: while connections are tried, the reason may change.
fn still_refused(serving: &Serving) -> String {
    loop {
        let line = serving.wait_for("refused");
        if line.contains("rules unchanged and still refused, ") {
            return line;
        }
        serving.signal("HUP");
    }
}

#[test]
fn a_redis_that_does_not_answer_and_a_control_plane_are_no_reload_that_went_well() {
    let nowhere = "127.0.0.1:1";
    let (serving, _) = serve_rules(&format!("redis://:secret@{nowhere}/0#rules"), "", &[], &[]);
    serving.signal("HUP");
    let line = serving.wait_for("SIGHUP");
    let expected = format!("reading again rules of redis://{nowhere}/0#rules; no certificates");
    assert!(line.ends_with(&expected), "{line}");
    let line = still_refused(&serving);
    assert!(line.contains("there are none: ") && !line.contains("secret"), "{line}");
    let (serving, _) = serve_rules(&format!("xds://{nowhere}/me"), "", &[], &[]);
    serving.signal("HUP");
    let line = serving.wait_for("SIGHUP");
    let expected = format!(
        "reading again what xds://{nowhere}/me sent last, which sends changes without being asked; no \
         certificates"
    );
    assert!(line.ends_with(&expected), "{line}");
    assert!(still_refused(&serving).contains("there are none: "));
}

#[test]
fn certificates_are_unchanged_refused_still_refused_or_loaded() {
    let scratch = Scratch::new("serve_reload_certificates");
    let issue = || {
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("one");
        scratch.file("key", issued.signing_key.serialize_pem()).file("crt", issued.cert.pem());
    };
    issue();
    let [certificate, key] = ["crt", "key"].map(|name| scratch.at(name));
    let flags = ["--grpc-tls-cert", &certificate, "--grpc-tls-key", &key];
    let (serving, _) = serve(&scratch, &flags);
    serving.signal("HUP");
    assert!(serving.wait_for("SIGHUP").ends_with("; 1 certificate"));
    let line = serving.wait_for("certificate unchanged");
    assert!(line.ends_with(&format!("certificate unchanged: {certificate}")), "{line}");
    scratch.file("crt", "nothing");
    serving.signal("HUP");
    serving.wait_for("certificate refused, the last good one stays: ");
    serving.signal("HUP");
    let line = serving.wait_for("still refused");
    let expected = format!(
        "certificate unchanged and still refused, the last good one stays: {certificate}: "
    );
    assert!(line.contains(" WARN ") && line.contains(&expected), "{line}");
    issue();
    serving.signal("HUP");
    serving.wait_for("certificate loaded: ");
}

#[test]
fn settings_that_have_changed_in_their_file_are_named_and_need_a_restart() {
    let scratch = Scratch::new("serve_reload_file");
    let file = scratch.at("t.toml");
    let resp = "resp = '127.0.0.1:0'\nresp-password";
    scratch.file("t.toml", format!("poll = 60\nlinger-stop = 1\n{resp} = 'secret'\n"));
    let (serving, _) = serve(&scratch, &["--config", &file, "--linger-stop", "0"]);
    serving.signal("HUP");
    let line = serving.wait_for("settings");
    assert!(line.ends_with(&format!("settings unchanged: {file}")), "{line}");
    // A line that another source overrides changes nothing.
    scratch.file("t.toml", format!("shadow = true\nlinger-stop = 2\n{resp} = 'hidden'\n"));
    serving.signal("HUP");
    let line = serving.wait_for("settings");
    let expected = format!(
        "settings changed in {file} and not in force before a restart: poll, resp-password, shadow"
    );
    assert!(line.contains(" WARN ") && line.ends_with(&expected), "{line}");
    scratch.file("t.toml", "pol = 60");
    serving.signal("HUP");
    let line = serving.wait_for("settings");
    let expected = format!(
        "settings refused, those of the start stay in force: {file}:1: there is no setting 'pol'; did \
         you mean poll?"
    );
    assert!(line.contains(" ERROR ") && line.ends_with(&expected), "{line}");
    assert_eq!(serving.ask("GET /healthcheck", "").0, 200);
}
