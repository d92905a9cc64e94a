//! Rules that are refused. Each error has the position, the value that was found, and the values that would be
//! accepted.

use crate::common::{World, limit, refused, with};
use proptest::prelude::*;
use tollgate_rules::{RuleCache, RuleSettings, RuleText};

/// Checks all cases before it fails, so that one run shows every wrong message.
#[track_caller]
fn assert_all_refused(cases: &[(String, &str)]) {
    let others = cases.iter().filter_map(|(rules, expected)| {
        let found = refused(rules.as_str());
        let is_expected = found == format!("test.yaml:{expected}");
        (!is_expected).then(|| format!("{rules}is refused with\n{found}\nand not with\n{expected}"))
    });
    let others: Vec<String> = others.collect();
    assert!(others.is_empty(), "{}", others.join("\n\n"));
}

#[test]
fn row_102_103_every_error_of_envoyproxy_ratelimit_is_an_error_with_its_text_and_place() {
    let cases = [
        ("".to_owned(), "1:1: config file cannot have empty domain; write domain: and a name"),
        (
            "domain: ''".to_owned(),
            "1:1: config file cannot have empty domain; write domain: and a name",
        ),
        (with("{key: ''}"), "3:5: descriptor has empty key; write key: and a name"),
        (with("{value: v}"), "3:5: descriptor has empty key; write key: and a name"),
        (
            limit("unit: foo, requests_per_unit: 5"),
            "3:33: invalid rate limit unit 'foo'; use second, minute, hour, day, week, month or year, or \
             leave unit out and write window: 30s",
        ),
        (
            limit("requests_per_unit: 5"),
            "3:26: invalid rate limit unit ''; use second, minute, hour, day, week, month or year, or leave \
             unit out and write window: 30s",
        ),
        (
            limit("unlimited: true, unit: day"),
            "3:50: should not specify rate limit unit when unlimited; leave one out",
        ),
        (
            limit("unit: day, replaces: [{name: ''}]"),
            "3:49: should not have an empty replaces entry; write - name: and a rule's name",
        ),
        (
            limit("unit: day, name: n, replaces: [{name: n}]"),
            "3:58: replaces should not contain name of same descriptor: 'n' would never count",
        ),
        (
            with("{ratelimit: {}}"),
            "3:6: config error, unknown key 'ratelimit'; did you mean 'rate_limit'? use one of key, value, cidr, \
             regex, rate_limit, limits, descriptors, shadow_mode, quota_mode, usage, detailed_metric, value_to_metric, \
             share_threshold, metadata, capacity, weight, on_error, accuracy, on_full, prefix_v4, prefix_v6",
        ),
        (
            limit("unit: day, requests: 5"),
            "3:38: config error, unknown key 'requests'; did you mean 'requests_per_unit'? use one of unit, \
             requests_per_unit, unlimited, name, replaces, rate, algorithm, burst, window, mode, count_rejected, penalty, queue, wait, debt, time_zone",
        ),
        (
            with("key"),
            "3:5: config error, yaml file contains list of type other than map: key; begin each entry with a \
             key, as in - key: user",
        ),
        (
            "domain: d\n[1]: 5\n".to_owned(),
            "2:1: config error, key is not of type string: a list or a map",
        ),
        (
            "domain: [".to_owned(),
            "2:1: error loading config file: while parsing a node, did not find expected node content",
        ),
        (
            with("{key: k, value: v, share_threshold: true}"),
            "3:5: share_threshold shares one limit between all values that a *, a cidr or a regex matches; \
             here is none of them",
        ),
        (
            "domain: d\ndescriptors:\n  - {key: k, value: v}\n  - {key: k, value: v}\n".to_owned(),
            "4:5: duplicate descriptor composite key 'd.k_v', first at 3:5; leave one out",
        ),
        (
            "domain: d\ndescriptors:\n  - {key: k}\n  - {key: k}\n".to_owned(),
            "4:5: duplicate descriptor composite key 'd.k', first at 3:5; leave one out",
        ),
    ];
    assert_all_refused(&cases);
}

#[test]
fn row_102_a_key_that_stands_twice_is_refused_with_both_places() {
    let metadata = "{key: k, metadata: {a: 1, a: 2}, rate_limit: {unit: day}}";
    assert_all_refused(&[
        (
            "domain: d\ndomain: e\n".to_owned(),
            "2:1: key 'domain' is here twice, first at 1:1; leave one out",
        ),
        (
            limit("unit: day, unit: hour"),
            "3:38: key 'unit' is here twice, first at 3:27; leave one out",
        ),
        (with(metadata), "3:31: key 'a' is here twice, first at 3:25; leave one out"),
    ]);
}

