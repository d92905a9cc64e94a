//! Instructions of a server per request, under valgrind's callgrind.
//!
//! Each server runs twice, and answers more requests the second time. The difference between the two counts is the cost
//! of the additional requests, without the start and the end of the process. These counts hardly depend on what else
//! the machine does. All connections make requests at once, as they do on a busy server.

use std::error::Error;
use std::path::Path;

use crate::drive::{Clients, Span};
use crate::options::{RlsOptions, ServerKind};
use crate::server;

/// With either number of requests, each client makes at least one.
const FEWER: u32 = 20;
const MORE: u32 = 220;

/// Prints the instructions of each server, and of the service alone.
pub(crate) fn run(options: &RlsOptions, profiles: &Path) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut each = [0; 2];
    for (kind, count) in [ServerKind::Ours, ServerKind::Echo].into_iter().zip(&mut each) {
        let collected = |requests: u32| -> Result<u64, Box<dyn Error>> {
            let profile = profiles.join(format!("{kind:?}.{requests}"));
            let process = server::start_counted(kind, options, &profile)?;
            runtime.block_on(async {
                let mut clients = Clients::connect(kind, &process.address, options).await?;
                clients.round(Span::Requests(requests)).await
            })?;
            process.end_counted()
        };
        let connections = u64::try_from(options.connections)?;
        let more = collected(MORE)?.saturating_sub(collected(FEWER)?);
        *count = more / (u64::from(MORE - FEWER) * connections.max(1));
    }
    let [ours, echo] = each;
    println!(
        "instructions of the server per request: {ours}, bare {echo}, own {}",
        ours.saturating_sub(echo)
    );
    Ok(())
}
