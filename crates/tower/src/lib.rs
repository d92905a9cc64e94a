#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

mod ask;
mod cost;
mod decide;
mod delay;
mod denied_error;
mod deny;
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
mod place;
mod queue;
mod refusal;
mod remote;
mod remote_limit;
mod service;
mod settle;
mod shared;
mod steps;
#[cfg(feature = "metrics")]
mod tables;
mod trusted_proxies;
mod warning;

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
pub use layer::{RateLimitLayer, RemoteLayer};
pub use lend::{Lend, RemoteLend};
pub use limit::Limit;
pub use lookup::{Lookup, LookupLayer};
pub use name::{NameError, PolicyName};
pub use place::{Local, Place, Remote};
pub use remote::RemoteFuture;
pub use remote_limit::{Answering, RemoteAsk, RemoteLimit};
pub use service::RateLimit;
pub use settle::{RemoteSettle, Settle, Shadowed};
pub use trusted_proxies::{BadTrustedProxies, TrustedProxies};
pub use warning::{Warning, Warnings};
