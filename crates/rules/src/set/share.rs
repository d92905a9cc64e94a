//! Decides the number of clients that a rule's tables are built for if the rule has no `capacity`.
//!
//! A rule whose values are all given has one client. All other rules without a `capacity` are *open* rules. Their
//! tables are built for [`USUAL_CLIENTS`] times their `weight` if there is memory for that. Otherwise each open rule
//! gets memory in proportion to its weight. The memory is divided, rather than the number of clients, because a client
//! takes far more memory in a sliding log than under other algorithms.
//!
//! `compile/sizes.rs` decides which rules share how much memory.

use tollgate::{BuildError, Policy};

use crate::set::carry::TableShape;
use crate::set::memory::TableSize;

/// The number of clients of an open rule with a weight of 1, if there is memory for all rules.
pub(crate) const USUAL_CLIENTS: usize = 65_536;

/// The minimum number of clients. A smaller table is of little use, because nearly all clients would share the words of
/// its spill.
const LEAST_CLIENTS: usize = 64;

/// An open rule: its weight, and the tables of its limits.
#[derive(Debug)]
pub(crate) struct OpenRule {
    pub(crate) weight: u32,
    sizes: Vec<TableSize>,
    /// The bytes that each client takes outside of the tables.
    more: u64,
}

impl OpenRule {
    pub(crate) fn new(
        weight: u32,
        shape: TableShape,
        policies: impl Iterator<Item = Policy>,
        more_for_each: u64,
    ) -> Result<Self, BuildError> {
        let sizes: Vec<TableSize> =
            policies.map(|policy| TableSize::of(policy, shape)).collect::<Result<_, _>>()?;
        let more = more_for_each.saturating_mul(sizes.len() as u64);
        Ok(Self { weight, sizes, more })
    }

    /// The number of clients that the rule's tables have room for if there is memory for all rules.
    fn usual(&self) -> usize {
        usual(self.weight)
    }

    /// The bytes that the rule takes for this many clients.
    pub(crate) fn bytes(&self, clients: usize) -> u64 {
        let more = self.more.saturating_mul(clients as u64);
        self.sizes.iter().fold(more, |sum, size| sum.saturating_add(size.bytes(clients)))
    }

    /// The largest number of clients, up to the usual number, that fits in this many bytes.
    fn fitting(&self, bytes: u64) -> usize {
        largest(self.usual(), |clients| self.bytes(clients) <= bytes)
    }

    /// The number of clients of this rule, if a rule with a weight of 1 has `clients`.
    pub(crate) fn times(&self, clients: usize) -> usize {
        clients.saturating_mul(self.weight as usize)
    }
}

/// The largest number of clients per weight of 1 with which all of these rules fit in this many bytes.
pub(crate) fn fitting_all(rules: &[OpenRule], bytes: u64) -> Option<usize> {
    let sum = |clients| {
        rules.iter().fold(0, |sum: u64, rule| sum.saturating_add(rule.bytes(rule.times(clients))))
    };
    let fits = largest(usize::MAX >> 16, |clients| sum(clients) <= bytes);
    (fits > 0).then_some(fits)
}

/// The largest number up to `most` for which `is_so` returns true, or 0 if there is none. If it is true for a number,
/// it must be true for all smaller ones.
fn largest(most: usize, is_so: impl Fn(usize) -> bool) -> usize {
    let (mut so, mut not) = (0, most.saturating_add(1));
    while not - so > 1 {
        let middle = usize::midpoint(so, not);
        if is_so(middle) { so = middle } else { not = middle }
    }
    so
}

/// The usual number of clients of a rule with this weight.
pub(crate) fn usual(weight: u32) -> usize {
    USUAL_CLIENTS.saturating_mul(weight as usize)
}

