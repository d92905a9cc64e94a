//! StatsD: sends the series of `/metrics` in datagrams, as the gains of counters and the values of gauges.
//!
//! The reports are made from the registry of `/metrics`, so there is no second list of metrics. As always with StatsD,
//! a lost datagram is not sent again. A datagram that the system refuses to send is counted, and the next report
//! contains the gains of its counters.
//!
//! The sender uses no client library, such as `cadence`. These libraries send a line for each event. Here a request
//! only adds to counters, and a report sends what they have gained. The libraries also pack lines into datagrams, but
//! their errors do not say which lines were lost, so the next report could not contain those gains. Besides, they write
//! labels only as tags.

mod datagrams;
mod line;
mod names;
mod sender;
mod series;
mod settings;

pub(crate) use sender::StatsdSender;
pub use settings::{Statsd, StatsdStyle};
