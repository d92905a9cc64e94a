//! Measures the cost that a rate limit adds to a request in axum, with Tollgate's layer and with tower_governor's.
//!
//! ```text
//! cargo bench -p tollgate-http-peers                        in one process, no socket, rounds interleaved
//! cargo bench -p tollgate-http-peers -- --instructions      instructions per request, counted by valgrind
//! cargo bench -p tollgate-http-peers -- --one ours          one contender only, for a profile
//! cargo bench -p tollgate-http-peers -- --serve ours        on 127.0.0.1:3000, for wrk
//! ```
//!
//! All contenders serve the same handler. Each limit counts by the peer's address and denies no measured request. First
//! each contender runs with a small limit, and must deny. In the measurement every answer is checked: a contender that
//! denies, or whose headers are missing, ends the run.

mod contender;
mod instructions;
mod measure;

use std::error::Error;
use std::net::SocketAddr;

use clap::Parser;
use tokio::net::TcpListener;

use contender::HttpContender;

/// Measures what a rate limit adds to a request in axum.
#[derive(Parser)]
struct HttpOptions {
    /// Rounds of each contender.
    #[arg(long, default_value_t = 31)]
    rounds: usize,
    /// Requests of each round.
    #[arg(long, default_value_t = 100_000)]
    requests: usize,
    /// The number of different addresses from which the requests come.
    #[arg(long, default_value_t = 1_000)]
    clients: u16,
    /// Counts instructions with valgrind, instead of measuring time.
    #[arg(long)]
    instructions: bool,
    /// Runs only one round of this contender.
    #[arg(long, value_enum)]
    one: Option<HttpContender>,
    /// Serves this contender until it is ended.
    #[arg(long, value_enum)]
    serve: Option<HttpContender>,
    /// Where to serve.
    #[arg(long, default_value = "127.0.0.1:3000")]
    address: SocketAddr,
    /// Threads that serve.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// `cargo bench` passes this option, which has no effect.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = HttpOptions::parse();
    if let Some(contender) = options.serve {
        return serve(contender, options.address, options.threads);
    }
    if let Some(contender) = options.one {
        contender.measured()(options.requests, options.clients, usize::MAX);
        println!("{contender:?}: {} requests", options.requests);
        return Ok(());
    }
    HttpContender::ALL.into_iter().for_each(HttpContender::try_out);
    if options.instructions {
        return instructions::run();
    }
    measure::run(options.rounds, options.requests, options.clients);
    Ok(())
}

fn serve(
    contender: HttpContender,
    address: SocketAddr,
    threads: usize,
) -> Result<(), Box<dyn Error>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        println!("{contender:?} on http://{address}/");
        let app = contender.app().into_make_service_with_connect_info::<SocketAddr>();
        Ok(axum::serve(listener, app).await?)
    })
}
