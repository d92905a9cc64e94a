//! The policies that are compared with the model.

/// A denial is all that happens at the limit.
pub(super) const POLICIES: [&str; 24] = [
    "gcra 100/s burst 20",
    "gcra 10/m burst 5",
    "gcra 7/s",
    "gcra 1/s burst 1",
    "gcra 999983/s burst 1000",
    "gcra 1000003/d",
    "gcra 3/7us burst 50",
    "gcra 17/1001ns burst 4",
    "fixed-window 5/s",
    "fixed-window 100/m",
    "fixed-window 3/7us",
    "fixed-window 5/s from-first",
    "fixed-window 100/m from-first",
    "sliding-window 5/s exact",
    "sliding-window 110000/d exact",
    "sliding-window 7/13us",
    "sliding-window 60/m",
    "sliding-window 5/s strict",
    "segmented-window 10/m x6",
    "segmented-window 4/64us x16",
    "sliding-log 5/s",
    "sliding-log 100/m",
    "sliding-log 3/7us",
    "sliding-log 1/13us",
];

/// The same at the limit: what is left is told of the limit that was named, and what is beyond it has a mark.
pub(super) const SOFT: [&str; 10] = [
    "gcra 100/s burst 20 soft 5%",
    "gcra 7/s soft 100%",
    "gcra 17/1001ns burst 4 soft 33.33%",
    "fixed-window 5/s soft 20%",
    "fixed-window 5/s from-first soft 50%",
    "sliding-window 5/s exact soft 20%",
    "sliding-window 7/13us soft 100%",
    "segmented-window 10/m x6 soft 10%",
    "sliding-log 5/s soft 20%",
    "sliding-log 3/7us soft 100%",
];

/// Policies of which a denial changes something.
pub(super) const RULED: [&str; 19] = [
    "gcra 100/s burst 20 count-denied",
    "gcra 10/m burst 5 count-denied 3s",
    "gcra 7/s soft 100% count-denied penalty 10s after 2",
    "gcra 60001/d count-denied",
    "gcra 3/7us burst 50 penalty 1ms after 3 extended",
    "fixed-window 5/s count-denied",
    "fixed-window 5/s penalty 1s after 2",
    "fixed-window 3/7us penalty 11us after 1 extended",
    "fixed-window 5/s from-first count-denied penalty 3s after 3",
    "sliding-window 5/s exact count-denied",
    "sliding-window 7/13us count-denied penalty 27us after 2",
    "sliding-window 60/m penalty 2m after 1",
    "sliding-window 5/s strict count-denied penalty 2s after 2 extended",
    "segmented-window 10/m x6 count-denied",
    "segmented-window 4/64us x4 penalty 64us after 2 extended",
    "segmented-window 10/m x6 soft 10% count-denied penalty 2m after 4",
    "sliding-log 5/s count-denied",
    "sliding-log 100/m soft 10% count-denied",
    "sliding-log 3/7us count-denied",
];
