//! The check of GCRA's bound in every interval at once. The head of `main.rs` explains it.

use crate::run::Admission;

/// The largest amount by which an interval of a key exceeds `burst + rate * length`, where the rate is `count` units
/// per `period_ns`. The result is exact, because it is in units times the period.
pub(crate) fn excess(
    admissions: &mut [Admission],
    count: i128,
    period_ns: i128,
    burst: i128,
) -> i128 {
    let flow = |now_ns: u64| i128::from(now_ns) * count;
    excess_of(admissions, flow, period_ns, burst * period_ns)
}

/// Like [`excess`], with a rate that changes. `flow` returns the amount that has drained up to an instant, in fractions
/// of a unit. `unit` of these fractions make one unit, and the burst is given in them, too.
pub(crate) fn excess_of(
    admissions: &mut [Admission],
    flow: impl Fn(u64) -> i128,
    unit: i128,
    burst: i128,
) -> i128 {
    admissions.sort_unstable();
    let mut worst = i128::MIN;
    for of_key in admissions.chunk_by(|a, b| a.key == b.key) {
        let (mut before, mut least) = (0, i128::MAX);
        for admission in of_key {
            let flow = flow(admission.now_ns);
            least = least.min(before - flow);
            before += i128::from(admission.cost) * unit;
            worst = worst.max(before - flow - least - burst);
        }
    }
    worst
}
