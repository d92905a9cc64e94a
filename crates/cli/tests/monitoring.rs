//! The metrics for which `examples/monitoring` asks.

use crate::pages::read;

/// The dashboard and the alerts ask only for metrics that exist.
#[test]
fn what_is_shown_and_alarmed_is_a_metric_of_the_page() {
    let guide = read("crates/service/docs/metrics.md");
    let is_told = |name: &str| guide.contains(&format!("`{name}`"));
    for file in ["examples/monitoring/alerts.yaml", "examples/monitoring/grafana.json"] {
        let text = read(file);
        let names = text.split("tollgate_").skip(1).filter_map(|rest| {
            rest.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_').next()
        });
        let names: Vec<&str> = names.collect();
        assert!(names.len() > 10, "{file}: {names:?}");
        for name in names {
            let name =
                ["_total", "_bucket"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(is_told(name), "{file}: there is no metric {name}");
        }
    }
}
