//! Weak compare-and-swaps that fail spuriously, which hardware may do and loom never does.
//!
//! Property: a spurious failure changes no answer and loses no charge. The answers, and the units left, are those of
//! the exact reference model for some order of the requests. Two threads make 2 checks each. A mask chooses which of
//! the first three weak compare-and-swaps of each execution fail. There is one model for each mask in 0..2^3. Two such
//! loops are modelled: that of the un-keyed limiter, and that of a key that has a cell.
//!
//! These models are sufficient because a loop carries nothing from one iteration to the next except the word that it
//! found.

use loom_tests::race::{RaceRequest, ask_all, race};
use loom_tests::suite::{Bound, Model};
use loom_tests::table::{key_in, table};
use loom_tests::verdict::{UNEXPLAINED, assert_admitted, assert_explained};
use tollgate::control::{Fault, fail_spuriously};

use crate::limiter::{gcra_algorithm, two_threads_twice};

fn unkeyed(mask: u32) {
    fail_spuriously(mask);
    two_threads_twice(3);
}

fn keyed(mask: u32) {
    let table = table("gcra 1/s burst 4", 1, 1);
    let key = key_in(&table, [0, 0], 1);
    let one = RaceRequest { key, cost: 1, now_ms: 5_000 };
    let setup = ask_all(&*table, &[one]);
    assert_admitted(&setup);
    fail_spuriously(mask);
    let calls = race(&table, vec![vec![one; 2]; 2]);
    assert_explained(&*table, gcra_algorithm(4), &setup, &calls, one);
}

pub(crate) fn models() -> Vec<Model> {
    let model = |name: &str, mask: u32, scenario: fn(u32)| {
        let name = format!("{name}_mask_{mask:03b}");
        let control = format!("{name}_is_caught");
        Model::new(name, Bound::None, move || scenario(mask)).control(
            control,
            Fault::FailureTakenForSuccess,
            UNEXPLAINED,
        )
    };
    let unkeyed = (0..8).map(|mask| model("unkeyed", mask, unkeyed));
    let keyed = (0..8).map(|mask| model("keyed", mask, keyed));
    unkeyed.chain(keyed).collect()
}
