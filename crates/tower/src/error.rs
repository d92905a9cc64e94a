//! The errors of building a layer.

use std::fmt;

use tollgate::BuildError;
use tollgate_http::headers::{NameError, PolicyName};
use tollgate_http::keys::KeyError;

use crate::ask::GATES_MAX;

/// The reason why a layer or a list of gates was refused.
///
/// ```
/// use tollgate_tower::RateLimitLayer;
/// let error = RateLimitLayer::all([]).unwrap_err();
/// assert_eq!(error.to_string(), "a layer of no gates limits nothing; give it 1 to 8");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LayerError {
    /// There is no gate.
    NoGate,
    /// There are more than 8 gates.
    TooManyGates {
        /// The number of gates.
        count: usize,
    },
    /// Two gates have the same name.
    SameName {
        /// The name that both have.
        name: PolicyName,
    },
    /// A gate that delays is not the only gate: limits have no common queue.
    DelayAmongSeveral {
        /// The name of the gate that delays.
        name: PolicyName,
    },
    /// Two gates for which a joint decision (all are charged, or none) is not possible: a limit of this process and one
    /// that is kept elsewhere, or limits in separate stores.
    Apart {
        /// The name of the gate that cannot be charged with the first.
        name: PolicyName,
    },
    /// The prefixes of the steps do not become shorter, or their quotas do not rise.
    Steps {
        /// The prefix at fault, in bits.
        bits: u8,
    },
    /// An extractor could not be made. For [`Gate::steps`](crate::Gate::steps) this is a prefix that is longer than an
    /// address, or 0.
    Key(KeyError),
    /// A name that no header can hold.
    Name(NameError),
    /// A limiter could not be built.
    Limit(BuildError),
}

impl fmt::Display for LayerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGate => {
                write!(f, "a layer of no gates limits nothing; give it 1 to {GATES_MAX}")
            }
            Self::TooManyGates { count } => {
                write!(f, "{count} gates on one request; use up to {GATES_MAX}")
            }
            Self::SameName { name } => {
                write!(f, "two gates are named {name:?}; clients must be able to tell them apart")
            }
            Self::DelayAmongSeveral { name } => write!(
                f,
                "gate {name:?} delays, but is not alone; give it a layer of its own, inside the others"
            ),
            Self::Apart { name } => write!(
                f,
                "the limit of gate {name:?} cannot be charged together with that of the first gate; give it a \
                 layer of its own"
            ),
            Self::Steps { bits } => write!(
                f,
                "the step of /{bits} is not wider than the one before it, or its quota not larger; \
                 order steps as in /64, /56, /48 with rising quotas"
            ),
            Self::Key(error) => error.fmt(f),
            Self::Name(error) => error.fmt(f),
            Self::Limit(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LayerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Key(error) => Some(error),
            Self::Name(error) => Some(error),
            Self::Limit(error) => Some(error),
            _ => None,
        }
    }
}

impl From<KeyError> for LayerError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<NameError> for LayerError {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

impl From<BuildError> for LayerError {
    fn from(error: BuildError) -> Self {
        Self::Limit(error)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use tollgate::{KeyedLimiter, Quota};
    use tollgate_http::keys::{ClientAddress, Key};

    use super::*;

    #[test]
    fn an_error_of_a_part_is_the_source_of_the_layers_and_its_text() {
        fn told<E: Error + Clone + PartialEq + Into<LayerError> + 'static>(part: &E) {
            let error: LayerError = part.clone().into();
            let source = error.source().expect("a source");
            assert_eq!(source.downcast_ref(), Some(part));
            assert_eq!(error.to_string(), part.to_string());
        }
        told(&ClientAddress::peer().v6_prefix(129).unwrap_err());
        told(&PolicyName::new("").unwrap_err());
        told(&KeyedLimiter::<Key>::new(Quota::per_hour(1), 0).unwrap_err());
        assert!(LayerError::NoGate.source().is_none());
        assert!(LayerError::Steps { bits: 56 }.source().is_none());
    }
}
