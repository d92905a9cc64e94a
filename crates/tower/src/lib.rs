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

pub use answer::Answer;
pub use cost::Cost;
pub use denied_error::{DeniedError, ErrorFuture, ErrorLayer, ErrorService};
pub use deny::{Denied, Deny, DenyWith, ProblemJson};
pub use error::{CookieNameError, LayerError, PrefixError};
#[cfg(feature = "axum")]
pub use extract::Route;
pub use extract::{
    ApiKey, Bearer, ClientAddress, Cookie, Everyone, Extract, FromFn, Head, Header, Methods, NoKey,
    NormalPath, Optional, Or, PeerAddress, Tiered, node_address,
};
pub use future::ResponseFuture;
pub use gate::{Gate, MissingKey, UnknownTier};
#[cfg(feature = "grpc")]
pub use grpc::GrpcStatus;
pub use headers::{
    Advice, FigureNames, HeaderStyle, HeaderStyleError, Headers, LimitAdvice, LimitReport,
    PolicyAdvice,
};
pub use key::Key;
pub use layer::RateLimitLayer;
pub use lend::{Lend, Loan};
pub use limit::{Limit, LimitAsk};
pub use lookup::{Lookup, LookupLayer};
pub use name::{NameError, PolicyName};
pub use service::RateLimit;
pub use settle::{Settle, Shadowed};
pub use trusted_proxies::{BadTrustedProxies, TrustedProxies};
pub use warning::{Warning, Warnings};
