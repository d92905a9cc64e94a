//! A service that admits 3 requests in 6 seconds from each client: `cargo run --example axum`, then
//! `curl -i http://127.0.0.1:3000/`.
//!
//! Run `axum -- ADDRESS POLICY` to choose another address and policy: `axum -- 127.0.0.1:8080 "1000/s burst 100"`.

use std::env;
use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tollgate::{KeyedLimiter, Policy};
use tollgate_tower::{ClientAddress, RateLimitLayer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let policy: Policy = arguments.next().unwrap_or_else(|| "3/6s".to_owned()).parse()?;

    let clients = KeyedLimiter::new(policy, 100_000)?;
    let limit = RateLimitLayer::new(clients, ClientAddress::peer());
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(limit);

    let listener = TcpListener::bind(&address).await?;
    println!("{policy} for each client of http://{address}/");
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
