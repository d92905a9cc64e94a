//! `examples/rules` of the repository.

use tollgate_rules::{FileSource, Rule, RuleCache, RuleSettings, RuleSource, RuleText};

#[test]
fn the_example_rules_mean_what_their_comments_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rules");
    let texts = FileSource::new(path).read().expect("the examples are there");
    let rules = RuleCache::new(RuleSettings::default()).load(&texts).expect("good rules");
    let lines: Vec<String> = rules.rules().iter().map(ToString::to_string).collect();
    let expected = [
        "shop.user: fixed-window 60/m named per-user",
        "shop.user.path_/login*: gcra 5/10m burst 3 named logins",
        "shop.remote_address: gcra 20/s burst 40 and fixed-window 10000/h",
        "shop.path_/search: sliding-window 100/s",
        "shop.crawler: fixed-window 10/m, shadow",
        "shop.health: unlimited",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn the_rules_for_proxies_are_those_of_their_page_and_none_is_in_vain() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let load = |texts: &[RuleText]| {
        let rules = RuleCache::new(RuleSettings::default()).load(texts).expect("good rules");
        assert!(rules.hidden().is_empty(), "{:?}", rules.hidden());
        let policies =
            |rule: &Rule| rule.limits().iter().map(|one| one.policy()).collect::<Vec<_>>();
        let forwards: Vec<String> = rules.all_forwards().map(ToString::to_string).collect();
        (forwards, rules.rules().iter().map(policies).collect::<Vec<_>>())
    };
    let page = std::fs::read_to_string(format!("{root}/docs/forward-auth.md")).expect("the page");
    let (_, block) = page.split_once("```yaml\n").expect("rules");
    let (block, _) = block.split_once("```").expect("their end");
    let texts = FileSource::new(format!("{root}/examples/forward-auth/rules")).read();
    let (example, page) = (load(&texts.expect("a file")), load(&[RuleText::new("page", block)]));
    assert_eq!(example, page);
    assert_eq!(
        example.0,
        [
            "shop: forward_auth {remote_address: address of x-forwarded-for}",
            "shop: forward_auth {path: path of x-forwarded-uri, remote_address: address of x-forwarded-for}",
            "shop: forward_auth {api_key: header x-api-key}",
        ]
    );
}
