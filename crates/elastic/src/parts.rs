//! [`in_parts`]: a quota that is counted in parts of its units.

use tollgate::Quota;

/// The number of parts of a unit, which is the largest power of two for which a limit's packed word has room, and the
/// quota in these parts.
pub(crate) fn in_parts(quota: Quota) -> (u64, Quota) {
    let cut = |unit: u64| {
        let [count, burst] =
            [quota.count(), quota.max_burst()].map(|units| units.checked_mul(unit));
        let parts = Quota::try_per(count?, quota.period()).ok()?.try_burst(burst?).ok()?;
        Some((unit, parts))
    };
    (1..u64::BITS).rev().find_map(|bits| cut(1 << bits)).unwrap_or((1, quota))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_as_many_parts_as_a_word_can_count() {
        let (unit, parts) = in_parts(Quota::per_second(100));
        assert!(unit.is_power_of_two() && unit > 1 << 20, "{unit}");
        assert_eq!((parts.count(), parts.max_burst()), (100 * unit, 100 * unit));
        assert!(Quota::try_per(200 * unit, parts.period()).is_err());
        // A pool of the highest rate counts in whole units.
        let fastest = Quota::per_second(2_000_000_000);
        assert_eq!(in_parts(fastest), (1, fastest));
    }
}
