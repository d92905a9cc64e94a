//! The arguments of `tollgate replay`. Their help texts are its manual.

use std::sync::Arc;

use tollgate_http::keys::{KeyError, TrustedProxies};

use super::clients::ClientsBy;
use super::condition::Condition;
use super::key::LineKey;
use super::parse::{Asked, FormatChoice, Parser};
use super::rule_args::RuleArgs;
use super::suggest::KeyShare;
use super::wanted::Wanted;
use crate::spans::span;
use crate::written::{POLICIES, WrittenPolicy};

const EXAMPLES: &str = "\
Examples:
  tollgate replay access.log --policy \"gcra 10/m burst 5\"
  tollgate replay access.log access.log.1.gz --policy 100/h --policy \"sliding-window 100/h\"
  tollgate replay app.jsonl --key tenant --time ts --policy 50/s --json
  tollgate replay access.log --policy 10/m --policy \"sliding-window 10/m\" --html report.html
  tollgate replay access.log --suggest 99.9%
  tollgate replay haproxy.log --key ip,method --where \"path~^/api/\" --policy 10/m
  tollgate replay access.log --rules rules --descriptor \"remote_address={ip}\" --diff rules.new
  tail -f access.log | tollgate replay - --stream --policy 10/m     (Ctrl-C prints the report)
  tail -f access.log | tollgate replay - --stream --rules rules --descriptor \"remote_address={ip}\"";

const MORE: &str = "\
Use --help for the policies, the formats, the keys and what becomes of unreadable or late lines.";

const AFTER_LONG_HELP: &str = "\
Formats (--format):
  Each file has one: by its name, as the configuration of a server spells it, or as its first 100 \
  lines tell. Any of them may be compressed with gzip, bzip2, xz or zstd, or be UTF-16, whatever the \
  name of the file. A line is good when \
  its key and its time can be read; nothing behind them matters. Blank lines are not counted.

Times:
  As the format says; in JSON as in Common Log Format, as RFC 3339 text or as Unix time, where a number \
  below 1e11 is seconds, below 1e14 milliseconds, below 1e17 microseconds, else nanoseconds. \
  Fractions are kept. Local times without a zone are read as UTC, and a note says so. Windows are \
  aligned to Unix time, so a window of 1h starts on the hour (UTC).

Bad lines:
  are counted, and the first five are named on standard error. They never end the run; a file \
  without any good line does, with exit code 2, as do an unreadable file and a bad policy.

Memory:
  12 bytes per line, and for each distinct key its text and about 100 bytes. With --stream, only \
  lines of the last --reorder span are kept, but still every distinct key: the report counts them \
  and names the worst, so memory grows with their number.

Suggested limits (--suggest):
  For each algorithm and each period (s, m, h, d) that the log is longer than, the smallest limit \
  under which at most the other keys would have been refused anything; 99.9% of 1,753 keys leaves \
  one. Found by trying: the log is decided some hundred times. For gcra a lower rate needs a \
  larger burst: both are shown for rates of 1, 2, 5, 10, 20, 50 ..., and the pair that lets the \
  least through in a period is the one suggested.

Pictures (--svg, --html):
  What each policy refused, added up over time, and for each of them what was admitted and \
  refused when, the most refused keys, and how long the refused were told to wait. At most 240 \
  bins, whatever the log. Light or dark as the reader's screen is, light on paper; no script.

Rules (--rules):
  The rule files of `tollgate serve`, and of envoyproxy/ratelimit. Each line is a request that asks \
  about all its descriptors at once, at its own time, and is decided as the service would: lines \
  of one time in the order of the files. In the report a key is a descriptor with its values; the \
  row \"all rules\" is the answer to the whole request. A rule in shadow mode is reported as if it \
  refused. Tables begin empty, as those of a service that has just been started. With --stream lines \
  are decided while they are read; what is kept is each different set of fields that descriptors use.

Comparing rules (--rules OLD --diff NEW):
  Decides each line by both and prints the rules, keys and requests of which the answer changes. \
  Exit code 0 if no request is answered otherwise, 1 if any is, and 2 if it could not be found out.

