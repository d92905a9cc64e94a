#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

mod answer;
mod ask;
mod cost;
mod decide;
mod delay;
mod denied_error;
mod deny;
mod elsewhere;
mod error;
mod extract;
mod future;
mod gate;
#[cfg(feature = "grpc")]
mod grpc;
pub mod guide;
pub mod headers;
mod joint;
mod key;
mod layer;
mod lend;
mod limit;
mod lookup;
mod name;
mod observe;
mod queue;
#[cfg(feature = "redis")]
mod redis;
mod refusal;
mod service;
mod settle;
mod shared;
mod steps;
#[cfg(feature = "metrics")]
mod tables;
mod trusted_proxies;
mod warning;

pub use extract::ClientAddress;
pub use gate::Gate;
pub use layer::RateLimitLayer;

pub mod keys {
    //! From a request to its [`Key`]: the [`Extract`]s besides [`ClientAddress`](crate::ClientAddress), and a layer that
    //! looks up what a key needs.

    pub use crate::error::{CookieNameError, PrefixError};
    #[cfg(feature = "axum")]
    pub use crate::extract::Route;
    pub use crate::extract::{
        ApiKey, Bearer, Cookie, Everyone, Extract, FromFn, Head, Header, Methods, NoKey,
        NormalPath, Optional, Or, PeerAddress, Tiered, node_address,
    };
    pub use crate::key::Key;
    pub use crate::lookup::{Lookup, LookupLayer};
    pub use crate::trusted_proxies::{BadTrustedProxies, TrustedProxies};
}

pub mod gates {
    //! The settings of a [`Gate`](crate::Gate): its name, what a request costs and how that is corrected afterwards, and
    //! what becomes of a request without a key or a tier.

    pub use crate::cost::Cost;
    pub use crate::gate::{MissingKey, UnknownTier};
    pub use crate::name::{NameError, PolicyName};
    pub use crate::settle::{Settle, Shadowed};
}

pub mod denials {
    //! The answers to denied requests.

    pub use crate::denied_error::{DeniedError, ErrorFuture, ErrorLayer, ErrorService};
    pub use crate::deny::{Denied, Deny, DenyWith, ProblemJson};
    #[cfg(feature = "grpc")]
    pub use crate::grpc::GrpcStatus;
}

pub mod limits {
    //! The limits that a gate can ask, limits of your own, and lenders for requests that a limit denies.

    pub use crate::answer::LimitAnswer;
    pub use crate::lend::{Lend, Loan};
    pub use crate::limit::{GateLimit, LimitAsk};
}

pub mod services {
    //! The service that a [`RateLimitLayer`](crate::RateLimitLayer) makes, its future, its error, and its warnings.

    pub use crate::error::LayerError;
    pub use crate::future::ResponseFuture;
    pub use crate::service::RateLimit;
    pub use crate::warning::{Warning, Warnings};
}
