//! Tests of requests with groups of limits, and of limits that are in a request twice.

use super::{TimedScript, plan, server::Server};
use crate::script::{ScriptPart, ScriptReply, ScriptRequest, ScriptVerb, Units};
use crate::store::backoff::mixed;
use crate::weight::Weight;

const NOW_US: u64 = 1_790_000_000_000_000;

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
fn a_group_that_only_counts_denies_nothing_and_is_charged_as_a_whole() {
    let server = Server::start();
    let mut told = TimedScript::new(&server);
    let ask = |a, b, c| {
        vec![
            part("a", Weight::Denies, true, a),
            part("b", Weight::Counts, true, b),
            part("c", Weight::Counts, false, c),
        ]
    };
    let reply = check(&mut told, ask(1, 5, 5));
    assert!(reply.admitted);
    assert_eq!(units(&reply), [1, 5, 5]);
    // `c` has no room, so `b` of the same group is not charged; the request is admitted.
    let reply = check(&mut told, ask(1, 5, 6));
    assert!(reply.admitted && reply.parts[1].admits && !reply.parts[2].admits);
    assert_eq!(units(&reply), [1, 0, 0]);
    // A denied request is charged under no limit.
    let reply = check(&mut told, ask(9, 1, 1));
    assert!(!reply.admitted);
    assert_eq!(units(&reply), [0, 0, 0]);
}

#[test]
fn groups_that_deny_together_deny_when_none_has_room() {
    let server = Server::start();
    let mut told = TimedScript::new(&server);
    let ask = |a, b| {
        let say = Weight::DeniesTogether;
        vec![part("a", say, true, a), part("b", say, true, b)]
    };
    assert_eq!(units(&check(&mut told, ask(8, 4))), [8, 4]);
    let reply = check(&mut told, ask(4, 4));
    assert!(reply.admitted);
    assert_eq!(units(&reply), [0, 4]);
    let reply = check(&mut told, ask(4, 4));
    assert!(!reply.admitted);
    assert_eq!(units(&reply), [0, 0]);
    // If there is only one group of this kind, it denies alone.
    let alone = vec![part("a", Weight::DeniesTogether, true, 4)];
    assert!(!check(&mut told, alone).admitted);
    // A group with `Denies` still denies the request, whatever the groups with `DeniesTogether` decide.
    let mut both = ask(1, 1);
    both.push(part("c", Weight::Denies, true, 11));
    assert!(!check(&mut told, both).admitted);
}

#[test]
fn a_limit_that_stands_twice_is_charged_twice_or_not_at_all() {
    let server = Server::start();
    let mut told = TimedScript::new(&server);
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

/// Compares random requests of several groups with a simple model that counts units and applies the rules of the tests
/// above.
#[test]
fn random_groups_are_charged_as_the_model_says() {
    let server = Server::start();
    let mut told = TimedScript::new(&server);
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
            let mut expected = Vec::new();
            for (_, limits) in &groups {
                let charged = goes && fits(limits);
                expected.extend(limits.iter().map(|(_, cost)| if charged { *cost } else { 0 }));
            }
            let reply = check(&mut told, parts);
            assert_eq!((reply.admitted, units(&reply)), (goes, expected.clone()), "{groups:?}");
            expected.iter().enumerate().for_each(|(limit, units)| counts[limit] += units);
            admitted += u64::from(goes);
        }
    }
    assert!((2_000..14_000).contains(&admitted), "{admitted} of 16000");
}
