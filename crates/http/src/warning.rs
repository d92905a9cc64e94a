//! Configuration mistakes that requests reveal: each is logged once, and kept for callers that ask.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// A mistake in the configuration that makes a limit do something unintended.
///
/// ```
/// use tollgate_http::keys::Warning;
/// assert!(Warning::NoPeerAddress.to_string().contains("ConnectInfo"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Requests have a forwarding header, and no setting says which proxies to trust. If they come through a proxy, all
    /// of its clients share one limit.
    ForwardingIgnored,
    /// The server does not provide the peer's address: all clients share one limit.
    NoPeerAddress,
    /// Every address is trusted to name another client, so clients choose their own keys.
    EverybodyTrusted,
}

impl Warning {
    const ALL: [Self; 3] = [Self::ForwardingIgnored, Self::NoPeerAddress, Self::EverybodyTrusted];

    const fn bit(self) -> u8 {
        match self {
            Self::ForwardingIgnored => 1,
            Self::NoPeerAddress => 2,
            Self::EverybodyTrusted => 4,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ForwardingIgnored => {
                "requests have a forwarding header, which is ignored: if they come through a proxy, \
                 all its clients share one limit; declare the proxy with trusting_hops or trusting"
            }
            Self::NoPeerAddress => {
                "requests have no peer address: all without one share one limit; serve with \
                 ConnectInfo<SocketAddr>, or put a PeerAddress into the request's extensions"
            }
            Self::EverybodyTrusted => {
                "every address is trusted to name another, so clients choose their own key; \
                 trust the addresses of your proxies only"
            }
        })
    }
}

/// A set of [`Warning`]s.
///
/// ```
/// use tollgate_http::keys::{Warning, Warnings};
/// assert!(!Warnings::NONE.contains(Warning::NoPeerAddress));
/// assert_eq!(Warnings::NONE.iter().count(), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warnings(u8);

impl Warnings {
    /// Nothing to warn of.
    pub const NONE: Self = Self(0);

    /// Whether this warning is in the set.
    ///
    /// ```
    /// use tollgate_http::keys::{Warning, Warnings};
    /// assert!(!Warnings::NONE.contains(Warning::EverybodyTrusted));
    /// ```
    #[must_use]
    pub const fn contains(self, warning: Warning) -> bool {
        self.0 & warning.bit() != 0
    }

    /// The warnings of both sets.
    ///
    /// ```
    /// use tollgate_http::keys::Warnings;
    /// assert_eq!(Warnings::NONE.and(Warnings::NONE), Warnings::NONE);
    /// ```
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Each warning of the set.
    ///
    /// ```
    /// use tollgate_http::keys::Warnings;
    /// for warning in Warnings::NONE.iter() {
    ///     eprintln!("{warning}");
    /// }
    /// ```
    pub fn iter(self) -> impl Iterator<Item = Warning> {
        Warning::ALL.into_iter().filter(move |&warning| self.contains(warning))
    }
}

/// The warnings that have been given. To show a warning again costs one load, and no write.
#[derive(Debug, Default)]
pub(crate) struct GivenWarnings(AtomicU8);

impl GivenWarnings {
    /// Logs the warning, if it has not been logged.
    #[cold]
    pub(crate) fn once(&self, warning: Warning) {
        // Relaxed: the bit alone decides which thread logs, and nothing else is published with it.
        let told = self.so_far().contains(warning)
            || self.0.fetch_or(warning.bit(), Ordering::Relaxed) & warning.bit() != 0;
        #[cfg(feature = "tracing")]
        if !told {
            tracing::warn!("{warning}");
        }
        #[cfg(not(feature = "tracing"))]
        let _ = told;
    }

    pub(crate) fn so_far(&self) -> Warnings {
        // Relaxed: `once` decides which thread logs, so a bit that is seen late only costs one more `fetch_or` there.
        Warnings(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_joined_are_those_of_either() {
        let of = |warning: Warning| Warnings(warning.bit());
        for one in Warning::ALL {
            assert_eq!(of(one).iter().collect::<Vec<_>>(), [one]);
            assert_eq!(of(one).and(Warnings::NONE), of(one));
            for other in Warning::ALL {
                let both = of(one).and(of(other));
                let is_either = |&it: &Warning| it == one || it == other;
                assert!(both.iter().eq(Warning::ALL.into_iter().filter(is_either)));
            }
        }
    }
}
