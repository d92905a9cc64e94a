//! A soft limit admits a share above the limit, and marks these requests.

use std::time::Duration;

use tollgate::{Decision, DenialReason};

use super::{ALGORITHMS, secs};
use crate::common::Engines;

#[test]
fn soft_is_green_up_to_the_limit_then_yellow_then_red() {
    for text in ALGORITHMS {
        let mut engines = Engines::new(&format!("{text} soft 50%"));
        let told: Vec<_> = (0..8)
            .map(|_| match engines.check_ms(1, 100) {
                Decision::Allowed(permit) if permit.is_over() => ("yellow", permit.remaining()),
                Decision::Allowed(permit) => ("green", permit.remaining()),
                Decision::Denied(denial) => ("red", denial.remaining()),
            })
            .collect();
        let green = [("green", 3), ("green", 2), ("green", 1), ("green", 0)];
        let beyond = [("yellow", 0), ("yellow", 0), ("red", 0), ("red", 0)];
        assert_eq!(told, [green, beyond].concat(), "{text}");
        assert_eq!(engines.denied(1, 100).limit(), 4);
        // 7 units never fit, but 6 do at some time.
        assert_eq!(engines.denied(7, 100).reason(), DenialReason::NeverFits);
        assert_ne!(engines.denied(6, 100).reason(), DenialReason::NeverFits);
    }
}

#[test]
fn soft_tells_the_wait_for_the_softened_limit_at_the_same_rate() {
    let mut engines = Engines::new("gcra 4/2s soft 50%");
    assert!(engines.admitted(6, 100).is_over());
    // One unit comes back every half second.
    let denial = engines.denied(2, 100);
    assert_eq!(denial.retry_after(), secs(1));
    assert_eq!(denial.reset_after(), Duration::from_secs(3));
    assert!(engines.admitted(2, 1_100).is_over());
    // The limit is no longer exceeded: 6 units were owed at 1.1 s, and 3 of them still are at 2.6 s.
    let permit = engines.admitted(1, 2_600);
    assert_eq!((permit.is_over(), permit.remaining()), (false, 0));
}
