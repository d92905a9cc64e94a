//! The cost of finding a rule by an exact value, a network, a pattern or a regular expression. Each benchmark asks for
//! the last entry of its kind, and for a value that no entry matches.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate_rules::{DecisionMaker, Descriptor, Request, RuleCache, RuleSettings, RuleText};

/// A decision maker with rules for one key: each of these entries has a limit.
fn maker(entries: impl Iterator<Item = String>) -> DecisionMaker {
    let limit = "rate_limit: {unit: second, requests_per_unit: 1000000}";
    let lines: String =
        entries.map(|entry| format!("  - {{key: k, {entry}, {limit}}}\n")).collect();
    let cache = Arc::new(RuleCache::new(RuleSettings {
        default_capacity: Some(100),
        ..RuleSettings::default()
    }));
    let text = format!("domain: d\ndescriptors:\n{lines}");
    cache.load(&[RuleText::new("d.yaml", text)]).expect("good rules");
    DecisionMaker::new(cache).expect("small tables")
}

fn lookup(c: &mut Criterion) {
    let network = |n: u32| std::net::Ipv4Addr::from(0x0a00_0000 + n * 256);
    let kinds: [(&str, DecisionMaker, &str); 6] = [
        ("exact 1", maker(["value: v0".to_owned()].into_iter()), "v0"),
        ("exact 1000", maker((0..1_000).map(|n| format!("value: v{n}"))), "v999"),
        ("cidr 1000", maker((0..1_000).map(|n| format!("cidr: {}/24", network(n)))), "10.0.3.7"),
        ("pattern 100", maker((0..100).map(|n| format!("value: '/p{n}/*'"))), "/p99/x"),
        ("regex 1", maker(["regex: '/p0/[0-9]+'".to_owned()].into_iter()), "/p0/12"),
        ("regex 100", maker((0..100).map(|n| format!("regex: '/p{n}/[0-9]+'"))), "/p99/12"),
    ];
    for (name, maker, value) in &kinds {
        for (what, value) in [("found", *value), ("not found", "/none/of/them")] {
            let entries = [("k", value)];
            let descriptors = [Descriptor::new(&entries)];
            let request = Request::new("d", &descriptors);
            let is_found = maker.peek(&request).expect("a good request").rule(0).is_some();
            assert_eq!(is_found, what == "found", "{name}");
            c.bench_function(&format!("{name}, {what}"), |b| {
                b.iter(|| black_box(maker.peek(black_box(&request))).is_ok());
            });
        }
    }
}

criterion_group!(benches, lookup);
criterion_main!(benches);