#[test]
fn row_104_numbers_are_whole_and_in_digits() {
    for number in
        ["1e30", "-1", "0x10", "off", "1.5", "4294967296", "1_000", "+1", "'x'", "~5", ".inf"]
    {
        let found = refused(limit(&format!("unit: day, requests_per_unit: {number}")));
        let text = number.trim_matches('\'');
        let expected = format!(
            "test.yaml:3:57: error checking config: requests_per_unit '{text}' is not understood; use \
             a whole number from 0 to 4294967295 in digits, as in 100"
        );
        assert_eq!(found, expected);
    }
    let most = limit("unit: minute, requests_per_unit: 4294967295");
    assert_eq!(World::new(&most).finds("d", &[("k", "x")]), Some(u32::MAX));
}

#[test]
fn what_is_ours_is_checked_as_strictly() {
    let cases = [
        (limit("unit: day, window: 5s"), "3:33: unit and window exclude each other; leave one out"),
        (
            limit("unlimited: true, burst: 5"),
            "3:51: burst and unlimited exclude each other; leave one out",
        ),
        (
            limit("window: 1y, requests_per_unit: 5"),
            "3:26: in policy \"5/1y\": a year has no fixed length; write 5/365d, or calendar-year 5",
        ),
        (
            limit("unit: day, requests_per_unit: 5, burst: 9"),
            "3:26: in policy \"fixed-window 5/d burst 9\": a window takes no burst: it admits its whole \
             limit at once; leave the burst out, or use gcra",
        ),
        (
            limit("unit: day, mode: strict"),
            "3:44: error checking config: mode 'strict' is not understood; use hard, soft with a share, as \
             in soft 5%, or elastic, which borrows what others of its domain leave",
        ),
        (
            limit("unit: day, count_rejected: perhaps"),
            "3:54: error checking config: count_rejected 'perhaps' is not understood; use true or false",
        ),
        (
            with("{key: k, capacity: 0, rate_limit: {unit: day}}"),
            "3:24: error checking config: capacity '0' is not understood; use the number of clients that are \
             limited at one time, from 1, as in 100000",
        ),
        (
            with("{key: k, on_error: shrug}"),
            "3:24: error checking config: on_error 'shrug' is not understood; use local, allow or deny",
        ),
        (
            with("{key: k, accuracy: rough}"),
            "3:24: error checking config: accuracy 'rough' is not understood; use exact, leased or async",
        ),
        (
            with("{key: k, shadow_mode: 1}"),
            "3:27: error checking config: shadow_mode '1' is not understood; use true or false",
        ),
        (
            with("{key: k, rate_limit: {unit: day}, limits: [{unit: day}]}"),
            "3:48: limits and rate_limit exclude each other; leave one out",
        ),
        (
            with("{key: k, limits: [{unlimited: true}]}"),
            "3:23: unlimited and limits exclude each other; leave one out",
        ),
        (with("{key: k, descriptors: {}}"), "3:27: descriptors is a map; it must be a list"),
        (with("{key: [k]}"), "3:11: key is a list; it must be a single value"),
        (
            with("{key: k, capacity: 9000000000, rate_limit: {unit: day, requests_per_unit: 1}}"),
            "3:48: with this rule the tables need 132474489872 bytes and 1073741824 are allowed \
             (--table-bytes of serve and check); there are too many rules, or some have too large a capacity: lower it, or \
             raise the allowance",
        ),
    ];
    assert_all_refused(&cases);
}

#[test]
fn row_101_bombs_and_abysses_are_refused_before_they_are_built() {
    let mut bomb = "domain: d\nx0: &x0 [0, 0, 0, 0, 0, 0, 0, 0, 0]\n".to_owned();
    for n in 1..20 {
        let aliases = vec![format!("*x{}", n - 1); 9].join(", ");
        bomb += &format!("x{n}: &x{n} [{aliases}]\n");
    }
    assert!(
        refused(bomb).contains("holds too many values, aliases counted each time; at most 250000")
    );
    let deep = |depth| "domain: d\ndescriptors: ".to_owned() + &"[".repeat(depth);
    assert!(refused(deep(100)).contains("is nested too deeply; at most 64"));
    // Lists that are nested in this style reach the parser's own limit of depth first.
    assert!(refused(deep(10_000)).contains("recursion limit exceeded"));
    let large = vec![b' '; (1 << 20) + 1];
    assert_eq!(
        refused(large),
        "test.yaml:1:1: is larger than 1048576 bytes; divide it into several domains"
    );
    assert_eq!(
        refused(b"domain: \xff".to_vec()),
        "test.yaml:1:1: holds bytes that are no UTF-8; save it as UTF-8"
    );
    assert!(refused("domain: d\n---\ndomain: e\n").contains("a second document begins here"));
    assert!(refused("domain: d\0").starts_with("test.yaml:1:"));
}

