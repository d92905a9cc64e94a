//! Tests of the service over real sockets. They are one binary, because each test binary links the whole service again.

#[path = "../common/certificates.rs"]
mod certificates;
#[path = "../common/mod.rs"]
mod common;

mod auth;
mod bad_inputs;
mod connections;
mod denials;
mod grpc;
mod headers;
mod headroom;
mod http;
mod near_over;
mod openapi;
mod quota;
mod reserve;
mod resp;
mod scenarios;
mod series;
mod start;
mod statsd;
mod table_bytes;
mod tls;
mod told;
mod traces;
#[cfg(unix)]
mod unix_sockets;
mod usage;
mod why;
mod xds;
