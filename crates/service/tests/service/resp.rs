//! Tests the exact bytes of Redis' protocol over a real socket.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate::ManualClock;
use tollgate_rules::RuleSettings;
use tollgate_service::offline::Offline;
use tollgate_service::{Global, Options, RespOptions};

use crate::common::{NOON, RULES, World, serve_on_clock};

struct Redis {
    world: World,
    clock: ManualClock,
    stream: TcpStream,
}

async fn redis_with(test: &str, more: impl FnOnce(Options) -> Options) -> Redis {
    let resp = Some(RespOptions::new(([127, 0, 0, 1], 0)));
    let more = |options| more(Options { resp, ..options });
    let (world, clock) = serve_on_clock(test, RULES, more).await;
    let stream = connect(&world).await;
    Redis { world, clock, stream }
}

async fn redis(test: &str) -> Redis {
    redis_with(test, |options| options).await
}

async fn connect(world: &World) -> TcpStream {
    TcpStream::connect(world.running.resp.expect("it is spoken")).await.expect("it listens")
}

impl Redis {
    /// Sends the text, and asserts that the answer is `expected`.
    async fn told(&mut self, sent: &str, expected: &str) {
        self.stream.write_all(sent.as_bytes()).await.expect("it is connected");
        let mut answer = vec![0; expected.len()];
        self.stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(String::from_utf8_lossy(&answer), expected, "to {sent}");
    }

    /// Sends the text and a `PING`, and returns all answers.
    async fn answers(&mut self, sent: &str) -> String {
        let end = "+PONG\r\n";
        let mut answers = String::new();
        self.stream.write_all(format!("{sent}PING\r\n").as_bytes()).await.expect("it is connected");
        while !answers.ends_with(end) {
            let mut more = [0; 4_096];
            let size = self.stream.read(&mut more).await.expect("an answer");
            assert!(size > 0, "it ended after {answers}");
            answers.push_str(std::str::from_utf8(&more[..size]).expect("text"));
        }
        answers
    }

    /// Asserts that the connection ends without a reset.
    async fn ends(&mut self) {
        assert_eq!(self.stream.read(&mut [0; 64]).await.expect("no reset"), 0);
    }
}

/// The bytes of an answer that consists of these integers.
fn integers(numbers: &[i64]) -> String {
    let each = numbers.iter().map(|number| format!(":{number}\r\n"));
    format!("*{}\r\n{}", numbers.len(), each.collect::<String>())
}

#[tokio::test]
async fn cl_throttle_answers_the_five_numbers_of_redis_cell() {
    let mut redis = redis("cl_throttle_answers").await;
    let ask = "CL.THROTTLE user123 15 30 60\r\n";
    redis.told(ask, &integers(&[0, 16, 15, -1, 2])).await;
    for left in (0..15).rev() {
        redis.told(ask, &integers(&[0, 16, left, -1, 2 * (16 - left)])).await;
    }
    redis.told(ask, &integers(&[1, 16, 0, 2, 32])).await;
    redis.told("CL.THROTTLE user123 15 30 60 3\r\n", &integers(&[1, 16, 0, 6, 32])).await;
    redis.told("CL.THROTTLE user123 15 30 60 17\r\n", &integers(&[1, 16, 0, -1, 32])).await;
    redis.told("CL.THROTTLE user123 15 30 60 0\r\n", &integers(&[0, 16, 0, -1, 32])).await;
    redis.clock.advance(Duration::from_millis(1_500));
    // A unit comes back in half a second, which is reported as a whole second.
    redis.told(ask, &integers(&[1, 16, 0, 1, 31])).await;
    redis.clock.advance(Duration::from_millis(500));
    redis.told(ask, &integers(&[0, 16, 0, -1, 32])).await;
    // The next request asks for another key, and is an array.
    let array = "*5\r\n$11\r\ncl.throttle\r\n$1\r\nb\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n1\r\n";
    redis.told(array, &integers(&[0, 1, 0, -1, 1])).await;
    redis.told(array, &integers(&[1, 1, 0, 1, 1])).await;
}

