//! Seeds of `http_headers`. The inputs are used as they are.

use crate::NamedSeed;

pub(crate) const HEADERS: [NamedSeed<&[u8]>; 15] = [
    ("draft_10", b"ratelimit-policy: \"burst\";q=100;w=60, \"daily\";q=1000;w=86400\nratelimit: \"burst\";r=50;t=30"),
    ("draft_10_bytes", b"ratelimit-policy: \"peruser\";q=65535;qu=\"content-bytes\";w=10;pk=:sdfjLJUOUH==:"),
    ("draft_10_lines", b"ratelimit: \"a\\\"b\\\\\";r=0\nratelimit: \"day\"; r=100; t=36000;acme-burst=7"),
    ("draft_10_largest", b"ratelimit: \"a\";r=999999999999999;t=999999999999999"),
    ("draft_07", b"ratelimit-policy: 100;w=60\nratelimit: limit=100, remaining=50, reset=30"),
    ("draft_06", b"ratelimit-policy: 100;w=60\nratelimit-limit: 100\nratelimit-remaining: 0\nratelimit-reset: 30"),
    ("envoy", b"x-ratelimit-limit: 10, 10;w=1;name=\"per-ip\", 1000;w=3600\nx-ratelimit-remaining: 9\nx-ratelimit-reset: 1"),
    ("epoch", b"x-ratelimit-limit: 60\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1790000030000"),
    ("retry_after", b"retry-after: 120\nratelimit: \"a\";r=0;t=9000"),
    ("retry_after_date", b"retry-after: Mon, 21 Sep 2026 14:13:40 GMT"),
    ("examples_of_the_draft", b"ratelimit: quota;t=1\nratelimit-policy: quota;q=1"),
    ("forged", b"x-forwarded-for: 127.0.0.1, 10.0.0.9\nx-forwarded-for: ::1\nforwarded: for=127.0.0.1"),
    ("open_quote", b"forwarded: for=\"evil\nforwarded: for=\"a\\\nforwarded: for=\"[::1]\";for=_x;;, ,"),
    ("garbage", b"x-forwarded-for: \xff,\"\\\",,[::,unknown,1.2.3.4:99999:1,_\nforwarded: =;\"=\",for"),
    ("path", b"/a/../%2e%2E/;x=1\\b?c#d"),
];
