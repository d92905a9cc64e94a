//! The log of denials.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing::subscriber::DefaultGuard;

use super::World;

/// The log of this thread, in JSON, as `--log-format json` writes it.
#[derive(Clone, Default)]
pub(crate) struct DenialLines(Arc<Mutex<Vec<u8>>>);

impl Write for DenialLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics here").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DenialLines {
    pub(crate) fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .without_time()
            .with_target(false)
            .with_writer(move || writer.clone());
        let guard = tracing::subscriber::set_default(lines.finish());
        (log, guard)
    }

    /// The lines that tell of denials, once the service has stopped: they are written by a thread of their own.
    pub(crate) async fn after(&self, world: World) -> Vec<serde_json::Value> {
        world.running.stop().await;
        let bytes = self.0.lock().expect("no test panics here").clone();
        let text = String::from_utf8(bytes).expect("text");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        lines.filter(|line: &serde_json::Value| line["message"] == json!("denied")).collect()
    }
}