#[tokio::test]
async fn throttle_answers_the_five_numbers_of_throttlecrab() {
    let mut redis = redis("throttle_answers").await;
    redis.told("THROTTLE a 2 30 60\r\n", &integers(&[1, 2, 1, 2, 0])).await;
    redis.told("throttle a 2 30 60 2\r\n", &integers(&[0, 2, 1, 2, 2])).await;
    redis.told("throttle a 2 30 60 3\r\n", &integers(&[0, 2, 1, 2, -1])).await;
    redis.told("CL.THROTTLE a 1 30 60\r\n", &integers(&[0, 2, 0, -1, 4])).await;
}

#[tokio::test]
async fn limits_that_find_no_place_are_refused_and_counted() {
    let mut redis = redis("limits_that_find_no_place").await;
    let ask = |first: u32| -> String {
        (first..first + 1_500).map(|n| format!("CL.THROTTLE k{n} {n} 1 1\r\n")).collect()
    };
    let reason = "-ERR too many different limits come with requests: 512 have a place at a time; ask with fewer \
                  different numbers, or again once keys that were asked under others are idle\r\n";
    let refused = redis.answers(&ask(0)).await.matches(reason).count();
    assert!((1..988).contains(&refused), "{refused}");
    let no_place = "tollgate_own_limits_no_place_total";
    assert_eq!(redis.world.metric(no_place).await, Some(refused.to_string()));
    // Every key is charged one unit, which comes back within the time that passes here.
    redis.clock.advance(Duration::from_secs(2));
    redis.told("CL.THROTTLE other 5 1 2\r\n", &integers(&[0, 6, 5, -1, 2])).await;
}

#[tokio::test]
async fn rules_answer_the_same_numbers_and_the_name_of_the_limit() {
    let mut redis = redis("rules_answer").await;
    let year_s = i64::try_from(365 * 86_400 - NOON.as_nanos() / 1_000_000_000 % (365 * 86_400));
    let year_s = year_s.expect("seconds");
    let with_name = |numbers: [i64; 5], name: &str| {
        let numbers = integers(&numbers).replacen("*5", "*6", 1);
        format!("{numbers}${}\r\n{name}\r\n", name.len())
    };
    let left = with_name([0, 10, 6, -1, year_s], "ten");
    redis.told("TOLLGATE.CHECK basic 4 key3 x\r\n", &left).await;
    redis.told("TOLLGATE.PEEK basic 4 key3 x\r\n", &left).await;
    let over = with_name([1, 10, 6, year_s, year_s], "ten");
    redis.told("tollgate.check basic 7 key3 x\r\n", &over).await;
    let nothing = with_name([0, -1, -1, -1, -1], "");
    redis.told("TOLLGATE.CHECK basic 1 unknown x\r\n", &nothing).await;
    redis.told("TOLLGATE.CHECK elsewhere 1 key3 x\r\n", &nothing).await;
    redis.told("TOLLGATE.CHECK basic 1 free x\r\n", &nothing).await;
    // A request over HTTP is charged to the same limit.
    let statuses = redis.world.check("basic", &serde_json::json!([{"key3": "x"}]), 6).await;
    assert_eq!(statuses.1[0]["remaining"], 0);
    let denied = "tollgate_requests_total{protocol=\"resp\",outcome=\"over_limit\"}";
    assert_eq!(redis.world.metric(denied).await, Some("1".to_owned()));
}

