//! Measures the cost of a rate limit behind gRPC: the service beside a bare tonic server with the same messages.
//!
//! ```text
//! cargo bench -p tollgate-rls-bench                       both, rounds interleaved
//! cargo bench -p tollgate-rls-bench -- --descriptors 4    larger requests
//! cargo bench -p tollgate-rls-bench -- --decide 1000000   one thread, no socket: from bytes to bytes
//! cargo bench -p tollgate-rls-bench -- --instructions target   instructions per request, by valgrind; its profiles into target
//! cargo bench -p tollgate-rls-bench -- --serve ours       one server alone, for a profiler or another client
//! ```
//!
//! Each server is a process of its own with as many threads as the machine has cores. Both run all the time, and only
//! one gets requests at a time. Each of 64 connections has one request in progress. Every answer is checked. The
//! service's answer must have the right limit, and the units left must be exactly the limit less the earlier requests.

mod drive;
mod instructions;
mod options;
mod report;
mod server;

use std::error::Error;
use std::time::Duration;

use clap::Parser;

use options::{RlsOptions, ServerKind};

fn main() -> Result<(), Box<dyn Error>> {
    let options = RlsOptions::parse();
    if let Some(kind) = options.serve {
        return server::serve(kind, &options);
    }
    if let Some(profiles) = &options.instructions {
        return instructions::run(&options, profiles);
    }
    if let Some(decisions) = options.decide {
        return drive::decide(decisions, options.descriptors);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads)
        .enable_all()
        .build()?;
    let span = drive::Span::Time(Duration::from_millis(options.millis));
    let mut servers = Vec::new();
    for kind in [ServerKind::Ours, ServerKind::Echo] {
        let process = server::start(kind, &options)?;
        let clients = drive::Clients::connect(kind, &process.address, &options);
        let clients = runtime.block_on(clients)?;
        servers.push((process, clients));
    }
    let mut report = report::RlsReport::new(&options);
    // The first round is not measured: it warms up connections, tables and processors.
    for number in 0..=options.rounds {
        let mut of_both = [None, None];
        for turn in 0..2 {
            // Each server is the first in equally many rounds.
            let which = (number + turn) % 2;
            let (process, clients) = &mut servers[which];
            let cpu_before = process.cpu_s();
            let mut round = runtime.block_on(clients.round(span))?;
            round.cpu_s = process.cpu_s() - cpu_before;
            of_both[which] = Some(round);
        }
        if let ([Some(ours), Some(echo)], true) = (of_both, number > 0) {
            report.add(&ours, &echo);
        }
    }
    report.end();
    Ok(())
}
