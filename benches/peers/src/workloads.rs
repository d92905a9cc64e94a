//! The workloads: the contenders of each, its number of keys, and the expected decisions.

use std::fmt::Display;
use std::hash::Hash;

use crate::contender::RunPace;
use crate::drive::{Entrant, Expect, interleave};
use crate::limiters::policies::{self, CallStyle};
use crate::limiters::{
    Boxed, direct_peers, floor, governor, keyed_peers, kinds, late, naive, prototype,
    throttle_machines, tollgate,
};
use crate::options::PeersOptions;
use crate::report::{Measured, PeersReport};
use crate::stream::{self, BenchKey};

/// A workload of keyed checks.
struct KeyedWorkload<K> {
    name: String,
    keys: u64,
    expect: Expect,
    entrants: Vec<Entrant<K>>,
}

/// The contenders of every keyed workload: governor, the floors, the prototype, and Tollgate. governor runs twice,
/// because the difference between two rows of the same code shows the noise.
fn common<K>(keys: u64, expect: Expect) -> Vec<Entrant<K>>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
{
    vec![
        governor::keyed("governor", keys, expect).into(),
        governor::keyed("governor (control)", keys, expect).into(),
        Entrant { decides: false, ..floor::keyed(keys).into() },
        Entrant { decides: false, ..floor::laden(keys).into() },
        // With few keys the prototype denies some of them: it has no cell for them, because their line and the next are
        // full. So its answers are not checked.
        Entrant { decides: false, ..prototype::own_clock(keys).into() },
        tollgate::own_clock(keys, expect).into(),
    ]
}

/// Other ways to call Tollgate, and a floor for each.
fn tollgates<K: Hash + 'static>(keys: u64, expect: Expect) -> Vec<Entrant<K>> {
    vec![
        tollgate::callers_now(keys, expect).into(),
        tollgate::many(keys, expect, 16).into(),
        tollgate::many(keys, expect, 32).into(),
        Entrant { decides: false, ..prototype::callers_now(keys).into() },
        Entrant { decides: false, ..prototype::many_of(keys, 16).into() },
        Entrant { decides: false, ..floor::callers_now(keys).into() },
        Entrant { decides: false, ..floor::many_of(keys, 16).into() },
        Entrant { decides: false, ..floor::many_of(keys, 32).into() },
    ]
}

/// The contenders that are run with keys of every type.
fn others<K>(keys: u64, expect: Expect) -> Vec<Entrant<K>>
where
    K: Hash + Eq + Clone + Display + Send + Sync + 'static,
{
    let mut entrants = vec![
        governor::keyed_ahash(keys, expect).into(),
        keyed_peers::gcra(keys, expect).into(),
        keyed_peers::atomic_token_bucket(keys, expect).into(),
        // pingora-limits starts counting again at the end of each second, even in the middle of a round, so it is not
        // required to deny.
        Entrant { decides: false, ..keyed_peers::pingora(expect).into() },
        naive::mutex(keys, expect).into(),
        naive::dashmap(keys, expect).into(),
    ];
    entrants.extend(throttle_machines::keyed(keys, expect).map(Entrant::from));
    entrants
}

fn u64_keys(name: &str, keys: u64, expect: Expect) -> KeyedWorkload<u64> {
    let mut entrants = common(keys, expect);
    entrants.extend(tollgates(keys, expect));
    entrants.extend(others(keys, expect));
    entrants.push(keyed_peers::rate_net_u64(keys, expect).into());
    // Keys share the sketch's cells, so some of these many new keys would be denied at their first request. The
    // workload demands that only the second is denied.
    if expect == Expect::All {
        entrants.push(tollgate::sketch().into());
    }
    KeyedWorkload { name: name.to_owned(), keys, expect, entrants }
}

