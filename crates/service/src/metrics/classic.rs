//! Prometheus' older text format, for readers that do not ask for OpenMetrics.
//!
//! The two formats differ in the names of counters and in the last line. In OpenMetrics the series
//! `tollgate_requests_total` follows the line `# TYPE tollgate_requests counter`. In the older format the type line has
//! the name of the series, too: `# TYPE tollgate_requests_total counter`. OpenMetrics does not allow the type `counter`
//! for a name that does not end in `_total`. This service gives such a counter the type `unknown`, which it uses for
//! nothing else.

/// Converts a page of OpenMetrics into the older format.
pub(super) fn classic(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut help = None;
    for line in page.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            // The help line is printed later, because the name in it depends on the type, which follows the help line.
            help = described.split_once(' ');
        } else if let Some((name, kind)) = typed(line) {
            let (name, kind) = match kind {
                "counter" => (format!("{name}_total"), "counter"),
                "unknown" => (name.to_owned(), "counter"),
                _ => (name.to_owned(), kind),
            };
            if let Some((_, description)) = help.take() {
                text += &format!("# HELP {name} {description}\n");
            }
            text += &format!("# TYPE {name} {kind}\n");
        } else if line != "# EOF" {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn typed(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("# TYPE ")?.split_once(' ')
}

#[cfg(test)]
mod tests {
    use super::classic;

    #[test]
    fn counters_are_called_as_their_series_and_no_line_ends_the_page() {
        let open = "# HELP a_requests Requests, by what came of them\n# TYPE a_requests counter\n\
                    a_requests_total{of=\"x # TYPE\"} 1\n# HELP a_live Clients\n# TYPE a_live gauge\na_live 2\n\
                    # HELP their_hits Hits\n# TYPE their_hits unknown\ntheir_hits 3\n# EOF\n";
        let expected = "# HELP a_requests_total Requests, by what came of them\n# TYPE a_requests_total counter\n\
                        a_requests_total{of=\"x # TYPE\"} 1\n# HELP a_live Clients\n# TYPE a_live gauge\na_live 2\n\
                        # HELP their_hits Hits\n# TYPE their_hits counter\ntheir_hits 3\n";
        assert_eq!(classic(open), expected);
    }
}
