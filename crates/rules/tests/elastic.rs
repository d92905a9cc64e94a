//! `mode: elastic`: units that a limit denies for now are borrowed from the pool of its domain, while a report is in
//! force.

use std::time::Duration;

use crate::common::{World, compat_is, limit, refused};
use tollgate_rules::{
    Answer, HeadroomRefusal, Purpose, RuleCache, RuleCounts, RuleSettings, RuleText,
};

const POOL: &str = "{unit: hour, requests_per_unit: 8}";
/// A limit of one request in each hour of the clock.
const HOURLY: &str = "rate_limit: {unit: hour, requests_per_unit: 1, mode: elastic}";
const TEN: Duration = Duration::from_secs(10);

fn text(pool: &str, rules: &[(&str, &str)]) -> String {
    let lines = rules.iter().map(|(key, rest)| format!("  - {{key: {key}, {rest}}}\n"));
    format!("domain: shop\npool: {pool}\ndescriptors:\n{}", lines.collect::<String>())
}

fn world(rules: &[(&str, &str)]) -> World {
    World::new(&text(POOL, rules))
}

impl World {
    #[track_caller]
    fn report(&self, headroom: f64) {
        self.maker.cache().report_headroom("shop", headroom, TEN).expect("a good report");
    }

    /// Whether the request is admitted, and whether its units are borrowed.
    #[track_caller]
    fn asks(&self, key: &str) -> (bool, bool) {
        told(&self.decide_in_shop(&[key], 1, Purpose::Check))
    }

    /// The units that the pool would lend now, the units that it has lent, and the number of reports that have expired.
    #[track_caller]
    fn pool(&self) -> [u64; 3] {
        let rules = self.rules();
        let pool = rules.pools().next().expect("a pool");
        [pool.remaining(), pool.lent(), pool.expired()]
    }
}

fn told(answer: &Answer) -> (bool, bool) {
    (answer.is_allowed(), answer.statuses().iter().any(|status| status.is_borrowed))
}

const OWN: (bool, bool) = (true, false);
const BORROWED: (bool, bool) = (true, true);
const DENIED: (bool, bool) = (false, false);

#[test]
fn what_a_limit_denies_is_borrowed_at_the_reported_headroom_and_nothing_without_a_report() {
    let world = world(&[("user", HOURLY)]);
    assert_eq!([(); 3].map(|()| world.asks("user")), [OWN, DENIED, DENIED]);
    assert_eq!(world.pool(), [0, 0, 0]);
    world.report(0.5);
    let found = [(); 6].map(|()| world.asks("user"));
    assert_eq!(found, [BORROWED, BORROWED, BORROWED, BORROWED, DENIED, DENIED]);
    assert_eq!(world.pool(), [0, 4, 0]);
    let RuleCounts { within_limit, over_limit, borrowed, .. } = world.counts("user");
    assert_eq!((within_limit, over_limit, borrowed), (5, 4, 4));
    // With a headroom of 1 the pool has its units again after an hour. The client's own limit then has a new window.
    world.report(1.0);
    assert_eq!(world.pool(), [0, 4, 0], "four at half the headroom were all of it");
    world.clock.advance(Duration::from_secs(3_600));
    assert_eq!([(); 2].map(|()| world.asks("user")), [OWN, DENIED]);
    world.report(1.0);
    assert_eq!((0..20).filter(|_| world.asks("user") == BORROWED).count(), 8);
}

#[test]
fn a_report_counts_for_its_time_and_its_end_is_told_once() {
    let world = world(&[("user", HOURLY)]);
    world.report(1.0);
    assert_eq!([(); 2].map(|()| world.asks("user")), [OWN, BORROWED]);
    let expire = || world.rules().pools().all(|pool| pool.expire());
    world.clock.advance(TEN - Duration::from_nanos(1));
    assert_eq!((world.asks("user"), expire()), (BORROWED, false));
    world.clock.advance(Duration::from_nanos(1));
    assert_eq!(world.asks("user"), DENIED);
    assert_eq!([expire(), expire()], [true, false]);
    assert_eq!(world.pool(), [0, 2, 1]);
    world.report(1.0);
    assert_eq!(world.asks("user"), BORROWED);
}

