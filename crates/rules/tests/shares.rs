//! Rules without a `capacity` share the memory for tables.

use std::sync::Arc;

use crate::common::{refused, with};
use tollgate::ManualClock;
use tollgate_rules::{
    DecisionMaker, Descriptor, LimitChange, Loss, Problem, Request, RuleCache, RuleSet,
    RuleSettings, RuleText,
};

const GIB: u64 = 1 << 30;

/// The file of a service with three rules, each of which leaves the client open.
fn service(n: usize) -> RuleText {
    let rule = |key, limit| {
        format!("  - {{key: {key}, rate_limit: {{unit: hour, requests_per_unit: {limit}}}}}\n")
    };
    let rules = [rule("user", 1), rule("address", 10), rule("token", 100)].concat();
    RuleText::new(format!("s{n}.yaml"), format!("domain: s{n}\ndescriptors:\n{rules}"))
}

fn load(cache: &RuleCache, texts: &[RuleText]) -> Arc<RuleSet> {
    cache.load(texts).expect("good rules")
}

fn capacities(rules: &RuleSet) -> Vec<usize> {
    rules.rules().iter().map(|rule| rule.capacity()).collect()
}

/// Settings under which tables may take so many bytes.
fn table_bytes(max_table_bytes: u64) -> RuleSettings {
    RuleSettings { max_table_bytes, ..RuleSettings::default() }
}

/// A cache with these settings that begins with the state of this one.
fn restarted(before: &RuleCache, settings: RuleSettings) -> RuleCache {
    let mut state = Vec::new();
    before.save(&mut state).expect("a state");
    let mut cache = RuleCache::new(settings);
    cache.restore(&state[..]).expect("the state");
    cache
}

fn told(changes: &[LimitChange]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}

/// By default tables may take a gibibyte. Each rule of these domains gets its share of half of that.
#[test]
fn five_hundred_domains_of_three_rules_load_with_the_defaults() {
    let cache = RuleCache::new(RuleSettings::default());
    let texts: Vec<RuleText> = (0..500).map(service).collect();
    let rules = load(&cache, &texts);
    assert_eq!(rules.rules().len(), 1_500);
    assert!(rules.table_bytes() <= GIB / 2, "{}", rules.table_bytes());
    let narrowed = rules.narrowed().expect("1,500 rules are more than have room for 65,536");
    assert_eq!(narrowed.rules, 1_500);
    assert_eq!(Some(&narrowed.least), capacities(&rules).iter().min());
    assert!(narrowed.least > 20_000, "{narrowed}");
    // Ten more domains change no other rule: the units that were spent stay spent.
    let more: Vec<RuleText> = (0..510).map(service).collect();
    let before = capacities(&rules);
    let rules = load(&cache, &more);
    assert_eq!(told(rules.changes()), Vec::<String>::new());
    let after = capacities(&rules);
    assert_eq!(after[..1_500], before);
    // The new rules get no more clients than the others, although there is room.
    assert!(after[1_500..].iter().all(|clients| clients.abs_diff(before[0]) < 1_000), "{after:?}");
    assert!(rules.table_bytes() <= GIB);
}

#[test]
fn a_million_clients_of_five_hundred_domains_are_counted_within_their_memory() {
    let cache = Arc::new(RuleCache::with_clock(RuleSettings::default(), ManualClock::new()));
    let texts: Vec<RuleText> = (0..500).map(service).collect();
    load(&cache, &texts);
    let maker = DecisionMaker::new(Arc::clone(&cache)).expect("small tables");
    let ask = |n: usize| {
        let (domain, user) = (format!("s{}", n % 500), format!("u{n}"));
        let entries = [("user", user.as_str())];
        let descriptors = [Descriptor::new(&entries)];
        maker.check(&Request::new(&domain, &descriptors)).expect("a good request").is_allowed()
    };
    let admitted = (0..1_000_000).filter(|n| ask(*n)).count();
    let again = (0..1_000_000).filter(|n| ask(*n)).count();
    // Each rule has 2,000 clients with one request an hour each. No client is forgotten, and none uses up another
    // client's limit.
    assert_eq!((admitted, again), (1_000_000, 0));
    let rules = cache.rules().expect("loaded");
    assert!(rules.table_bytes() <= GIB);
}

