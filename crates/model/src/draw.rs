//! [`Draw`]: numbers and values that follow from a seed.

use arbitrary::{Arbitrary, Unstructured};

/// Sebastiano Vigna's SplitMix64.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// The numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The numbers of one round in a sequence of rounds.
    #[must_use]
    pub fn of_round(first: u64, round: u64) -> Self {
        Self(Self(first).next() ^ Self(!round).next())
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "there is always a next one")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// A number from 0 to `bound` - 1; `bound` is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An index into a list of `bound` elements; `bound` is not 0.
    pub fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("below a usize")
    }

    /// A random element of `choices`.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// True in one of `many` draws, on average.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.next().is_multiple_of(many)
    }

    /// Any value, as a fuzzer makes it.
    pub fn any<T: for<'b> Arbitrary<'b>>(&mut self) -> T {
        let bytes: Vec<u8> = (0..12).flat_map(|_| self.next().to_le_bytes()).collect();
        T::arbitrary(&mut Unstructured::new(&bytes)).expect("any bytes stand for something")
    }
}
