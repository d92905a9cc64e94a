//! Instructions of a server per request, under valgrind's callgrind.
//!
//! Each server answers twice, and the second time more requests: the difference is what these cost, without what comes before
//! and after. A count hardly depends on what else the machine does. All connections ask at once, as a busy server is asked.

use std::error::Error;
use std::path::Path;

use crate::drive::{Clients, Span};
use crate::options::{RlsOptions, ServerKind};
use crate::server;

/// With both of these numbers, of each connection, every client is known already.
const FEWER: u32 = 20;
const MORE: u32 = 220;

/// Prints what each server takes, and what is the service's own.
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
