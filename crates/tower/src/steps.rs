//! Limits on nested networks, since an address does not show how large its customer's network is.

use tollgate::{KeyedLimiter, Quota};
use tollgate_http::headers::PolicyName;
use tollgate_http::keys::ClientAddress;

use crate::error::LayerError;
use crate::gate::Gate;

impl Gate {
    /// Gates for IPv6 networks of several widths, the smallest network first, each with a larger quota than the one
    /// before. So a customer with a /48 has 65,536 networks of /64, but not 65,536 times the limit. Only the first gate
    /// applies to IPv4 clients.
    ///
    /// `by` finds the address of the client. The first gate is named `name`, the others `name/56` and so on. Each holds `capacity` keys at a time.
    ///
    /// # Errors
    /// Fails if the networks of the steps do not become wider, if their quotas do not rise, if a name or prefix is
    /// invalid, or if a limiter cannot be built.
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_tower::{ClientAddress, Gate, RateLimitLayer};
    /// let steps = [
    ///     (64, Quota::per_second(10)),
    ///     (56, Quota::per_second(40)),
    ///     (48, Quota::per_second(160)),
    /// ];
    /// let layer = RateLimitLayer::all(Gate::steps(&ClientAddress::peer(), "client", &steps, 100_000)?)?;
    /// # let _ = layer;
    /// # Ok::<(), tollgate_tower::services::LayerError>(())
    /// ```
    pub fn steps(
        by: &ClientAddress,
        name: &str,
        steps: &[(u8, Quota)],
        capacity: usize,
    ) -> Result<Vec<Self>, LayerError> {
        for pair in steps.windows(2) {
            let [(narrow, small), (wide, large)] = pair else { continue };
            if wide >= narrow || !rises(small, large) {
                return Err(LayerError::Steps { bits: *wide });
            }
        }
        let gate = |(index, &(bits, quota)): (usize, &(u8, Quota))| {
            let network = by.clone().v6_prefix(bits)?;
            let (network, name) = match index {
                0 => (network, PolicyName::new(name)?),
                _ => (network.v6_only(), PolicyName::new(&format!("{name}/{bits}"))?),
            };
            Ok(Self::new(KeyedLimiter::new(quota, capacity)?, network).named(name))
        };
        steps.iter().enumerate().map(gate).collect()
    }
}

/// Whether both the burst and the rate are higher.
fn rises(small: &Quota, large: &Quota) -> bool {
    let scaled = |one: &Quota, other: &Quota| u128::from(one.count()) * other.period().as_nanos();
    large.max_burst() > small.max_burst() && scaled(large, small) > scaled(small, large)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_rises_only_if_both_its_burst_and_its_rate_do() {
        let small = Quota::per_second(10);
        // The rate is higher, over another period. The last two pairs differ by the least amount.
        assert!(rises(&small, &Quota::per_minute(1_200)));
        assert!(rises(&small, &Quota::per_minute(601)));
        assert!(rises(&Quota::per_minute(659), &Quota::per_second(11).burst(660)));
        // The same rate with a larger burst.
        assert!(!rises(&small, &small.burst(11)));
        assert!(!rises(&small, &Quota::per_minute(600)));
        // A lower rate with a larger burst.
        assert!(!rises(&small, &Quota::per_minute(599)));
        // A higher rate with a burst that is equal or smaller.
        assert!(!rises(&small, &Quota::per_second(20).burst(10)));
        assert!(!rises(&small, &Quota::per_second(20).burst(9)));
        assert!(!rises(&small, &small));
    }
}