#[tokio::test]
async fn what_clients_send_when_they_connect_is_answered() {
    let mut redis = redis("what_clients_send").await;
    for (sent, answer) in [
        ("PING\r\n", "+PONG\r\n"),
        ("*2\r\n$4\r\nping\r\n$2\r\nhi\r\n", "$2\r\nhi\r\n"),
        ("ECHO x\r\n", "$1\r\nx\r\n"),
        ("\r\n*0\r\n*-1\r\nSELECT 0\r\n", "+OK\r\n"),
        ("CLIENT SETNAME worker\r\n", "+OK\r\n"),
        ("CLIENT SETINFO LIB-NAME redis-py\r\n", "+OK\r\n"),
        ("COMMAND\r\n", "*0\r\n"),
        ("COMMAND DOCS\r\n", "*0\r\n"),
        ("AUTH secret\r\n", "-ERR AUTH is called, and this service has no password\r\n"),
        ("HELLO 4\r\n", "-NOPROTO unsupported protocol version; it is 2 or 3\r\n"),
    ] {
        redis.told(sent, answer).await;
    }
    let version = env!("CARGO_PKG_VERSION");
    let hello = |head: &str, proto: i64| {
        format!(
            "{head}\r\n$6\r\nserver\r\n$8\r\ntollgate\r\n$7\r\nversion\r\n${}\r\n{version}\r\n$4\r\nmode\r\n\
             $10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$5\r\nproto\r\n:{proto}\r\n$7\r\nmodules\r\n*0\r\n",
            version.len()
        )
    };
    redis.told("HELLO\r\n", &hello("*12", 2)).await;
    redis.told("HELLO 3 SETNAME worker\r\n", &hello("%6", 3)).await;
    redis.told("HELLO\r\n", &hello("%6", 3)).await;
    redis.told("INFO\r\n", "$").await;
    redis.told("QUIT\r\n", "").await;
    let mut rest = String::new();
    redis.stream.read_to_string(&mut rest).await.expect("an end");
    assert!(
        rest.contains("\r\nserver_name:tollgate\r\n") && rest.ends_with("\r\n+OK\r\n"),
        "{rest}"
    );
}

#[tokio::test]
async fn a_bad_request_is_answered_with_what_would_be_accepted() {
    let mut redis = redis("a_bad_request").await;
    let words = |command: &str, takes: &str| {
        format!("wrong number of arguments for '{command}' command; it takes {takes}")
    };
    let takes = "key max_burst count_per_period period [quantity]";
    let number = |name: &str, found: &str, least: u64| {
        format!("{name} '{found}' is no whole number from {least} to 9223372036854775807")
    };
    let long = format!("CL.THROTTLE a 1 2 {}", "9".repeat(99));
    let many = format!("TOLLGATE.CHECK basic 1{}", " k v".repeat(33));
    for (sent, reason) in [
        ("GET x", "unknown command 'GET'"),
        ("CL.THROTTLE a", &words("cl.throttle", takes)),
        ("THROTTLE a 1 2 3 4 5", &words("throttle", takes)),
        ("CL.THROTTLE a -1 2 3", "max_burst '-1' is no whole number from 0 to 9223372036854775806"),
        ("THROTTLE a 0 2 3", &number("max_burst", "0", 1)),
        ("CL.THROTTLE a 1 0 3", &number("count_per_period", "0", 1)),
        ("CL.THROTTLE a 1 2 3.5", &number("period", "3.5", 1)),
        ("CL.THROTTLE a 1 2 3 -1", &number("quantity", "-1", 0)),
        (&long, &number("period", &format!("{}...", "9".repeat(64)), 1)),
        (
            "CL.THROTTLE a 9223372036854775806 1 1",
            "the burst takes more than 42 years to come back, or the period is longer than that; give a smaller \
             burst, a higher rate or a shorter period",
        ),
        (
            "CL.THROTTLE a 0 3000000 1",
            "3000000 in 1s is too fast to be counted; give a rate of at most 1000000 a second",
        ),
        (
            "THROTTLE a 20000 12000 1",
            "a burst of 20000 is too large at 12000 in 1s; at this rate it is at most 12000",
        ),
        (
            "TOLLGATE.CHECK basic 1 key3",
            &words("tollgate.check", "domain cost key value [key value ...]"),
        ),
        ("TOLLGATE.PEEK basic one key3 x", &number("cost", "one", 0)),
        (&many, "33 entries in one descriptor; it may have 32"),
        ("SELECT 1", "there is no database '1'; select 0"),
        ("CLIENT KILL x", "unknown subcommand 'KILL' of client"),
        ("PING a b", &words("ping", "[message]")),
    ] {
        redis.told(&format!("{sent}\r\n"), &format!("-ERR {reason}\r\n")).await;
    }
    // An error has no line breaks, whatever bytes were sent.
    redis.told("*1\r\n$3\r\na\r\n\r\n", "-ERR unknown command 'a\\r\\n'\r\n").await;
    redis.told("PING\r\n", "+PONG\r\n").await;
    let refused = "tollgate_requests_total{protocol=\"resp\",outcome=\"refused\"}";
    assert_eq!(redis.world.metric(refused).await, Some("19".to_owned()));
}

