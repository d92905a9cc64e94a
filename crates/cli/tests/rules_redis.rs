//! `tollgate rules push`, and the commands that read what it has written, on a redis-server that the test
//! starts.

#[path = "../../redis/tests/common/server.rs"]
mod redis_server;

use crate::common::{Scratch, assert_prints, assert_refused, assert_refused_with, line};
use redis_server::Server;

const SHOP: &str = "\
domain: shop
descriptors:
  - key: remote_address
    capacity: 100
    rate_limit: {unit: minute, requests_per_unit: 2}
";

fn address(server: &Server) -> String {
    format!("redis://127.0.0.1:{}/0#shop:rules", server.port)
}

#[test]
#[ignore = "needs redis-server"]
fn what_is_pushed_is_checked_and_replayed_as_the_files_are() {
    let server = Server::start();
    let scratch = Scratch::new("rules_pushed");
    let log: String = (0..4).map(|n| line("192.0.2.1", &format!("10:00:0{n} +0000"))).collect();
    scratch.file("rules/shop.yaml", SHOP).file("a.log", log);
    let address = address(&server);
    let push = scratch.run(&["rules", "push", "rules", &address]);
    let expected = format!("{address}: 1 file, 1 domain, 1 rule; version ");
    assert!(push.out.starts_with(&expected), "{push:?}");
    let again = scratch.run(&["rules", "push", "rules", &address]);
    assert_eq!(again.out.trim_end(), format!("{}, as before", push.out.trim_end()));
    let files = scratch.run(&["check", "rules"]);
    assert_prints(&scratch.run(&["check", &address]), &files.out);
    let replay = |rules: &str| {
        let rules = ["--rules", rules, "--descriptor", "remote_address={ip}"];
        scratch.replay(&[&["a.log"][..], &rules].concat())
    };
    let files = replay("rules");
    assert!(files.out.contains("most refused by all rules"), "{files:?}");
    assert_prints(&replay(&address), &files.out);
    // The exit code tells whether pushing these files would change any answer.
    scratch.file("new/shop.yaml", SHOP.replace(": 2}", ": 3}"));
    let diff = ["--rules", &address, "--diff", "new", "--descriptor", "remote_address={ip}"];
    assert_eq!(scratch.replay(&[&["a.log"][..], &diff].concat()).code, Some(1));
}

#[test]
#[ignore = "needs redis-server"]
fn what_check_or_a_service_with_redis_refuses_is_not_pushed() {
    let server = Server::start();
    let scratch = Scratch::new("rules_refused");
    scratch.file("good/shop.yaml", SHOP).file("bad/shop.yaml", SHOP.replace("minute", "fortnight"));
    let elastic = format!("pool: {{unit: second, requests_per_unit: 9}}\n{SHOP}")
        .replace(": 2}", ": 2, mode: elastic}");
    scratch.file("none/notes.txt", "no rules").file("elastic/shop.yaml", elastic);
    let address = address(&server);
    let push = |rules: &str, more: &[&str]| {
        scratch.run(&[&["rules", "push", rules, &address][..], more].concat())
    };
    let told = "tollgate: --nodes is given without --redis; give both\n";
    assert_refused(&push("good", &["--nodes", "3"]), told);
    let with_redis = push("elastic", &["--redis", "redis://10.0.0.7/"]);
    assert_refused_with(&with_redis, "mode: elastic borrows from a pool of this process");
    assert_eq!(server.run::<u32>(&["EXISTS", "shop:rules"]), 0);
    assert_eq!(push("good", &[]).code, Some(0));
    let version = || server.run::<String>(&["HGET", "shop:rules", "version"]);
    let before = version();
    let bad = push("bad", &[]);
    assert_eq!((bad.code, bad.out.as_str()), (Some(2), ""));
    assert!(
        bad.err.starts_with("tollgate: bad/shop.yaml:5:24: invalid rate limit unit"),
        "{bad:?}"
    );
    assert_eq!(push("none", &[]).code, Some(2));
    assert_eq!(version(), before);
    // A service without Redis can keep them.
    assert_eq!(push("elastic", &[]).code, Some(0));
}

#[test]
#[ignore = "needs redis-server"]
fn what_is_bad_in_redis_is_named_by_hash_field_line_and_column() {
    let server = Server::start();
    let scratch = Scratch::new("rules_bad_in_redis");
    let address = address(&server);
    let check = || scratch.run(&["check", &address]);
    let expected = format!("tollgate: {address}: cannot be read: there is no such hash; ");
    assert!(check().err.starts_with(&expected), "{:?}", check());
    server.run::<u32>(&["HSET", "shop:rules", "version", "1"]);
    let expected = format!("tollgate: no rules in {address}: the hash has no field but version\n");
    assert_eq!((check().code, check().err), (Some(2), expected));
    server.run::<u32>(&["HSET", "shop:rules", "version", "2", "a.yaml", "domain: ["]);
    let expected = format!("tollgate: {address}/a.yaml:2:1: error loading config file: ");
    assert!(check().err.starts_with(&expected), "{:?}", check());
}
