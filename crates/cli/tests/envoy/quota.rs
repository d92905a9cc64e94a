//! Envoys that limit requests by themselves, with the shares that the service assigns to them.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::processes::until;
use crate::world::{ALICE, World, scratch};

/// Each user may send a hundred requests in a second, and save up a hundred.
const HUNDRED: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: second, requests_per_unit: 100}}
";

/// Starts an Envoy, and a service with these options that has run for so long that it assigns shares.
fn start(options: &[&str]) -> World {
    let scratch = scratch();
    scratch.file("rules/shop.yaml", HUNDRED);
    let world = World::start_config(scratch, options, |service, upstream| {
        let config = include_str!("quota.yaml").replace("$SERVICE", &service.to_string());
        config.replace("$UPSTREAM", &upstream.to_string())
    });
    until("an assignment", || world.ask("/", ALICE).status == 200);
    world
}

/// Sends requests of Alice at a steady rate, each of them at its time or as soon as the one before is answered. Returns
/// how many passed in each second.
fn pace(address: SocketAddr, per_second: u32, seconds: u32) -> Vec<u32> {
    let mut stream = TcpStream::connect(address).expect("Envoy listens");
    stream.set_nodelay(true).expect("a socket");
    let mut answers = BufReader::new(stream.try_clone().expect("a socket"));
    let (begun, mut passed) = (Instant::now(), Vec::new());
    for n in 0..per_second * seconds {
        if n % per_second == 0 {
            passed.push(0);
        }
        let due = Duration::from_secs(1) * n / per_second;
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let request = b"GET / HTTP/1.1\r\nhost: shop\r\nx-user: alice\r\n\r\n";
        stream.write_all(request).expect("Envoy reads");
        match status(&mut answers) {
            200 => passed.iter_mut().last().into_iter().for_each(|second| *second += 1),
            other => assert_eq!(other, 429),
        }
    }
    passed
}

/// Reads one answer.
fn status(answers: &mut impl BufRead) -> u16 {
    let mut line = String::new();
    answers.read_line(&mut line).expect("an answer");
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let mut length = 0;
    loop {
        let mut header = String::new();
        answers.read_line(&mut header).expect("a header");
        match header.trim_end().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().expect("a length"),
            Some(_) => {}
            None => break,
        }
    }
    answers.read_exact(&mut vec![0; length]).expect("a body");
    status.unwrap_or_else(|| panic!("no status: {line:?}"))
}

#[test]
fn an_envoy_is_assigned_a_share_and_asks_for_no_request() {
    let world = start(&[]);
    // The units that the user has saved up pass at once, and then no more than the rule admits.
    let statuses = world.client().together(300, "/", ALICE);
    let passed = statuses.iter().filter(|status| **status == 200).count();
    assert!((10..300).contains(&passed), "{passed}");
    assert_eq!(world.service().asked("allowed") + world.service().asked("over_limit"), 0);
    until("the report", || {
        let denied = world.service().metric("tollgate_quota_reported_denied_total");
        denied >= 300 - passed as u64
    });
    assert_eq!(world.service().metric("tollgate_quota_streams"), 1);
}

#[test]
fn a_user_whose_name_is_no_text_does_not_break_the_stream() {
    let world = start(&[]);
    let odd = |client: Client| {
        let mut stream = TcpStream::connect(client.0).expect("Envoy listens");
        let request = b"GET / HTTP/1.1\r\nhost: shop\r\nx-user: \xfc\r\n\r\n";
        stream.write_all(request).expect("Envoy reads");
        status(&mut BufReader::new(stream))
    };
    assert_eq!(odd(world.client()), 429, "it has no assignment");
    until("its report", || world.service().metric("tollgate_quota_refused_total") > 1);
    assert_eq!(odd(world.client()), 429);
    // The first stream is still in use, and its other buckets are served.
    assert_eq!(world.service().metric("tollgate_quota_streams"), 1);
    until("an assignment", || world.ask("/", &["x-user: bob"]).status == 200);
    let assigned = world.service().metric("tollgate_quota_assignments_total");
    until("another one", || world.service().metric("tollgate_quota_assignments_total") > assigned);
    assert_eq!(world.ask("/", ALICE).status, 200);
}