#[test]
fn a_loan_goes_back_where_a_second_limit_has_none() {
    let stacked = "limits: [{unit: hour, requests_per_unit: 1, mode: elastic}, \
                   {unit: day, requests_per_unit: 1, mode: elastic}]";
    let world = world(&[
        ("one", HOURLY),
        ("two", HOURLY),
        ("both", stacked),
        ("hard", "rate_limit: {unit: hour, requests_per_unit: 1}"),
    ]);
    assert!(world.decide_in_shop(&["one", "two", "both", "hard"], 1, Purpose::Check).is_allowed());
    // Only one unit is left to borrow, and two limits of the request would borrow it.
    world.report(0.125);
    for keys in [&["one", "two"][..], &["both"], &["both", "one"]] {
        let denied = world.decide_in_shop(keys, 1, Purpose::Check);
        assert_eq!(told(&denied), DENIED, "{keys:?}");
        assert_eq!(world.pool()[0], 1, "{keys:?}");
        // The window of the hour is over in an hour, and that of the day in a day.
        let wait = denied.retry_after().expect("not for ever").as_secs();
        assert!([3_600, 86_400].contains(&wait), "{keys:?} {wait}");
    }
    // If another limit of the request cannot borrow, it denies before anything is lent.
    let lent = world.pool()[1];
    assert_eq!(told(&world.decide_in_shop(&["one", "hard"], 1, Purpose::Check)), DENIED);
    assert_eq!(world.pool(), [1, lent, 0]);
    assert_eq!([world.asks("one"), world.asks("one")], [BORROWED, DENIED]);
}

#[test]
fn a_limit_that_is_charged_itself_gets_that_back_where_another_has_no_loan() {
    let bucket = "rate_limit: {unit: hour, requests_per_unit: 5, mode: elastic}";
    let world = world(&[("one", bucket), ("two", HOURLY), ("three", HOURLY)]);
    assert!(world.decide_in_shop(&["two", "three"], 1, Purpose::Check).is_allowed());
    world.report(0.125);
    assert_eq!(told(&world.decide_in_shop(&["one", "two", "three"], 1, Purpose::Check)), DENIED);
    assert_eq!(world.decide_in_shop(&["one"], 0, Purpose::Peek).statuses()[0].remaining, 5);
    assert_eq!(told(&world.decide_in_shop(&["one", "two"], 1, Purpose::Check)), BORROWED);
    assert_eq!(world.decide_in_shop(&["one"], 0, Purpose::Peek).statuses()[0].remaining, 4);
}

#[test]
fn a_receipt_gives_a_loan_back_in_part_or_whole() {
    let world = world(&[("user", "rate_limit: {unit: hour, requests_per_unit: 3, mode: elastic}")]);
    world.report(1.0);
    let reserve = || world.decide_in_shop(&["user"], 3, Purpose::Reserve { max_wait: None });
    assert_eq!(told(&reserve()), OWN);
    let receipts = [(); 2].map(|()| reserve().take_receipt().expect("a receipt"));
    assert_eq!(world.pool()[0], 2);
    let [first, second] = receipts;
    assert_eq!(first.refund(2), 2);
    assert_eq!(world.pool()[0], 4);
    assert!(second.cancel());
    assert_eq!(world.pool()[0], 7);
    // A limit that borrows gives no places, even if the caller is ready to wait.
    let wait = Some(Duration::from_secs(36_000));
    let [lent, lent_too, denied] =
        [(); 3].map(|()| world.decide_in_shop(&["user"], 3, Purpose::Reserve { max_wait: wait }));
    assert_eq!([&lent, &lent_too, &denied].map(told), [BORROWED, BORROWED, DENIED]);
    assert_eq!(lent.wait(), Duration::ZERO);
}

#[test]
fn a_receipt_tells_each_unit_of_a_loan_that_came_back_though_its_price_is_no_whole_number() {
    for (units, left) in [(1, 1), (2, 2), (3, 3), (4, 3)] {
        let world =
            world(&[("user", "rate_limit: {unit: hour, requests_per_unit: 3, mode: elastic}")]);
        world.report(0.4);
        let reserve = || world.decide_in_shop(&["user"], 3, Purpose::Reserve { max_wait: None });
        assert_eq!(told(&reserve()), OWN);
        let receipt = reserve().take_receipt().expect("a receipt");
        assert_eq!(world.pool()[0], 0);
        assert_eq!((receipt.refund(units), world.pool()[0]), (left, left), "{units}");
    }
}

#[test]
fn a_peek_tells_what_a_check_would_do_and_takes_nothing() {
    let world = world(&[("user", HOURLY)]);
    world.report(0.125);
    for expected in [OWN, BORROWED, DENIED] {
        assert_eq!(told(&world.decide_in_shop(&["user"], 1, Purpose::Peek)), expected);
        assert_eq!(told(&world.decide_in_shop(&["user"], 1, Purpose::CheckNow)), expected);
    }
    assert_eq!(world.counts("user").borrowed, 1);
    // `Purpose::Charge` puts the limit into debt, and borrows nothing.
    world.report(1.0);
    assert_eq!(told(&world.decide_in_shop(&["user"], 1, Purpose::Charge)), OWN);
    assert_eq!(world.pool()[1], 1);
}