#[tokio::test]
async fn text_that_is_no_utf_8_is_no_key_of_a_rule_but_a_key_of_its_own() {
    let mut redis = redis("text_that_is_no_utf_8").await;
    let bytes =
        b"*5\r\n$14\r\nTOLLGATE.CHECK\r\n$5\r\nbasic\r\n$1\r\n1\r\n$4\r\nkey3\r\n$1\r\n\xff\r\n";
    redis.stream.write_all(bytes).await.expect("it is connected");
    redis.told("", "-ERR value '\\xff' is no UTF-8\r\n").await;
    let bytes = b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\n\xff\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n9\r\n";
    redis.stream.write_all(bytes).await.expect("it is connected");
    redis.told("", &integers(&[0, 1, 0, -1, 9])).await;
}

#[tokio::test]
async fn bytes_that_are_no_request_end_the_connection_behind_the_answers() {
    for (sent, reason) in [
        ("PING\r\n*x\r\n", "invalid multibulk length; a request has at most 128 words"),
        ("PING\r\n*129\r\n", "invalid multibulk length; a request has at most 128 words"),
        ("PING\r\n*1\r\n$73729\r\n", "invalid bulk length; a request has at most 73728 bytes"),
        ("PING\r\n*1\r\n:1\r\nPING\r\n", "expected '$', got ':'"),
        ("PING\r\n*1\r\n$1\r\nabPING\r\n", "a bulk string does not end where its length says"),
        (
            "PING\r\nECHO \"x\"\r\n",
            "an inline request takes no quotes; send an array of bulk strings",
        ),
    ] {
        let mut redis = redis("bytes_that_are_no_request").await;
        redis.told(sent, &format!("+PONG\r\n-ERR Protocol error: {reason}\r\n")).await;
        redis.ends().await;
    }
    // A web page can make a browser send these bytes.
    let mut redis = redis("bytes_of_a_browser").await;
    redis.told("GET / HTTP/1.1\r\nHost: x\r\nPING\r\n", "-ERR unknown command 'GET'\r\n").await;
    redis.ends().await;
}

#[tokio::test]
async fn a_pipeline_is_answered_in_order_however_it_is_cut() {
    let mut redis = redis("a_pipeline").await;
    let requests: Vec<String> =
        (0..500).map(|n| format!("*2\r\n$4\r\nECHO\r\n$3\r\n{n:03}\r\n")).collect();
    let expected: String = (0..500).map(|n| format!("$3\r\n{n:03}\r\n")).collect();
    redis.told(&requests.concat(), &expected).await;
    for piece in requests.concat().as_bytes().chunks(37) {
        redis.stream.write_all(piece).await.expect("it is connected");
        tokio::task::yield_now().await;
    }
    redis.told("", &expected).await;
    // The next request has almost the maximum size.
    let large = "x".repeat(72 * 1_024 - 30);
    let ask = format!("*2\r\n$4\r\nECHO\r\n${}\r\n{large}\r\n", large.len());
    redis.told(&ask, &format!("${}\r\n{large}\r\n", large.len())).await;
}

