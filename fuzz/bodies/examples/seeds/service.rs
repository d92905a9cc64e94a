//! Seeds of `rls_request`, `json_body`, `resp_bytes` and `rules_yaml`.

use prost::Message;
use tollgate_fuzz_bodies::RlsCase;
use tollgate_service::protocol::common::RateLimitDescriptor;
use tollgate_service::protocol::common::rate_limit_descriptor::{Entry, RateLimitOverride};
use tollgate_service::protocol::rls::RateLimitRequest;

use crate::NamedSeed;

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
}

fn hits(entries: &[(&str, &str)], hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(entries) }
}

fn own(requests_per_unit: u32, unit: i32) -> RateLimitDescriptor {
    let limit = Some(RateLimitOverride { requests_per_unit, unit });
    RateLimitDescriptor { limit, ..descriptor(&[("own", "x")]) }
}

fn request(descriptors: &[RateLimitDescriptor]) -> RateLimitRequest {
    RateLimitRequest { domain: "d".into(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}

/// Writes the messages one after the other, each preceded by its length.
fn framed(messages: &[RateLimitRequest]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        let message = message.encode_to_vec();
        bytes.extend(u16::try_from(message.len()).expect("seeds are short").to_le_bytes());
        bytes.extend(message);
    }
    bytes
}

pub(crate) fn messages() -> Vec<NamedSeed<Vec<u8>>> {
    let user = descriptor(&[("user", "bob")]);
    let everything = [
        user.clone(),
        descriptor(&[("user", "alice")]),
        descriptor(&[("path", "/a/b")]),
        descriptor(&[("plan", "free"), ("user", "bob")]),
        descriptor(&[("burst", "x")]),
        descriptor(&[("shadow", "x")]),
        descriptor(&[("quota", "x")]),
        descriptor(&[("free", "x")]),
        descriptor(&[("anything", "x")]),
    ];
    let negative = RateLimitDescriptor { is_negative_hits: true, ..user.clone() };
    let cases = [
        ("one_user_eight_times", framed(&vec![request(std::slice::from_ref(&user)); 8])),
        ("everything_ten_times", framed(&vec![request(&everything); 10])),
        ("blocked", framed(&[request(&[descriptor(&[("none", "x")])])])),
        (
            "own_limits",
            framed(&[request(&[own(5, 1)]), request(&[own(2, 1)]), request(&[own(9, 7)])]),
        ),
        ("own_unit_unknown", framed(&[request(&[own(5, 0)]), request(&[own(5, 9)])])),
        (
            "hits_of_all_sizes",
            framed(&[0, 1, 3, 4, u64::MAX].map(|n| request(&[hits(&[("user", "bob")], n)]))),
        ),
        (
            "twice_in_one",
            framed(&[request(&[hits(&[("user", "bob")], 4), hits(&[("user", "bob")], 4)])]),
        ),
        ("negative", framed(&[request(&[negative])])),
        ("nothing", framed(&[RateLimitRequest::default(), request(&[])])),
        ("elsewhere", framed(&[RateLimitRequest { domain: "e".into(), ..request(&everything) }])),
        ("many", framed(&[request(&vec![user; 21])])),
        ("many_users", framed(&users())),
        ("no_message", vec![3, 0, 0xff, 0xff, 0xff, 9, 0, b'\n', 200]),
    ];
    assert!(cases.iter().all(|(_, bytes)| RlsCase(bytes).0 == bytes));
    cases.into()
}

/// More users than a table has room for.
fn users() -> Vec<RateLimitRequest> {
    (0..150).map(|n| request(&[descriptor(&[("user", &n.to_string())])])).collect()
}

pub(crate) const REDIS: [NamedSeed<&[u8]>; 13] = [
    ("pipeline", b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n*1\r\n$4\r\nQUIT\r\n"),
    ("throttle", b"*6\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n$1\r\n3\r\n"),
    ("throttlecrab", b"THROTTLE a 2 30 60\r\nTHROTTLE a 2 30 60 2\r\nTHROTTLE a 2 30 60 3\r\n"),
    (
        "spent",
        b"CL.THROTTLE a 2 1 3600 1\nCL.THROTTLE a 2 1 3600 2\nCL.THROTTLE a 2 1 3600 1\nCL.THROTTLE a 5 1 3600 0\n",
    ),
    (
        "to_and_fro",
        b"CL.THROTTLE a 29 30 30 20\nCL.THROTTLE a 29 30 60 20\nCL.THROTTLE a 29 30 60 10\n\
          CL.THROTTLE a 39 30 30 10\nCL.THROTTLE a 2 1 3600 3\n",
    ),
    (
        "by_rules",
        b"*5\r\n$14\r\nTOLLGATE.CHECK\r\n$1\r\nd\r\n$1\r\n8\r\n$4\r\nuser\r\n$1\r\nb\r\nTOLLGATE.PEEK d 1 user b\r\n",
    ),
    ("hello", b"HELLO 3 SETNAME x\r\nHELLO 2 AUTH default x\r\nHELLO 9\r\nAUTH x\r\n"),
    ("connect", b"CLIENT SETINFO LIB-VER 1\r\nSELECT 0\r\nSELECT 1\r\nCOMMAND DOCS\r\nINFO\r\nCLIENT\r\n"),
    ("numbers", b"CL.THROTTLE a 9223372036854775806 1 1\r\nTHROTTLE a -9223372036854775808 1 1\r\nTHROTTLE a 1 1 +1\r\n"),
    ("nothing", b"\r\n\r\n*0\r\n*-1\r\n"),
    ("lengths", b"*2\r\n$4\r\nECHO\r\n$99999999999999999999\r\n"),
    ("deep", b"*1\r\n*1\r\n*1\r\n*1\r\n"),
    ("browser", b"GET / HTTP/1.1\r\nHost: x\r\n\r\nCL.THROTTLE a 1 1 1\r\n"),
];

pub(crate) const BODIES: [NamedSeed<&[u8]>; 12] = [
    ("one", br#"{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"bob"}]}]}"#),
    ("over", br#"{"domain":"d","hitsAddend":8,"descriptors":[{"entries":[{"key":"user","value":"bob"}]}]}"#),
    ("as_in_proto", br#"{"domain":"d","hits_addend":"2","descriptors":[{"entries":[{"key":"own"}],"limit":{"requests_per_unit":5,"unit":6}}]}"#),
    ("unit_by_name", br#"{"domain":"d","descriptors":[{"entries":[{"key":"own"}],"limit":{"requestsPerUnit":"5","unit":"WEEK"},"hitsAddend":"18446744073709551615"}]}"#),
    ("several", br#" {"domain":"d","descriptors":[{"entries":[{"key":"plan","value":"free"},{"key":"user","value":"bob"}]},{"entries":[{"key":"free"}]},{}]} "#),
    ("negative", br#"{"domain":"d","descriptors":[{"entries":[],"isNegativeHits":true}]}"#),
    ("escapes", br#"{"domain":"\u0064","descriptors":[{"entries":[{"key":"any\n\ud83d\ude00","value":"\u0000"}]}]}"#),
    ("too_large", br#"{"domain":"d","hitsAddend":4294967296}"#),
    ("nothing", b"{}"),
    ("no_object", br#"["d",[],1]"#),
    ("twice", br#"{"domain":"d","domain":"e"}"#),
    ("deep", b"[[[[[[[[[[[[[[[[[[[[[[[["),
];

pub(crate) const RULES: [NamedSeed<&[u8]>; 14] = [
    ("nested", b"domain: d\ndescriptors:\n  - key: a\n    value: b\n    rate_limit: {unit: minute, requests_per_unit: 5}\n    descriptors:\n      - {key: c, rate_limit: {unit: hour, requests_per_unit: 7, name: n, replaces: [{name: m}]}}\n"),
    ("matched", b"domain: d\ndescriptors:\n  - {key: ip, cidr: 10.0.0.0/8, prefix_v4: 24, rate_limit: {unit: day, requests_per_unit: 1}}\n  - {key: ip, cidr: 10.1.0.0/16}\n  - {key: ip, regex: '(?i)[a-z]+/x', share_threshold: true, rate_limit: {unit: day, requests_per_unit: 2}}\n# ip 10.1.2.3 ip abc/x ip 10.2.0.0/24\n"),
    ("wild", b"domain: d\ndescriptors:\n  - {key: a, value: 'x*y', share_threshold: true, rate_limit: {unit: day, requests_per_unit: 1}}\n  - {key: 'b*', rate_limit: {unit: WEEK, requests_per_unit: 2}}\n"),
    ("ours", b"domain: d\ndescriptors:\n  - key: a\n    capacity: 9\n    limits:\n      - {window: 30s, requests_per_unit: 5, algorithm: gcra, burst: 2, mode: soft 5%}\n      - {unit: hour, requests_per_unit: 9, algorithm: sliding-window strict}\n"),
    ("modes", b"domain: d\ndescriptors:\n  - {key: a, shadow_mode: true, quota_mode: true, detailed_metric: true, value_to_metric: false, metadata: {x: [1, ~, true, {y: z}]}, rate_limit: {unlimited: true}}\n"),
    ("nothing_passes", b"domain: d\ndescriptors: [{key: a, rate_limit: {unit: second, requests_per_unit: 0}}]\n"),
    ("merge_key", b"domain: d\nx: &x {unit: minute, requests_per_unit: 5}\ndescriptors:\n  - {key: a, rate_limit: {<<: *x, name: n}}\n"),
    ("bomb", b"domain: d\na: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"),
    ("escapes", b"domain: \"d\\e[31m\\r\\n\"\ndescriptors:\n  - {key: \"\\x07\", rate_limit: {unit: \"\\0\"}}\n"),
    ("forwarded", b"domain: d\nforward_auth:\n  - {a: address of x-real-ip, b: path else /}\n  - c: header X-C else \"\\e[31m\"\n  - d: text e\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 1}}\n"),
    ("twice", b"domain: d\ndescriptors:\n  - {key: a}\n  - {key: a}\n"),
    ("too_much", b"domain: d\ndescriptors: [{key: a, capacity: 9000000000, rate_limit: {unit: day, requests_per_unit: 1}}]\n"),
    ("two_documents", b"domain: d\n---\ndomain: e\n"),
    ("no_text", b"domain: \xff\xfe"),
];
