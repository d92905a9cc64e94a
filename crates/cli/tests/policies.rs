//! `tollgate policies`, and the files for shells and for `man`.

use std::process::{Command, Output};

fn tollgate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate")).args(arguments).output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = tollgate(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_policy_is_told_as_it_is_read_with_what_it_admits() {
    let table = printed(&[
        "policies",
        "100 requests per minute",
        "leaky-bucket 100/m hard",
        "fixed-window 10/s",
        "fixed-window 10/s from-first",
        "sliding-window 10/s exact",
        "sliding-window 10/s strict",
        "segmented-window 10/s x5",
        "calendar-month 1000",
        "sliding-log 10/s soft 50%",
    ]);
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(1)
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(
        rows,
        [
            ["100 requests per minute", "gcra 100/m", "100", "199"],
            ["leaky-bucket 100/m hard", "gcra 1/m burst 100", "100", "100"],
            ["fixed-window 10/s", "fixed-window 10/s", "10", "20"],
            ["fixed-window 10/s from-first", "fixed-window 10/s from-first", "10", "19"],
            ["sliding-window 10/s exact", "sliding-window 10/s exact", "10", "19"],
            ["sliding-window 10/s strict", "sliding-window 10/s strict", "10", "10"],
            ["segmented-window 10/s x5", "segmented-window 10/s x5", "10", "20"],
            ["calendar-month 1000", "calendar-month 1000", "1,000", "3,000"],
            ["sliding-log 10/s soft 50%", "sliding-log 10/s soft 50%", "15", "15"],
        ]
    );
}

#[test]
fn without_a_policy_the_language_is_shown() {
    let text = printed(&["policies"]);
    assert!(text.contains("segmented-window 100/m x6"), "{text}");
    assert!(text.contains("penalty 10m after 3"), "{text}");
}

#[test]
fn policies_are_printed_as_json_too() {
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["policies", "5rps", "--json"])).unwrap();
    let expected = serde_json::json!([
        {"written": "5rps", "read_as": "gcra 5/s", "at_once": 5, "most_in_a_period": 9}
    ]);
    assert_eq!(json, expected);
}

#[test]
fn a_policy_that_cannot_be_read_is_refused_with_what_is_accepted() {
    let output = tollgate(&["policies", "sliding-window 100/m burst 5"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("takes no burst"), "{error}");
}

#[test]
fn each_shell_has_a_script_that_knows_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        for word in ["replay", "simulate", "policy"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn each_command_has_a_manual_page() {
    let directory = std::env::temp_dir().join(format!("tollgate-man-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    printed(&["man", directory.to_str().unwrap()]);
    for page in ["tollgate.1", "tollgate-replay.1", "tollgate-check.1", "tollgate-policies.1"] {
        let text = std::fs::read_to_string(directory.join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
    let output = tollgate(&["man", directory.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
}
