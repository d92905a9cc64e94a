//! StatsD: sends the series of `/metrics` in datagrams, as the gains of counters and the values of gauges.
//!
//! There is no second list of metrics: the reports are read from the page. As always with StatsD, a lost datagram is
//! not sent again. A datagram that the system refuses to send is counted, and the next report contains the gains of its
//! counters.

mod datagrams;
mod line;
mod names;
mod page;
mod sender;
mod settings;

pub(crate) use sender::StatsdSender;
pub use settings::{Statsd, StatsdStyle};