/// governor is the only peer here, because each of the others takes a minute to fill with so many keys.
fn u64_keys_without_peers(name: &str, keys: u64, expect: Expect) -> KeyedWorkload<u64> {
    let mut entrants = common(keys, expect);
    entrants.extend(tollgates(keys, expect));
    KeyedWorkload { name: name.to_owned(), keys, expect, entrants }
}

fn isolated(name: &str, keys: u64) -> KeyedWorkload<u64> {
    let mut entrants = common(keys, Expect::All);
    for entrant in &mut entrants {
        entrant.isolated = true;
    }
    KeyedWorkload { name: name.to_owned(), keys, expect: Expect::All, entrants }
}

fn texts(name: &str, keys: u64) -> KeyedWorkload<String> {
    let expect = Expect::All;
    let mut entrants = common(keys, expect);
    entrants.extend(tollgates(keys, expect));
    entrants.extend(others(keys, expect));
    entrants.push(keyed_peers::rate_net_text(keys, expect).into());
    entrants.push(keyed_peers::tokio_rate_limit(keys).into());
    entrants.push(tollgate::sketch().into());
    entrants.push(Entrant { one_in: 5, ..keyed_peers::throttlecrab(keys, expect).into() });
    entrants.push(Entrant { one_in: 50, ..keyed_peers::limitador(keys, expect).into() });
    KeyedWorkload { name: name.to_owned(), keys, expect, entrants }
}

fn run_keyed<K: BenchKey + 'static>(
    workload: KeyedWorkload<K>,
    options: &PeersOptions,
    report: &mut PeersReport,
) {
    let KeyedWorkload { name, keys, expect, entrants } = workload;
    let all = stream::all(keys);
    for entrant in &entrants {
        let admitted = entrant.contender.decide(&all, RunPace::BackToBack);
        let is_right = entrant.is_right(admitted, all.len(), Expect::All);
        assert!(is_right, "{}: new keys", entrant.contender.name());
    }
    for threads in [1, 2] {
        let streams = stream::uniform(keys, options.decisions(), threads);
        add(&name, &entrants, &streams, expect, options, report);
    }
}

/// Runs the rounds on as many threads as there are streams, and adds a row for each entrant.
fn add<K: Sync>(
    name: &str,
    entrants: &[Entrant<K>],
    streams: &[Vec<K>],
    expect: Expect,
    options: &PeersOptions,
    report: &mut PeersReport,
) {
    let counts = || entrants.iter().map(|entrant| entrant.contender.counts()).collect::<Vec<_>>();
    // The counts are read before and after all rounds: reading them between two rounds would bring the table into the
    // caches.
    let before = counts();
    let times = interleave(entrants, streams, options.rounds, expect);
    let between = before.into_iter().zip(counts());
    let measured = entrants.iter().zip(times).zip(between);
    let measured = measured.map(|((entrant, figures), (before, after))| {
        let asked: usize = streams.iter().map(|stream| stream.len() / entrant.one_in).sum();
        let decisions = (asked * options.rounds) as u64;
        let shares = before.zip(after).map(|(before, after)| after.since(before, decisions));
        Measured { contender: entrant.contender.name(), figures, shares }
    });
    report.compare(name, streams.len(), &measured.collect::<Vec<_>>());
}

/// The policies of the workloads by policy. The first is plain GCRA, with which the others are compared.
const POLICIES: [&str; 11] = [
    "gcra 100/s burst 20",
    "gcra 1000000/s burst 1000",
    "gcra 1000000/s burst 1000000",
    "fixed-window 10000/m",
    "fixed-window 10000/m from-first",
    "sliding-window 10000/m",
    "segmented-window 60/m x6",
    "segmented-window 1000/m x3",
    "gcra 100/s burst 20 soft 5%",
    "gcra 100/s burst 20 count-denied",
    "gcra 100/s burst 20 penalty 10m after 3",
];

