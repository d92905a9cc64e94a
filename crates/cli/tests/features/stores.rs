//! Does every verb at every store that has all verbs, and makes the tables of the verbs.

use tollgate::{Entry, KeyedLimiter, Limiter, ManualClock, Quota};

use crate::cells::Elsewhere::{self, Done, NoMeaning, Test};
use crate::cells::{CellRow, Tables};
use crate::verbs::{EXACT, REQUESTS_ALONE, VERBS};

/// Makes a limit, and returns a function that makes entries of it.
type MakeStore = fn() -> Box<dyn Fn() -> Entry<'static>>;

/// The stores that have every verb.
const STORES: [(&str, MakeStore); 6] = [
    ("`Limiter`", || one("gcra 5/m")),
    ("`KeyedLimiter`", || keyed("gcra 5/m")),
    ("several tiers", || {
        let tiers = KeyedLimiter::builder(Quota::per_minute(1)).tier(Quota::per_minute(5));
        let limiter = tiers.clock(ManualClock::new()).build(100).unwrap();
        let limiter = &*Box::leak(Box::new(limiter));
        Box::new(|| limiter.entry("a").tier(1).unwrap())
    }),
    ("changing quota", || {
        let quota = Quota::per_minute(5);
        let limiter = Limiter::builder(quota).clock(ManualClock::new()).changing().build().unwrap();
        let limiter = &*Box::leak(Box::new(limiter));
        Box::new(|| limiter.entry())
    }),
    ("log", || one("sliding-log 5/m")),
    ("keyed log", || keyed("sliding-log 5/m")),
];

fn one(policy: &str) -> Box<dyn Fn() -> Entry<'static>> {
    let policy: tollgate::Policy = policy.parse().unwrap();
    let limiter = &*Box::leak(Box::new(Limiter::builder(policy).clock(ManualClock::new()).build()));
    Box::new(|| limiter.entry())
}

fn keyed(policy: &str) -> Box<dyn Fn() -> Entry<'static>> {
    let policy: tollgate::Policy = policy.parse().unwrap();
    let limiter =
        KeyedLimiter::<str>::builder(policy).clock(ManualClock::new()).build(100).unwrap();
    let limiter = &*Box::leak(Box::new(limiter));
    Box::new(|| limiter.entry("a"))
}

type MakeTable = fn() -> &'static KeyedLimiter<str>;

/// The tables at which `check_many` can be asked. In a table of several tiers it asks the first tier.
const MANY: [(&str, MakeTable); 3] = [
    ("`KeyedLimiter`", || table("gcra 5/m")),
    ("several tiers", || {
        let tiers = KeyedLimiter::builder(Quota::per_minute(5)).tier(Quota::per_minute(1));
        &**Box::leak(Box::new(tiers.clock(ManualClock::new()).build(100).unwrap()))
    }),
    ("keyed log", || table("sliding-log 5/m")),
];

fn table(policy: &str) -> &'static KeyedLimiter<str> {
    let policy: tollgate::Policy = policy.parse().unwrap();
    let limiter = KeyedLimiter::builder(policy).clock(ManualClock::new()).build(100).unwrap();
    Box::leak(Box::new(limiter))
}

/// Does every verb at every store.
pub(crate) fn all_are_as_told() {
    for row in &VERBS {
        for (store, make) in STORES {
            let done = (row.does)(&*make());
            assert_eq!(done, Ok(()), "{} of {store}", row.name);
        }
    }
    for (store, make) in MANY {
        let mut told = Vec::new();
        make().check_many(&["a", "b", "a"], 3, |key, decision| {
            told.push((*key, decision.is_allowed()));
        });
        assert_eq!(told, [("a", true), ("b", true), ("a", false)], "many of {store}");
    }
    // Making an entry of a sketch prefetches the memory of its key. So all entries of a batch are made before the first
    // is decided.
    let size = tollgate::SketchSize::new(4, 1_000).unwrap();
    let sketch = tollgate::SketchLimiter::builder(Quota::per_minute(5))
        .clock(ManualClock::new())
        .build(size);
    let sketch = sketch.unwrap();
    let entries = ["a", "b", "a"].map(|key| sketch.entry(key));
    let told = entries.map(|entry| entry.check_n(3).is_allowed());
    assert_eq!(told, [true, true, false], "many of a sketch");
}

const ONE_KEY: Elsewhere = NoMeaning("This is a single limit without keys.");

/// Returns the rows of the table for the library, and of the table for the places around it.
fn rows() -> (Vec<CellRow>, Vec<CellRow>) {
    let in_library = |row: &crate::verbs::VerbRow| {
        let cells = [vec![Done; STORES.len()], vec![row.elsewhere[0], row.sketch]].concat();
        CellRow { name: row.name, cells }
    };
    let around = |row: &crate::verbs::VerbRow| {
        let cells = [&row.traffic[..], &row.elsewhere[1..], &row.modes].concat();
        CellRow { name: row.name, cells }
    };
    let mut tables: (Vec<_>, Vec<_>) =
        (VERBS.iter().map(in_library).collect(), VERBS.iter().map(around).collect());
    let is_keyed = |store: &str| MANY.iter().any(|(keyed, _)| *keyed == store);
    let mut cells: Vec<_> =
        STORES.iter().map(|(store, _)| if is_keyed(store) { Done } else { ONE_KEY }).collect();
    cells.push(ONE_KEY);
    cells.push(Done);
    tables.0.push(CellRow { name: "many", cells });
    let one_request = NoMeaning("The middleware sees one request at a time.");
    let held = NoMeaning(
        "A node decides most requests without a call. The calls that it makes are shared as in mode exact.",
    );
    let cells = vec![
        REQUESTS_ALONE[0],
        REQUESTS_ALONE[1],
        one_request,
        NoMeaning(
            "A request names all of its descriptors, and they are admitted together or not at all.",
        ),
        Test(EXACT, "concurrent_requests_share_calls_and_each_gets_its_own_answer"),
        held,
        held,
    ];
    tables.1.push(CellRow { name: "many", cells });
    tables
}

/// Returns the two tables of the verbs.
pub(crate) fn section(tables: &mut Tables) -> String {
    let (in_library, around) = rows();
    let mut columns: Vec<_> = STORES.iter().map(|(name, _)| *name).collect();
    columns.extend(["stripes", "sketch"]);
    let first = tables.add(&columns, &in_library);
    first + "\n" + &tables.add(&crate::holders::AROUND, &around)
}
