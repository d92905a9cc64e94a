//! Runs every committed seed of every target of the core on stable Rust. The seeds must also notice each kind of error
//! in the expectation.

use std::path::PathBuf;

use tollgate_model::{Plant, TARGETS, Target};

fn seeds() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds")
}

fn target(name: &str) -> Target {
    *TARGETS.iter().find(|target| target.name == name).expect("a target")
}

fn replay(name: &str) {
    target(name).replay(&seeds());
}

/// Some seed must notice the error, with this message.
fn caught(name: &str, plant: Plant, words: &str) {
    target(name).catches(&seeds(), plant, words);
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
fn mixed_ops_more_than_the_bound_is_caught() {
    caught("mixed_ops", Plant::Bound, "excess");
}
