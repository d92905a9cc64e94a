//! The lanes side by side, as text.

use std::fmt;
use std::time::Duration;

use super::lane::SimulatedLane;
use crate::replay::wait;
use crate::spans::seconds;
use crate::tables::{aligned, grouped, share, write_table};
use crate::traffic::Traffic;

/// The printed report.
pub(super) struct SimulateReport<'r> {
    pub(super) traffic: &'r Traffic,
    pub(super) lanes: &'r [SimulatedLane],
}

impl fmt::Display for SimulateReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = &self.traffic.times;
        let (first, last) = (times.first().unwrap_or(&0), times.last().unwrap_or(&0));
        writeln!(
            f,
            "{}: {} requests from {}s to {}s\n",
            self.traffic.name,
            grouped(times.len() as u64),
            seconds(*first),
            seconds(*last)
        )?;
        let mut table = aligned(&[
            "policy",
            "admitted",
            "refused",
            "share refused",
            "most in a period",
            "longest wait",
            "longest pause",
        ]);
        for lane in self.lanes {
            table.add_row([
                lane.policy.to_string(),
                grouped(lane.admitted_count),
                grouped(lane.refused_count),
                share(lane.refused_count, times.len() as u64),
                lane.max_in_period
                    .iter()
                    .map(|units| grouped(*units))
                    .collect::<Vec<_>>()
                    .join(" / "),
                short(lane.longest_wait),
                short(lane.longest_pause),
            ]);
        }
        write_table(&table, f)?;
        for lane in self.lanes {
            if let Some(delays) = &lane.delays {
                writeln!(f, "\n{}: {delays}", lane.policy)?;
            }
        }
        Ok(())
    }
}

/// Writes a span as text. It is rounded up to whole milliseconds, unless it is shorter than a millisecond.
fn short(span: Duration) -> String {
    let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    if nanos < 1_000_000 { format!("{}s", seconds(nanos)) } else { wait(span) }
}
