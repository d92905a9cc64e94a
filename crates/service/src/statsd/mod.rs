//! StatsD: sends the series of `/metrics` in datagrams, as the gains of counters and the values of gauges.
//!
//! There is no second list of metrics: the reports are made from the registry of the page. As always with StatsD, a lost
//! datagram is not sent again. A datagram that the system refuses to send is counted, and the next report contains the
//! gains of its counters.
//!
//! The sender is kept by hand. The client libraries, such as `cadence`, send a line for each event from a thread or at once,
//! whereas a report here has the gains of counters that requests add to without a line. Their buffers pack lines into
//! datagrams as well, but an error does not say which lines were lost, so that the next report could not contain them;
//! and they write labels as tags alone.

mod datagrams;
mod line;
mod names;
mod sender;
mod series;
mod settings;

pub(crate) use sender::StatsdSender;
pub use settings::{Statsd, StatsdStyle};
