//! Seeds of `snapshot_bytes`: whole files of every algorithm, and files with one defect each. A file as a service
//! writes it, whose hash seeds were drawn at random, was added by hand.

use tollgate_model::source::*;
use tollgate_model::{PolicyCase, SnapshotCase, WindowShape};

use crate::limits::{penalty, quota, rules};
use crate::named::NamedSeed;
use crate::tables::many_keys;

/// Nine keys make requests, and some time later three keys do.
fn table(policy: PolicyCase) -> KeyedCase {
    let ops = vec![
        Crowd { first: 0, keys: 9, cost: Single },
        Advance { span: Thousandths(300), fine: 0 },
        Crowd { first: 5, keys: 3, cost: Rest },
    ];
    KeyedCase {
        policy,
        capacity: 11,
        own_clock: false,
        ops: Steps(ops),
        rules: RulesCase::default(),
    }
}

fn whole(policy: PolicyCase) -> SnapshotCase<'static> {
    changed(policy, None, false, b"")
}

/// A table whose policy says what happens at its limit, after a flood.
fn ruled(policy: PolicyCase, rules: RulesCase, edits: &'static [u8]) -> SnapshotCase<'static> {
    let ops = vec![
        Crowd { first: 0, keys: 9, cost: Whole },
        Crowd { first: 0, keys: 9, cost: Single },
        Advance { span: Thousandths(3), fine: 0 },
        Crowd { first: 3, keys: 9, cost: Single },
        Crowd { first: 0, keys: 4, cost: Single },
    ];
    let table = KeyedCase { ops: Steps(ops), rules, ..table(policy) };
    Changed { table, keep: None, sealed: true, edits: Bytes(edits) }
}

fn changed(
    policy: PolicyCase,
    keep: Option<u16>,
    sealed: bool,
    edits: &'static [u8],
) -> SnapshotCase<'static> {
    Changed { table: table(policy), keep, sealed, edits: Bytes(edits) }
}

/// All 44 bits of the first floor are inverted.
const LATEST_FLOOR: &[u8] =
    b"\x78\x01\xff\x79\x01\xff\x7a\x01\xff\x7b\x01\xff\x7c\x01\xff\x7d\x01\x0f";

pub(crate) fn cases() -> Vec<NamedSeed<SnapshotCase<'static>>> {
    let gcra = Gcra(quota(Small(10), Minute, Some(Small(5))));
    let window = |shape: WindowShape| Window { shape, limit: Small(10), period: Minute };
    let edit = |at: u16, xor: u8| -> &'static [u8] {
        let [low, high] = at.to_le_bytes();
        Vec::leak(vec![low, high, xor])
    };
    let all_words = rules(2_500, CountedUpTo(200), penalty(3, 1, true));
    let penalised = rules(0, Uncounted, penalty(0, 0, false));
    let storm = many_keys().into_iter().find(|(name, _)| *name == "gcra_churn");
    let storm = storm.expect("a seed of keyed_ops").1;
    vec![
        ("nothing", Whatever(Bytes(b""))),
        ("gcra", whole(gcra)),
        ("fixed", whole(window(Fixed))),
        ("from_first", whole(window(FromFirst))),
        ("sliding", whole(window(Sliding))),
        ("strict", whole(window(Strict))),
        ("segments", whole(window(Segmented(4)))),
        ("gcra_all_words", ruled(gcra, all_words, b"")),
        ("fixed_penalty", ruled(window(Fixed), penalised, b"")),
        ("from_first_penalty", ruled(window(FromFirst), penalised, b"")),
        ("sliding_counted", ruled(window(Sliding), rules(0, Counted, None), b"")),
        ("other_end_quantum", ruled(window(Fixed), penalised, edit(89, 1))),
        ("churn", Changed { table: storm, keep: None, sealed: true, edits: Bytes(b"") }),
        ("cut", changed(gcra, Some(572), false, b"")),
        ("cut_and_sealed", changed(gcra, Some(572), true, b"")),
        ("damaged", changed(gcra, None, false, edit(472, 1))),
        ("other_word", changed(gcra, None, true, edit(384, 1))),
        ("other_floor", changed(window(FromFirst), None, true, edit(377, 0x7f))),
        ("latest_floor", changed(window(FromFirst), None, true, LATEST_FLOOR)),
        ("claim", changed(gcra, None, true, edit(391, 0x80))),
        ("spill_deadline", changed(gcra, None, true, edit(382, 0x01))),
        ("other_clock", changed(gcra, None, true, edit(14, 1))),
        ("other_reading", changed(gcra, None, true, edit(31, 0xff))),
        ("other_layout", changed(gcra, None, true, edit(64, 1))),
        ("other_policy", changed(gcra, None, true, edit(182, 1))),
        ("other_capacity", changed(gcra, None, true, edit(47, 1))),
        ("other_width", changed(gcra, None, true, edit(13, 0x60))),
    ]
}
