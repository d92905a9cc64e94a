//! Prefixes that tools write in front of the lines of a log. `tollgate replay` cuts them, or reports them. It never
//! takes a prefix for the client without a message.

use crate::common::{Run, Scratch, assert_refused_with};

const LINE: &str = concat!(
    r#"203.0.113.21 - - [10/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 512 "-" "curl/8.5.0""#,
    "\n"
);

/// The tools, and the prefixes that they write. The table in `docs/log-formats.md` has the same rows.
const PREFIXES: &[(&str, &str)] = &[
    ("containerd, CRI-O", "2026-10-10T13:55:36.104322211Z stdout F "),
    ("docker logs -t", "2026-10-10T13:55:36.104322211Z "),
    ("docker compose logs", "web-1  | "),
    ("docker compose logs -t", "web-1  | 2026-10-10T13:55:36.104322211Z "),
    ("docker service logs", "shop_web.1.k2j3h4@node2    | "),
    ("foreman, honcho", "13:55:36 web.1  | "),
    ("pm2", "0|web  | "),
    ("kubectl logs --prefix", "[pod/shop-7d9f8/web] "),
    ("stern", "shop-7d9f8 web "),
    ("stern, kubetail", "shop-7d9f8 > web "),
    ("Heroku", "2026-10-10T13:55:36.104322+00:00 app[web.1]: "),
    ("Cloud Foundry", "2026-10-10T13:55:36.10+0000 [APP/PROC/WEB/0] OUT "),
    ("App Engine", "default  2026-10-10T13:55:36Z  "),
    ("syslog (RFC 3164)", "<190>Oct 10 13:55:36 web1 nginx[812]: "),
    ("syslog without a program", "Oct 10 13:55:36 web1 "),
    ("syslog with the host's address", "Oct 10 13:55:36 10.0.0.7 nginx: "),
    ("syslog (RFC 5424)", "<190>1 2026-10-10T13:55:36Z web1 nginx 812 - [meta k=\"a ] \\\" b\"] "),
    ("rsyslog with whole times", "2026-10-10T13:55:36.104322+02:00 web1 nginx[812]: "),
    ("journalctl", "Oct 10 13:55:36 web1 nginx[812]: "),
    ("journalctl -o short-precise", "Oct 10 13:55:36.104322 web1 nginx[812]: "),
    ("journalctl -o short-unix", "1791640536.104322 web1 nginx[812]: "),
    ("journalctl -o short-monotonic", "[   12.104322] web1 nginx[812]: "),
    ("grep in several files", "/var/log/nginx/access.log.1:"),
    ("grep -n", "12:"),
    ("grep -n in several files", "access.log:12:"),
    ("grep -n -C 2 in several files", "access.log-12-"),
    ("tail -f of several files", "==> access.log <== "),
    ("a level of logging", "INFO:     "),
];

/// Replays a line twice behind a prefix.
fn replay(scratch: &Scratch, prefix: &str, line: &str, args: &[&str]) -> Run {
    scratch.file("a.log", format!("{prefix}{line}").repeat(2));
    scratch.replay(&[&["a.log", "--json", "--policy", "1/h"], args].concat())
}

