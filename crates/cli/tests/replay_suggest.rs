//! `tollgate replay --suggest`: limits that pass the share, and are the smallest that do.

use crate::common::{Scratch, line};
use serde_json::Value;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/access.log");

fn json(run: &crate::common::Run) -> Value {
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    run.json()
}

fn policies(limits: &Value) -> Vec<&str> {
    let limits = limits.as_array().expect("an array").iter();
    limits.map(|limit| limit["policy"].as_str().expect("text")).collect()
}

/// Returns the same policy with a limit that is one unit smaller, or for GCRA a burst that is; none if it is 1.
fn one_less(policy: &str) -> Option<String> {
    let words: Vec<&str> = policy.split(' ').collect();
    let (count, period) = words[1].split_once('/').expect("a rate");
    let count: u64 = count.parse().expect("a number");
    if words[0] != "gcra" {
        let rest = words[2..].iter().map(|word| format!(" {word}")).collect::<String>();
        return (count > 1).then(|| format!("{} {}/{period}{rest}", words[0], count - 1));
    }
    let burst = words.get(3).map_or(count, |burst| burst.parse().expect("a number"));
    (burst > 1).then(|| format!("gcra {count}/{period} burst {}", burst - 1))
}

/// Three clients within a second: one sends 5 requests at once, one sends 3 at once, and one sends 1.
fn three() -> String {
    let at = |client: &str, times: usize| line(client, "10:00:00 +0000").repeat(times);
    at("192.0.2.1", 5)
        + &at("192.0.2.2", 3)
        + &at("192.0.2.3", 1)
        + &line("192.0.2.3", "10:00:01 +0000")
}

#[test]
fn the_smallest_limits_are_printed_with_what_they_would_have_done() {
    let scratch = Scratch::new("suggest_table");
    let run = scratch.file("a.log", three()).replay(&["a.log", "--suggest", "66%"]);
    crate::common::assert_prints(
        &run,
        "\
10 lines, 0 bad, 2015-05-17T10:00:00Z to 2015-05-17T10:00:01Z, read as common

smallest limits that refuse nothing to 66 % of 3 keys (1 may be refused)

policy                     most in a period  keys refused  refused  share refused  longest wait
gcra 1/s burst 3                          3             1        2        20.00 %            1s
fixed-window 3/s                          6             1        2        20.00 %            1s
sliding-window 3/s                        6             1        2        20.00 %        1s 1ms
sliding-window 3/s strict                 3             1        2        20.00 %            2s
segmented-window 3/s x5                   6             1        2        20.00 %            1s

gcra: the higher the rate, the smaller the burst

policy            most in a period  keys refused  refused  share refused  longest wait
gcra 1/s burst 3                 3             1        2        20.00 %            1s
",
    );
}

#[test]
fn each_suggested_limit_passes_and_one_less_does_not() {
    let scratch = Scratch::new("suggest_smallest");
    let report = json(&scratch.replay(&[SAMPLE, "--json", "--suggest", "95%"]));
    let suggestion = &report["suggestion"];
    assert_eq!(
        (&suggestion["keys"], &suggestion["keys_that_may_be_refused"]),
        (&110.into(), &5.into())
    );
    let mut suggested = policies(&suggestion["limits"]);
    suggested.extend(policies(&suggestion["gcra_trade_off"]));
    // There are suggestions for seconds, minutes and hours, under five algorithms; a day is longer than the log.
    assert_eq!(
        policies(&suggestion["limits"]).len() + suggestion["too_large"].as_array().unwrap().len(),
        15
    );
    let refused = |policy: &str| {
        let report = scratch.replay(&[SAMPLE, "--json", "--policy", policy]).json();
        report["policies"][0]["keys_refused"].as_u64().expect("a number")
    };
    for policy in suggested {
        assert!(refused(policy) <= 5, "{policy}");
        if let Some(less) = one_less(policy) {
            assert!(refused(&less) > 5, "{less} would have been enough");
        }
    }
}

#[test]
fn a_higher_share_never_suggests_a_smaller_limit() {
    let scratch = Scratch::new("suggest_shares");
    let mut before: Vec<u64> = Vec::new();
    for share in ["0.0001%", "50%", "90%", "99%", "99.9%", "100%"] {
        let report = json(&scratch.replay(&[SAMPLE, "--json", "--suggest", share]));
        let limits = report["suggestion"]["limits"].as_array().expect("an array");
        let most: Vec<_> =
            limits.iter().map(|limit| limit["max_in_period"].as_u64().expect("a number")).collect();
        assert!(before.iter().zip(&most).all(|(before, now)| before <= now), "{share}");
        let refused = |limit: &Value| limit["keys_refused"].as_u64().expect("a number");
        if share == "100%" {
            assert!(limits.iter().all(|limit| refused(limit) == 0));
        }
        before = most;
    }
}

#[test]
fn one_line_needs_one_unit() {
    let scratch = Scratch::new("suggest_one_line");
    scratch.file("a.log", line("192.0.2.1", "10:00:00 +0000"));
    let report = json(&scratch.replay(&["a.log", "--json", "--suggest", "100%"]));
    assert_eq!(
        policies(&report["suggestion"]["limits"]),
        [
            "gcra 1/s",
            "fixed-window 1/s",
            "sliding-window 1/s",
            "sliding-window 1/s strict",
            "segmented-window 1/s x5"
        ]
    );
}

#[test]
fn a_limit_that_no_word_can_hold_is_said_to_be_too_large() {
    let scratch = Scratch::new("suggest_too_large");
    scratch.file("a.log", line("192.0.2.1", "10:00:00 +0000").repeat(3_000));
    let run = scratch.replay(&["a.log", "--suggest", "100%"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.out.contains("\nfixed-window 3000/s "), "{}", run.out);
    // This is the smallest limit that does not fit: no smaller limit is enough.
    let says = "\nno segmented-window 143/s x5: the counts and the window number need 75 bits; ";
    assert!(run.out.contains(says), "{}", run.out);
}

#[test]
fn policies_may_be_tried_along_with_a_suggestion() {
    let scratch = Scratch::new("suggest_and_policy");
    scratch.file("a.log", three());
    let args = ["a.log", "--json", "--suggest", "100%", "--policy", "2/s"];
    let report = json(&scratch.replay(&args));
    assert_eq!(report["policies"][0]["keys_refused"], 2);
    assert_eq!(policies(&report["suggestion"]["limits"])[0], "gcra 1/s burst 5");
    scratch.replay(&[&args[..], &["--html", "o.html"]].concat());
    let page = scratch.read("o.html");
    assert!(page.contains("<h2>Smallest limits that refuse nothing to 100 % of the keys</h2>"));
    assert!(page.contains("<td>gcra 1/s burst 5</td><td>5</td><td>0</td>"), "{page}");
    let plain = json(&scratch.replay(&["a.log", "--json", "--policy", "2/s"]));
    assert!(plain.get("suggestion").is_none());
}
