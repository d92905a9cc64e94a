//! StatsD: the series of `/metrics`, sent in datagrams: what counters have gained, and the values of gauges.
//!
//! There is no second list of metrics: what is sent is read from the page. A datagram that is lost is lost, as always with
//! StatsD; one that the system refuses to send is counted, and what its counters have gained is sent with the next.

mod datagrams;
mod line;
mod names;
mod page;
mod sender;
mod settings;

pub(crate) use sender::StatsdSender;
pub use settings::{Statsd, StatsdStyle};
