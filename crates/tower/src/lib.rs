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
mod future;
mod gate;
#[cfg(feature = "grpc")]
mod grpc;
pub mod guide;
mod joint;
mod layer;
mod lend;
mod limit;
mod lookup;
mod observe;
mod queue;
#[cfg(feature = "redis")]
mod redis;
mod refusal;
#[cfg(feature = "axum")]
mod route;
mod service;
mod settle;
mod shared;
mod steps;
#[cfg(feature = "metrics")]
mod tables;

pub use gate::Gate;
pub use layer::RateLimitLayer;
pub use tollgate_http::keys::ClientAddress;

pub mod keys {
    //! Finds the [`Key`] of a request: the [`Extract`]s besides [`ClientAddress`](crate::ClientAddress), and a layer
    //! that looks up what a key needs.

    pub use tollgate_http::keys::{
        ApiKey, Bearer, Cookie, Everyone, Extract, Head, Header, Key, KeyError, Methods, NoKey,
        NormalPath, PeerAddress, TrustedProxies, from_fn, node_address,
    };

    pub use crate::lookup::{Lookup, LookupLayer};
    #[cfg(feature = "axum")]
    pub use crate::route::Route;
}

pub mod gates {
    //! The settings of a [`Gate`](crate::Gate): its name, what a request costs and how that is corrected afterwards.

    pub use crate::cost::Cost;
    pub use crate::settle::{Settle, Shadowed};
    pub use tollgate_http::headers::{NameError, PolicyName};
}

pub mod headers {
    //! Rate limit headers: their styles, and how a client reads them.

    pub use tollgate_http::headers::{
        Advice, FigureNames, HeaderStyle, HeaderStyleError, Headers, LimitAdvice, LimitReport,
        PolicyAdvice, RATE_LIMIT, RATE_LIMIT_POLICY, X_RATE_LIMIT_OVER,
    };
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
    pub use tollgate_http::keys::{Warning, Warnings};
}
