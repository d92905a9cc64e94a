//! `tollgate serve --state`: spent units are still spent after a restart.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::Scratch;
use crate::processes::until;
use crate::serving::{OF_ALICE, Serving, THREE, serve_rules};

/// Starts a service that keeps its state in the directory, and returns it and the lines of its log up to its address.
fn serve(scratch: &Scratch, flags: &[&str]) -> (Serving, String) {
    serve_with(scratch, &[&["--state", &scratch.at("state")], flags].concat())
}

fn serve_with(scratch: &Scratch, flags: &[&str]) -> (Serving, String) {
    let rules = scratch.file("rules/d.yaml", THREE).at("rules");
    let (serving, begun) = serve_rules(&rules, "", flags, &[]);
    (serving, begun.join("\n"))
}

/// Returns the status of the next request of alice.
fn status(serving: &Serving) -> u16 {
    serving.ask("POST /v1/check", OF_ALICE).0
}

/// Spends the whole limit.
#[track_caller]
fn spend(serving: &Serving) {
    assert_eq!([(); 4].map(|()| status(serving)), [200, 200, 200, 429]);
}

#[test]
fn what_was_spent_is_spent_after_a_restart() {
    let scratch = Scratch::new("serve_state_restart");
    let (serving, begun) = serve(&scratch, &[]);
    assert!(begun.contains(&format!("no state yet: {}", scratch.at("state"))), "{begun}");
    spend(&serving);
    serving.terminate();
    let mode = fs::metadata(scratch.path().join("state")).expect("it was written").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600, "only its owner may read the seeds");
    assert!(!scratch.path().join("state.new").exists());
    let (serving, begun) = serve(&scratch, &[]);
    assert!(begun.contains("state restored: 1 tables"), "{begun}");
    assert_eq!(status(&serving), 429);
}

#[test]
fn a_restart_without_a_state_is_caught() {
    let scratch = Scratch::new("serve_state_none");
    let (serving, _) = serve_with(&scratch, &[]);
    spend(&serving);
    assert_eq!(serving.metric("tollgate_state_written_total"), None);
    serving.terminate();
    spend(&serve_with(&scratch, &[]).0);
}

#[test]
fn killed_it_loses_what_was_spent_after_the_last_write_and_nothing_before() {
    let scratch = Scratch::new("serve_state_killed");
    let (serving, _) = serve(&scratch, &["--state-every", "1"]);
    spend(&serving);
    let written = || serving.metric("tollgate_state_written_total").expect("with a state");
    // The first write that the test sees may have begun before the last request, but the second did not.
    let before = written();
    until("it writes every second", || written() >= before + 2);
    drop(serving);
    let (serving, _) = serve(&scratch, &["--state-every", "3600"]);
    assert_eq!(status(&serving), 429);
    drop(serving);
    // The next write is in an hour, so a kill loses the state.
    fs::remove_file(scratch.path().join("state")).expect("it is there");
    let (serving, _) = serve(&scratch, &["--state-every", "3600"]);
    spend(&serving);
    drop(serving);
    spend(&serve(&scratch, &[]).0);
}

#[test]
fn a_corrupt_state_is_kept_aside_and_the_service_starts_and_says_so() {
    let scratch = Scratch::new("serve_state_corrupt");
    let (serving, _) = serve(&scratch, &[]);
    spend(&serving);
    serving.terminate();
    let mut damaged = fs::read(scratch.path().join("state")).expect("it was written");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    scratch.file("state", &damaged);
    let (serving, begun) = serve(&scratch, &[]);
    let told = begun.lines().find(|line| line.contains(" ERROR ")).expect("an error");
    let path = scratch.at("state");
    let expected = format!("state of {path} refused, all limits begin anew: ");
    assert!(told.contains(&expected), "{told}");
    assert!(told.contains(&format!("the file is now {path}.bad")), "{told}");
    assert_eq!(serving.metric("tollgate_state_errors_total"), Some(1));
    assert_eq!(fs::read(scratch.path().join("state.bad")).expect("kept aside"), damaged);
    spend(&serving);
    serving.terminate();
    assert_eq!(status(&serve(&scratch, &[]).0), 429);
}

#[test]
fn a_state_beside_redis_is_refused() {
    let scratch = Scratch::new("serve_state_redis");
    scratch.file("rules/d.yaml", THREE);
    let redis = ["--redis", "redis://127.0.0.1:1/"];
    let run =
        scratch.run(&[&["serve", "--rules", "rules", "--state", "state"], &redis[..]].concat());
    assert_ne!(run.code, Some(0));
    let told = "limits in Redis outlive this process by themselves; leave out either the state's file or Redis";
    assert!(run.err.contains(told), "{}", run.err);
}
