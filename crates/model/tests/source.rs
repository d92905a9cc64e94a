//! The source that a failure prints can be pasted into a test: it is valid Rust, and stands for the printed case.

use tollgate_model::assert_pasted;
use tollgate_model::source::*;

#[test]
fn requests_of_one_limit() {
    assert_pasted!(GcraCase {
        quota: QuotaCase { count: Small(7), period: Odd(1000000007), burst: Some(One) },
        steps: Steps(vec![
            RequestStep { span: Thousandths(500), fine: -1, backward: true, cost: RestAndOne },
            RequestStep {
                span: To(4102444800000000000),
                fine: 0,
                backward: false,
                cost: AnyCost(3)
            },
        ]),
        rules: RulesCase {
            soft_bp: 500,
            counts: CountedUpTo(9),
            penalty: Some(PenaltyCase { longer: 1, after: 2, extended: true })
        }
    });
    assert_pasted!(WindowCase {
        shape: Segmented(4),
        limit: Huge(9),
        period: Day,
        steps: Steps(vec![RequestStep { span: ToRetry, fine: 1, backward: false, cost: Whole },]),
        rules: RulesCase { soft_bp: 0, counts: Uncounted, penalty: None }
    });
}

#[test]
fn requests_of_keys() {
    assert_pasted!(LayoutCase {
        policy: Gcra(QuotaCase { count: Large(50000000), period: Second, burst: None }),
        start_ns: 1790000000000000000,
        steps: Steps(vec![RequestStep { span: Turns(1), fine: 0, backward: false, cost: Rest },]),
        rules: RulesCase { soft_bp: 0, counts: Uncounted, penalty: None }
    });
    assert_pasted!(KeyedCase {
        policy: Window { shape: FromFirst, limit: Medium(300), period: Minutes(90) },
        capacity: 3,
        own_clock: false,
        ops: Steps(vec![
            Crowd { first: 0, keys: 19, cost: Single },
            Back { span: EpochEighths(9), fine: 0 },
            Peek { key: 2, cost: Units(2) },
        ]),
        rules: RulesCase { soft_bp: 0, counts: Uncounted, penalty: None }
    });
}

#[test]
fn requests_of_a_sketch() {
    assert_pasted!(SketchCase {
        policy: Window { shape: Strict, limit: Small(3), period: Minute },
        rows: 3,
        cells: 16,
        ops: Steps(vec![Check { key: 7, cost: Rest }, Back { span: Thousandths(300), fine: -1 },])
    });
}

#[test]
fn requests_of_logs() {
    assert_pasted!(SlidingLogCase {
        limit: 4,
        window: Millis(100),
        capacity: Some(7),
        ops: Steps(vec![Check { key: 7, cost: Rest }, Advance { span: ToRetry, fine: 0 },]),
        rules: RulesCase { soft_bp: 0, counts: Counted, penalty: None }
    });
}

#[test]
fn mixed_verbs() {
    assert_pasted!(MixedCase {
        policy: Gcra(QuotaCase { count: Small(10), period: Second, burst: None }),
        rules: RulesCase { soft_bp: 0, counts: Uncounted, penalty: None },
        kind: Tiered(3),
        own_clock: true,
        ops: Steps(vec![
            Does { key: 1, verb: Take { cost: Units(3) } },
            Looks { key: 1, cost: RestAndOne },
            Foreign { key: 1, cost: Single, other: false },
            LeaseUse { cost: 2, renew: true },
            ChangeBack { second: true },
        ])
    });
}

#[test]
fn snapshots() {
    assert_pasted!(Whatever(Bytes(b"TOLLGATE\x01")));
    assert_pasted!(Changed {
        table: KeyedCase {
            policy: Gcra(QuotaCase { count: One, period: Second, burst: None }),
            capacity: 3,
            own_clock: false,
            ops: Steps(vec![Check { key: 1, cost: Single },]),
            rules: RulesCase {
                soft_bp: 0,
                counts: Counted,
                penalty: Some(PenaltyCase { longer: 3, after: 0, extended: false })
            }
        },
        keep: Some(300),
        sealed: true,
        edits: Bytes(b"\x01\x00\xff")
    });
}

#[test]
fn text() {
    assert_pasted!(TextCase("10/\"fort\\night\""));
}
