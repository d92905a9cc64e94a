//! Tests that Redis' own clients and redis-py can ask the service over Redis' protocol.

use std::process::Command;

use tollgate::ManualClock;
use tollgate_service::{Options, RespOptions};

use crate::common::{NOON, RULES, serve_with};

/// Runs a program that must succeed; returns its output.
async fn output(mut command: Command) -> String {
    let run = tokio::task::spawn_blocking(move || {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    run.await.expect("it runs")
}

/// Python with the redis-py that `.ci/run redis` installs, or else with the redis-py that Python finds.
fn python() -> Command {
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/ci/redis-py");
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", installed);
    command
}

const SCRIPT: &str = r#"
import sys, redis
host, port = sys.argv[1], int(sys.argv[2])
for protocol in (2, 3):
    client = redis.Redis(host=host, port=port, password="secret", protocol=protocol, client_name="test")
    assert client.ping() and client.echo("x") == b"x"
    key = f"python {protocol}"
    with client.pipeline(transaction=False) as pipe:
        for _ in range(4):
            pipe.execute_command("CL.THROTTLE", key, 2, 1, 60)
        print(pipe.execute())
    print(client.execute_command("THROTTLE", key, 3, 1, 60))
    print(client.execute_command("TOLLGATE.CHECK", "basic", protocol, "key3", "x")[:3])
    try:
        client.get("x")
    except redis.ResponseError as error:
        print(error)
    client.close()
try:
    redis.Redis(host=host, port=port, password="other").ping()
except redis.AuthenticationError as error:
    print(error)
"#;

const PRINTED: &str = "\
[[0, 3, 2, -1, 60], [0, 3, 1, -1, 120], [0, 3, 0, -1, 180], [1, 3, 0, 60, 180]]
[0, 3, 0, 180, 60]
[0, 10, 8]
unknown command 'GET'
[[0, 3, 2, -1, 60], [0, 3, 1, -1, 120], [0, 3, 0, -1, 180], [1, 3, 0, 60, 180]]
[0, 3, 0, 180, 60]
[0, 10, 5]
unknown command 'GET'
invalid username-password pair; the user is 'default'
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_cli_redis_benchmark_and_redis_py_are_answered() {
    let clock = ManualClock::new();
    clock.set(NOON);
    let resp =
        RespOptions { password: Some("secret".into()), ..RespOptions::new(([127, 0, 0, 1], 0)) };
    let options = |options| Options { resp: Some(resp), clock: clock.into(), ..options };
    let world = serve_with("resp_clients", RULES, options).await;
    let address = world.running.resp.expect("it is spoken");
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let with = |name: &str, words: &[&str]| {
        let mut command = Command::new(name);
        command.args(["-h", &host, "-p", &port, "-a", "secret"]).args(words);
        command
    };
    let cli = |words: &[&str]| {
        let mut command = with("redis-cli", &["--no-auth-warning"]);
        command.args(words);
        output(command)
    };
    assert_eq!(cli(&["CL.THROTTLE", "cli", "15", "30", "60"]).await, "0\n16\n15\n-1\n2\n");
    assert_eq!(cli(&["-3", "CL.THROTTLE", "cli", "15", "30", "60"]).await, "0\n16\n14\n-1\n4\n");
    assert_eq!(cli(&["PING"]).await, "PONG\n");
    let asked = ["-n", "20000", "-c", "20", "-P", "32", "-r", "100", "-q"];
    let throttle = ["CL.THROTTLE", "key:__rand_int__", "19999", "1", "60"];
    let benchmark = with("redis-benchmark", &[&asked[..], &throttle[..]].concat());
    let printed = output(benchmark).await;
    assert!(printed.contains("requests per second"), "{printed}");
    let mut script = python();
    script.args(["-c", SCRIPT, &host, &port]);
    assert_eq!(output(script).await, PRINTED);
    let series =
        |outcome| format!("tollgate_requests_total{{protocol=\"resp\",outcome=\"{outcome}\"}}");
    // The requests come from redis-cli, from redis-benchmark, which sends whole pipelines, and from redis-py in each
    // protocol.
    let allowed: u64 =
        world.metric(&series("allowed")).await.expect("a count").parse().expect("digits");
    assert!((2 + 20_000 + 8..2 + 21_000 + 8).contains(&allowed), "{allowed}");
    assert_eq!(world.metric(&series("over_limit")).await, Some("4".to_owned()));
}