/// A workload of 1 M keys: governor, and Tollgate under each of `POLICIES`, called in the given `way`. Some ways also
/// get tables with tiers, or other calls than `check`.
fn by_policy(way: CallStyle, keys: u64) -> KeyedWorkload<u64> {
    let expect = Expect::All;
    let mut entrants: Vec<Entrant<u64>> = vec![governor::keyed("governor", keys, expect).into()];
    entrants.extend(POLICIES.map(|text| Entrant {
        // This burst lasts a millisecond, so a thread whose time is that far behind another's is rightly denied.
        decides: !(matches!(way, CallStyle::CallersNow) && text.ends_with("burst 1000")),
        ..policies::keyed(text, text, keys, way).into()
    }));
    if matches!(way, CallStyle::OwnClock | CallStyle::CallersNow) {
        entrants.extend([2, 16].map(|count| policies::tiers(count, keys, way).into()));
    }
    if matches!(way, CallStyle::OwnClock) {
        let verbs = [
            policies::both(keys),
            policies::all_of_two(keys),
            policies::refunded(keys),
            policies::reserved(keys),
        ];
        entrants.extend(verbs.map(Entrant::from));
    }
    KeyedWorkload { name: format!("policies, 1 M keys, {}", way.name()), keys, expect, entrants }
}

/// Workloads of calls that are compiled differently, of late times, and of fuller tables.
fn by_way(keys: u64) -> KeyedWorkload<u64> {
    let (expect, text) = (Expect::All, "gcra 100/s burst 20");
    let mut entrants: Vec<Entrant<u64>> = vec![governor::keyed("governor", keys, expect).into()];
    for way in [CallStyle::Inlined, CallStyle::Called, CallStyle::CallersNow] {
        entrants.push(policies::keyed(way.name(), text, keys, way).into());
    }
    entrants.push(late::below_the_floor(text, keys).into());
    entrants.push(late::out_of_order(text, keys).into());
    for percent in [65, 90] {
        entrants.push(policies::filling(text, keys, percent).into());
        entrants.push(policies::taking(text, keys, percent).into());
    }
    KeyedWorkload { name: "ways, 1 M keys".to_owned(), keys, expect, entrants }
}

/// The other stores that keep a limit for each key: logs, sketches, and a full table.
fn by_kind(keys: u64) -> KeyedWorkload<u64> {
    let expect = Expect::All;
    let entrants = vec![
        governor::keyed("governor", keys, expect).into(),
        kinds::sketch(keys).into(),
        kinds::keyed_log(keys).into(),
        // Other keys use up the cells of the full table's spill, so some requests are denied.
        Entrant { decides: false, ..kinds::full(keys).into() },
    ];
    KeyedWorkload { name: "kinds, 1 M keys".to_owned(), keys, expect, entrants }
}

/// One limit under each policy.
fn direct_by_policy(name: &str, expect: Expect, options: &PeersOptions, report: &mut PeersReport) {
    let mut entrants: Vec<Entrant<()>> = vec![governor::direct("governor", expect).into()];
    if expect == Expect::All {
        entrants.extend(kinds::ROOMY.map(|text| kinds::roomy(text).into()));
        entrants.push(kinds::live("gcra 100000000/s").into());
    } else {
        entrants.extend(kinds::TIGHT.map(|text| kinds::tight(text).into()));
        entrants.push(kinds::live("gcra 1/h").into());
        entrants.push(kinds::log().into());
        for entrant in &entrants {
            // This number of requests uses up any burst.
            entrant.contender.decide(&[(); 64], RunPace::BackToBack);
        }
    }
    for threads in [1, 2] {
        // All threads together make at most `ROOM` decisions, which a window still admits.
        let decisions = (10 * options.decisions()).min(kinds::ROOM / threads);
        let streams = vec![vec![(); decisions]; threads];
        add(name, &entrants, &streams, expect, options, report);
    }
}

