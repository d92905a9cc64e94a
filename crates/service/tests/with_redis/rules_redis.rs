//! Tests rules in a hash in Redis, on a redis-server that the test starts. They are pushed and polled, never read
//! half-written, and kept when the server is gone or its content is bad.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{World, codes, descriptor, request};
use crate::server::Server;
use tollgate_rules::{Refresh, RuleSource, RuleText};
use tollgate_service::protocol::rls::rate_limit_response::Code;
use tollgate_service::{Options, RedisRules};

/// The key of the hash in all tests. Each test has its own server.
const KEY: &str = "shop:rules";

fn rules_of(server: &Server) -> RedisRules {
    format!("{}0#{KEY}", server.address()).parse().expect("an address")
}

/// The name of the hash in errors.
fn shown(server: &Server) -> String {
    format!("redis://127.0.0.1:{}/0#{KEY}", server.port)
}

fn text(domain: &str, requests: u32) -> RuleText {
    let limit = format!("{{unit: year, requests_per_unit: {requests}}}");
    let text = format!("domain: {domain}\ndescriptors:\n  - {{key: user, rate_limit: {limit}}}\n");
    RuleText::new(format!("rules/{domain}.yaml"), text)
}

/// A service whose rules are in the hash. The caller still has to receive the result of the first reading.
async fn serve(test: &str, server: &Server) -> World {
    let rules = rules_of(server);
    crate::common::serve_with(test, "", |options| Options { rules: rules.into(), ..options }).await
}

impl World {
    /// Makes the service read the rules again, and waits for the result. Returns `None` if the rules are in force, else
    /// the error.
    async fn read_again(&mut self) -> Option<String> {
        self.running.changed().notify();
        self.outcome().await
    }

    async fn outcome(&mut self) -> Option<String> {
        match self.told.recv().await.expect("it runs") {
            Refresh::Loaded(_) => None,
            Refresh::Refused(errors) => Some(errors[0].to_string()),
            other => panic!("{other:?}"),
        }
    }

    /// Takes one unit of a user's limit; returns the code and the remaining units.
    async fn one_more(&self, domain: &str) -> (Code, u32) {
        codes(&self.ask(request(domain, &[descriptor(&[("user", "x")])])).await)[0]
    }
}

fn refused(source: &mut impl RuleSource) -> String {
    source.read().expect_err("no good").to_string()
}

#[tokio::test]
async fn what_is_pushed_is_served_keeps_what_was_spent_and_changes_nothing_if_it_is_bad() {
    let server = Server::start();
    let rules = rules_of(&server);
    let first = rules.push(&[text("one", 5), text("two", 9)]).expect("it is written");
    assert!(first.is_new);
    let mut world = serve("redis_pushed", &server).await;
    assert_eq!(world.outcome().await, None);
    assert_eq!(
        (world.one_more("one").await, world.one_more("two").await),
        ((Code::Ok, 4), (Code::Ok, 8))
    );
    let second = rules.push(&[text("one", 50)]).expect("it is written");
    assert_eq!(world.read_again().await, None);
    assert_eq!(world.one_more("one").await, (Code::Ok, 48));
    // The field of `two` is gone: the domain's last good rules stay, until new ones replace them.
    assert_eq!(server.run::<u32>(&["HLEN", KEY]), 2);
    assert_eq!(world.one_more("two").await, (Code::Ok, 7));
    assert_eq!(world.metric("tollgate_config_kept_domains").await.as_deref(), Some("1"));
    let free = "domain: two\ndescriptors:\n  - {key: user, rate_limit: {unlimited: true}}\n";
    rules.push(&[text("one", 50), RuleText::new("two.yaml", free)]).expect("it is written");
    assert_eq!(world.read_again().await, None);
    assert_eq!(world.one_more("two").await, (Code::Ok, u32::MAX));
    rules.push(&[text("one", 50)]).expect("it is written");
    assert_eq!(world.read_again().await, None);
    assert_eq!(world.one_more("two").await, (Code::Ok, 0));
    // The same texts have the same version.
    assert_ne!(first.version, second.version);
    let again = rules.push(&[text("one", 50)]).expect("it is written");
    assert_eq!((again.version, again.is_new), (second.version, false));
    // A bad text is named by its hash, field, line and column. Nothing of the refused load is in force, not even the
    // good text.
    let bad = "domain: two\ndescriptors:\n  - kye: user\n";
    rules.push(&[text("one", 90), RuleText::new("two.yaml", bad)]).expect("it is written");
    let error = world.read_again().await.expect("it is refused");
    let expected = format!("{}/two.yaml:3:5: config error, unknown key 'kye'", shown(&server));
    assert!(error.starts_with(&expected), "{error}");
    assert_eq!(world.one_more("one").await, (Code::Ok, 47));
    let (_, page) = world.admin("GET", "/rlconfig", "").await;
    assert!(page.contains(&expected), "{page}");
}

