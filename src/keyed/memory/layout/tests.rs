//! Tests of [`layout`](super).

use super::*;

fn layout(policy: &str) -> Layout {
    Layout::plan(&policy.parse().expect("a policy")).expect("a layout")
}

const POLICIES: [&str; 14] = [
    "gcra 10/m burst 10",
    "gcra 1000000/s burst 1000",
    "fixed-window 100/m",
    "fixed-window 100/m from-first",
    "calendar-month 10000",
    "calendar-year 10000",
    "calendar-week 10000",
    "sliding-window 100/m exact",
    "sliding-window 60/h strict",
    "segmented-window 20/m x4",
    "segmented-window 100/m x6",
    "gcra 10/m burst 10 soft 50% count-denied penalty 1h after 5",
    "fixed-window 100/m penalty 1h after 3 extended",
    "sliding-window 100/m exact count-denied penalty 2m after 1",
];

/// The expected numbers are the time bits, the tag bits and the epoch in granules. They were computed without this
/// code.
#[test]
fn the_layouts_of_these_policies_are_known() {
    let known = [
        ("gcra 10/m burst 10", 19, 44, 123_592),
        ("gcra 1000000/s burst 1000", 31, 32, 6_398),
        ("gcra 100/s burst 1000000", 31, 32, 12_185_301),
        ("gcra 1/30d burst 100000", 31, 32, 17_592_186_044_415),
        ("fixed-window 100/m", 7, 49, 1_316_069),
        ("fixed-window 1000000/s", 9, 34, 95_366),
        ("fixed-window 10/d", 10, 49, 16_644_287_108),
        ("calendar-month 10000", 4, 45, 2_307_128_905),
        ("calendar-year 10000", 4, 45, 30_075_073_241),
        ("calendar-week 10000", 4, 45, 576_782_225),
        ("fixed-window 100/m from-first", 22, 34, 68_554),
        ("fixed-window 1000/5s from-first", 21, 32, 3_045),
        ("sliding-window 100/m exact", 5, 44, 228_880),
        ("segmented-window 20/m x4", 6, 37, 143_050),
        ("gcra 10/m penalty 1h after 5", 24, 36, 4_000_850),
        ("fixed-window 100/m penalty 10m after 3", 6, 42, 457_762),
    ];
    for (policy, time_bits, tag_bits, epoch) in known {
        let layout = layout(policy);
        let found = (layout.time_bits, layout.division.tag_bits, layout.division.epoch);
        assert_eq!(found, (time_bits, tag_bits, epoch), "{policy}");
    }
}

#[test]
fn a_refusal_tells_the_bits_that_would_be_needed() {
    let refused = |text: &str| Layout::plan(&text.parse().expect("a policy")).map(|_| ());
    // The count needs 60 bits, and the time at least 4.
    let widest = refused("fixed-window 600000000000000000/4000d");
    assert_eq!(widest, Err(BuildError::tag_too_narrow(64, 0)));
}

/// `before` is the number of units by which a word's time may lie before the instant at which the word becomes idle. A
/// from-first window of a minute is 600,000 quanta, and two more for rounding at its ends.
#[test]
fn words_are_read_as_far_back_as_what_still_counts() {
    for (policy, before) in [
        ("gcra 10/m burst 10", 0),
        ("fixed-window 100/m", 1),
        ("fixed-window 100/m from-first", 600_002),
        ("calendar-month 10000", 2),
        ("sliding-window 100/m exact", 2),
        ("segmented-window 20/m x4", 4),
    ] {
        let layout = layout(policy);
        assert_eq!(layout.back, 3 * layout.epoch_units + before + 2, "{policy}");
    }
}

/// Months and years differ in length, so the number of them in an epoch varies, but an epoch never has more of them
/// than units.
#[test]
fn no_epoch_holds_more_windows_of_the_calendar_than_units_and_none_is_more_than_two_units() {
    for policy in ["calendar-month 10000", "calendar-year 10000", "calendar-week 10000 from-sunday"]
    {
        holds_no_more_windows_than_units(&layout(policy));
    }
}

fn holds_no_more_windows_than_units(layout: &Layout) {
    let (kernel, day_ns) = (&layout.kernel, 86_400_000_000_000);
    let epoch_ns = (layout.division.epoch + 1) << GRANULE_BITS;
    let unit_ns = epoch_ns / layout.epoch_units;
    for at_ns in (0..200 * 365).flat_map(|day| [day * day_ns, (day + 1) * day_ns - 1]) {
        for epochs in 1..=5 {
            let months = kernel.passed(at_ns, at_ns + epochs * epoch_ns);
            assert!(months <= epochs * layout.epoch_units, "{months} from {at_ns}");
        }
        let full = Held { ahead: 0, behind: 0, counts: 10_000 };
        assert!(kernel.idle_ns(full, at_ns) <= at_ns + 2 * unit_ns);
    }
}

#[test]
fn a_word_read_near_its_floor_names_one_instant() {
    for layout in POLICIES.map(layout) {
        let epoch = layout.epoch_units;
        for unit in [3 * epoch, 1 << 40, (1 << 40) + epoch] {
            let moment = Moment { unit, into_ns: 0 };
            for (ahead, behind) in [(0, 0), (1, 0), (epoch, 0), (0, 1), (0, epoch), (0, 2 * epoch)]
            {
                let held = Held { ahead, behind, counts: 0 };
                let [six, seven] =
                    [6, 7].map(|tag| Tag::from_bits(tag << layout.division.state_bits));
                let word = layout.live(seven.into(), held, &layout.kernel, moment);
                assert_eq!(layout.unpack(word, &layout.kernel, moment), held, "{layout:?}");
                assert!(
                    layout.division.is_live(word, seven) && !layout.division.is_live(word, six)
                );
                assert_eq!(Kind::of(word), Kind::Live);
                assert!(!layout.division.is_claim_of(word, seven));
            }
        }
    }
}

#[test]
fn a_claim_tells_its_tag_and_its_nonce() {
    for layout in POLICIES.map(layout) {
        let state = layout.division.state_bits;
        let [four, five] = [4, 5].map(|tag| Tag::from_bits(tag << state));
        let claim = layout.division.claim(five, 3);
        assert_eq!(claim.to_bits(), 1 << 63 | 5 << state | 3);
        assert_eq!(Kind::of(claim), Kind::Claim);
        assert!(layout.division.is_claim_of(claim, five));
        assert!(
            !layout.division.is_claim_of(claim, four)
                && !layout
                    .division
                    .is_claim_of(TableWord::from_bits(claim.to_bits() & !CLAIM), five)
        );
        assert!(!layout.division.is_live(claim, five));
        // A nonce is cut to the state's width, whatever else is in the counter.
        assert_eq!(
            layout.division.claim(five, u64::MAX).to_bits(),
            1 << 63 | 5 << state | ((1 << state) - 1)
        );
    }
    assert_eq!(Kind::of(TableWord::VACANT), Kind::Vacant);
}
