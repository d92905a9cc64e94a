//! Limits of every kind to which a charge can be given back.

use std::time::Duration;

use tollgate::{Changing, Entry, KeyedLimiter, Limiter, ManualClock, Timestamp};

use crate::common::policy;

pub(crate) const KEY: u64 = 7;
pub(crate) const START: Timestamp = Timestamp::from_secs(1_000);

/// A limit of a kind to which a charge can be given back.
pub(crate) enum Subject {
    One(Box<Limiter>),
    Keyed(Box<KeyedLimiter<u64>>),
    Tier(Box<Changing<KeyedLimiter<u64>>>),
    Live(Box<Changing<Limiter>>),
}

impl Subject {
    pub(crate) fn entry(&self) -> Entry<'_> {
        match self {
            Self::One(limiter) => limiter.entry(),
            Self::Keyed(limiter) => limiter.entry(&KEY),
            Self::Tier(limiter) => limiter.entry(&KEY).tier(1).unwrap(),
            Self::Live(limiter) => limiter.entry(),
        }
    }

    pub(crate) fn left(&self) -> u64 {
        self.entry().peek(1).remaining()
    }

    pub(crate) fn owed(&self) -> Duration {
        self.entry().peek(0).reset_after()
    }
}

/// A limit of each kind, each on a clock of its own.
pub(crate) fn subjects(text: &str) -> [(Subject, ManualClock, &'static str); 4] {
    let clocks: [ManualClock; 4] = std::array::from_fn(|_| ManualClock::new());
    clocks.iter().for_each(|clock| clock.set(START));
    let (policy, of) = (policy(text), |nth: usize| clocks[nth].clone());
    let tiers = KeyedLimiter::builder(policy).tier(policy);
    let subjects = [
        Subject::One(Box::new(Limiter::builder(policy).clock(of(0)).build())),
        Subject::Keyed(Box::new(KeyedLimiter::builder(policy).clock(of(1)).build(10).unwrap())),
        Subject::Tier(Box::new(tiers.clock(of(2)).build(10).unwrap())),
        Subject::Live(Box::new(Limiter::builder(policy).clock(of(3)).changing().build().unwrap())),
    ];
    let names = ["one", "keyed", "tier", "live"];
    let mut nth = 0;
    subjects.map(|subject| {
        nth += 1;
        (subject, of(nth - 1), names[nth - 1])
    })
}
