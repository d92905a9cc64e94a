//! `forward_auth`: the descriptors that are made of a forwarded request, and the files that are refused.

use crate::common::{Scripted, World, refused};
use tollgate_rules::{Descriptor, Forward, ForwardEntry, Purpose, Request, RuleSettings};

const RULES: &str = "
domain: shop
forward_auth:
  - remote_address: address
  - {path: path else /, user: header X-User}
descriptors:
  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 5}}
  - key: path
    descriptors:
      - {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}
";

/// A file without rules that has one descriptor of `forward_auth`.
fn with(forward: &str) -> String {
    format!("domain: d\nforward_auth:\n  - {forward}\n")
}

/// The entry of a rule file that describes the value of the key `k` with this text.
fn entry(text: &str) -> ForwardEntry {
    let rules = World::new(&with(&format!("{{k: {text:?}}}"))).rules();
    rules.forwards("d").expect("a domain")[0].entries()[0].clone()
}

#[test]
fn each_form_of_a_source_is_read_and_printed_in_full() {
    for (text, printed) in [
        ("address", "address of x-forwarded-for"),
        ("address of X-Real-IP", "address of x-real-ip"),
        ("method", "header x-forwarded-method"),
        ("method of x-original-method", "header x-original-method"),
        ("host", "host of x-forwarded-host"),
        ("path", "path of x-forwarded-uri"),
        ("  path  of\tX-Original-URL  else  / ", "path of x-original-url else /"),
        ("header X-User", "header x-user"),
        ("header x-user else no user else", "header x-user else no user else"),
        ("text web", "text web"),
        ("text path else /", "text path else /"),
    ] {
        let found = entry(text);
        assert_eq!(found.to_string(), format!("k: {printed}"), "{text}");
        assert_eq!(entry(printed), found, "{text}");
    }
}

#[test]
fn descriptors_keep_the_order_of_the_file_and_a_domain_has_none_but_its_own() {
    let world = World::new(RULES);
    let rules = world.rules();
    let expected = [
        "shop: forward_auth {remote_address: address of x-forwarded-for}",
        "shop: forward_auth {path: path of x-forwarded-uri else /, user: header x-user}",
    ];
    let all: Vec<String> = rules.all_forwards().map(Forward::to_string).collect();
    assert_eq!(all, expected);
    assert!(rules.hidden().is_empty(), "{:?}", rules.hidden());
    assert_eq!(rules.forwards("shop").map(<[_]>::len), Some(2));
    assert!(rules.forwards("bank").is_none());
    let merged =
        World::with("domain: d", RuleSettings { merge_domains: true, ..RuleSettings::default() });
    let rules = merged.load_files(&[&with("a: address"), &with("b: path"), "domain: e"]);
    let all: Vec<String> = rules.all_forwards().map(Forward::to_string).collect();
    let expected = [
        "d: forward_auth {a: address of x-forwarded-for}",
        "d: forward_auth {b: path of x-forwarded-uri}",
    ];
    assert_eq!(all, expected);
    assert_eq!(rules.forwards("e").map(<[_]>::len), Some(0));
}

#[test]
fn a_domain_without_rules_keeps_its_descriptors_with_its_last_good_rules() {
    let world = World::new(RULES);
    let rules = world.load_files(&["domain: shop"]);
    assert_eq!(rules.kept_domains().collect::<Vec<_>>(), ["shop"]);
    assert_eq!(rules.forwards("shop").map(<[_]>::len), Some(2));
}

#[test]
fn what_is_no_mapping_is_refused_with_its_place_and_what_would_be_accepted() {
    const SOURCES: &str = "use address, method, host or path, alone or with a header as in path of x-original-url; \
                           header x-user; or text web; behind all but the last a value for its absence may follow, as \
                           in header x-user else anonymous";
    for (forward, expected) in [
        ("{p: pth}", format!("3:9: 'pth' is no part of a request; did you mean 'path'? {SOURCES}")),
        ("{p: user}", format!("3:9: 'user' is no part of a request; {SOURCES}")),
        ("{p: }", format!("3:7: '' is no part of a request; {SOURCES}")),
        ("{p: path off x}", format!("3:9: 'path off x' is no part of a request; {SOURCES}")),
        ("{p: path of}", format!("3:9: 'path of' is no part of a request; {SOURCES}")),
        ("{p: header}", format!("3:9: 'header' is no part of a request; {SOURCES}")),
        ("{p: header a b}", format!("3:9: 'header a b' is no part of a request; {SOURCES}")),
        ("{p: text}", format!("3:9: 'text' is no part of a request; {SOURCES}")),
        (
            "{p: 'header x:user'}",
            "3:9: 'x:user' is no name of a header; use letters, digits and dashes, as in x-user".into(),
        ),
        (
            "{p: [path]}",
            "3:9: a part of forward_auth is a list; it must be a text, as in path".into(),
        ),
        ("{p: path, p: host}", "3:15: key 'p' is here twice, first at 3:6; leave one out".into()),
        ("{'': path}", "3:6: descriptor has empty key; write key: and a name".into()),
        ("{}", "3:5: descriptor has empty key; write key: and a name".into()),
        (
            "path",
            "3:5: config error, yaml file contains list of type other than map: path; begin each entry with a key, as in \
             - key: user"
                .into(),
        ),
    ] {
        assert_eq!(refused(with(forward)), format!("test.yaml:{expected}"), "{forward}");
    }
    let expected = "test.yaml:2:15: forward_auth is a single value; it must be a list";
    assert_eq!(refused("domain: d\nforward_auth: address\n"), expected);
    let unknown = refused("domain: d\nforwardauth: []\n");
    assert!(unknown.contains("did you mean 'forward_auth'?"), "{unknown}");
}