#[test]
fn a_weight_is_so_many_shares_and_a_capacity_is_no_share() {
    let text = |own: &str| {
        let rule = |key: &str, own: &str| {
            format!("  - {{key: {key}, {own}rate_limit: {{unit: hour, requests_per_unit: 9}}}}\n")
        };
        let rules = [rule("a", ""), rule("b", own), rule("c", "capacity: 1000, ")].concat();
        [RuleText::new("d.yaml", format!("domain: d\ndescriptors:\n{rules}"))]
    };
    // There is room for all rules.
    let cache = RuleCache::new(RuleSettings::default());
    assert_eq!(capacities(&load(&cache, &text("weight: 3, "))), [65_536, 196_608, 1_000]);
    assert_eq!(load(&cache, &text("weight: 3, ")).narrowed(), None);
    // The setting gives one number for all rules without a `capacity`, which is multiplied by their weight.
    let settings = RuleSettings { default_capacity: Some(100), ..RuleSettings::default() };
    assert_eq!(
        capacities(&load(&RuleCache::new(settings), &text("weight: 3, "))),
        [100, 300, 1_000]
    );
    // There is no room for all rules, so the memory is divided by weight.
    let cache = RuleCache::new(table_bytes(1 << 20));
    let rules = load(&cache, &text("weight: 3, "));
    let shares = capacities(&rules);
    assert!((2.9..3.1).contains(&(shares[1] as f64 / shares[0] as f64)), "{shares:?}");
    assert!(rules.table_bytes() <= (1 << 19) + (1 << 15), "{}", rules.table_bytes());
    // A rule with another weight gets another table, and this is reported. A rule that has not changed keeps its table.
    let rules = load(&cache, &text("weight: 2, "));
    let losses: Vec<Option<Loss>> = rules.changes().iter().map(LimitChange::loss).collect();
    assert!(matches!(losses[..], [Some(Loss::Capacity { .. })]), "{losses:?}");
    assert_eq!(capacities(&rules)[0], shares[0]);
}

#[test]
fn bad_input_a_weight_is_refused_beside_a_capacity_and_out_of_bounds() {
    for own in ["capacity: 5, weight: 2", "weight: 0", "weight: 1001", "weight: much"] {
        let rule = format!("{{key: a, {own}, rate_limit: {{unit: hour, requests_per_unit: 9}}}}");
        let error = refused(with(&rule));
        assert!(error.contains("weight"), "{own}: {error}");
    }
}

#[test]
fn bad_input_a_capacity_for_all_that_is_too_large_is_told_one_that_fits() {
    let texts: Vec<RuleText> = (0..500).map(service).collect();
    let settings =
        |clients| RuleSettings { default_capacity: Some(clients), ..RuleSettings::default() };
    let errors = RuleCache::new(settings(65_536)).load(&texts).expect_err("1.45 GB");
    let Problem::TooMuchMemory { most: GIB, fitting: Some(fitting), .. } = errors[0].problem else {
        panic!("{errors:?}");
    };
    let text = errors[0].to_string();
    assert!(text.contains("--capacity") && text.contains(&fitting.to_string()), "{text}");
    assert!((40_000..60_000).contains(&fitting), "{fitting}");
    load(&RuleCache::new(settings(fitting)), &texts);
    assert!(RuleCache::new(settings(fitting + 16)).load(&texts).is_err());
}

/// The tables of a restored state keep their sizes, even if there are other rules beside them now.
#[test]
fn a_share_is_kept_over_a_restart() {
    let settings = || table_bytes(4 << 20);
    let two: Vec<RuleText> = (0..2).map(service).collect();
    let cache = RuleCache::new(settings());
    let before = capacities(&load(&cache, &two));
    let cache = restarted(&cache, settings());
    let three: Vec<RuleText> = (0..3).map(service).collect();
    let rules = load(&cache, &three);
    assert_eq!(told(rules.changes()), Vec::<String>::new());
    assert_eq!(capacities(&rules)[..6], before);
}