#[tokio::test]
async fn rules_are_in_force_once_they_are_there_and_while_the_server_is_gone_or_empty() {
    let mut server = Server::start();
    let mut world = serve("redis_gone", &server).await;
    assert!(world.outcome().await.is_some());
    assert_eq!(world.http("GET", "/healthcheck", "").await.0, 500);
    rules_of(&server).push(&[text("one", 5)]).expect("it is written");
    assert_eq!(world.read_again().await, None);
    assert_eq!(world.http("GET", "/healthcheck", "").await.0, 200);
    assert_eq!(world.one_more("one").await, (Code::Ok, 4));
    server.kill();
    let error = world.read_again().await.expect("nobody answers");
    let place = shown(&server);
    assert!(error.starts_with(&format!("{place}: cannot be read: ")), "{error}");
    assert_eq!(world.one_more("one").await, (Code::Ok, 3));
    assert_eq!(world.http("GET", "/healthcheck", "").await.0, 200);
    assert_eq!(world.metric("tollgate_config_refused").await.as_deref(), Some("1"));
    server.restart();
    let error = world.read_again().await.expect("it is empty");
    let expected =
        format!("{place}: cannot be read: there is no such hash; write it with tollgate");
    assert!(error.starts_with(&expected), "{error}");
    assert_eq!(world.one_more("one").await, (Code::Ok, 2));
    // After the outage, other texts are read even if their version is the same as before.
    let hash = |requests| String::from_utf8(text("one", requests).bytes().to_vec()).expect("text");
    server.run::<u32>(&["HSET", KEY, "version", "7", "one.yaml", &hash(100)]);
    assert_eq!(world.read_again().await, None);
    assert_eq!(world.one_more("one").await, (Code::Ok, 96));
    server.kill();
    assert!(world.read_again().await.is_some());
    server.restart();
    server.run::<u32>(&["HSET", KEY, "version", "7", "one.yaml", &hash(200)]);
    assert_eq!(world.read_again().await, None);
    assert_eq!(world.one_more("one").await, (Code::Ok, 195));
}

/// The number of times that the server has executed a command.
fn calls(server: &Server, command: &str) -> u64 {
    let stats: String = server.run(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| {
        line.strip_prefix(&format!("cmdstat_{command}:calls="))?.split(',').next()?.parse().ok()
    });
    line.unwrap_or(0)
}

#[test]
fn a_poll_of_a_version_that_is_known_reads_no_text() {
    let server = Server::start();
    rules_of(&server).push(&[text("one", 5), text("two", 9)]).expect("it is written");
    let mut source = rules_of(&server).source();
    let texts = source.read().expect("they are there");
    let names: Vec<_> = texts.iter().map(RuleText::file).collect();
    let name = |field: &str| format!("{}/{field}", shown(&server));
    assert_eq!(names, [name("one.yaml"), name("two.yaml")]);
    assert_eq!(texts[0].bytes(), text("one", 5).bytes());
    let (texts_read, connections) = (calls(&server, "hkeys"), calls(&server, "eval"));
    for _ in 0..10 {
        assert_eq!(source.read().as_ref(), Ok(&texts));
    }
    assert_eq!(calls(&server, "hkeys"), texts_read);
    assert_eq!(calls(&server, "eval"), connections + 10);
    // A connection that the server has closed is replaced without an error.
    server.run::<u32>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    assert_eq!(source.read().as_ref(), Ok(&texts));
}

/// The two texts of a generation. Both contain its number.
fn generation(number: u32) -> [RuleText; 2] {
    ["one", "two"].map(|domain| text(domain, number))
}

/// Reads at least 2,000 times while a writer replaces one generation by the next. Returns the number of readings that
/// mix two generations.
fn mixed(server: &Server, write: impl Fn(u32) + Sync) -> usize {
    let stop = AtomicBool::new(false);
    write(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 1;
            while !stop.load(Ordering::Relaxed) {
                number = number % 1_000 + 1;
                write(number);
            }
        });
        let mut source = rules_of(server).source();
        let (mut mixed, mut readings) = (0, 0);
        let mut seen = BTreeSet::new();
        // On a busy machine the writer may wait for its turn, so the readings go on until they have seen some
        // generations.
        while readings < 2_000 || seen.len() <= 10 {
            readings += 1;
            let texts = source.read().expect("it is always there");
            let requests = |text: &RuleText| {
                let text = String::from_utf8(text.bytes().to_vec()).expect("text");
                let (_, number) = text.rsplit_once(": ").expect("a number");
                number.trim_end_matches(['}', '\n']).to_owned()
            };
            let numbers: Vec<_> = texts.iter().map(requests).collect();
            mixed += usize::from(numbers.len() != 2 || numbers[0] != numbers[1]);
            seen.extend(numbers);
        }
        stop.store(true, Ordering::Relaxed);
        mixed
    })
}

#[test]
fn what_is_pushed_while_it_is_read_is_read_as_a_whole() {
    let server = Server::start();
    let rules = rules_of(&server);
    let write = |number| drop(rules.push(&generation(number)).expect("it is written"));
    assert_eq!(mixed(&server, write), 0);
}

