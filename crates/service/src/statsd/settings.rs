//! [`Statsd`]: the settings for sending metrics to StatsD.

use std::time::Duration;

use crate::host_port::HostPort;

/// The settings for sending metrics to StatsD.
///
/// ```
/// use tollgate_service::{Statsd, StatsdStyle};
/// let statsd = Statsd { style: StatsdStyle::Tagged, ..Statsd::new("localhost:8125".parse()?) };
/// assert_eq!(statsd.every.as_secs(), 5);
/// # Ok::<(), tollgate_service::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statsd {
    /// The address that datagrams are sent to. A name is resolved once a minute.
    pub address: HostPort,
    /// The time between two reports, at least a second.
    pub every: Duration,
    /// The style in which labels are written.
    pub style: StatsdStyle,
    /// Tags that are added to all series: a name and a value each. Default: none.
    pub tags: Vec<(String, String)>,
}

/// The style in which the labels of a series are written.
///
/// ```
/// assert_eq!(tollgate_service::StatsdStyle::default(), tollgate_service::StatsdStyle::Dotted);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatsdStyle {
    /// Labels are parts of the name, as in `tollgate.rule_hits.shop.user:5|c`, which every server understands. The
    /// [`tags`](Statsd::tags) follow at its end as `.__name=value`, as envoyproxy/ratelimit writes them.
    #[default]
    Dotted,
    /// Labels are tags, as in `tollgate.rule_hits:5|c|#domain:shop,rule:user`, which Datadog, Telegraf, Vector and
    /// statsd_exporter understand.
    Tagged,
}

impl Statsd {
    /// Sends to this address every 5 s, in the dotted style, without tags.
    ///
    /// ```
    /// use tollgate_service::Statsd;
    /// assert!(Statsd::new("127.0.0.1:8125".parse()?).tags.is_empty());
    /// # Ok::<(), tollgate_service::AddressError>(())
    /// ```
    #[must_use]
    pub fn new(address: HostPort) -> Self {
        let (every, style, tags) = (Duration::from_secs(5), StatsdStyle::default(), Vec::new());
        Self { address, every, style, tags }
    }
}
