//! Controllers: the published vectors, and every bad number refused or without effect.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

use std::time::Duration;

use proptest::prelude::*;
use tollgate_controllers::{
    AdmissionControl, Aimd, ClientThrottle, ControllerError, Gradient, MinGradient,
};

/// Compares a figure with its published value, which is printed to five decimal places.
fn is_printed_as(found: f64, printed: f64) -> bool {
    (found - printed).abs() <= 0.000_005
}

#[test]
fn v55_client_throttling() {
    let throttle = ClientThrottle::new(2.0).unwrap();
    for (accepts, probability) in [(100, 0.0), (50, 0.0), (25, 0.495_05), (0, 0.990_10)] {
        assert!(is_printed_as(throttle.probability(100, accepts), probability), "{accepts}");
    }
    let tight = ClientThrottle::new(1.1).unwrap();
    assert!(is_printed_as(tight.probability(110, 50), 0.495_50));
}

#[test]
fn v56_admission_control() {
    let window = Duration::from_secs(30);
    let control = AdmissionControl::new(0.95).unwrap().at_most(1.0).unwrap();
    let printed = |control: AdmissionControl, successes, expected: f64| {
        let found = control.probability(100, successes, window);
        assert!((found - expected).abs() <= 0.000_05, "{successes}: {found}");
    };
    printed(control, 95, 0.0);
    printed(control, 50, 0.469_0);
    printed(control.aggression(2.0).unwrap(), 50, 0.684_8);
    printed(control, 0, 0.990_1);
    // By default the probability is at most 0.8.
    printed(AdmissionControl::new(0.95).unwrap(), 0, 0.8);
}

#[test]
fn admission_control_is_off_below_its_rate() {
    let control = AdmissionControl::new(0.95).unwrap().from_rate(10.0).unwrap();
    let shed = |requests| control.probability(requests, 0, Duration::from_secs(10)) > 0.0;
    assert_eq!([0, 99, 100, 101].map(shed), [false, false, true, true]);
}

#[test]
fn v59_aimd_grows_by_one_at_half_use_and_not_below() {
    let mut controller = Aimd::new(20, 10..=22).unwrap();
    assert_eq!(controller.update(9, false), 20);
    assert_eq!(controller.update(10, false), 21);
    assert_eq!(controller.update(10, false), 21);
    assert_eq!(controller.update(11, false), 22);
    assert_eq!(controller.update(100, false), 22);
}

#[test]
fn v60_aimd_shrinks_by_a_tenth_and_at_least_by_one() {
    let mut controller = Aimd::new(30, 1..=100).unwrap();
    assert_eq!(controller.update(30, true), 27);
    let mut small = Aimd::new(3, 1..=100).unwrap();
    let limits: Vec<_> = (0..4).map(|_| small.update(1, true)).collect();
    assert_eq!(limits, [2, 1, 1, 1]);
    assert_eq!(Aimd::new(11, 10..=100).unwrap().backoff(0.5).unwrap().update(1, true), 10);
}

#[test]
fn a_latency_of_zero_changes_nothing() {
    let mut gradient = Gradient::new(50, 20..=200).unwrap();
    let mut min_gradient = MinGradient::new(50, 20..=200).unwrap();
    let before = format!("{gradient:?} {min_gradient:?}");
    gradient.update(Duration::ZERO, 50);
    min_gradient.set_least(Duration::ZERO);
    min_gradient.update(Duration::ZERO);
    min_gradient.update(Duration::from_secs(1));
    assert_eq!(format!("{gradient:?} {min_gradient:?}"), before);
}

#[test]
fn a_gradient_that_is_not_used_to_the_half_stays() {
    let mut controller = Gradient::new(50, 20..=200).unwrap();
    let ms = Duration::from_millis(10);
    assert_eq!((0..100).map(|_| controller.update(ms, 24)).max(), Some(50));
    // Each update moves the limit up by 0.8 (reported as a whole number), until 26 requests are less than half of the
    // limit.
    let limits: Vec<_> = (0..5).map(|_| controller.update(ms, 26)).collect();
    assert_eq!(limits, [50, 51, 52, 52, 52]);
}

