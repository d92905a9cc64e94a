use super::*;
use crate::algorithm::{Held, Moment};
use crate::clock::LATEST_NS;
use crate::keyed::memory::shard::OwnBits;

fn policies(texts: &[&str]) -> Vec<Policy> {
    texts.iter().map(|text| text.parse().expect("a policy")).collect()
}

const MIXED: [&str; 5] = [
    "gcra 10/s burst 50",
    "gcra 100/m",
    "fixed-window 100/m",
    "sliding-window 100/m exact",
    "fixed-window 30/10s from-first",
];

#[test]
fn one_plan_holds_all_and_every_layout_is_read_back_from_its_numbers() {
    let policies = policies(&MIXED);
    let shared = Shared::plan(&policies, 3).expect("a plan");
    for policy in &policies {
        let layout = shared.layout(policy).expect("planned");
        let code = Shared::code(&layout);
        assert_eq!(
            format!("{:?}", shared.of_code(code, layout.rules)),
            format!("{layout:?}"),
            "{policy}"
        );
        assert_eq!((layout.division.tag_bits, layout.division.state_bits), (32, 31));
        assert_eq!(layout.time_bits + layout.count_bits + layout.surplus_bits, 28);
        assert!(layout.surplus_bits > 0, "{policy}");
        assert_eq!(layout.division.epoch, shared.epoch);
    }
}

#[test]
fn a_word_read_near_its_floor_names_one_instant_and_its_index() {
    let policies = policies(&MIXED);
    let shared = Shared::plan(&policies, 3).expect("a plan");
    for policy in &policies {
        let layout = shared.layout(policy).expect("planned");
        let epoch = layout.epoch_units;
        for unit in [3 * epoch, 1 << 40] {
            let moment = Moment { unit, into_ns: 0 };
            let farthest = epoch + layout.ahead.min(1 << 20);
            for (ahead, behind) in [(0, 0), (1, 0), (farthest, 0), (0, 1), (0, 2 * epoch)] {
                let held = Held { ahead, behind, counts: 0 };
                let own = 9 << layout.division.state_bits | 5 << shared.index_shift();
                let word = layout.live(OwnBits::from_bits(own), held, &layout.kernel, moment);
                assert_eq!(layout.unpack(word, &layout.kernel, moment), held, "{policy}");
                assert_eq!(word.to_bits() >> shared.index_shift(), 9 << 3 | 5);
            }
        }
    }
}

#[test]
fn spare_room_goes_to_slower_and_faster_quotas_alike() {
    let now = policies(&["gcra 60/m"]);
    let shared = Shared::plan(&now, 2).expect("a plan");
    let fits = |text: &str| shared.layout(&text.parse().expect("a policy")).is_some();
    for text in ["gcra 60/h", "gcra 100/s", "gcra 1/m", "gcra 60/m burst 1000"] {
        assert!(fits(text), "{text}");
    }
    for text in ["gcra 1000/d", "gcra 10000/s", "gcra 60/m burst 100000"] {
        assert!(!fits(text), "{text}");
        let both = policies(&["gcra 60/m", text]);
        assert!(Shared::plan(&both, 2).is_ok(), "{text} as headroom");
    }
}

#[test]
fn under_quotas_of_centuries_all_times_are_near_all_floors() {
    let period = std::time::Duration::from_nanos(9_860_082_135_837_087_714);
    let policy = Policy::from(crate::Quota::per(18, period).burst(50_638_787));
    let shared = Shared::plan(&[policy; 2], 2).expect("a plan");
    assert!(shared.epoch > EPOCH_GRANULES_MAX, "the test needs an epoch beyond the maximum");
    for floor in [0, EPOCH_GRANULES_MAX] {
        let header = super::super::Header::first(floor);
        assert!([0, u64::MAX].iter().all(|&at_ns| header.is_near(at_ns, shared.division().epoch)));
    }
}

#[test]
fn a_word_of_its_own_holds_coarser_ticks_and_quanta_where_finer_do_not_fit() {
    let shared = Shared::alone(2);
    for text in [
        "gcra 1/s burst 1000000",
        "gcra 100000000/s",
        "fixed-window 100/m",
        "fixed-window 10/30s from-first",
        "sliding-window 100/m exact",
        "segmented-window 20/m x4",
        "calendar-month 10000",
        "calendar-year 10000",
        "calendar-week 10000 from-sunday",
    ] {
        let policy: Policy = text.parse().expect("a policy");
        let layout = shared.layout_alone(&policy).expect("it fits");
        for now_ns in [0, 1 << 50, LATEST_NS] {
            let moment = layout.kernel.moment(now_ns);
            for (ahead, behind) in [(0, 0), (layout.ahead, 0), (0, moment.unit)] {
                let held = Held { ahead, behind, counts: 0 };
                let word = layout.live(OwnBits::from_bits(3 << 61), held, &layout.kernel, moment);
                assert_eq!(layout.unpack(word, &layout.kernel, moment), held, "{text}");
                assert_eq!(word.to_bits() >> 61, 3);
            }
        }
    }
    assert!(shared.layout_alone(&"gcra 150000000/s".parse().expect("a policy")).is_none());
}