fn direct(name: &str, expect: Expect, options: &PeersOptions, report: &mut PeersReport) {
    let mut entrants: Vec<Entrant<()>> = vec![
        governor::direct("governor", expect).into(),
        governor::direct("governor (control)", expect).into(),
        Entrant { decides: false, ..floor::direct().into() },
        tollgate::direct(expect).into(),
        tollgate::direct_callers_now(expect).into(),
        tollgate::direct_coarse(expect).into(),
        tollgate::striped(expect).into(),
        direct_peers::ratelimit(expect).into(),
        direct_peers::atomic_token_bucket(expect).into(),
        direct_peers::rate_net(expect).into(),
        direct_peers::leaky_bucket(expect).into(),
    ];
    entrants.extend(throttle_machines::direct(expect).map(Entrant::from));
    if expect == Expect::All {
        entrants.push(tollgate::lease(expect).into());
    } else {
        for entrant in &entrants {
            // This number of requests uses up any burst.
            entrant.contender.decide(&[(); 64], RunPace::BackToBack);
        }
    }
    for threads in [1, 2] {
        // With fewer decisions the first threads would be done before the last ones start.
        let streams = vec![vec![(); 10 * options.decisions()]; threads];
        add(name, &entrants, &streams, expect, options, report);
    }
}

/// Runs the workloads that the options choose.
pub(crate) fn run(options: &PeersOptions, report: &mut PeersReport) {
    const M: u64 = 1_000_000;
    let wants = |name: &str| options.wants(name);
    let (all, nothing) = (Expect::All, Expect::Nothing);
    for (name, keys, expect) in [
        ("u64, 1 k keys", 1_000, all),
        ("u64, 1 M keys", M, all),
        ("u64, 1 M keys, denied", M, nothing),
    ] {
        if wants(name) {
            run_keyed(u64_keys(name, keys, expect), options, report);
        }
    }
    let name = "u64, 1 M keys, isolated";
    if wants(name) {
        run_keyed(isolated(name, M), options, report);
    }
    let name = "u64, 10 M keys";
    if wants(name) {
        run_keyed(u64_keys_without_peers(name, 10 * M, all), options, report);
    }
    for way in [CallStyle::OwnClock, CallStyle::CallersNow, CallStyle::ManyOf(16)] {
        let workload = by_policy(way, M);
        if wants(&workload.name) {
            run_keyed(workload, options, report);
        }
    }
    if wants("ways, 1 M keys") {
        run_keyed(by_way(M), options, report);
    }
    if wants("kinds, 1 M keys") {
        run_keyed(by_kind(M), options, report);
    }
    for (name, keys) in [("String, 1 k keys", 1_000), ("String, 1 M keys", M)] {
        if wants(name) {
            run_keyed(texts(name, keys), options, report);
        }
    }
    for (name, expect) in [("direct, allowed", all), ("direct, denied", nothing)] {
        if wants(name) {
            direct(name, expect, options, report);
        }
    }
    for (name, expect) in
        [("direct by policy, allowed", all), ("direct by policy, denied", nothing)]
    {
        if wants(name) {
            direct_by_policy(name, expect, options, report);
        }
    }
}

/// Builds a contender whose latencies and memory are measured, if this is the name of one of [`FEW`].
pub(crate) fn few<K>(name: &str, keys: u64) -> Option<Boxed<K>>
where
    K: Hash + Eq + Clone + Display + Send + Sync + 'static,
{
    let expect = Expect::All;
    Some(match name {
        "governor" => governor::keyed("governor", keys, expect),
        "tollgate" => tollgate::own_clock(keys, expect),
        "gcra" => keyed_peers::gcra(keys, expect),
        "DashMap" => naive::dashmap(keys, expect),
        "Mutex<HashMap>" => naive::mutex(keys, expect),
        _ => return None,
    })
}

/// The names that [`few`] accepts, governor first.
pub(crate) const FEW: [&str; 5] = ["governor", "tollgate", "gcra", "DashMap", "Mutex<HashMap>"];
