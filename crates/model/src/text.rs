//! Policies and quotas as text.

use arbitrary::Arbitrary;
use tollgate::{Algorithm, KeyedLimiter, ManualClock, Meter, Policy, PolicyError, Quota};

use crate::plant::Plant;
use crate::rules::RulesCase;

/// Target `policy_text`: any text is read or refused. A policy that was read is printed as a text that is read as the
/// same policy.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextCase<'t>(pub &'t str);

impl TextCase<'_> {
    /// Panics if the text is read wrongly, or refused by an error that does not show it.
    pub fn run(&self) {
        self.run_against(Plant::Nothing);
    }

    /// Panics if the text is not read as expected.
    pub fn run_against(&self, plant: Plant) {
        let Self(text) = *self;
        let as_policy = text.parse::<Policy>();
        let as_quota = text.parse::<Quota>();
        match (&as_policy, &as_quota) {
            (Ok(policy), Ok(quota)) => assert_eq!(*policy, Policy::from(*quota)),
            (Err(_), Ok(quota)) => panic!("{text:?} is no policy, but the quota {quota}"),
            _ => {}
        }
        match as_policy {
            Ok(policy) => accepted(text, policy, plant),
            Err(error) => refused(text, &error, plant),
        }
        match as_quota {
            Ok(quota) => assert_eq!(quota.to_string().parse(), Ok(quota)),
            Err(error) => refused(text, &error, plant),
        }
    }
}

fn accepted(text: &str, policy: Policy, plant: Plant) {
    let printed = policy.to_string();
    let expected = match plant {
        Plant::Answer => Policy::from(Quota::per_second(1)),
        _ => policy,
    };
    assert_eq!(printed.parse(), Ok(expected), "printed by {text:?}");
    assert_eq!(format!("\t {printed}\n ").parse(), Ok(policy), "with blanks around it");
    let plain =
        Policy::new(policy.algorithm(), policy.quota()).expect("without words it fits, too");
    assert_eq!(RulesCase::again(plain, policy.at_limit()), Some(policy));
    // Every policy can be used. A table may lack the room for it, and then reports that.
    let is_log = policy.algorithm() == Algorithm::SlidingLog;
    match Meter::new(policy) {
        Ok(meter) => assert_eq!(meter.limit(), policy.quota().max_burst()),
        Err(error) => assert!(is_log, "{printed}: {error}"),
    }
    // The slots of a large log are not allocated for each input.
    if is_log && policy.quota().count() > 1_000 {
        return;
    }
    if let Err(error) = KeyedLimiter::<u8>::builder(policy).clock(ManualClock::new()).build(1) {
        assert!(error.to_string().contains("one key's state"), "{printed}: {error}");
    }
    // The burst of a window policy is its count.
    let quota = policy.quota();
    assert!(policy.algorithm() == Algorithm::Gcra || quota.max_burst() == quota.count());
}

fn refused(text: &str, error: &PolicyError, plant: Plant) {
    let told = error.to_string();
    let expected = format!("in policy {text:?}: ");
    assert_eq!(told.starts_with(&expected), plant != Plant::Limit, "{text:?}: {told}");
    assert!(told.len() > expected.len(), "{text:?} is refused without a reason");
}
