//! The service over real sockets. One binary: each would compile the whole service anew.

#[path = "../common/certificates.rs"]
mod certificates;
#[path = "../common/mod.rs"]
mod common;

mod bad_inputs;
mod grpc;
mod http;
mod scenarios;
mod start;
mod table_bytes;
mod tls;
mod told;
#[cfg(unix)]
mod unix_sockets;