#[test]
fn settings_that_are_no_numbers_or_out_of_range_are_refused() {
    fn refused<T>(made: Result<T, ControllerError>, setting: &str) {
        let error = made.err().unwrap_or_else(|| panic!("{setting} was taken"));
        assert_eq!(error.setting, setting);
        let told = error.to_string();
        assert!(told.starts_with(setting) && told.contains(error.accepted), "{told}");
    }
    let gradient = || Gradient::new(20, 20..=200).unwrap();
    let aimd = || Aimd::new(20, 20..=200).unwrap();
    let control = || AdmissionControl::new(0.95).unwrap();
    let min_gradient = || MinGradient::new(20, 20..=200).unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        refused(gradient().tolerance(bad), "tolerance");
        refused(gradient().smoothing(bad), "smoothing");
        refused(gradient().queue(bad), "queue");
        refused(min_gradient().buffer(bad), "buffer");
        refused(aimd().backoff(bad), "backoff");
        refused(ClientThrottle::new(bad), "multiplier");
        refused(AdmissionControl::new(bad), "threshold");
        refused(control().aggression(bad), "aggression");
        refused(control().at_most(bad), "largest probability");
        refused(control().from_rate(bad), "least rate");
    }
    refused(gradient().tolerance(0.99), "tolerance");
    refused(gradient().smoothing(0.0), "smoothing");
    refused(gradient().smoothing(1.01), "smoothing");
    refused(gradient().queue(0.0), "queue");
    refused(gradient().long_window(0), "long window");
    refused(aimd().backoff(1.0), "backoff");
    refused(aimd().backoff(0.49), "backoff");
    refused(ClientThrottle::new(0.99), "multiplier");
    refused(AdmissionControl::new(0.0), "threshold");
    refused(AdmissionControl::new(1.01), "threshold");
    refused(Aimd::new(20, 0..=200), "least limit");
    refused(Gradient::new(201, 20..=200), "initial limit");
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let reversed = 200..=20;
    refused(MinGradient::new(20, reversed), "initial limit");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The property holds for arbitrary measurements.
    #[test]
    fn limits_stay_in_their_range_and_shares_between_0_and_1(
        range in (1..u64::MAX, 0..u64::MAX),
        samples in prop::collection::vec(
            (prop_oneof![0_u64..10, 0..u64::MAX], prop_oneof![0_u64..1_000, 0..u64::MAX], any::<bool>()),
            1..60,
        ),
        settings in (1.0..1e300_f64, 1e-300..1.0_f64, 1e-300..1e300_f64),
    ) {
        let (least, most) = (range.0, range.0.saturating_add(range.1));
        // Above 2^53 a floating-point number cannot hold every integer, so limits are rounded.
        let near = |limit: u64| limit >= least - (least >> 52) && limit <= most.saturating_add(most >> 52);
        let (tolerance, share, queue) = settings;
        let mut aimd = Aimd::new(least, least..=most).unwrap();
        let mut gradient = Gradient::new(least, least..=most).unwrap();
        gradient = gradient.tolerance(tolerance).unwrap().smoothing(share).unwrap();
        gradient = gradient.queue(queue).unwrap();
        let mut min_gradient = MinGradient::new(most, least..=most).unwrap().buffer(queue).unwrap();
        let throttle = ClientThrottle::new(tolerance).unwrap();
        let control = AdmissionControl::new(share).unwrap().aggression(tolerance).unwrap();
        for (secs, count, dropped) in samples {
            let latency = Duration::new(secs, u32::from(dropped));
            let aimd_limit = aimd.update(count, dropped);
            prop_assert!((least..=most).contains(&aimd_limit));
            prop_assert!(near(gradient.update(latency, count)));
            if dropped {
                min_gradient.set_least(latency);
            }
            prop_assert!(near(min_gradient.update(latency)));
            for share in [
                aimd.headroom(count),
                gradient.headroom(count),
                min_gradient.headroom(count),
                throttle.probability(count, secs),
                control.probability(count, secs, latency),
            ] {
                prop_assert!((0.0..=1.0).contains(&share), "{share}");
            }
        }
    }
}