#[track_caller]
fn assert_client(run: &Run, client: &str) {
    assert!(run.out.starts_with(r#"{"lines":2,"bad_lines":0,"#), "{run:?}");
    assert!(run.out.contains(&format!(r#""worst":[{{"key":"{client}","requests":2,"#)), "{run:?}");
}

#[test]
fn what_a_known_tool_writes_in_front_of_a_line_is_cut() {
    let scratch = Scratch::new("prefixes_cut");
    for (tool, prefix) in PREFIXES {
        println!("{tool}");
        assert_client(&replay(&scratch, prefix, LINE, &[]), "203.0.113.21");
        assert_client(&replay(&scratch, prefix, LINE, &["--format", "combined"]), "203.0.113.21");
        let json = "{\"ts\":1791640536,\"ip\":\"203.0.113.21\"}\n";
        assert_client(&replay(&scratch, prefix, json, &[]), "203.0.113.21");
    }
}

#[test]
fn the_page_has_every_tool() {
    let page = include_str!("../../../docs/log-formats.md");
    let row = |(tool, prefix): &(&str, &str)| {
        format!("| {tool} | `{}` |\n", prefix.trim_end().replace('|', "\\|"))
    };
    let table: String = PREFIXES.iter().map(row).collect();
    assert!(page.contains(&table), "docs/log-formats.md lacks these rows:\n{table}");
}

#[test]
fn a_client_that_is_no_address_in_front_of_one_is_no_client() {
    let scratch = Scratch::new("prefixes_refused");
    for (prefix, told) in [
        (
            "a b web ",
            "\"a\" stands where combined lines have the client, and is no address, but \"203.0.113.21\"",
        ),
        (
            "203.0.113.9, 10.0.0.50 ",
            "\"203.0.113.9, 10.0.0.50\" is a chain of addresses, of which your proxies have written those on the right; \
             say which they are, as in --trusted-proxies 10.0.0.0/8, or none",
        ),
        ("10.0.0.50, ", "\"10.0.0.50, 203.0.113.21\" is a chain of addresses, of which"),
        ("\"203.0.113.9, 10.0.0.50\" ", "and is no address, but \"203.0.113.21\" behind it is one"),
        (
            "10.0.0.50 ",
            "line 1 can be read as combined (2026-10-10T13:55:36Z, \"10.0.0.50\") and as vhost",
        ),
    ] {
        assert_refused_with(&replay(&scratch, prefix, LINE, &[]), told);
    }
    // The format vhost has a host in front of the line.
    for host in ["www.example.com ", "www.example.com:443 ", "- "] {
        let run = replay(&scratch, host, LINE, &[]);
        assert_client(&run, "203.0.113.21");
        assert!(run.out.contains(r#""formats":["vhost"]"#), "{run:?}");
    }
}

#[test]
fn a_format_that_is_spelled_out_may_have_what_looks_like_a_prefix() {
    let scratch = Scratch::new("prefixes_spelled_out");
    for (line, format, key) in [
        (
            "web-1 | 203.0.113.21 - [10/Oct/2026:13:55:36 +0000]\n",
            "$host | $remote_addr - [$time_local]",
            "web-1",
        ),
        (
            "2026-10-10T13:55:36Z 203.0.113.21 /a web\n",
            "$time_iso8601 $remote_addr $uri $host",
            "web",
        ),
        (
            "web: 203.0.113.21 [10/Oct/2026:13:55:36 +0000]\n",
            "$host: $remote_addr [$time_local]",
            "web",
        ),
    ] {
        let run = replay(&scratch, "", line, &["--format", format, "--key", "host"]);
        assert_client(&run, key);
        assert_client(&replay(&scratch, "", line, &["--format", format]), "203.0.113.21");
    }
    // The same format reads a line without the prefix.
    let format = ["--format", "%h %l %u %t", "--key", "user"];
    assert_client(&replay(&scratch, "web-1 | ", LINE, &format), "-");
}

#[test]
fn behind_trusted_proxies_the_client_is_whom_they_forward_for() {
    let scratch = Scratch::new("prefixes_proxies");
    let behind = ["--trusted-proxies", "10.0.0.0/8"];
    let chain = LINE.replacen("203.0.113.21", "1.2.3.4, 203.0.113.21, 10.0.0.7, 10.0.0.50", 1);
    assert_client(&replay(&scratch, "", &chain, &behind), "203.0.113.21");
    assert_client(&replay(&scratch, "", &chain, &["--trusted-proxies", "none"]), "10.0.0.50");
    let both = format!(
        "{} \"1.2.3.4, 203.0.113.21\"\n",
        LINE.trim_end().replacen("203.0.113.21", "10.0.0.50", 1)
    );
    let format = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
                  \"$http_referer\" \"$http_user_agent\" \"$http_x_forwarded_for\"";
    let named = [&behind[..], &["--format", format]].concat();
    assert_client(&replay(&scratch, "", &both, &named), "203.0.113.21");
    assert_client(
        &replay(&scratch, "", &both, &[&named[..], &["--where", "ip=203.0.113.21"]].concat()),
        "203.0.113.21",
    );
    let json = "{\"ts\":1791640536,\"remote_addr\":\"10.0.0.50\",\"http_x_forwarded_for\":\"203.0.113.21\"}\n";
    assert_client(&replay(&scratch, "", json, &behind), "203.0.113.21");
    let run = replay(&scratch, "", LINE, &["--trusted-proxies", "10.0.0.7/8"]);
    assert!(run.err.contains("'10.0.0.7/8' is neither an address nor a network"), "{run:?}");
}
