//! Tests of the headroom that nodes lend by. They run in simulated worlds, in which messages between nodes and store
//! are late, lost and out of order.

use super::*;

const TTL_MS: u64 = 100_000;
/// The store keeps a level's report as a word that drains. This is the least time in which a word drains that was just
/// filled, since less than one of its 1,024 units may be missing.
const WORD_MS: u64 = TTL_MS - TTL_MS / 1_024;

#[test]
fn a_unit_costs_no_less_than_its_headroom_says_and_less_than_a_part_more() {
    for level in 1..=WHOLE {
        for (cost, unit) in [(1, 1), (3, 1_024), (7, 1 << 20)] {
            let price = price(cost, unit, level).unwrap();
            assert!(price * level >= cost * unit * WHOLE);
            assert!((price - 1) * level < cost * unit * WHOLE);
        }
    }
    assert_eq!(
        [price(3, 8, WHOLE), price(3, 8, WHOLE / 4), price(3, 8, 0)],
        [Some(24), Some(96), None]
    );
    assert_eq!(price(u64::MAX, u64::MAX, 1), None);
}

#[test]
fn a_headroom_is_rounded_down_and_what_is_no_share_is_refused() {
    let headroom = Headroom::new(TTL_MS);
    for bad in [f64::NAN, f64::INFINITY, -0.01, 1.000_001] {
        assert_eq!(headroom.report(bad).unwrap_err().found.to_bits(), bad.to_bits());
    }
    assert_eq!(headroom.send(), None);
    for (reported, least) in [(1.0, 32), (0.999, 31), (0.5, 16), (0.9, 16), (0.031, 0)] {
        headroom.report(reported).unwrap();
        assert_eq!(headroom.send(), Some(least));
    }
    headroom.learn(None, 0);
    assert_eq!(headroom.send(), None);
}

#[test]
fn a_look_counts_for_its_time_and_an_own_report_until_it_is_told() {
    let headroom = Headroom::new(TTL_MS);
    headroom.report(0.5).unwrap();
    assert_eq!(headroom.level(0), None);
    headroom.learn(Some(20), 100);
    assert_eq!((headroom.level(100), headroom.send()), (Some(16), Some(16)));
    // While a level is under way, the same level is reported once more. It is sent again after the answer.
    headroom.report(0.5).unwrap();
    headroom.learn(Some(20), 200);
    assert_eq!((headroom.level(200), headroom.send()), (Some(16), Some(16)));
    // The level that was sent is not confirmed yet, and a lower level is reported.
    headroom.report(0.25).unwrap();
    assert_eq!((headroom.level(200), headroom.send()), (Some(8), Some(8)));
    headroom.learn(Some(8), 300);
    assert_eq!([TTL_MS + 299, TTL_MS + 300].map(|now| headroom.level(now)), [Some(8), None]);
    // The first look finds no report. The second look, at the largest possible time, finds a report.
    headroom.learn(None, TTL_MS + 400);
    assert_eq!((headroom.send(), headroom.level(TTL_MS + 500)), (None, None));
    headroom.learn(Some(32), u64::MAX);
    assert_eq!([LATEST_MS - 1, LATEST_MS].map(|now| headroom.level(now)), [Some(32), None]);
}

/// A mistake that a test plants, to check that the audit finds it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plant {
    Nothing,
    /// The time for which a look is valid is counted from the store's answer, and not from the request.
    CountsFromTheAnswer,
    /// The store answers with the highest level instead of the least.
    Highest,
    /// A report's word drains in a quarter of the time.
    DrainsEarly,
    /// A report is treated as confirmed as soon as it is sent.
    ToldWhenSent,
}

/// A look that is under way.
struct Look {
    node: usize,
    told: Option<u64>,
    asked_ms: u64,
    /// The store's answer.
    found: Option<Option<u64>>,
}

struct PoolWorld {
    plant: Plant,
    random: u64,
    now_ms: u64,
    /// For each level, the time at which its word in the store is empty.
    words: Vec<u64>,
    nodes: Vec<Headroom>,
    looks: Vec<Look>,
    /// The reports that reached the store: time, node and level.
    told: Vec<(u64, usize, u64)>,
    /// For each node, the least level that it has reported but not sent, and the least level that it has sent but that
    /// has not reached the store.
    untold: Vec<[Option<u64>; 2]>,
    /// The number of checked loans for which some report bounds the headroom.
    audited: usize,
}

