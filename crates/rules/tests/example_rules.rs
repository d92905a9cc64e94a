//! `examples/rules` of the repository.

use tollgate_rules::{FileSource, RuleCache, RuleSource, Settings};

#[test]
fn the_example_rules_mean_what_their_comments_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rules");
    let texts = FileSource::new(path).read().expect("the examples are there");
    let rules = RuleCache::new(Settings::default()).load(&texts).expect("good rules");
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