#[test]
fn what_never_fits_and_a_cost_of_nothing_are_not_lent() {
    let world = world(&[("user", HOURLY)]);
    world.report(1.0);
    assert_eq!(told(&world.decide_in_shop(&["user"], 2, Purpose::Check)), DENIED);
    assert_eq!(told(&world.decide_in_shop(&["user"], 0, Purpose::Check)), OWN);
    assert_eq!(world.pool(), [8, 0, 0]);
}

#[test]
fn a_rule_in_shadow_mode_says_what_it_would_borrow_and_leaves_it_to_others() {
    let shadow = format!("shadow_mode: true, {HOURLY}");
    let world = world(&[("user", HOURLY), ("trial", &shadow)]);
    world.report(0.125);
    let found = [(); 3].map(|()| world.asks("trial"));
    assert_eq!(found, [OWN, BORROWED, BORROWED]);
    assert_eq!((world.pool(), world.counts("trial").borrowed), ([1, 0, 0], 2));
    assert_eq!([(); 3].map(|()| world.asks("user")), [OWN, BORROWED, DENIED]);
    // Nothing is left that the rule in shadow mode could borrow. It still lets the request pass.
    let answer = world.decide_in_shop(&["trial"], 1, Purpose::Check);
    assert_eq!((told(&answer), answer.statuses()[0].is_over), (OWN, true));
}

#[test]
fn a_rule_in_quota_mode_that_can_borrow_has_room() {
    let quota = |limit: &str| format!("quota_mode: true, {limit}");
    let [elastic, hard] = [quota(HOURLY), quota("rate_limit: {unit: hour, requests_per_unit: 1}")];
    let world = world(&[("elastic", &elastic), ("hard", &hard)]);
    let ask = || told(&world.decide_in_shop(&["elastic", "hard"], 1, Purpose::Check));
    assert_eq!([ask(), ask()], [OWN, DENIED]);
    world.report(0.25);
    assert_eq!([ask(), ask(), ask()], [BORROWED, BORROWED, DENIED]);
    assert_eq!(world.pool(), [0, 2, 0]);
}

#[test]
fn under_compat_each_descriptor_borrows_by_itself() {
    let hard = "rate_limit: {unit: hour, requests_per_unit: 1}";
    let world = World::with(&text(POOL, &[("elastic", HOURLY), ("hard", hard)]), compat_is(true));
    world.report(1.0);
    let ask = || world.decide_in_shop(&["elastic", "hard"], 1, Purpose::Check);
    assert_eq!(told(&ask()), OWN);
    let denied = ask();
    assert!(!denied.is_allowed());
    // As in envoyproxy/ratelimit, a descriptor that was admitted stays charged, although the request is denied.
    assert_eq!(world.pool(), [7, 1, 0]);
}

#[test]
fn a_pool_of_the_same_quota_goes_on_after_a_reload_and_another_begins_without_headroom() {
    let world = world(&[("user", HOURLY)]);
    world.report(0.5);
    assert_eq!([(); 2].map(|()| world.asks("user")), [OWN, BORROWED]);
    let load = |pool: &str, more: &str| {
        let rules = text(pool, &[("user", HOURLY), ("more", more)]);
        world.load(&rules).expect("good rules");
        world.changes()
    };
    assert!(load("{window: 60m, requests_per_unit: 8}", HOURLY).is_empty());
    assert_eq!(world.pool(), [3, 1, 0]);
    assert_eq!(
        load("{unit: hour, requests_per_unit: 9}", HOURLY),
        [
            "shop.(pool): gcra 8/h is now gcra 9/h and begins anew: what it has lent is not known in units of another \
          quota; it lends nothing until the next report"
        ]
    );
    assert_eq!((world.pool(), world.asks("user")), ([0, 0, 0], DENIED));
    world.report(1.0);
    assert_eq!((world.asks("user"), world.pool()), (BORROWED, [8, 1, 0]));
    // A limit that becomes elastic keeps what was spent.
    assert!(load("{unit: hour, requests_per_unit: 9}", "rate_limit: {unit: day}").is_empty());
}

#[test]
fn the_pool_has_the_time_of_utc_whatever_that_of_a_limit_is() {
    let days =
        "rate_limit: {unit: day, requests_per_unit: 1, mode: elastic, time_zone: Asia/Tokyo}";
    let world = world(&[("there", days), ("user", HOURLY)]);
    world.clock.advance(Duration::from_secs(1_789_992_000));
    world.report(0.5);
    assert_eq!([(); 2].map(|()| world.asks("there")), [OWN, BORROWED]);
    // Tokyo's time is nine hours ahead. If the pool had lent at Tokyo's time, it would have nothing left now.
    assert_eq!(world.pool()[0], 3);
    assert_eq!([(); 5].map(|()| world.asks("user")), [OWN, BORROWED, BORROWED, BORROWED, DENIED]);
}

