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

    pub use crate::error::KeyError;
    pub use crate::extract::{
        ApiKey, Bearer, ClientAddress, Cookie, Everyone, Extract, Head, Header, Methods, NoKey,
        NormalPath, PeerAddress, from_fn, node_address, peer_address,
    };
    pub use crate::key::Key;
    pub use crate::trusted_proxies::TrustedProxies;
    pub use crate::warning::{Warning, Warnings};
}
