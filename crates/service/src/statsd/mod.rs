//! StatsD: sends the series of `/metrics` in datagrams, as the gains of counters and the values of gauges.
//!
//! The reports are made from the registry of `/metrics`, so there is no second list of metrics. As usual with StatsD, a
//! datagram that is lost on the way is not sent again. But if the system refuses to send a datagram, it is counted, and
//! the next report contains the gains of its counters.
//!
//! The sender uses no client library, such as `cadence`. These libraries send a line for each event. Here a request
//! only adds to counters, and a report sends the gains of the counters. The libraries also pack lines into datagrams,
//! but their errors do not say which lines were not sent, so the next report could not contain those gains. Besides,
//! the libraries write labels only as tags.

mod datagrams;
mod line;
mod names;
mod sender;
mod series;
mod settings;

pub(crate) use sender::StatsdSender;
pub use settings::{Statsd, StatsdStyle};
