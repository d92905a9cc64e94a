//! Values matched by network and by regular expression.

use crate::common::{World, refused, with};
use tollgate_rules::RuleSettings;

fn rules(lines: &[&str]) -> String {
    let limits = lines.iter().enumerate().map(|(n, line)| {
        format!(
            "  - {{{line}, capacity: 64, rate_limit: {{unit: hour, requests_per_unit: {}}}}}\n",
            n + 1
        )
    });
    "domain: d\ndescriptors:\n".to_owned() + &limits.collect::<String>()
}

#[test]
fn exact_then_the_longest_network_then_stars_then_expressions_then_the_key_alone() {
    let world = World::new(&rules(&[
        "key: ip",
        "key: ip, regex: '10[.].*'",
        "key: ip, regex: '1.*'",
        "key: ip, value: '10.9.*'",
        "key: ip, value: '1*'",
        "key: ip, cidr: 10.0.0.0/8",
        "key: ip, cidr: 10.1.0.0/16",
        "key: ip, value: 10.1.2.3",
        "key: ip, cidr: '2001:db8::/32'",
        "key: 'i*', value: 'x*'",
        "key: path, regex: '/users/[0-9]+'",
        "key: path, regex: '/users/.*'",
        "key: path",
    ]));
    for (key, value, expected) in [
        ("ip", "10.1.2.3", 8),
        ("ip", "10.1.2.4", 7),
        ("ip", "::ffff:10.1.2.4", 7),
        ("ip", "10.9.0.1", 6),
        ("ip", "10.9.0.x", 4),
        ("ip", "10.2.x", 5),
        ("ip", "2001:DB8::5", 9),
        ("ip", "2001:db9::5", 1),
        ("ip", "x1", 10),
        ("ip", "", 1),
        ("path", "/users/12", 11),
        ("path", "/users/12a", 12),
        ("path", "a/users/12", 13),
    ] {
        assert_eq!(world.finds("d", &[(key, value)]), Some(expected), "{key} {value}");
    }
    assert_eq!(world.finds("d", &[("other", "10.1.2.3")]), None);
}

#[test]
fn a_network_that_envoy_has_masked_is_text_and_lies_in_networks() {
    let world = World::new(&rules(&[
        "key: masked_remote_address, value: 10.0.0.0/8",
        "key: masked_remote_address, cidr: 10.0.0.0/8",
    ]));
    let finds = |value| world.finds("d", &[("masked_remote_address", value)]);
    assert_eq!(
        [finds("10.0.0.0/8"), finds("10.7.0.0/16"), finds("8.0.0.0/6")],
        [Some(1), Some(2), None]
    );
}

#[test]
fn values_have_a_limit_each_unless_it_is_shared() {
    let world = World::new(&rules(&[
        "key: each, cidr: 10.0.0.0/8",
        "key: shared, cidr: 10.0.0.0/8, share_threshold: true",
        "key: nets, cidr: 10.0.0.0/8, prefix_v4: 24",
        "key: six, cidr: '2001:db8::/32'",
        "key: word, regex: '[a-z]+'",
        "key: words, regex: '[a-z]+', share_threshold: true",
    ]));
    let left = |key, value| world.check("d", &[&[(key, value)]]).statuses()[0].remaining;
    assert_eq!([left("each", "10.0.0.1"), left("each", "10.0.0.2")], [0, 0]);
    assert_eq!([left("shared", "10.0.0.1"), left("shared", "10.9.0.2")], [1, 0]);
    assert_eq!(
        [left("nets", "10.0.0.1"), left("nets", "10.0.0.2"), left("nets", "10.0.1.1")],
        [2, 1, 2]
    );
    assert_eq!(
        [left("six", "2001:db8::1"), left("six", "2001:db8::2"), left("six", "2001:db8:1::")],
        [3, 2, 3]
    );
    assert_eq!([left("word", "a"), left("word", "b")], [4, 4]);
    assert_eq!([left("words", "a"), left("words", "b")], [5, 4]);
}