/// The client sends requests and reads no answers. When the kernel's buffers are full, the service stops reading. After
/// 5 s it closes the connection; the paused clock skips this time.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answers_is_not_read_and_then_closed() {
    let mut redis = redis("a_client_that_does_not_read").await;
    let request = format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{}\r\n", "x".repeat(60_000));
    let mut sent = 0_usize;
    while redis.stream.write_all(request.as_bytes()).await.is_ok() {
        sent += request.len();
        assert!(sent < 64 << 20, "it is read without end");
    }
    redis.stream = connect(&redis.world).await;
    redis.told("PING\r\n", "+PONG\r\n").await;
}

#[tokio::test]
async fn a_password_is_asked_for_before_anything_else() {
    let with_password = |options: Options| {
        let resp = options.resp.map(|resp| RespOptions { password: Some("secret".into()), ..resp });
        Options { resp, ..options }
    };
    let mut redis = redis_with("a_password", with_password).await;
    let not = "-NOAUTH Authentication required.\r\n";
    let wrong = "-WRONGPASS invalid username-password pair; the user is 'default'\r\n";
    redis.told("PING\r\n", not).await;
    redis.told("CL.THROTTLE a 1 1 1\r\n", not).await;
    redis.told("AUTH other\r\n", wrong).await;
    redis.told("AUTH secret2\r\n", wrong).await;
    redis.told("AUTH admin secret\r\n", wrong).await;
    redis.told("HELLO 3 AUTH default other\r\n", wrong).await;
    let early =
        "-NOAUTH HELLO must be called with the client already authenticated, or with AUTH\r\n";
    redis.told("HELLO 2\r\n", early).await;
    redis.told("PING\r\n", not).await;
    redis.told("AUTH default secret\r\nPING\r\n", "+OK\r\n+PONG\r\n").await;
    redis.stream = connect(&redis.world).await;
    redis.told("HELLO 2 AUTH default secret SETNAME x\r\n", "*12\r\n").await;
}

#[tokio::test]
async fn limits_in_redis_are_not_counted_here() {
    let global = Some(Global::new("redis://127.0.0.1:1/"));
    let mut redis = redis_with("limits_in_redis", |options| Options { global, ..options }).await;
    let reason = "counts in this process alone, and the limits of this service are in Redis; ask by rules, with \
                  TOLLGATE.CHECK";
    redis.told("CL.THROTTLE a 1 1 1\r\n", &format!("-ERR cl.throttle {reason}\r\n")).await;
    redis.told("THROTTLE a 1 1 1\r\n", &format!("-ERR throttle {reason}\r\n")).await;
    // Nothing listens at the store's address, so the rule's `on_error` decides.
    redis
        .told("TOLLGATE.CHECK basic 1 key3 x\r\nPING\r\n", "*6\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:")
        .await;
}

#[tokio::test]
async fn what_has_arrived_is_answered_before_a_service_ends() {
    let mut redis = redis("what_has_arrived").await;
    redis.told("PING\r\n", "+PONG\r\n").await;
    let connections = "tollgate_resp_connections";
    assert_eq!(redis.world.metric(connections).await, Some("1".to_owned()));
    let Redis { world, mut stream, .. } = redis;
    world.running.stop().await;
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.expect("an end, and no reset");
    assert!(rest.is_empty());
}

/// Fuzzers send bytes without a socket. They must get the same answers as clients.
#[tokio::test]
async fn bytes_are_answered_without_a_socket_as_with_one() {
    let clock = ManualClock::new();
    clock.set(NOON);
    let offline = Offline::new(RULES, RuleSettings::default(), clock).expect("good rules");
    let mut redis = redis("bytes_without_a_socket").await;
    for sent in ["CL.THROTTLE a 1 1 1\r\nTOLLGATE.CHECK basic 1 key3 x\r\nPING\r\nPI", "*1\r\n:"] {
        let (answers, ends) = offline.resp(sent.as_bytes());
        assert_eq!(ends, sent.starts_with('*'));
        redis.stream = connect(&redis.world).await;
        redis.told(sent, &String::from_utf8(answers).expect("text")).await;
    }
}
