//! `tollgate simulate`: several limits for one request, and limits with a queue.

use crate::common::{Scratch, assert_prints};

/// Forty requests come in the first of two seconds. The first limit would admit more than eight, but the eighth
/// request, which is admitted at 300 ms, uses up the second limit. So the request of 325 ms would have to wait for the
/// end of the minute.
#[test]
fn several_limits_are_charged_all_or_none() {
    let scratch = Scratch::new("several_limits");
    let policy = "10/s burst 5 and fixed-window 8/m";
    let args = ["simulate", "--pattern", "on-off", "--rate", "40/s", "--for", "2s"];
    let run = scratch.run(&[&args[..], &["--policy", policy, "--policy", "10/s burst 5"]].concat());
    assert_prints(
        &run,
        "\
40 per 1s for 1s, then none for 1s: 40 requests from 0s to 0.975s

policy                             admitted  refused  share refused  most in a period  longest wait  longest pause
10/s burst 5 and fixed-window 8/m         8       32        80.00 %             8 / 8     59s 675ms          100ms
10/s burst 5                             14       26        65.00 %                14          75ms          100ms
",
    );
    let json = scratch.run(&[&args[..], &["--policy", policy, "--json"]].concat());
    assert_prints(
        &json,
        "{\"traffic\":\"40 per 1s for 1s, then none for 1s\",\"requests\":40,\"first_ns\":0,\"last_ns\":975000000,\
         \"policies\":[{\"policy\":\"10/s burst 5 and fixed-window 8/m\",\"admitted\":8,\"refused\":32,\
         \"longest_wait_ns\":59675000000,\"longest_pause_ns\":100000000,\"limits\":[\
         {\"policy\":\"10/s burst 5\",\"period_ns\":1000000000,\"max_in_period\":8},\
         {\"policy\":\"fixed-window 8/m\",\"period_ns\":60000000000,\"max_in_period\":8}]}]}\n",
    );
}

/// Sixty requests come at once. The first leaves at once, fifty leave at steps of 200 ms, and nine find no place.
#[test]
fn a_queue_is_told_as_delays() {
    let scratch = Scratch::new("queue_delays");
    let policy = "5/s burst 1 queue 50";
    scratch.file("times", "0\n".repeat(60));
    let run = scratch.run(&[
        "simulate",
        "--times",
        "times",
        "--csv",
        "out.csv",
        "--policy",
        policy,
        "--policy",
        "5/s burst 1",
    ]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    let told =
        "5/s burst 1 queue 50: 50 of 51 admitted waited for their turn: p50 5s, p99 10s, max 10s";
    assert_eq!(run.out.lines().last(), Some(told), "{}", run.out);
    let csv = scratch.read("out.csv");
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("policy,time_s,admitted,remaining,retry_after_s,delay_s"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines[1], "5/s burst 1 queue 50,0,true,0,,0.2");
    assert_eq!(lines[50], "5/s burst 1 queue 50,0,true,0,,10");
    assert_eq!(lines[51], "5/s burst 1 queue 50,0,false,0,10.2,");
    assert_eq!(lines[60], "5/s burst 1,0,true,0,,0");
}