Late lines (--stream):
  A line older than the newest one by more than --reorder cannot be put in its place any more. It \
  is decided at the time up to which lines were already decided, as a limiter that sees it only \
  then would, and is counted as late. With no late lines the report is the one without --stream. \
  One line dated far ahead makes all that follow late. Name several files oldest first.";

/// Apply rate limits to an access log and show what they would have refused
///
/// Each policy decides all requests of the log, in the order of their times, with one limit for each key. The report
/// shows for each policy how many requests were admitted and refused, how long refused requests were told to wait, and
/// the keys that were refused most.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{MORE}"), arg_required_else_help = true)]
#[command(after_long_help = format!("{POLICIES}\n\n{AFTER_LONG_HELP}\n\n{EXAMPLES}"))]
pub(crate) struct ReplayArgs {
    /// Log files, plain or compressed (gzip, bzip2, xz, zstd); - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<String>,

    /// The part of a line that a policy limits by: ip, user, method, path, referer, user-agent, host, status, or a field of the format
    ///
    /// Several parts are joined by commas, as in ip,method. Requests without a value (`-`, anonymous users) share one
    /// key `-`. A path is without its query. Other fields have the names that the format gives them; in JSON lines
    /// `a.b` reaches into objects. In lines of the format json, ip also finds remote_addr, remote_ip and client_ip,
    /// user also remote_user, method also request_method, and path also uri and request_uri. With ip, a port is cut
    /// off, all spellings of an address are one key, and all IPv6 addresses of one network are one key: see
    /// --prefix-v6.
    #[arg(long, default_value = "ip", value_parser = keys)]
    key: KeyParts,

    /// The number of leading bits of an IPv6 address that make a client, with the key ip: 1 to 128 [default: 64]
    ///
    /// All addresses of one network are one key, written as 2001:db8::/64; an IPv4 address is a key of its own. With
    /// --rules, use prefix_v6 in the rules instead.
    #[arg(long, value_name = "BITS", value_parser = prefix_v6, conflicts_with = "rules")]
    prefix_v6: Option<u8>,

    /// Your proxies, or none. The client is the address that they forward for, in --key, --where and --descriptor
    ///
    /// Addresses and networks with commas between them, as for `tollgate serve`. Where a line has several addresses
    /// (`203.0.113.21, 10.0.0.50`, or the peer's and an X-Forwarded-For), the client is the first address from the
    /// right that is not one of your proxies. Without this flag such a line is a bad line, except where the address
    /// comes from X-Forwarded-For alone: then the last address is the client.
    #[arg(long, value_name = "NETWORKS", value_parser = proxies)]
    trusted_proxies: Option<Arc<TrustedProxies>>,

    /// The format of the lines: auto, a name, or a format as a server's configuration has it
    ///
    /// Names: combined (also nginx, apache), common, vhost (Combined behind the host), ingress-nginx, traefik (both
    /// of its formats), haproxy (its tcplog, too), envoy, istio, envoy-json, caddy, squid, nginx-proxy-manager, logfmt, w3c (also iis, cloudfront: by their #Fields lines),
    /// alb, elb, s3, gcp, json (any other). Formats: of nginx's log_format ('$remote_addr [$time_local] $_', where
    /// $_ is anything), of Apache's LogFormat ('%h %l %u %t "%r"'), of Envoy ('[%START_TIME%] %REQ(:PATH)%') and
    /// '#Fields: date time c-ip'. With auto, the first 100 lines of each file decide. If they fit no format, or fit several
    /// that read different times or keys, or are in several formats, the run ends and says which format to give.
    #[arg(long, default_value = "auto", value_name = "FORMAT")]
    format: FormatChoice,

