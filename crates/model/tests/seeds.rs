//! Runs every committed seed of every target of the core on stable Rust. The seeds must also notice each kind of error
//! in the expectation.

use std::path::PathBuf;

use tollgate_model::{Plant, TARGETS};

fn seeds() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds")
}

#[test]
fn every_seed_of_every_target_is_answered_as_expected() {
    for target in TARGETS {
        target.replay(&seeds());
    }
}

/// Errors that are planted in what a target expects. At least one seed of the target must notice the error, with this
/// message.
const ERRORS: [(&str, Plant, &str); 29] = [
    ("gcra_oracle", Plant::Limit, "told remaining"),
    ("gcra_oracle", Plant::Answer, "before which it is admitted"),
    ("window_oracle", Plant::Limit, "told remaining"),
    ("window_oracle", Plant::Answer, "before which it is admitted"),
    ("layout_roundtrip", Plant::Limit, "told remaining"),
    ("layout_roundtrip", Plant::Answer, "before which it is admitted"),
    ("layout_roundtrip", Plant::Bound, "more than"),
    ("keyed_ops", Plant::Limit, "told remaining"),
    ("keyed_ops", Plant::Answer, "before which it is admitted"),
    ("keyed_ops", Plant::Bound, "more than"),
    ("keyed_ops", Plant::Cell, "a live key lost its cell"),
    ("sketch_ops", Plant::Limit, "told remaining"),
    ("sketch_ops", Plant::Answer, "before which it is admitted"),
    ("sketch_ops", Plant::Bound, "more than"),
    ("log_ops", Plant::Limit, "told remaining"),
    ("log_ops", Plant::Answer, "told reset"),
    ("log_ops", Plant::Bound, "more than its bound"),
    ("log_ops", Plant::Cell, "there is no entry left"),
    ("mixed_ops", Plant::Limit, "told remaining"),
    ("mixed_ops", Plant::Answer, "before which it is admitted"),
    ("mixed_ops", Plant::Bound, "excess"),
    ("together_ops", Plant::Limit, "told remaining"),
    ("together_ops", Plant::Answer, "All {"),
    ("together_ops", Plant::Bound, "Requote {"),
    ("together_ops", Plant::Cell, "Carry {"),
    ("policy_text", Plant::Limit, "in policy"),
    ("policy_text", Plant::Answer, "printed by"),
    ("snapshot_bytes", Plant::Limit, "refused: the snapshot's words"),
    ("snapshot_bytes", Plant::Answer, "another"),
];

#[test]
fn errors_in_the_expectation_of_each_target_are_caught() {
    for (name, plant, words) in ERRORS {
        println!("{name}, {plant:?}");
        let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
        target.catches(&seeds(), plant, words);
    }
    assert!(TARGETS.iter().all(|target| ERRORS.iter().any(|(name, ..)| *name == target.name)));
}