/// If such a load were accepted, a client's header could make a request so large that its decision is refused, and some
/// proxies would then let the request pass.
#[test]
fn a_load_that_could_make_of_a_request_more_than_it_may_have_is_refused() {
    let all = |n: usize| format!("domain: d\nforward_auth:\n{}", "  - {a: path}\n".repeat(n));
    assert_eq!(
        refused(all(101)),
        "test.yaml:103:5: a forwarded request could have 101 descriptors, of at most 100; leave some out of forward_auth"
    );
    let keys = |n: usize| {
        let keys: Vec<String> = (0..n).map(|key| format!("k{key}: text x")).collect();
        with(&format!("{{{}}}", keys.join(", ")))
    };
    World::new(&keys(32));
    let most =
        "test.yaml:3:5: a forwarded request could have 33 keys in a descriptor, of at most 32; ";
    assert!(refused(keys(33)).starts_with(most));
    // Each entry has a key of one byte and a value of at most 8 KiB. The domain has one byte.
    let wide = |n: usize| {
        let keys = (0..16).map(|key| format!("{}: path", char::from(b'a' + key)));
        let forward = format!("  - {{{}}}\n", keys.collect::<Vec<_>>().join(", "));
        format!("domain: d\nforward_auth:\n{}", forward.repeat(n))
    };
    World::new(&wide(7));
    assert_eq!(
        refused(wide(8)),
        "test.yaml:10:5: a forwarded request could have 1048705 bytes of keys and values, of at most 1048576; leave some \
         out of forward_auth"
    );
}

#[test]
fn a_descriptor_that_no_rule_matches_is_told() {
    let hidden = |forward: &str| {
        let (_, rules) = RULES.split_once("descriptors:").expect("rules");
        let world = World::new(&format!("{}descriptors:{rules}", with(forward)));
        world.rules().hidden().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(hidden("{remote_address: address}"), [""; 0]);
    assert_eq!(hidden("{path: path, user: header x-user}"), [""; 0]);
    for (forward, keys) in [
        ("{remote_adress: address}", "remote_adress"),
        ("{path: path}", "path"),
        ("{user: header x-user, path: path}", "user, path"),
        ("{path: path, user: header x-user, method: method}", "path, user, method"),
    ] {
        let expected = format!(
            "test.yaml:3:5: forward_auth makes a descriptor of {keys}, and no rule of the domain has these keys in this \
             order, so it limits nothing; write a descriptor with them, or leave it out"
        );
        assert_eq!(hidden(forward), [expected], "{forward}");
    }
}

#[test]
fn a_rule_of_any_kind_matches_a_descriptor_of_its_keys() {
    for rule in [
        "{key: k, value: one, rate_limit: {unit: hour, requests_per_unit: 1}}",
        "{key: k, value: 'o*', rate_limit: {unit: hour, requests_per_unit: 1}}",
        "{key: k, cidr: 10.0.0.0/8, rate_limit: {unit: hour, requests_per_unit: 1}}",
        "{key: k, regex: 'o+', rate_limit: {unit: hour, requests_per_unit: 1}}",
        "{key: '*', rate_limit: {unlimited: true}}",
    ] {
        let text = format!("{}descriptors:\n  - {rule}\n", with("{k: path}"));
        let world = World::new(&text);
        assert!(world.rules().hidden().is_empty(), "{rule}");
    }
}

/// A request's descriptors may be made before a reload and decided after it. Under the new rules they might match
/// nothing.
#[test]
fn a_request_with_rules_of_its_own_is_decided_by_these_over_a_load() {
    let world = World::new(RULES);
    let before = world.rules();
    let renamed = RULES.replace("remote_address", "client");
    world.load(&renamed).expect("good rules");
    let descriptors = [Descriptor::new(&[("remote_address", "192.0.2.1")])];
    let request = Request::new("shop", &descriptors);
    let limit = |request: &Request<'_>| {
        let answer = world.ask(request).expect("a good request");
        answer.statuses()[0].limit.map(|limit| limit.requests_per_unit)
    };
    assert_eq!(limit(&request), None);
    let pinned = Request { rules: Some(&before), ..request };
    assert_eq!(limit(&pinned), Some(5));
    let mut store = Scripted::default();
    let _ = world.decide_in(&mut store, &pinned, Purpose::Check);
    assert_eq!(store.asked, [("charge together", vec![("remote_address".to_owned(), 1)])]);
}