#[test]
fn a_pool_may_stand_in_any_file_of_its_domain_and_in_one() {
    let cache = RuleCache::new(RuleSettings { merge_domains: true, ..RuleSettings::default() });
    let pool = format!("{{domain: shop, pool: {POOL}}}");
    let rules = format!("{{domain: shop, descriptors: [{{key: user, {HOURLY}}}]}}");
    let load = |texts: &[&str]| {
        let text = |(n, text): (usize, &&str)| RuleText::new(n.to_string(), *text);
        let texts: Vec<RuleText> = texts.iter().enumerate().map(text).collect();
        cache.load(&texts).map(drop).map_err(|errors| errors[0].to_string())
    };
    assert_eq!(load(&[&rules, &pool]), Ok(()));
    let refused = load(&[&pool, &rules, &pool]).expect_err("two pools");
    assert_eq!(
        refused,
        "2:1:22: pool and that of the same domain in another file exclude each other; leave one out"
    );
}

#[test]
fn a_bad_pool_is_refused_with_its_place() {
    for (pool, expected) in [
        ("{unit: hour}", "2:7: requests_per_unit of pool is missing"),
        (
            "{unit: hour, requests_per_unit: 0}",
            "2:39: error checking config: requests_per_unit '0' is not understood; use a whole number from 1 to \
             4294967295 in digits, as in 100",
        ),
        (
            "{unit: hour, requests_per_unit: 5, bursts: 2}",
            "2:42: config error, unknown key 'bursts'; did you mean 'burst'? use one of unit, requests_per_unit, \
             window, burst",
        ),
        (
            "{unit: hour, requests_per_unit: 5, burst: 0}",
            "2:7: in policy \"gcra 5/h burst 0\": burst 0 would admit nothing; it must be at least 1",
        ),
    ] {
        assert_eq!(refused(text(pool, &[])), format!("test.yaml:{expected}"));
    }
    let elastic = |more: &str| {
        refused(limit(&format!("unit: day, requests_per_unit: 5, mode: elastic{more}")))
    };
    assert_eq!(
        elastic(""),
        "test.yaml:3:66: mode: elastic borrows from the pool of its domain, and 'd' has none; write pool: \
         {unit: second, requests_per_unit: 100} beside domain:"
    );
    for (more, at, key) in [(", queue: 3", 82, "queue"), (", penalty: 10m after 5", 84, "penalty")]
    {
        let expected =
            format!("test.yaml:3:{at}: {key} and mode: elastic exclude each other; leave one out");
        assert_eq!(elastic(more), expected);
    }
    let rules = text(POOL, &[]).replace("pool", "pol");
    assert_eq!(
        refused(rules),
        "test.yaml:2:1: config error, unknown key 'pol'; did you mean 'pool'? use one of domain, descriptors, pool, forward_auth"
    );
}

#[test]
fn limits_that_are_kept_elsewhere_do_not_borrow_from_this_process() {
    let cache = RuleCache::new(RuleSettings::default()).vetted(|_| Ok(()));
    let errors = cache.load(&[RuleText::new("a", text(POOL, &[("user", HOURLY)]))]).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "a:4:29: mode: elastic borrows from a pool of this process, which is not kept in Redis; leave it out, or serve \
         the rule without --redis"
    );
}

#[test]
fn a_report_that_says_nothing_is_refused_and_the_last_one_stays() {
    let world = world(&[("user", HOURLY)]);
    let cache = world.maker.cache();
    world.report(0.5);
    let report = |domain, headroom, lasts| {
        cache.report_headroom(domain, headroom, lasts).expect_err("a bad report")
    };
    let domain = || "bank".to_owned();
    assert_eq!(report("bank", 0.5, TEN), HeadroomRefusal::UnknownDomain { domain: domain() });
    for found in [-0.1, 1.1, f64::INFINITY] {
        assert_eq!(report("shop", found, TEN), HeadroomRefusal::Headroom { found });
    }
    assert!(matches!(report("shop", f64::NAN, TEN), HeadroomRefusal::Headroom { .. }));
    for found in [Duration::ZERO, Duration::from_secs(3_601)] {
        assert_eq!(report("shop", 0.5, found), HeadroomRefusal::Lasts { found });
    }
    assert_eq!(world.pool()[0], 4);
    world.load("domain: bank").expect("good rules");
    let refusal = cache.report_headroom("bank", 0.5, TEN).expect_err("no pool");
    assert_eq!(refusal, HeadroomRefusal::NoPool { domain: domain() });
}
