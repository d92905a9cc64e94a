//! Exactly those entries that can never match are reported, each with the entry that hides it.

use crate::common::World;
use proptest::prelude::*;
use tollgate_rules::RuleSettings;

/// The entries of one level that are reported as hidden.
fn told(entries: &[&str]) -> Vec<String> {
    let lines: String = entries.iter().map(|entry| format!("  - {{{entry}}}\n")).collect();
    told_of(&[&format!("domain: shop\ndescriptors:\n{lines}")])
}

fn told_of(files: &[&str]) -> Vec<String> {
    let settings = RuleSettings { merge_domains: true, ..RuleSettings::default() };
    let rules = World::with("domain: shop", settings).load_files(files);
    rules.hidden().iter().map(ToString::to_string).collect()
}

fn hides(place: &str, entry: &str, by: &str, at: &str) -> String {
    format!(
        "0.yaml:{place}: '{entry}' never matches, because '{by}' at {at} is tried before it and matches all that it \
         would; write it before that one, make it an exact value, or leave one out"
    )
}

#[test]
fn what_an_entry_before_it_covers_is_told_with_that_entry() {
    let cases: [(&[&str], &[String]); 5] = [
        (
            &[
                "key: path, value: '/api/*'",
                "key: path, value: '/api/v1/*'",
                "key: path, value: '/*'",
            ],
            &[hides("4:24", "path_/api/v1/*", "path_/api/*", "3:24")],
        ),
        (
            &[
                "key: 'user*'",
                "key: 'user_id*', value: 'a*'",
                "key: user_id",
                "key: user_id, value: bob",
            ],
            &[
                hides("4:30", "user_id*_a*", "user*", "3:5"),
                hides("5:5", "user_id", "user*", "3:5"),
            ],
        ),
        (
            &["key: path, regex: '/a'", "key: path, value: '*'", "key: path"],
            &[hides("3:24", "path_//a/", "path_*", "4:24"), hides("5:5", "path", "path_*", "4:24")],
        ),
        (
            &["key: path, regex: '(?s:.*)'", "key: path, regex: '/a'", "key: path"],
            &[
                hides("4:24", "path_//a/", "path_/(?s:.*)/", "3:24"),
                hides("5:5", "path", "path_/(?s:.*)/", "3:24"),
            ],
        ),
        // The two expressions have the same meaning, but are written differently.
        (
            &["key: path, regex: '[ab]'", "key: path, regex: 'a|b'"],
            &[hides("4:24", "path_/a|b/", "path_/[ab]/", "3:24")],
        ),
    ];
    for (entries, expected) in cases {
        assert_eq!(told(entries), expected, "{entries:?}");
    }
}

#[test]
fn levels_below_and_other_files_are_searched_as_well() {
    let one = "domain: shop\ndescriptors:\n  - key: plan\n    value: free\n    descriptors:\n      - {key: path, value: 'a*'}\n      - {key: path, value: 'ab*'}\n";
    assert_eq!(told_of(&[one]), [hides("7:28", "path_ab*", "path_a*", "6:28")]);
    let two = "domain: shop\ndescriptors:\n  - {key: path, value: 'ab*'}\n";
    let first = "domain: shop\ndescriptors:\n  - {key: path, value: 'a*'}\n";
    let found = told_of(&[first, two]);
    assert!(
        found[0]
            .starts_with("1.yaml:3:24: 'path_ab*' never matches, because 'path_a*' at 0.yaml:3:24")
    );
}

#[test]
fn what_can_match_is_not_told() {
    for entries in [
        &["key: path, value: '/api/v1/*'", "key: path, value: '/api/*'"][..],
        &["key: path, value: '/api/*'", "key: path, value: '/api/v1'"],
        &["key: path, value: '*'", "key: path, value: x", "key: path, cidr: 10.0.0.0/8"],
        &[
            "key: path, cidr: 0.0.0.0/0",
            "key: path, cidr: '::/0'",
            "key: path, regex: '10[.].*'",
            "key: path",
        ],
        // `.` does not match a line break.
        &["key: path, regex: '.*'", "key: path, regex: 'a'", "key: path"],
        &["key: path, value: 'a*'", "key: path, value: '*b'", "key: path, value: 'a*b*'"][..2],
        &["key: path, value: 'a*'", "key: paths, value: 'ab*'"],
    ] {
        assert_eq!(told(entries), [""; 0], "{entries:?}");
    }
}

#[test]
fn many_patterns_are_compared_no_longer_than_is_said() {
    // 6,000 patterns have 18 million pairs, of which one million is compared. Then the search stops, and what it has
    // found is reported.
    let lines: String = (0..6_000).map(|n| format!("  - {{key: k, value: '{n}x*'}}\n")).collect();
    let text = format!(
        "domain: shop\ndescriptors:\n  - {{key: k, value: 'a*'}}\n  - {{key: k, value: 'ab*'}}\n{lines}"
    );
    assert_eq!(told_of(&[&text]), [hides("4:21", "k_ab*", "k_a*", "3:21")]);
}

proptest! {
    /// An entry that is reported never matches, so it could be left out.
    #[test]
    fn what_is_told_is_never_found(
        values in proptest::collection::btree_set("[ab*]{1,3}", 1..6),
        asked in "[abc]{0,5}",
    ) {
        let values: Vec<String> = values.into_iter().rev().collect();
        let lines = values.iter().enumerate().map(|(n, value)| {
            let requests = n + 1;
            format!("  - {{key: k, value: '{value}', rate_limit: {{unit: hour, requests_per_unit: {requests}}}}}\n")
        });
        let text = format!("domain: shop\ndescriptors:\n{}", lines.collect::<String>());
        let settings = RuleSettings { default_capacity: Some(10), ..RuleSettings::default() };
        let world = World::with(&text, settings);
        let answer = world.check("shop", &[&[("k", asked.as_str())]]);
        let Some(rule) = answer.rule(0) else { return Ok(()) };
        let is_told = world.rules().hidden().iter().any(|hidden| hidden.to_string().contains(&format!("'{}' never", rule.path())));
        prop_assert!(!is_told, "{} for {asked}", rule.path());
    }
}