/// Divides this many bytes among the rules, and returns the number of clients for each. No rule is built for fewer than
/// [`LEAST_CLIENTS`], so the rules may take more than these bytes if there are too many of them.
pub(crate) fn shares<'r>(rules: impl Iterator<Item = &'r OpenRule>, bytes: u64) -> Vec<usize> {
    let rules: Vec<&OpenRule> = rules.collect();
    let whole: Vec<u64> = rules.iter().map(|rule| rule.bytes(rule.usual())).collect();
    // Rules that need the least memory for their weight come first. If they need less than their share, the rest of it
    // goes to the rules that follow.
    let mut order: Vec<usize> = (0..rules.len()).collect();
    order.sort_by_key(|&n| whole[n] / u64::from(rules[n].weight));
    let mut left = bytes;
    let mut weights: u64 = rules.iter().map(|rule| u64::from(rule.weight)).sum();
    let mut clients = vec![0; rules.len()];
    for n in order {
        let (rule, weight) = (rules[n], u64::from(rules[n].weight));
        let share = u128::from(left) * u128::from(weight) / u128::from(weights);
        let share = u64::try_from(share).unwrap_or(u64::MAX); // the share is at most all bytes
        let fits = if whole[n] <= share { rule.usual() } else { rule.fitting(share) };
        clients[n] = fits.max(LEAST_CLIENTS);
        left = left.saturating_sub(rule.bytes(clients[n]));
        weights -= weight;
    }
    clients
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::identifier::AddressBits;
    use crate::language::on_full::OnFull;

    const SHAPE: TableShape = TableShape {
        capacity: 1,
        on_full: OnFull::Spill,
        bits: AddressBits { v4: None, v6: None },
    };

    fn open(weight: u32, policy: &str) -> OpenRule {
        let policy: Policy = policy.parse().expect("a policy");
        OpenRule::new(weight, SHAPE, [policy].into_iter(), 0).expect("a size")
    }

    fn bytes(rules: &[OpenRule], clients: &[usize]) -> u64 {
        rules.iter().zip(clients).map(|(rule, clients)| rule.bytes(*clients)).sum()
    }

    #[test]
    fn few_rules_have_the_usual_number_and_many_share_half_of_what_is_free() {
        const GIB: u64 = 1 << 30;
        for (rules, usual) in [(1, true), (550, true), (560, false), (1_500, false)] {
            let rules: Vec<_> = (0..rules).map(|_| open(1, "fixed-window 5/h")).collect();
            let clients = shares(rules.iter(), GIB / 2);
            let (least, most) = (clients.iter().min(), clients.iter().max());
            assert_eq!(least == Some(&USUAL_CLIENTS), usual, "{least:?}");
            let taken = bytes(&rules, &clients);
            assert!(taken <= GIB / 2, "{taken}");
            // No rule has noticeably fewer clients than another, and little of the half of the memory is left over.
            assert!(
                usual
                    || (least >= Some(&(most.expect("a rule") - 16)) && taken > GIB / 2 - GIB / 64)
            );
        }
    }

    #[test]
    fn what_comes_later_finds_memory_too() {
        let mut free = 1_u64 << 30;
        for batch in 0..8 {
            let rules: Vec<_> = (0..1_000).map(|_| open(1, "gcra 60/m")).collect();
            let clients = shares(rules.iter(), free / 2);
            assert!(clients.iter().all(|clients| *clients >= LEAST_CLIENTS), "{batch}");
            let taken = bytes(&rules, &clients);
            assert!(taken <= free / 2, "{batch}");
            free -= taken;
        }
    }

    #[test]
    fn a_weight_is_a_share_of_the_memory_and_what_one_rule_leaves_goes_to_the_others() {
        let rules = [open(1, "gcra 60/m"), open(3, "gcra 60/m"), open(1, "sliding-log 1000/h")];
        // There is enough memory for all rules except the sliding log.
        let clients = shares(rules.iter(), 10 << 20);
        assert_eq!(&clients[..2], [65_536, 196_608]);
        assert!((100..1_000).contains(&clients[2]), "{}", clients[2]);
        // There is not enough memory for any of the rules. It is divided by weight, so the sliding log has few clients.
        let clients = shares(rules.iter(), 1 << 20);
        let part = (1 << 20) / 5;
        for (n, share) in [(0, part), (1, 3 * part)] {
            let bytes = rules[n].bytes(clients[n]);
            assert!(bytes <= share && bytes > share - part / 16, "{n}: {bytes} of {share}");
        }
    }

    #[test]
    fn a_rule_is_never_built_for_fewer_than_the_least_number() {
        assert_eq!(shares([open(1, "gcra 60/m"), open(9, "gcra 60/m")].iter(), 100), [64, 64]);
    }

    #[test]
    fn one_number_for_all_rules_is_the_largest_that_fits() {
        let rules = [open(1, "gcra 60/m"), open(4, "fixed-window 5/h")];
        let fits = fitting_all(&rules, 1 << 20).expect("room");
        let sum = |clients| rules.iter().map(|rule| rule.bytes(rule.times(clients))).sum::<u64>();
        assert!(sum(fits) <= 1 << 20 && sum(fits + 1) > 1 << 20, "{fits}");
        assert_eq!(fitting_all(&rules, 100), None);
    }
}
