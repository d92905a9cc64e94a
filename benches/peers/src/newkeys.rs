//! Measures new keys: empty limiters with room for all keys get one request for each key.

use crate::drive::{Entrant, Expect, run};
use crate::limiters::{floor, governor, tollgate};
use crate::options::PeersOptions;
use crate::report::{Measured, PeersReport};
use crate::shares::{Shares, TableCounts};
use crate::stream;

const KEYS: u64 = 1_000_000;

/// One limiter of each kind. All limiters of a round are built before the first is timed, so that no limiter is still
/// in the caches from when it was built.
fn built() -> Vec<Entrant<u64>> {
    let expect = Expect::All;
    vec![
        governor::keyed("governor", KEYS, expect).into(),
        governor::keyed("governor (control)", KEYS, expect).into(),
        governor::keyed_with_room(KEYS, expect).into(),
        Entrant { decides: false, ..floor::keyed(KEYS).into() },
        tollgate::own_clock(KEYS, expect).into(),
        tollgate::callers_now(KEYS, expect).into(),
        tollgate::many(KEYS, expect, 16).into(),
    ]
}

/// The shares of the decisions in one round. All keys were new in it.
fn shares(entrant: &Entrant<u64>) -> Option<Shares> {
    let shares = entrant.contender.counts()?.since(TableCounts::NONE, KEYS);
    assert!(shares.hit < 1e-4, "{}: {shares}", entrant.contender.name());
    Some(shares)
}

/// Times one request for each key, first on one thread, then on two threads with half of the keys each.
pub(crate) fn throughput(options: &PeersOptions, report: &mut PeersReport) {
    let name = "new keys, 1 M u64";
    if !options.wants(name) {
        return;
    }
    let all = stream::all::<u64>(KEYS);
    for threads in [1, 2] {
        let streams: Vec<_> = all.chunks(all.len() / threads).map(<[u64]>::to_vec).collect();
        let names: Vec<_> =
            built().iter().map(|entrant| entrant.contender.name().to_owned()).collect();
        let mut measured: Vec<_> = names
            .iter()
            .map(|contender| Measured { contender, figures: Vec::new(), shares: None })
            .collect();
        for _ in 0..options.rounds {
            for (entrant, measured) in built().into_iter().zip(&mut measured) {
                measured.figures.push(run(&entrant, &streams, Expect::All));
                measured.shares = shares(&entrant);
            }
        }
        report.compare(name, threads, &measured);
    }
}
