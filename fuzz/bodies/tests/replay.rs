//! Every committed seed of every fuzz target, on stable; and each kind of error in the expectation,
//! which the seeds must notice.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tollgate_fuzz_bodies::{Plant, TARGETS, Target};

/// The least number of seeds of a target.
const SEEDS_MIN: usize = 8;

fn fuzz() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn target(name: &str) -> Target {
    *TARGETS.iter().find(|target| target.name == name).unwrap()
}

/// The seeds of a target: name and bytes.
fn seeds(target: Target) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = fuzz().join("seeds").join(target.name);
    let mut files: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

/// The failure that these bytes cause, if there is one.
fn finding(target: Target, bytes: &[u8], plant: Plant) -> Option<String> {
    let run = AssertUnwindSafe(|| (target.run)(bytes, plant));
    let thrown: Box<dyn Any + Send> = catch_unwind(run).err()?;
    let text = thrown.downcast_ref::<String>().cloned();
    Some(
        text.or_else(|| thrown.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default(),
    )
}

fn replay(name: &str) {
    let target = target(name);
    let seeds = seeds(target);
    assert!(seeds.len() >= SEEDS_MIN, "{name} has {} seeds", seeds.len());
    for (file, bytes) in seeds {
        if let Some(found) = finding(target, &bytes, Plant::Nothing) {
            panic!("{}: {found}\n\n{}\n", file.display(), (target.source)(&bytes));
        }
    }
}

/// Some seed must notice the error, with this message.
fn caught(name: &str, plant: Plant, words: &str) {
    let target = target(name);
    let found: Vec<_> =
        seeds(target).iter().filter_map(|(_, bytes)| finding(target, bytes, plant)).collect();
    assert!(found.iter().any(|found| found.contains(words)), "{found:#?}");
}

#[test]
fn every_target_has_its_program_and_its_seeds() {
    let named = |directory: &str| {
        let entries = fs::read_dir(fuzz().join(directory)).unwrap();
        let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<_> = entries.map(|entry| stem(entry.unwrap().path())).collect();
        names.sort();
        names
    };
    let mut expected: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    expected.sort_unstable();
    assert_eq!(named("fuzz_targets"), expected);
    assert_eq!(named("seeds"), expected);
}

#[test]
fn gcra_oracle_seeds() {
    replay("gcra_oracle");
}

#[test]
fn window_oracle_seeds() {
    replay("window_oracle");
}

#[test]
fn layout_roundtrip_seeds() {
    replay("layout_roundtrip");
}

#[test]
fn keyed_ops_seeds() {
    replay("keyed_ops");
}

#[test]
fn sketch_ops_seeds() {
    replay("sketch_ops");
}

#[test]
fn log_ops_seeds() {
    replay("log_ops");
}

#[test]
fn verb_ops_seeds() {
    replay("verb_ops");
}

#[test]
fn mixed_ops_seeds() {
    replay("mixed_ops");
}

#[test]
fn mixed_ops_one_unit_too_many_is_caught() {
    caught("mixed_ops", Plant::Limit, "told remaining");
}

#[test]
fn mixed_ops_one_nanosecond_too_early_is_caught() {
    caught("mixed_ops", Plant::Answer, "before which it is admitted");
}

#[test]
fn together_ops_seeds() {
    replay("together_ops");
}

#[test]
fn policy_text_seeds() {
    replay("policy_text");
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
fn snapshot_bytes_seeds() {
    replay("snapshot_bytes");
}

#[test]
fn snapshot_bytes_another_file_is_caught() {
    caught("snapshot_bytes", Plant::Answer, "another");
}

#[test]
fn snapshot_bytes_a_refusal_is_caught() {
    caught("snapshot_bytes", Plant::Limit, "refused: the snapshot's words");
}

#[test]
fn gcra_oracle_one_unit_too_many_is_caught() {
    caught("gcra_oracle", Plant::Limit, "told remaining");
}

#[test]
fn gcra_oracle_one_nanosecond_too_early_is_caught() {
    caught("gcra_oracle", Plant::Answer, "before which it is admitted");
}

#[test]
fn window_oracle_one_unit_too_many_is_caught() {
    caught("window_oracle", Plant::Limit, "told remaining");
}

#[test]
fn window_oracle_one_nanosecond_too_early_is_caught() {
    caught("window_oracle", Plant::Answer, "before which it is admitted");
}

#[test]
fn layout_roundtrip_one_unit_too_many_is_caught() {
    caught("layout_roundtrip", Plant::Limit, "told remaining");
}

#[test]
fn layout_roundtrip_one_nanosecond_too_early_is_caught() {
    caught("layout_roundtrip", Plant::Answer, "before which it is admitted");
}

#[test]
fn keyed_ops_one_unit_too_many_is_caught() {
    caught("keyed_ops", Plant::Limit, "told remaining");
}

#[test]
fn keyed_ops_one_nanosecond_too_early_is_caught() {
    caught("keyed_ops", Plant::Answer, "before which it is admitted");
}

#[test]
fn layout_roundtrip_more_than_the_bound_is_caught() {
    caught("layout_roundtrip", Plant::Bound, "more than");
}

#[test]
fn keyed_ops_more_than_the_bound_is_caught() {
    caught("keyed_ops", Plant::Bound, "more than");
}

#[test]
fn keyed_ops_a_lost_cell_is_caught() {
    caught("keyed_ops", Plant::Cell, "a live key lost its cell");
}

#[test]
fn sketch_ops_one_unit_too_many_is_caught() {
    caught("sketch_ops", Plant::Limit, "told remaining");
}

#[test]
fn sketch_ops_one_nanosecond_too_early_is_caught() {
    caught("sketch_ops", Plant::Answer, "before which it is admitted");
}

#[test]
fn sketch_ops_more_than_the_bound_is_caught() {
    caught("sketch_ops", Plant::Bound, "more than");
}

#[test]
fn log_ops_one_unit_too_many_is_caught() {
    caught("log_ops", Plant::Limit, "told remaining");
}

#[test]
fn log_ops_one_nanosecond_too_early_is_caught() {
    caught("log_ops", Plant::Answer, "told reset");
}

#[test]
fn log_ops_more_than_the_bound_is_caught() {
    caught("log_ops", Plant::Bound, "more than its bound");
}

#[test]
fn log_ops_a_full_table_is_caught() {
    caught("log_ops", Plant::Cell, "there is no entry left");
}

#[test]
fn verb_ops_one_unit_too_many_is_caught() {
    caught("verb_ops", Plant::Limit, "told remaining");
}

#[test]
fn verb_ops_a_refused_cancellation_is_caught() {
    caught("verb_ops", Plant::Answer, "nobody was behind it");
}

#[test]
fn verb_ops_units_out_of_nothing_are_caught() {
    caught("verb_ops", Plant::Bound, "units out of nothing");
}

#[test]
fn together_ops_one_unit_too_many_is_caught() {
    caught("together_ops", Plant::Limit, "told remaining");
}

#[test]
fn together_ops_a_denied_request_that_was_charged_is_caught() {
    caught("together_ops", Plant::Answer, "All {");
}

#[test]
fn together_ops_a_debt_that_is_forgiven_by_a_change_is_caught() {
    caught("together_ops", Plant::Bound, "Requote {");
}

#[test]
fn together_ops_a_debt_that_is_lost_in_a_move_is_caught() {
    caught("together_ops", Plant::Cell, "Carry {");
}

#[test]
fn policy_text_another_policy_is_caught() {
    caught("policy_text", Plant::Answer, "printed by");
}

#[test]
fn policy_text_an_error_without_its_text_is_caught() {
    caught("policy_text", Plant::Limit, "in policy");
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
