//! Runs every committed seed of every target that is not about the core, on stable. It also plants each kind of error
//! in the expectations, and some seed must notice it.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use tollgate_fuzz_bodies::TARGETS;
use tollgate_model::{Plant, Target};

fn seeds() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../seeds")
}

fn target(name: &str) -> Target {
    *TARGETS.iter().find(|target| target.name == name).expect("a target")
}

fn replay(name: &str) {
    target(name).replay(&seeds());
}

/// Checks that some seed notices the planted error, with this message.
fn caught(name: &str, plant: Plant, words: &str) {
    target(name).catches(&seeds(), plant, words);
}

#[test]
fn every_target_has_its_program_and_its_seeds() {
    let named = |directory: &str| {
        let entries = fs::read_dir(seeds().join("..").join(directory)).expect("a folder");
        let stem = |path: PathBuf| path.file_stem().and_then(OsStr::to_str).map(str::to_owned);
        let mut names: Vec<_> =
            entries.filter_map(|entry| stem(entry.expect("an entry").path())).collect();
        names.sort();
        names
    };
    let all = tollgate_model::TARGETS.iter().chain(TARGETS);
    let mut expected: Vec<_> = all.map(|target| target.name).collect();
    expected.sort_unstable();
    assert_eq!(named("fuzz_targets"), expected);
    assert_eq!(named("seeds"), expected);
}

#[test]
fn log_line_seeds() {
    replay("log_line");
}

#[test]
fn http_headers_seeds() {
    replay("http_headers");
}

#[test]
fn http_headers_another_client_than_the_proxy_said_is_caught() {
    caught("http_headers", Plant::Answer, "whom the proxy said");
}

#[test]
fn http_headers_another_wait_is_caught() {
    caught("http_headers", Plant::Limit, "seconds to wait");
}

#[test]
fn log_line_a_time_after_the_end_is_caught() {
    caught("log_line", Plant::Limit, "a time after the end");
}

#[test]
fn log_line_another_time_alone_than_together_is_caught() {
    caught("log_line", Plant::Answer, "left == right");
}

#[test]
fn rls_request_seeds() {
    replay("rls_request");
}

#[test]
fn rls_request_more_than_the_limit_is_caught() {
    caught("rls_request", Plant::Limit, "spent and");
}

#[test]
fn rls_request_a_refusal_without_a_reason_is_caught() {
    caught("rls_request", Plant::Answer, "refused:");
}

#[test]
fn resp_bytes_seeds() {
    replay("resp_bytes");
}

#[test]
fn resp_bytes_more_than_the_burst_is_caught() {
    caught("resp_bytes", Plant::Limit, "was admitted 3 of 2");
}

#[test]
fn resp_bytes_an_answer_is_caught() {
    caught("resp_bytes", Plant::Answer, "answered: Some(");
}

#[test]
fn json_body_seeds() {
    replay("json_body");
}

#[test]
fn json_body_another_answer_is_caught() {
    caught("json_body", Plant::Answer, "another answer");
}

#[test]
fn rules_yaml_seeds() {
    replay("rules_yaml");
}

#[test]
fn rules_yaml_more_memory_than_allowed_is_caught() {
    caught("rules_yaml", Plant::Answer, "bytes of tables");
}

#[test]
fn rules_yaml_another_file_is_caught() {
    caught("rules_yaml", Plant::Limit, "without its file");
}
