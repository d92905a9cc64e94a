#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

mod error;
mod extract;
pub mod headers;
mod key;
mod name;
mod trusted_proxies;
mod warning;

pub mod keys {
    //! Finds the [`Key`] of a request: the address of its client, and other [`Extract`]s.

    pub use crate::error::{CookieNameError, PrefixError};
    pub use crate::extract::{
        ApiKey, Bearer, ClientAddress, Cookie, Everyone, Extract, FromFn, Head, Header, Methods,
        NoKey, NormalPath, Optional, Or, PeerAddress, Tiered, node_address, peer_address,
    };
    pub use crate::key::Key;
    pub use crate::trusted_proxies::{BadTrustedProxies, TrustedProxies};
    pub use crate::warning::{Warning, Warnings};
}