    /// Only lines with this: FIELD=VALUE, FIELD!=VALUE, FIELD~REGEX, FIELD!~REGEX; repeat for several, all of which
    /// have to hold
    ///
    /// A field has one of the names that --key takes, and its value is compared in the form that a key has: a path
    /// without its query, a missing value as `-`, an address without its port. The report counts the lines that are left
    /// out.
    #[arg(long = "where", value_name = "CONDITION")]
    pub(super) conditions: Vec<Condition>,

    /// The limit to try, such as "gcra 10/m burst 5"; repeat to compare several
    #[arg(long = "policy", required_unless_present_any = ["suggest", "rules"])]
    #[arg(group = "limits", value_name = "POLICY")]
    pub(super) policies: Vec<WrittenPolicy>,

    /// The field that holds the time in JSON lines [default: the usual names]
    ///
    /// Without it the first of these that a line has: time, timestamp, @timestamp, ts,
    /// time_iso8601, time_local, msec.
    #[arg(long, value_name = "FIELD")]
    pub(super) time: Option<String>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(super) json: bool,

    /// Also write a page with pictures, as one file that needs no other
    #[arg(long, requires = "limits", value_name = "FILE")]
    pub(super) html: Option<String>,

    /// Also write the pictures
    #[arg(long, requires = "limits", value_name = "FILE")]
    pub(super) svg: Option<String>,

    /// Find the smallest limits under which this share of the keys is never refused
    #[arg(long, conflicts_with = "stream", value_name = "SHARE")]
    pub(super) suggest: Option<KeyShare>,

    /// Read endless input in bounded memory, deciding while reading
    #[arg(long)]
    pub(super) stream: bool,

    /// With --stream: how far out of order lines may be
    #[arg(long, requires = "stream", value_name = "SPAN", default_value = "10m", value_parser = span)]
    pub(super) reorder: u64,

    #[command(flatten)]
    pub(super) rules: RuleArgs,
}

fn prefix_v6(text: &str) -> Result<u8, String> {
    match text.parse::<u8>() {
        Ok(bits @ 1..=128) => Ok(bits),
        Ok(bits) => Err(format!("a prefix of {bits} bits is not possible; use 1 to 128")),
        Err(_) => Err("write the bits in digits, 1 to 128, as in 64".to_string()),
    }
}

fn proxies(text: &str) -> Result<Arc<TrustedProxies>, KeyError> {
    text.parse().map(Arc::new)
}

/// The parts of a key.
#[derive(Clone, Debug)]
struct KeyParts(Vec<LineKey>);

fn keys(text: &str) -> Result<KeyParts, String> {
    let part = |name: &str| match name.trim() {
        "" => Err("a name is missing; write one, or several with commas, as in ip,path".to_owned()),
        name => {
            let Ok(key) = name.parse();
            Ok(key)
        }
    };
    text.split(',').map(part).collect::<Result<_, _>>().map(KeyParts)
}

impl ReplayArgs {
    /// Returns the parts of a line that tell clients apart.
    pub(super) fn key(&self) -> Wanted {
        let clients = self.clients(self.prefix_v6.unwrap_or(64));
        match &self.key.0[..] {
            [key] => Wanted::One(key.by(&clients)),
            keys => Wanted::Joined(keys.iter().map(|key| key.by(&clients)).collect()),
        }
    }

    /// Returns the way in which addresses become clients.
    pub(super) fn clients(&self, v6_bits: u8) -> ClientsBy {
        ClientsBy { v6_bits, proxies: self.trusted_proxies.clone() }
    }

    /// Returns the parser of the lines.
    pub(super) fn parser(&self, wanted: Wanted) -> Parser {
        let clients = self.clients(128);
        let conditions: Vec<_> = self.conditions.iter().map(|one| one.by(&clients)).collect();
        Parser::new(Asked::new(wanted, &conditions, self.time.as_deref()), self.format.clone())
    }

    /// Returns the files that are read, and so must not be overwritten.
    pub(super) fn inputs(&self) -> Vec<String> {
        let rules = [&self.rules.rules, &self.rules.diff].into_iter().flatten();
        let rules = rules.map(|path| path.display().to_string());
        self.files.iter().cloned().chain(rules).collect()
    }
}
