//! Units that were spent stay spent over a restart.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{World, over_and_left, with};
use tollgate::{ManualClock, Timestamp};
use tollgate_rules::{
    DecisionMaker, Loss, RuleCache, RuleError, RuleSettings, RuleText, StateError, StateSummary,
};

/// A rule of each form that a rule can have.
const RULES: &str = "
domain: 'd/=~%'
descriptors:
  - key: user
    capacity: 64
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: 'a/b=c~d%'
    value: 'e/f=g~h%'
    capacity: 64
    descriptors:
      - key: 'any*'
        limits:
          - {unit: hour, requests_per_unit: 9}
          - {unit: day, requests_per_unit: 2, algorithm: sliding-log}
  - {key: path, value: '/api/*', capacity: 64, on_full: deny, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: path, value: '/one/*', share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 1}}
";

/// A new process that begins with this state.
#[track_caller]
fn restarted(before: &World, state: &[u8]) -> (World, StateSummary) {
    let clock = ManualClock::new();
    clock.set(before.clock.now());
    let mut cache = RuleCache::with_clock(RuleSettings::default(), clock.clone());
    let summary = cache.restore(state).expect("a whole state");
    let maker = DecisionMaker::new(Arc::new(cache)).expect("small tables");
    (World { clock, maker }, summary)
}

#[track_caller]
fn saved(world: &World) -> Vec<u8> {
    let mut state = Vec::new();
    world.maker.cache().save(&mut state).expect("memory");
    state
}

/// Asks each rule, and returns whether it is over its limit.
fn ask_all(world: &World) -> Vec<bool> {
    let asked: [&[(&str, &str)]; 5] = [
        &[("user", "alice")],
        &[("user", "2001:db8::1")],
        &[("a/b=c~d%", "e/f=g~h%"), ("anything", "x")],
        &[("path", "/api/x")],
        &[("path", "/one/x")],
    ];
    asked
        .iter()
        .flat_map(|one| over_and_left(&world.check("d/=~%", &[one])))
        .map(|it| it.0)
        .collect()
}

#[test]
fn what_was_spent_under_every_form_of_rule_is_spent_after_a_restart() {
    let before = World::new(RULES);
    before.clock.advance(Duration::from_secs(1_000_000));
    assert_eq!(ask_all(&before), [false; 5]);
    assert_eq!(ask_all(&before), [false, false, false, true, true]);
    let (after, summary) = restarted(&before, &saved(&before));
    assert_eq!(summary.tables, 5);
    after.load(RULES).expect("the same rules");
    assert!(after.changes().is_empty());
    assert_eq!(ask_all(&after), [false, false, true, true, true]);
    assert_eq!(ask_all(&after), [true; 5]);
    assert_eq!(ask_all(&before), [false, false, true, true, true], "as without a restart");
}

#[test]
fn a_start_without_the_state_is_caught() {
    let before = World::new(RULES);
    assert_eq!((ask_all(&before), ask_all(&before)[3]), (vec![false; 5], true));
    let after = World::new(RULES);
    assert_eq!(ask_all(&after), [false; 5]);
}

/// A rule with this many requests an hour.
fn hourly(requests: u32, capacity: u32) -> String {
    with(&format!(
        "{{key: user, capacity: {capacity}, rate_limit: {{unit: hour, requests_per_unit: {requests}}}}}"
    ))
}

#[track_caller]
fn left(world: &World) -> (bool, u64) {
    over_and_left(&world.check("d", &[&[("user", "alice")]]))[0]
}

#[test]
fn a_limit_that_changed_over_the_restart_keeps_what_was_spent_as_in_a_reload() {
    let before = World::new(&hourly(5, 64));
    assert_eq!([left(&before), left(&before)], [(false, 4), (false, 3)]);
    // The limit has already changed before the state is written, so the table's words are laid out for another quota
    // than the one in force.
    before.load(&hourly(6, 64)).expect("good rules");
    let (after, _) = restarted(&before, &saved(&before));
    after.load(&hourly(9, 64)).expect("good rules");
    assert_eq!(
        after.changes(),
        ["d.user: fixed-window 6/h is now fixed-window 9/h; what was spent stays spent"]
    );
    assert_eq!(left(&after), (false, 6));
}

