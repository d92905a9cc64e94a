//! What a rate limit adds to a request of axum: Tollgate's layer beside tower_governor's.
//!
//! ```text
//! cargo bench -p tollgate-http-peers                   in one process, no socket, rounds interleaved
//! cargo bench -p tollgate-http-peers -- --one ours     one contender only, to count its instructions
//! cargo bench -p tollgate-http-peers -- --serve ours   on 127.0.0.1:3000, for wrk
//! ```
//!
//! All three serve the same handler. Both limits are by the peer's address, both have their headers on, and
//! neither denies anyone here. Every answer is looked at: a contender that denies, or whose headers are not
//! there, ends the run.

mod contender;
mod measure;

use std::error::Error;
use std::net::SocketAddr;

use clap::Parser;
use tokio::net::TcpListener;

use contender::Contender;

/// What a rate limit adds to a request of axum.
#[derive(Parser)]
struct Options {
    /// Rounds of each contender.
    #[arg(long, default_value_t = 31)]
    rounds: usize,
    /// Requests of each round.
    #[arg(long, default_value_t = 100_000)]
    requests: usize,
    /// Different addresses that they come from.
    #[arg(long, default_value_t = 1_000)]
    clients: u16,
    /// One round of this contender only.
    #[arg(long, value_enum)]
    one: Option<Contender>,
    /// Serves this contender until it is ended.
    #[arg(long, value_enum)]
    serve: Option<Contender>,
    /// Where to serve.
    #[arg(long, default_value = "127.0.0.1:3000")]
    address: SocketAddr,
    /// Threads that serve.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if let Some(contender) = options.serve {
        return serve(contender, options.address, options.threads);
    }
    if let Some(contender) = options.one {
        contender.rounds()(options.requests, options.clients);
        println!("{contender:?}: {} requests", options.requests);
        return Ok(());
    }
    measure::run(options.rounds, options.requests, options.clients);
    Ok(())
}

fn serve(contender: Contender, address: SocketAddr, threads: usize) -> Result<(), Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        println!("{contender:?} on http://{address}/");
        let app = contender.app().into_make_service_with_connect_info::<SocketAddr>();
        Ok(axum::serve(listener, app).await?)
    })
}