#[test]
fn a_writer_of_field_after_field_is_caught() {
    let server = Server::start();
    let write = |number: u32| {
        let version = number.to_string();
        for written in generation(number) {
            let field = written.file().replace("rules/", "");
            let text = String::from_utf8(written.bytes().to_vec()).expect("text");
            // Without a transaction no order is right: a version that is written after the texts comes too late, and a
            // version that is written before them comes too early.
            server.run::<u32>(&["HSET", KEY, "version", &format!("{version} {field}")]);
            server.run::<u32>(&["HSET", KEY, &field, &text]);
        }
    };
    assert!(mixed(&server, write) > 0);
}

#[test]
fn what_is_no_hash_of_rules_is_refused_with_the_reason() {
    let server = Server::start();
    let mut source = rules_of(&server).source();
    let place = shown(&server);
    let begins = |error: String, expected: &str| {
        assert!(error.starts_with(&format!("{place}{expected}")), "{error}");
    };
    begins(refused(&mut source), ": cannot be read: there is no such hash; ");
    server.run::<u32>(&["HSET", KEY, "one.yaml", "domain: one"]);
    begins(refused(&mut source), ": cannot be read: the hash has no field version; ");
    server.run::<u32>(&["HSET", KEY, "version", "1"]);
    assert_eq!(source.read().expect("now it has").len(), 1);
    server.run::<String>(&["SET", KEY, "text"]);
    begins(refused(&mut source), ": cannot be read: ");
    assert!(refused(&mut source).contains("WRONGTYPE"));
    let error = rules_of(&server).push(&[text("one", 1)]).expect_err("that is somebody's");
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    assert_eq!(server.run::<String>(&["GET", KEY]), "text");
}

#[test]
fn what_is_too_large_is_refused_before_it_is_read() {
    let server = Server::start();
    let mut source = rules_of(&server).source();
    let place = shown(&server);
    let large = "x".repeat(RuleText::MAX_BYTES + 1);
    server.run::<u32>(&["HSET", KEY, "version", "1", "small", "x", "large", &large]);
    let expected = format!("{place}/large: is larger than 1048576 bytes; ");
    assert!(refused(&mut source).starts_with(&expected), "{}", refused(&mut source));
    server.run::<u32>(&["HSET", KEY, "large", &large[1..]]);
    assert_eq!(source.read().expect("as large as it may be")[0].bytes().len(), RuleText::MAX_BYTES);
    for n in 0..63 {
        server.run::<u32>(&["HSET", KEY, "version", "2", &format!("large{n}"), &large[1..]]);
    }
    // The 64 large texts alone have 64 MiB. The small text and the version come in addition.
    let expected = format!("{place}: is larger than 67108864 bytes; ");
    assert!(refused(&mut source).starts_with(&expected), "{}", refused(&mut source));
    server.run::<u32>(&["DEL", KEY]);
    let fields: Vec<String> = (0..10_001).flat_map(|n| [n.to_string(), String::new()]).collect();
    let words = ["HSET", KEY, "version", "3"].into_iter().chain(fields.iter().map(String::as_str));
    server.run::<u32>(&words.collect::<Vec<_>>());
    let expected = format!("{place}: cannot be read: it has more than 10000 fields; ");
    assert!(refused(&mut source).starts_with(&expected), "{}", refused(&mut source));
    server.run::<u32>(&["HDEL", KEY, "0"]);
    assert_eq!(source.read().expect("as many as may be").len(), 10_000);
}

#[test]
fn what_cannot_be_told_apart_is_not_pushed() {
    let server = Server::start();
    let rules = rules_of(&server);
    let push = |names: &[&str]| {
        let texts: Vec<_> = names.iter().map(|name| RuleText::new(*name, "domain: x")).collect();
        rules.push(&texts).expect_err("refused").to_string()
    };
    let place = shown(&server);
    let expected = format!("{place}: cannot be written: two texts are called a.yaml; rename one");
    assert_eq!(push(&["one/a.yaml", "b.yaml", "two/a.yaml"]), expected);
    let expected =
        format!("{place}: cannot be written: a text is called version, as is a field; rename it");
    assert_eq!(push(&["rules/version"]), expected);
    assert_eq!(server.run::<u32>(&["EXISTS", KEY]), 0);
}

#[test]
fn a_user_that_may_only_read_is_enough_for_a_service() {
    let server = Server::start();
    rules_of(&server).push(&[text("one", 5)]).expect("it is written");
    let rights =
        ["+eval", "+hget", "+hkeys", "+hlen", "+hstrlen", "+exists", "+select", "~shop:rules"];
    server.run::<String>(&[&["ACL", "SETUSER", "reader", "on", ">secret"][..], &rights].concat());
    let address = format!("redis://reader:secret@127.0.0.1:{}/0#{KEY}", server.port);
    let reader: RedisRules = address.parse().expect("an address");
    assert_eq!(reader.clone().source().read().expect("it may").len(), 1);
    let error = reader.push(&[text("one", 50)]).expect_err("it may not").to_string();
    assert!(error.contains("cannot be written") && !error.contains("secret"), "{error}");
    assert_eq!(reader.source().read().expect("it may")[0].bytes(), text("one", 5).bytes());
}
