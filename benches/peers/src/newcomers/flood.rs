//! [`Flood`] makes the requests: of keys that ask once, of newcomers during and after these, and of victims that have
//! spent their burst.

use std::fmt;

/// A store's answer: true if a request of this key for this number of units is admitted.
pub(crate) type Check = Box<dyn Fn(u64, u32) -> bool>;

/// The number of the first key of each kind.
const FLOOD: u64 = 1 << 32;
const NEWCOMERS: u64 = 1 << 40;
const VICTIMS: u64 = 1 << 50;
const LATE_VICTIMS: u64 = VICTIMS + VICTIMS_EACH as u64;

/// The number of victims that spend their burst before the flood. As many spend theirs in the midst of it.
const VICTIMS_EACH: usize = 200;

/// One newcomer comes during the flood after this number of its keys.
const KEYS_PER_NEWCOMER: u64 = 100;

/// After the flood there is one newcomer for this number of keys of rate-net's cap. Newcomers are few, since they add
/// to the flood.
const CAP_PER_NEWCOMER: u64 = 10;

/// A flood: the burst of each key, and the cost of its one request.
pub(crate) struct Flood {
    pub(crate) burst: u32,
    cost: u32,
}

/// Each key of the flood spends its whole burst, a tenth of it, or a hundredth.
pub(crate) const FLOODS: [Flood; 3] =
    [Flood { burst: 10, cost: 10 }, Flood { burst: 10, cost: 1 }, Flood { burst: 100, cost: 1 }];

/// The number of requests, and the number of them that were refused.
#[derive(Debug, Default)]
struct FloodShare {
    asked: u64,
    refused: u64,
}

impl FloodShare {
    fn count(&mut self, admitted: bool) {
        self.asked += 1;
        self.refused += u64::from(!admitted);
    }
}

/// The outcome for newcomers and victims.
#[derive(Debug, Default)]
pub(crate) struct FloodOutcome {
    during: FloodShare,
    after: FloodShare,
    /// Units that victims got beyond their burst.
    pub(crate) above_burst: u64,
}

impl Flood {
    /// Runs a flood of `keys` keys, all at one instant, on a store that is built for `cap` keys.
    pub(crate) fn run(&self, check: &Check, keys: u64, cap: u64) -> FloodOutcome {
        let mut outcome = FloodOutcome::default();
        // The list is on the stack, so that only the store's bytes are counted.
        let mut spent = [0; 2 * VICTIMS_EACH];
        let (early, late) = spent.split_at_mut(VICTIMS_EACH);
        for (victim, spent) in (VICTIMS..).zip(early) {
            *spent = self.drain(check, victim);
        }
        for number in 0..keys {
            if number == keys / 2 {
                for (victim, spent) in (LATE_VICTIMS..).zip(&mut *late) {
                    *spent = self.drain(check, victim);
                }
            }
            let _ = check(FLOOD + number, self.cost);
            if number % KEYS_PER_NEWCOMER == 0 {
                outcome.during.count(check(NEWCOMERS + number, 1));
            }
        }
        for number in keys..keys + cap / CAP_PER_NEWCOMER {
            outcome.after.count(check(NEWCOMERS + number, 1));
        }
        for (victim, spent) in (VICTIMS..).zip(spent) {
            let units = spent + self.drain(check, victim);
            outcome.above_burst += units.saturating_sub(u64::from(self.burst));
        }
        outcome
    }

    /// Asks for one unit after the other until one is refused, and returns how many were admitted. It stops after one
    /// unit more than a burst.
    fn drain(&self, check: &Check, victim: u64) -> u64 {
        (0..=self.burst).take_while(|_| check(victim, 1)).count() as u64
    }
}

impl fmt::Display for Flood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "each key of the flood spends {} of its burst of {}", self.cost, self.burst)
    }
}

impl FloodOutcome {
    /// The share of newcomers after the flood that were refused.
    pub(crate) fn refused_after(&self) -> f64 {
        self.after.refused as f64 / self.after.asked.max(1) as f64
    }
}

/// Prints the refused percentages during the flood and after it.
impl fmt::Display for FloodOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: &FloodShare| match (share.refused, share.asked) {
            (0, _) => "0".to_owned(),
            (refused, asked) => format!("{:.1}", refused as f64 * 100.0 / asked as f64),
        };
        write!(f, "{} / {}", percent(&self.during), percent(&self.after))
    }
}
