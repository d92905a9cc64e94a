//! Threads that compete for the same units. The units are counted exactly.

use crate::common::{World, compat_is};
use tollgate_rules::{Descriptor, Override, Request, Unit};

const RULES: &str = "
domain: d
descriptors:
  - {key: wide, rate_limit: {unit: hour, requests_per_unit: 5000}}
  - {key: tight, rate_limit: {unit: hour, requests_per_unit: 1000}}
";

/// The number of requests that are admitted, of four threads with 1,000 requests each.
fn admitted_by_four(world: &World, request: &Request<'_>) -> usize {
    std::thread::scope(|scope| {
        let ask = || (0..1_000).filter(|_| world.ask(request).expect("good").is_allowed()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
    })
}

#[test]
fn a_limit_that_comes_with_requests_is_admitted_to_the_unit() {
    for compat in [false, true] {
        let world = World::with(RULES, compat_is(compat));
        let limit = Some(Override { requests_per_unit: 1_000, unit: Unit::Day });
        let descriptors = [Descriptor { limit, ..Descriptor::new(&[("own", "x")]) }];
        let request = Request::new("d", &descriptors);
        let together = admitted_by_four(&world, &request);
        // Two concurrent requests may both have been denied. Nothing stays charged for them, so requests that come one
        // by one can use the units.
        let alone = (0..1_000).filter(|_| world.ask(&request).expect("good").is_allowed()).count();
        assert!(together <= 1_000, "{together}");
        assert!(compat || together + alone == 1_000, "{together} and then {alone}");
    }
}

#[test]
fn no_limit_of_a_request_under_several_is_exceeded() {
    let world = World::new(RULES);
    let descriptors = [Descriptor::new(&[("wide", "x")]), Descriptor::new(&[("tight", "x")])];
    let admitted = admitted_by_four(&world, &Request::new("d", &descriptors));
    let left = |key| {
        let entries = [(key, "x")];
        let peeked = [Descriptor { hits: Some(0), ..Descriptor::new(&entries) }];
        let answer = world.maker.peek(&Request::new("d", &peeked)).expect("good");
        usize::try_from(answer.statuses()[0].remaining).expect("small")
    };
    // A charge on which later charges build cannot be undone. So a limit may have fewer units left than its size less
    // the admitted units, but never more.
    assert!(admitted <= 1_000 && left("tight") <= 1_000 - admitted, "{admitted}");
    assert!(left("wide") <= 5_000 - admitted);
    assert!(admitted > 0);
}