impl PoolWorld {
    fn new(seed: u64, plant: Plant) -> Self {
        let nodes = || (0..3).map(|_| Headroom::new(TTL_MS));
        Self {
            plant,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            now_ms: 10 * TTL_MS,
            words: vec![0; usize::try_from(WHOLE).unwrap() + 1],
            nodes: nodes().collect(),
            looks: Vec::new(),
            told: Vec::new(),
            untold: vec![[None; 2]; 3],
            audited: 0,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % bound
    }

    fn below_len(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap()
    }

    /// Lets a node report (most of the time) and then look at the store, unless the node has a look under way.
    fn ask(&mut self, node: usize) {
        let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        if self.below(8) > 0 {
            let level = self.below(WHOLE + 1);
            self.nodes[node].report(f64::from(u32::try_from(level).unwrap()) / 32.0).unwrap();
            self.untold[node][0] = least(self.untold[node][0], Some(level));
        }
        if self.looks.iter().any(|look| look.node == node) {
            return;
        }
        let told = self.nodes[node].send();
        self.untold[node] = [None, least(self.untold[node][0], self.untold[node][1])];
        if self.plant == Plant::ToldWhenSent {
            self.nodes[node].update(|known| Known { sent: NONE, ..known });
        }
        self.looks.push(Look { node, told, asked_ms: self.now_ms, found: None });
    }

    /// Lets the store answer a look.
    fn serve(&mut self, look: usize) {
        let Look { node, told, found: None, .. } = self.looks[look] else { return };
        if let Some(level) = told {
            let lasts = if self.plant == Plant::DrainsEarly { TTL_MS / 4 } else { WORD_MS };
            self.words[usize::try_from(level).unwrap()] = self.now_ms + lasts;
            self.told.push((self.now_ms, node, level));
            self.untold[node][1] = None;
        }
        let reported =
            (0..=WHOLE).filter(|level| self.words[usize::try_from(*level).unwrap()] > self.now_ms);
        let found = if self.plant == Plant::Highest { reported.max() } else { reported.min() };
        self.looks[look].found = Some(found);
    }

    fn answer(&mut self, look: usize) {
        let Some(found) = self.looks[look].found else { return };
        let Look { node, asked_ms, .. } = self.looks.swap_remove(look);
        let from = if self.plant == Plant::CountsFromTheAnswer { self.now_ms } else { asked_ms };
        self.nodes[node].learn(found, from);
    }

    /// The highest level that a node may lend by. Each node that has kept reporting sets a bound: the highest of its
    /// levels that reached the store within the last two times to live. The result is the least of these bounds and of
    /// this node's own unconfirmed levels.
    fn bound(&self, by: usize) -> Option<u64> {
        let since = self.now_ms - 2 * TTL_MS;
        let told_by = |node: usize| {
            let of_node = self.told.iter().filter(move |(_, told_by, _)| *told_by == node);
            let lately: Vec<_> = of_node.filter(|(at, ..)| *at > since).collect();
            let mut times: Vec<u64> = lately.iter().map(|(at, ..)| *at).collect();
            times.insert(0, since);
            times.push(self.now_ms);
            let goes_on = times.windows(2).all(|pair| pair[1] - pair[0] < WORD_MS);
            lately.iter().map(|(.., level)| *level).max().filter(|_| goes_on)
        };
        (0..self.nodes.len()).filter_map(told_by).chain(self.untold[by].into_iter().flatten()).min()
    }

    fn audit(&mut self) -> Result<(), String> {
        for node in 0..self.nodes.len() {
            let (Some(level), bound) = (self.nodes[node].level(self.now_ms), self.bound(node))
            else {
                continue;
            };
            self.audited += usize::from(bound.is_some());
            if bound.is_some_and(|bound| level > bound) {
                return Err(format!("{node} lends by {level} at {}: {bound:?}", self.now_ms));
            }
        }
        Ok(())
    }

    /// Runs the world; returns the number of loans audited.
    fn run(mut self) -> Result<usize, String> {
        // One node at a time sends no reports: its number, and the time until which it is silent.
        let (mut silent, mut until_ms) = (0, 0);
        for _ in 0..600 {
            self.now_ms += self.below(TTL_MS / 40);
            if self.now_ms > until_ms && self.below(60) == 0 {
                (silent, until_ms) = (self.below_len(3), self.now_ms + self.below(4 * TTL_MS));
            }
            let node = self.below_len(3);
            if !self.looks.is_empty() {
                let look = self.below_len(self.looks.len());
                match self.below(20) {
                    0 => drop(self.looks.swap_remove(look)),
                    1..=9 => self.serve(look),
                    _ => self.answer(look),
                }
            }
            if (node != silent || self.now_ms > until_ms) && self.below(3) > 0 {
                self.ask(node);
            }
            self.audit()?;
        }
        Ok(self.audited)
    }
}

fn worlds(plant: Plant) -> Result<usize, String> {
    (1..=500).map(|seed| PoolWorld::new(seed, plant).run()).sum()
}

#[test]
fn no_node_lends_by_more_than_another_has_had_for_twice_the_time_to_live() {
    let audited = worlds(Plant::Nothing).unwrap();
    assert!(audited > 100_000, "{audited}");
}

#[test]
fn a_headroom_that_is_too_old_or_not_the_least_is_caught() {
    for plant in
        [Plant::CountsFromTheAnswer, Plant::Highest, Plant::DrainsEarly, Plant::ToldWhenSent]
    {
        assert!(worlds(plant).is_err(), "{plant:?}");
    }
}