#[test]
fn a_limit_whose_table_cannot_be_kept_begins_anew_and_says_why() {
    let before = World::new(&hourly(5, 64));
    assert_eq!(left(&before), (false, 4));
    let (after, _) = restarted(&before, &saved(&before));
    after.load(&hourly(5, 65)).expect("good rules");
    assert_eq!(after.rules().changes()[0].loss(), Some(Loss::Capacity { before: 64, now: 65 }));
    assert_eq!(left(&after), (false, 4));
}

#[test]
fn a_rule_that_is_gone_lingers_and_a_load_that_is_refused_loses_nothing() {
    let before = World::new(&hourly(5, 64));
    assert_eq!(left(&before), (false, 4));
    let (after, _) = restarted(&before, &saved(&before));
    after.load("domain: ''").expect_err("no name");
    after.load("domain: other").expect("good rules");
    assert_eq!(after.maker.cache().status().lingering_tables, 1);
    after.load(&hourly(5, 64)).expect("good rules");
    assert_eq!(left(&after), (false, 3));
}

#[test]
fn a_state_that_differs_in_any_byte_or_is_cut_anywhere_is_refused_and_changes_nothing() {
    let before = World::new(&hourly(5, 1));
    assert_eq!(left(&before), (false, 4));
    let state = saved(&before);
    let mut cache = RuleCache::with_clock(RuleSettings::default(), before.clock.clone());
    for at in 0..state.len() {
        let mut changed = state.clone();
        changed[at] ^= 1 << (at % 8);
        for (damage, state) in [("byte", &changed[..]), ("cut at", &state[..at])] {
            let refused = cache.restore(state);
            let is_typed =
                matches!(refused, Err(StateError::Damaged(_) | StateError::Table { .. }));
            assert!(is_typed, "{damage} {at}: {refused:?}");
        }
    }
    let longer = [&state[..], b"x"].concat();
    let refused = cache.restore(&longer[..]).expect_err("a byte too much").to_string();
    assert_eq!(refused, "the state goes on after its last table");
    let refused = cache.restore(&b"domain: shop\ndescriptors: []\n"[..]).expect_err("rules");
    assert_eq!(refused.to_string(), "the state is none that tollgate has written");
    // Nothing of the refused states has been kept. The whole state is restored.
    assert_eq!(cache.restore(&state[..]).expect("whole").tables, 1);
    let maker = DecisionMaker::new(Arc::new(cache)).expect("small tables");
    let after = World { clock: before.clock.clone(), maker };
    after.load(&hourly(5, 1)).expect("good rules");
    assert_eq!(left(&after), (false, 3));
}

#[test]
fn a_state_is_refused_where_it_would_mean_nothing() -> Result<(), RuleError> {
    let before = World::new(&hourly(5, 64));
    let state = saved(&before);
    let cache = || RuleCache::with_clock(RuleSettings::default(), before.clock.clone());
    let mut elsewhere = cache().vetted(|_| Ok(()));
    assert!(matches!(elsewhere.restore(&state[..]), Err(StateError::Elsewhere)));
    assert!(matches!(elsewhere.save(Vec::new()), Err(StateError::Elsewhere)));
    let mut late = cache();
    late.load(&[RuleText::new("d.yaml", "domain: d")]).map_err(|errors| errors[0].clone())?;
    assert!(matches!(late.restore(&state[..]), Err(StateError::Late)));
    assert!(matches!(cache().save(Vec::new()), Err(StateError::NoRules)));
    let settings = RuleSettings { max_table_bytes: 100, ..RuleSettings::default() };
    let refused = RuleCache::with_clock(settings, before.clock.clone()).restore(&state[..]);
    assert!(matches!(refused, Err(StateError::TooMuchMemory { max: 100, .. })));
    // The clock of `behind` is before the time of the state.
    let world = World::new(&hourly(5, 64));
    world.clock.advance(Duration::from_secs(9));
    let mut behind = RuleCache::with_clock(RuleSettings::default(), ManualClock::new());
    assert!(matches!(behind.restore(&saved(&world)[..]), Err(StateError::Table { .. })));
    assert_eq!(
        behind.save(Vec::new()).expect_err("no rules").to_string(),
        "no rules are loaded; there is nothing to write"
    );
    assert!(before.clock.now() == Timestamp::from_nanos(0));
    Ok(())
}
