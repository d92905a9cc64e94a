//! Tests of requests with groups of limits, and of limits that are in a request twice.

use super::{NEVER_SET_BACK, NOW_US, TimedScript, plan, start};
use crate::script::{ScriptPart, ScriptReply, ScriptRequest, ScriptVerb, Units};
use crate::store::backoff::mixed;
use crate::weight::Weight;

fn part(key: &str, say: Weight, begins: bool, cost: u64) -> ScriptPart {
    let (key, plan) = (key.as_bytes().to_vec(), plan("fixed-window 10/d"));
    ScriptPart { say, begins, ..ScriptPart::new(key, plan, Units::exactly(cost)) }
}

fn check(told: &mut TimedScript, parts: Vec<ScriptPart>) -> ScriptReply {
    told.call(NOW_US, ScriptRequest { verb: ScriptVerb::Check, parts })
}

fn units(reply: &ScriptReply) -> Vec<u64> {
    reply.parts.iter().map(|seen| seen.units).collect()
}

#[test]
#[ignore = "needs redis-server"]
fn a_limit_that_stands_twice_is_charged_twice_or_not_at_all() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let ask = |first, second| {
        let parts =
            [part("a", Weight::Denies, true, first), part("a", Weight::Denies, true, second)];
        parts.into_iter().collect::<Vec<_>>()
    };
    let reply = check(&mut told, ask(4, 3));
    assert!(reply.admitted);
    assert_eq!(units(&reply), [4, 3]);
    let reply = check(&mut told, ask(2, 2));
    assert!(!reply.admitted && reply.parts[0].admits && !reply.parts[1].admits);
    assert_eq!(units(&reply), [0, 0]);
    assert_eq!(units(&check(&mut told, ask(2, 1))), [2, 1]);
    assert!(!check(&mut told, vec![part("a", Weight::Denies, true, 1)]).admitted);
}

/// Compares random requests of several groups with a simple model. A group has room if all of its limits have room. A
/// group with `Denies` denies the request if it has no room; groups with `DeniesTogether` deny it if none of them has
/// room; and a group with `Counts` denies nothing. If the request is admitted, every group with room is charged as a
/// whole. Otherwise no limit is charged.
#[test]
#[ignore = "needs redis-server"]
fn random_groups_are_charged_as_the_model_says() {
    let (_server, mut told) = start(NEVER_SET_BACK);
    let mut random = 7;
    let mut below = |bound: u64| {
        random = mixed(random);
        random % bound
    };
    let mut admitted = 0;
    for round in 0..2_000_u64 {
        let mut counts = [0_u64; 5];
        for _ in 0..8 {
            let mut parts = Vec::new();
            let mut groups: Vec<(Weight, Vec<(usize, u64)>)> = Vec::new();
            // No limit is in a request twice.
            for limit in 0..=usize::try_from(below(5)).unwrap() {
                let (begins, cost) = (limit == 0 || below(3) > 0, 1 + below(4));
                let say = [Weight::Denies, Weight::Counts, Weight::DeniesTogether]
                    [usize::try_from(below(3)).unwrap()];
                if begins {
                    groups.push((say, Vec::new()));
                }
                let (say, limits) = groups.last_mut().unwrap();
                limits.push((limit, cost));
                parts.push(part(&format!("{round} {limit}"), *say, begins, cost));
            }
            let fits = |limits: &[(usize, u64)]| {
                limits.iter().all(|(limit, cost)| counts[*limit] + cost <= 10)
            };
            let of = |say| groups.iter().filter(move |group| group.0 == say);
            let denies = of(Weight::Denies).any(|(_, limits)| !fits(limits));
            let together = of(Weight::DeniesTogether).count() > 0
                && of(Weight::DeniesTogether).all(|(_, limits)| !fits(limits));
            let goes = !denies && !together;
            let (mut expected, mut has_room) = (Vec::new(), Vec::new());
            for (_, limits) in &groups {
                let charged = goes && fits(limits);
                expected.extend(limits.iter().map(|(_, cost)| if charged { *cost } else { 0 }));
                has_room.extend(limits.iter().map(|one| fits(std::slice::from_ref(one))));
            }
            let reply = check(&mut told, parts);
            assert_eq!((reply.admitted, units(&reply)), (goes, expected.clone()), "{groups:?}");
            let admits: Vec<bool> = reply.parts.iter().map(|seen| seen.admits).collect();
            assert_eq!(admits, has_room, "{groups:?}");
            expected.iter().enumerate().for_each(|(limit, units)| counts[limit] += units);
            admitted += u64::from(goes);
        }
    }
    assert!((2_000..14_000).contains(&admitted), "{admitted} of 16000");
}
