//! [`Tokens`]: keeps the receipts for the charges of reservations, by which callers can give units back.
//!
//! A token is the name of a receipt that is kept here. There is room for [`PLACES`] receipts, so memory does not grow.
//! Each new receipt replaces the oldest, whose charge then stays. So a lost receipt can only make a limit stricter. A
//! token is drawn at random, so no caller can guess the token of another. A receipt is removed when it is used, so no
//! charge is given back twice. If a token contained the charges themselves, it could be sent again and again.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};

use tollgate_redis::Fault;
use tollgate_rules::Receipt;

use crate::global::StoredCharge;

/// The number of receipts that are kept.
pub(crate) const PLACES: usize = 1 << 16;

/// Names a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    place: u16,
    secret: u64,
}

/// The charges of a reservation, made by limits of this process or by limits in Redis.
#[derive(Debug)]
pub(crate) enum Charged {
    Here(Receipt),
    Stored(Vec<StoredCharge>),
}

impl Charged {
    /// Cancels like [`Receipt::cancel`]. If the store fails, units that it has not given back stay charged.
    pub(crate) async fn cancel(self) -> Result<bool, Fault> {
        let charges = match self {
            Self::Here(receipt) => return Ok(receipt.cancel()),
            Self::Stored(charges) => charges,
        };
        let mut all = true;
        for charge in charges.into_iter().rev() {
            all &= charge.undo().await?;
        }
        Ok(all)
    }

    /// Refunds like [`Receipt::refund`]. If the store fails, units that it has not given back stay charged.
    pub(crate) async fn refund(self, units: u64) -> Result<u64, Fault> {
        let charges = match self {
            Self::Here(receipt) => return Ok(receipt.refund(units)),
            Self::Stored(charges) => charges,
        };
        let mut least = None;
        for charge in charges {
            let given = charge.refund(units).await?;
            least = Some(least.map_or(given, |least: u64| least.min(given)));
        }
        Ok(least.unwrap_or(0))
    }
}

type TokenPlace = Mutex<Option<(u64, Charged)>>;

/// The receipts of the latest reservations.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// Allocated when the first receipt is kept.
    places: OnceLock<Box<[TokenPlace]>>,
    given: AtomicU64,
    /// The keys of this hasher come from the system, so nobody can guess one token from another.
    random: RandomState,
}

impl Tokens {
    /// Keeps a receipt, in place of the oldest.
    pub(crate) fn keep(&self, receipt: Charged) -> Option<Token> {
        let places = self.places.get_or_init(|| (0..PLACES).map(|_| Mutex::default()).collect());
        // Relaxed: each call only has to get another number, and each place has a lock of its own.
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "the low bits name the place")]
        let place = number as u16;
        let secret = self.random.hash_one(number);
        // This does not wait for the lock: if the place is just being read, the new receipt is dropped, and its charge
        // stays.
        let mut kept = match places[usize::from(place)].try_lock() {
            Ok(kept) => kept,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        *kept = Some((secret, receipt));
        Some(Token { place, secret })
    }

    /// Takes the receipt out, if it has not been used or replaced.
    pub(crate) fn take(&self, token: Token) -> Option<Charged> {
        let place = self.places.get()?.get(usize::from(token.place))?;
        // The lock is held for a few instructions, and only by callers with a token for this place.
        let mut kept = place.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take_if(|(secret, _)| *secret == token.secret).map(|(_, receipt)| receipt)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}{:016x}", self.place, self.secret)
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_hex = text.len() == 20 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parts = is_hex.then(|| text.split_at(4)).and_then(|(place, secret)| {
            let place = u16::from_str_radix(place, 16).ok()?;
            Some(Self { place, secret: u64::from_str_radix(secret, 16).ok()? })
        });
        parts.ok_or_else(|| "token is none; send the one that /v1/reserve answered".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receipt for nothing.
    fn receipt() -> Charged {
        Charged::Stored(Vec::new())
    }

    #[test]
    fn a_receipt_is_given_once_and_to_its_own_token() {
        let tokens = Tokens::default();
        let token = tokens.keep(receipt()).expect("a place");
        let read: Token = token.to_string().parse().expect("its own text");
        assert_eq!(read, token);
        assert!(tokens.take(Token { secret: token.secret ^ 1, ..token }).is_none());
        assert!(tokens.take(Token { place: token.place ^ 1, ..token }).is_none());
        assert!(tokens.take(token).is_some());
        assert!(tokens.take(token).is_none());
        assert!(Tokens::default().take(token).is_none());
    }

    #[test]
    fn the_oldest_makes_room_and_memory_does_not_grow() {
        let tokens = Tokens::default();
        let first = tokens.keep(receipt()).expect("a place");
        let second = tokens.keep(receipt()).expect("a place");
        for _ in 2..=PLACES {
            assert!(tokens.keep(receipt()).is_some());
        }
        assert!(tokens.take(first).is_none());
        assert!(tokens.take(second).is_some());
        assert_eq!(tokens.places.get().map(|places| places.len()), Some(PLACES));
    }

    #[test]
    fn what_is_no_token_is_not_read_as_one() {
        for text in
            ["", "0", "+000000000000000000f", "000g0000000000000000", "00000000000000000000 "]
        {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }
}
