//! Records statistics of a layer's tables with the recorder of `metrics`.
use tollgate_http::headers::PolicyName;

use crate::layer::RateLimitLayer;

impl<D> RateLimitLayer<D> {
    /// Records statistics of the tables of this layer's limits with the recorder of `metrics`, labelled by the policy's
    /// name. The gauge `tollgate_table_live` has the number of keys that limit something now. Two counters count the
    /// requests of new keys that found no cell: `tollgate_table_full_total` those that were denied for this reason, and
    /// `tollgate_table_spilled_total` those that were decided in the spill. This function reads the whole tables, so
    /// call it every few seconds or for each scrape. Needs the feature `metrics`.
    ///
    /// ```
    /// use tollgate::{KeyedLimiter, Quota};
    /// use tollgate_tower::{ClientAddress, RateLimitLayer};
    /// let clients = KeyedLimiter::new(Quota::per_second(10), 1_000)?;
    /// let layer = RateLimitLayer::new(clients, ClientAddress::peer());
    /// layer.record_tables();
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn record_tables(&self) {
        for gate in &*self.shared.rules.gates {
            if let Some(stats) = gate.limit.stats() {
                record_table(&gate.name, &stats);
            }
        }
    }
}

/// Records the statistics of a table. The counters are the table's own, so they are set and not added to.
fn record_table(name: &PolicyName, stats: &tollgate::Stats) {
    const LIVE: &str = "tollgate_table_live";
    const FULL: &str = "tollgate_table_full_total";
    const SPILLED: &str = "tollgate_table_spilled_total";
    metrics::describe_gauge!(LIVE, "Keys that limit something now.");
    metrics::describe_counter!(FULL, "Requests of new keys denied because no cell was free.");
    metrics::describe_counter!(SPILLED, "Requests of new keys that were decided in the spill.");
    #[expect(clippy::cast_precision_loss, reason = "a table has fewer than 2^53 cells")]
    let live = stats.live as f64;
    metrics::gauge!(LIVE, "policy" => name.shared()).set(live);
    metrics::counter!(FULL, "policy" => name.shared()).absolute(stats.full);
    metrics::counter!(SPILLED, "policy" => name.shared()).absolute(stats.spilled);
}