/// A control plane may send one domain after the other.
#[test]
fn a_service_that_grows_domain_by_domain_takes_them_all_and_starts_again_with_its_state() {
    let settings = || table_bytes(16 << 20);
    let cache = RuleCache::new(settings());
    let (mut texts, mut begun_anew) = (Vec::new(), 0);
    for n in 0..60 {
        texts.push(service(n));
        let rules = load(&cache, &texts);
        assert!(rules.table_bytes() <= 16 << 20);
        begun_anew += usize::from(!rules.changes().is_empty());
        let sizes = capacities(&rules);
        let (least, most) = (sizes.iter().min().expect("a rule"), sizes.iter().max());
        // Each rule has at least about a quarter of its equal share of half of 16 MiB.
        let equal = (8 << 20) / 15 / sizes.len();
        assert!(*least >= equal.min(65_536) / 5, "{n}: {least} of {equal}, {most:?}");
    }
    // Rules begin anew only when there are nearly twice as many rules as when they last began anew.
    assert!((1..=6).contains(&begun_anew), "{begun_anew}");
    let cache = restarted(&cache, settings());
    assert_eq!(told(load(&cache, &texts).changes()), Vec::<String>::new());
}

#[test]
fn a_limit_whose_table_cannot_be_kept_has_the_size_of_a_new_one() {
    let text = |limit: &str| [RuleText::new("d.yaml", with(&format!("{{key: a, {limit}}}")))];
    let one = text("rate_limit: {unit: hour, requests_per_unit: 10000}");
    for (most, now) in [
        (GIB, text("rate_limit: {unit: hour, requests_per_unit: 10000, algorithm: sliding-log}")),
        (
            2 << 20,
            text(
                "limits: [{unit: hour, requests_per_unit: 9}, {unit: day, requests_per_unit: 90}, \
                 {unit: minute, requests_per_unit: 3}]",
            ),
        ),
    ] {
        let settings = || table_bytes(most);
        let fresh = capacities(&load(&RuleCache::new(settings()), &now));
        let cache = RuleCache::new(settings());
        load(&cache, &one);
        let reloaded = load(&cache, &now);
        assert!(capacities(&reloaded)[0] * 4 >= fresh[0], "{:?} {fresh:?}", capacities(&reloaded));
        assert!(reloaded.table_bytes() <= most);
    }
}

/// The last good rules of domains that are gone stay in force, but not if rules of the files need their room.
#[test]
fn domains_that_are_gone_are_given_up_before_a_rule_that_is_there_has_little() {
    let cache = RuleCache::new(table_bytes(2 << 20));
    let fresh = capacities(&load(&cache, &[service(0)]))[0];
    for n in 1..40 {
        let rules = load(&cache, &[service(n)]);
        let here = rules.rules().iter().find(|rule| rule.domain() == format!("s{n}"));
        let clients = here.expect("a rule").capacity();
        assert!(clients >= fresh / 4, "{n}: {clients} of {fresh}");
        assert_eq!(told(rules.changes()), Vec::<String>::new(), "{n}");
    }
}

#[test]
fn a_rule_that_is_changed_back_finds_its_table_again_and_a_weight_counts_over_a_restart() {
    let settings = || table_bytes(1 << 20);
    let text = |own: &str| {
        let rule = |key: &str, own: &str| {
            format!("  - {{key: {key}, {own}rate_limit: {{unit: hour, requests_per_unit: 2}}}}\n")
        };
        let rules = [rule("user", own), rule("other", "")].concat();
        [RuleText::new("d.yaml", format!("domain: d\ndescriptors:\n{rules}"))]
    };
    for own in ["capacity: 1000, ", "weight: 2, "] {
        let cache = RuleCache::new(settings());
        let first = capacities(&load(&cache, &text("")));
        assert_ne!(capacities(&load(&cache, &text(own))), first);
        let again = load(&cache, &text(""));
        assert_eq!(capacities(&again), first);
        let change = told(again.changes());
        assert!(
            matches!(&change[..], [one] if one.contains("goes on with what was spent")),
            "{change:?}"
        );
        // A state records how the sizes of its tables were decided.
        let cache = restarted(&cache, settings());
        assert_ne!(capacities(&load(&cache, &text(own)))[0], first[0]);
    }
}
