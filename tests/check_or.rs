//! A request that its own limit denies can be admitted by another limit, whatever kind of store each of the two is in.

use tollgate::{
    Decision, KeyedLimiter, Limiter, ManualClock, Policy, Quota, SketchLimiter, SketchSize,
    StripedLimiter,
};

#[test]
fn a_limit_in_any_store_asks_elsewhere_once_its_own_units_are_spent() {
    let (quota, clock) = (Quota::per_hour(5), ManualClock::new());
    let one = Limiter::builder(quota).clock(clock.clone()).build();
    let keyed = KeyedLimiter::<str>::builder(quota).clock(clock.clone()).build(10).unwrap();
    let striped = StripedLimiter::builder(quota).stripes(5).clock(clock.clone()).build().unwrap();
    let size = SketchSize::new(2, 100).unwrap();
    let sketch = SketchLimiter::<str>::builder(quota).clock(clock.clone()).build(size).unwrap();
    let log = Limiter::builder(Policy::sliding_log(quota).unwrap()).clock(clock.clone()).build();
    let logs = KeyedLimiter::<str>::builder(log.policy()).clock(clock).build(10).unwrap();
    let ask = |nth, admit: &mut dyn FnMut() -> bool| -> Decision {
        match nth {
            0 => one.entry().check_or(1, |_, _| admit()),
            1 => keyed.entry("alice").check_or(1, |_, _| admit()),
            2 => striped.entry().check_or(1, |_, _| admit()),
            3 => sketch.entry("alice").check_or(1, |_, _| admit()),
            4 => log.entry().check_or(1, |_, _| admit()),
            _ => logs.entry("alice").check_or(1, |_, _| admit()),
        }
    };
    for nth in 0..6 {
        let mut lent = 0;
        let mut lend = || {
            lent += 1;
            lent <= 2
        };
        let admitted = [(); 8].map(|()| ask(nth, &mut lend).is_allowed());
        assert_eq!(admitted, [true, true, true, true, true, true, true, false], "store {nth}");
        assert_eq!(lent, 3, "store {nth}");
    }
}