#[test]
fn two_envoys_at_three_times_the_limit_share_it_by_their_demand() {
    // Envoy reports every 5 s. After three reports the demand of both Envoys is known, and their shares are in force.
    const SETTLES: usize = 15;
    const SECONDS: usize = 30;
    let world = start(&[]);
    let second = world.second_envoy();
    until("an assignment", || second.http.ask("/", ALICE).status == 200);
    let begun = Instant::now();
    let loads = [(world.client(), 200), (second.http, 100)].map(|(client, rate)| {
        let seconds = u32::try_from(SETTLES + SECONDS).expect("small");
        std::thread::spawn(move || pace(client.0, rate, seconds))
    });
    let passed = loads.map(|load| load.join().expect("no panic"));
    let took = begun.elapsed().as_secs_f64();
    let sum_from = |second| passed.each_ref().map(|of| of[second..].iter().sum::<u32>());
    eprintln!(
        "passed in {took:.1} s: {:?}, in the last {SECONDS}: {:?}",
        sum_from(0),
        sum_from(SETTLES)
    );
    // The bound holds over the whole time, and over the time after the shares have settled. The seconds are counted by
    // the clocks of two threads.
    for (second, seconds) in [(0, took), (SETTLES, took - SETTLES as f64)] {
        let sum = f64::from(sum_from(second).iter().sum::<u32>());
        assert!(sum <= seconds * 100.0 + 100.0, "{sum} in {seconds} s");
    }
    // Most of the limit is used. Each Envoy passes its share of the demand, two thirds or one third, to within a tenth.
    let [one, other] = sum_from(SETTLES).map(f64::from);
    assert!(one + other >= 0.85 * 100.0 * SECONDS as f64, "{one} and {other}");
    for (passed, share) in [(one, 2.0 / 3.0), (other, 1.0 / 3.0)] {
        let of_share = passed / ((one + other) * share);
        assert!((0.9..=1.1).contains(&of_share), "{of_share} of {share}: {one} and {other}");
    }
}

#[test]
fn a_service_that_stops_and_starts_under_load_denies_an_envoy_nothing_of_the_limit() {
    // If the service kept nothing over the restart, there would be no assignment for more than half of this time.
    const AFTER: usize = 12;
    let mut world = start(&["--state", "state", "--linger-stop", "0"]);
    let client = world.client();
    let load = std::thread::spawn(move || pace(client.0, 200, 35));
    let begun = Instant::now();
    // After this time the demand of the Envoy is known, and its share is in force.
    std::thread::sleep(Duration::from_secs(17));
    let stopped = begun.elapsed();
    let service = world.services.pop().expect("a service");
    let address = service.grpc.to_string();
    service.signal("TERM");
    service.ended();
    world.restart_service(&address, "rules loaded");
    let away = begun.elapsed() - stopped;
    let passed = load.join().expect("no panic");
    let took = begun.elapsed().as_secs_f64();
    eprintln!(
        "stopped after {stopped:.1?}, away for {away:.1?}; passed in each second: {passed:?}"
    );
    let second = usize::try_from(stopped.as_secs()).expect("small");
    let after = &passed[second..second + AFTER];
    let sum = after.iter().sum::<u32>();
    assert!(f64::from(sum) >= 0.9 * 100.0 * AFTER as f64, "{sum}: {after:?}");
    assert!(after.iter().all(|passed| *passed >= 50), "{after:?}");
    let sum = f64::from(passed.iter().sum::<u32>());
    assert!(sum <= took * 100.0 + 100.0, "{sum} in {took} s");
}