#[test]
fn a_rule_is_known_by_what_it_matches() {
    let world = World::new(&rules(&[
        "key: k, cidr: 10.0.0.0/8",
        "key: k, regex: 'a/b'",
        "key: k, value: a/b",
        "key: m, cidr: 10.0.0.0/8, share_threshold: true",
        "key: m, regex: x, share_threshold: true",
        "key: m, value: '=x'",
    ]));
    let set = world.rules();
    let known: Vec<_> = set.rules().iter().map(|rule| (rule.path(), rule.identity())).collect();
    assert_eq!(
        known,
        [
            ("k_10.0.0.0/8", "k~=10.0.0.0%2F8"),
            ("k_/a/b/", "k~~a%2Fb"),
            ("k_a/b", "k=a%2Fb"),
            ("m_10.0.0.0/8", "m==10.0.0.0%2F8"),
            ("m_/x/", "m=~x"),
            ("m_=x", "m=%3Dx"),
        ]
    );
}

#[test]
fn what_cannot_match_is_refused_with_what_to_write() {
    let cases: [(&str, &str); 13] = [
        (
            "key: ip, value: 10.0.0.0/8",
            "test.yaml:3:22: value '10.0.0.0/8' is compared as text, which no address is; write cidr: '10.0.0.0/8', \
             or for this very text regex: '10\\.0\\.0\\.0/8'",
        ),
        (
            "key: ip, value: '2001:db8::/129'",
            "test.yaml:3:22: value '2001:db8::/129' is compared as text, which no address is; write cidr: \
             '2001:db8::/129', or for this very text regex: '2001:db8::/129'",
        ),
        (
            "key: ip, cidr: 10.1.2.3/8",
            "test.yaml:3:21: error checking config: cidr '10.1.2.3/8' is not understood; use a network whose bits \
             behind the prefix are 0, as in 10.0.0.0/8 or 2001:db8::/32",
        ),
        (
            "key: ip, cidr: 10.0.0.1",
            "test.yaml:3:21: error checking config: cidr '10.0.0.1' is not understood; use a network whose bits \
             behind the prefix are 0, as in 10.0.0.0/8 or 2001:db8::/32",
        ),
        (
            "key: ip, cidr: 10.0.0.0/33",
            "test.yaml:3:21: error checking config: cidr '10.0.0.0/33' is not understood; use a network whose bits \
             behind the prefix are 0, as in 10.0.0.0/8 or 2001:db8::/32",
        ),
        (
            "key: ip, cidr: 10.0.0.0/8, value: x",
            "test.yaml:3:21: cidr and value exclude each other; leave one out",
        ),
        (
            "key: ip, cidr: 10.0.0.0/8, regex: x",
            "test.yaml:3:40: regex and cidr exclude each other; leave one out",
        ),
        (
            "key: 'i*', cidr: 10.0.0.0/8",
            "test.yaml:3:23: cidr and a * in key exclude each other; leave one out",
        ),
        (
            "key: 'i*', regex: x",
            "test.yaml:3:24: regex and a * in key exclude each other; leave one out",
        ),
        (
            "key: ip, regex: 'a(b'",
            "test.yaml:3:22: regex 'a(b' cannot be used: unclosed group (at character 2)",
        ),
        (
            "key: ip, regex: '[^\\s\\S]'",
            "test.yaml:3:22: regex '[^\\\\s\\\\S]' cannot be used: it matches nothing",
        ),
        (
            "key: ip, regex: x, share_threshold: true}\n  - {key: ip, regex: x",
            "test.yaml:4:5: duplicate descriptor composite key 'd.ip_/x/', first at 3:5; leave one out",
        ),
        (
            "key: ip, cidr: '::ffff:10.0.0.0/104'}\n  - {key: ip, cidr: 10.0.0.0/8",
            "test.yaml:4:5: duplicate descriptor composite key 'd.ip_10.0.0.0/8', first at 3:5; leave one out",
        ),
    ];
    for (descriptor, expected) in cases {
        assert_eq!(refused(with(&format!("{{{descriptor}}}"))), expected);
    }
}

#[test]
fn the_number_of_expressions_is_bounded() {
    let expressions = |count: usize| {
        let one = |n| format!("  - {{key: k, regex: 'a{n}', rate_limit: {{unlimited: true}}}}\n");
        "domain: d\ndescriptors:\n".to_owned() + &(0..count).map(one).collect::<String>()
    };
    let settings = || RuleSettings { default_capacity: Some(1), ..RuleSettings::default() };
    World::with(&expressions(256), settings());
    assert_eq!(
        refused(expressions(257)),
        "test.yaml:259:21: there are too many regular expressions; at most 256 in all files, so write some as value \
         with *, or several as one with |"
    );
}
