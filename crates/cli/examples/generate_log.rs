//! Writes the sample log of this repository, `examples/access.log`: two hours of a small web shop in Combined Log
//! Format, with typical clients, some of which a limit should stop.
//!
//! From the root of the repository:
//!
//! ```text
//! cargo run -p tollgate-cli --example generate_log > examples/access.log
//! ```
//!
//! The output is the same on every machine. All addresses come from the ranges reserved for documentation (RFC 5737,
//! RFC 3849).

use jiff::Timestamp;

/// 14 October 2025, 09:00 UTC.
const START_S: u64 = 1_760_432_400;
const DURATION_S: u64 = 2 * 60 * 60;

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0";
const SAFARI: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) Mobile/15E148";
const EDGE: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Edg/141.0.0.0";
const BOT: &str = "ExampleBot/2.1 (+https://bot.example/about)";

const SHOP: &str = "https://shop.example";
const PAGES: [&str; 8] =
    ["/", "/shop", "/shop/lamps", "/shop/chairs", "/shop/tables", "/about", "/cart", "/help"];
const ASSETS: [&str; 9] = [
    "/static/site.css",
    "/static/shop.js",
    "/static/logo.svg",
    "/static/font.woff2",
    "/img/lamp-1.webp",
    "/img/lamp-2.webp",
    "/img/chair-1.webp",
    "/img/table-1.webp",
    "/favicon.ico",
];

/// SplitMix64: good enough for a log, and the same on every machine.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from `low` up to, but not including, `high`.
    fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low)
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        // There are far fewer than 2^32 choices, so the conversion never fails.
        choices[usize::try_from(self.next() % choices.len() as u64).unwrap_or(0)]
    }
}

/// One request. Servers write a line when they have answered, with the time at which the request came in: that is why
/// logs are out of order.
struct AnsweredRequest {
    answered_ms: u64,
    line: String,
}

struct GeneratedLog {
    random: SplitMix64,
    requests: Vec<AnsweredRequest>,
}

/// A request as its client sees it.
struct ClientCall<'a> {
    client: &'a str,
    at_ms: u64,
    request: &'a str,
    status: u16,
    referer: &'a str,
    agent: &'a str,
}

impl GeneratedLog {
    fn call(&mut self, call: &ClientCall<'_>) {
        if call.at_ms >= DURATION_S * 1000 {
            return;
        }
        // Most answers are fast; one in eight takes seconds.
        let slow = self.random.within(0, 8) == 0;
        let took_ms =
            if slow { self.random.within(1_500, 9_000) } else { self.random.within(5, 180) };
        let bytes = match call.status {
            200 => self.random.within(400, 48_000).to_string(),
            304 | 408 => "-".to_owned(),
            _ => self.random.within(150, 700).to_string(),
        };
        let second = i64::try_from(START_S + call.at_ms / 1000).unwrap_or(i64::MAX);
        let time = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
        let line = format!(
            "{} - - [{}] \"{}\" {} {bytes} \"{}\" \"{}\"\n",
            call.client,
            time.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            call.request,
            call.status,
            call.referer,
            call.agent,
        );
        self.requests.push(AnsweredRequest { answered_ms: call.at_ms + took_ms, line });
    }

    /// A visitor: requests a page, its assets at once, and then reads for a while.
    fn visitor(&mut self, client: &str) {
        let agent = self.random.of(&[FIREFOX, SAFARI, EDGE]);
        let mut at_ms = self.random.within(0, DURATION_S * 1000);
        let mut referer = "-".to_owned();
        for visit in 0..self.random.within(1, 7) {
            let page = self.random.of(&PAGES);
            let request = format!("GET {page} HTTP/1.1");
            let call = ClientCall {
                client,
                at_ms,
                request: &request,
                status: 200,
                referer: &referer,
                agent,
            };
            self.call(&call);
            let here = format!("{SHOP}{page}");
            // A browser caches what it has loaded.
            let assets =
                if visit == 0 { self.random.within(4, 9) } else { self.random.within(0, 3) };
            for _ in 0..assets {
                let request = format!("GET {} HTTP/1.1", self.random.of(&ASSETS));
                let status = if visit == 0 { 200 } else { 304 };
                let at_ms = at_ms + self.random.within(80, 1_400);
                self.call(&ClientCall { at_ms, request: &request, status, referer: &here, ..call });
            }
            referer = here;
            at_ms += self.random.within(6_000, 90_000);
        }
    }

    /// A steady caller: about one request per interval.
    fn poll(&mut self, call: &ClientCall<'_>, every_ms: u64, calls: u64) {
        for n in 0..calls {
            let at_ms = call.at_ms + n * every_ms + self.random.within(0, every_ms / 4 + 1);
            self.call(&ClientCall { at_ms, ..*call });
        }
    }

    /// A crawler: follows every link it finds, faster than people do.
    fn crawler(&mut self, client: &str, start_s: u64, pages: u64) {
        for n in 0..pages {
            let page = self.random.of(&PAGES[1..5]);
            let request = format!("GET {page}/item-{} HTTP/1.1", self.random.within(1, 400));
            let status = if self.random.within(0, 12) == 0 { 404 } else { 200 };
            let at_ms = start_s * 1000 + n * 2_500 + self.random.within(0, 2_000);
            let call =
                ClientCall { client, at_ms, request: &request, status, referer: "-", agent: BOT };
            self.call(&call);
        }
    }
}

/// Returns the whole log.
pub(crate) fn generate() -> String {
    let mut log = GeneratedLog { random: SplitMix64(2025), requests: Vec::new() };
    for n in 1..=52 {
        log.visitor(&format!("198.51.100.{n}"));
        log.visitor(&format!("2001:db8:5:{n:x}::{:x}", 7 * n + 3));
    }
    log.crawler("192.0.2.66", 600, 420);
    log.crawler("2001:db8:b07::1", 4_000, 160);

    let api = ClientCall {
        client: "203.0.113.10",
        at_ms: 0,
        request: "GET /api/stock?since=0 HTTP/1.1",
        status: 200,
        referer: "-",
        agent: "stock-sync/1.4",
    };
    log.poll(&api, 15_000, 480);
    // A script that logs in without pause, three times.
    let request = "POST /login HTTP/1.1";
    let guesses = ClientCall {
        client: "203.0.113.99",
        request,
        status: 401,
        agent: "python-requests/2.32",
        ..api
    };
    for start_s in [1_317, 3_002, 6_541] {
        log.poll(&ClientCall { at_ms: start_s * 1000, ..guesses }, 350, 60);
    }
    // Ten requests before and ten after the end of a minute, which aligned windows admit.
    for minute in [14, 44, 74, 104] {
        let at_ms = minute * 60_000 - 2_000;
        let request = "GET /api/export HTTP/1.1";
        log.poll(&ClientCall { client: "203.0.113.23", at_ms, request, ..api }, 200, 20);
    }
    // Connections that were opened and never used.
    let silent =
        ClientCall { client: "203.0.113.77", request: "-", status: 408, agent: "-", ..api };
    log.poll(&ClientCall { at_ms: 200_000, ..silent }, 600_000, 12);

    log.requests.sort_by_key(|request| request.answered_ms);
    log.requests.iter().map(|request| request.line.as_str()).collect()
}

#[allow(dead_code)] // a test includes this file for `generate` alone
fn main() {
    print!("{}", generate());
}