#[test]
fn row_127_control_characters_of_a_file_are_escaped_in_its_errors() {
    let found = refused(limit("unit: \"\\e[31m\\r\\nx\""));
    assert!(!found.contains(['\u{1b}', '\r', '\n']), "{found:?}");
    // The control characters stand in keys, in domains, in text that the parser quotes, and in the name of the file.
    for rules in [
        "doma\u{7f}n: d\n".to_owned(),
        with("{\"\\e[31m\": k}"),
        with("\"\\e[31m\""),
        limit("unit: day, name: \"\\e\", replaces: [{name: \"\\e\"}]"),
        limit("unit: day, \"\\x07\": 1, \"\\x07\": 2"),
    ] {
        let found = refused(rules.as_str());
        assert!(!found.contains(char::is_control), "{found:?}");
    }
    assert_eq!(
        refused("doma\u{7f}n: d\n"),
        "test.yaml:1:1: config error, unknown key 'doma\\u{7f}n'; did you mean 'domain'? use one of domain, descriptors, pool, forward_auth"
    );
    let cache = RuleCache::new(RuleSettings::default());
    let errors = cache.load(&[RuleText::new("a\nb.yaml", "domain: ''")]).expect_err("no domain");
    assert!(errors[0].to_string().starts_with("a\\nb.yaml:1:1: "), "{}", errors[0]);
}

#[test]
fn one_domain_in_two_files_is_refused_or_merged_as_asked() {
    let texts = [
        RuleText::new("a.yaml", with("{key: a, rate_limit: {unit: day, requests_per_unit: 1}}")),
        RuleText::new("b.yaml", with("{key: b, rate_limit: {unit: day, requests_per_unit: 2}}")),
    ];
    let apart = RuleCache::new(RuleSettings::default());
    let errors = apart.load(&texts).expect_err("two files");
    assert!(
        errors[0]
            .to_string()
            .starts_with("b.yaml:1:1: duplicate domain 'd' in config file, first in a.yaml")
    );
    let merged = RuleCache::new(RuleSettings { merge_domains: true, ..RuleSettings::default() });
    let rules = merged.load(&texts).expect("merged");
    assert_eq!(rules.rules().iter().map(|rule| rule.path()).collect::<Vec<_>>(), ["a", "b"]);
    let twice = [texts[0].clone(), RuleText::new("c.yaml", texts[0].bytes())];
    let errors = merged.load(&twice).expect_err("the same key");
    assert!(
        errors[0]
            .to_string()
            .contains("duplicate descriptor composite key 'd.a', first at a.yaml:3:5")
    );
}

#[test]
fn aliases_and_merge_keys_mean_what_they_name() {
    let world = World::new(
        "
domain: d
descriptors:
  - key: a
    rate_limit: &slow {unit: hour, requests_per_unit: 3}
  - key: b
    rate_limit: *slow
  - key: c
    rate_limit: {<<: *slow, requests_per_unit: 4}
  - key: e
    shadow_mode: off
    rate_limit: {<<: [{unit: DAY}, *slow]}
",
    );
    for (key, expected) in [("a", 3), ("b", 3), ("c", 4), ("e", 3)] {
        assert_eq!(world.finds("d", &[(key, "x")]), Some(expected));
    }
}

#[test]
fn row_107_a_pattern_made_to_be_slow_is_not() {
    let pattern = "a*".repeat(2_000) + "b";
    let world =
        World::new(&with(&format!("{{key: k, value: '{pattern}', rate_limit: {{unit: day}}}}")));
    let value = "a".repeat(60_000);
    assert_eq!(world.finds("d", &[("k", value.as_str())]), None);
}

proptest! {
    #[test]
    fn any_bytes_are_accepted_or_refused_with_a_place(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let cache = RuleCache::new(RuleSettings::default());
        if let Err(errors) = cache.load(&[RuleText::new("test.yaml", bytes)]) {
            prop_assert!(errors[0].at.is_some());
        }
    }

    #[test]
    fn any_words_of_the_language_are_accepted_or_refused_with_a_place(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "domain", "descriptors", "key", "value", "rate_limit", "unit", "day", "{", "}", "[", "]",
                ": ", "\n", "  ", "- ", "&a ", "*a", "<<", "'", "\"", "5", "limits", "metadata", ", ", "|",
                "true", "~", "# ", "---", "!!str ", "? ", "replaces", "name", "window", "é",
            ]),
            0..60,
        )
    ) {
        let cache = RuleCache::new(RuleSettings { default_capacity: Some(8), ..RuleSettings::default() });
        if let Err(errors) = cache.load(&[RuleText::new("test.yaml", words.concat())]) {
            prop_assert!(errors[0].at.is_some());
        }
    }
}
