//! Renders counts as a page. The template escapes texts, and control characters in names are shown as escapes.

use std::cmp::Reverse;
use std::fmt::Write;
use std::sync::Arc;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use tollgate_rules::{Rule, RuleSet};

use super::figures::{grouped, name, part, rate, share};
use super::worst;
use crate::history::{COLUMN, Rates, RuleRates, SECONDS};
use crate::service::Service;

/// The reader of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    Anyone,
    Admin,
}

/// The maximum number of rules in the table of the page. `/rlconfig` shows all rules.
const MAX_ROWS: usize = 200;

/// The number of rules in the list of the rules that deny most.
const MAX_TOP: usize = 5;

/// The columns of the plot.
const COLUMNS: usize = SECONDS / COLUMN;

/// The height of the plot in its own units, which the page scales to its own size.
const HEIGHT: f64 = 100.0;

/// The whole page.
pub(super) fn page(service: &Service, reader: Reader) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Tollgate" }
                noscript { meta http-equiv="refresh" content="5"; }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                header {
                    h1 { "Tollgate" }
                    span #stale hidden { "no answer: these figures are old" }
                }
                (content(service, reader))
                script src="/status.js" defer {}
            }
        }
    }
}

fn content(service: &Service, reader: Reader) -> Markup {
    let status = service.cache().status();
    let rules = service.cache().rules();
    let now = service.history.now();
    html! {
        main {
            (state(service, rules.as_deref(), status.loads))
            @if !status.errors.is_empty() {
                p.bad {
                    (many(status.errors.len(), "error")) " in the newest rules (see /rlconfig on the admin's address)"
                    @if rules.is_some() { ": those of before stay in force." } @else { "." }
                }
            }
            div.tiles {
                (tile(&rate(now.decisions()), "decisions per second"))
                (tile(&share(now.share_over()), "of them refused"))
                (tile(&rate(now.over), "refused per second"))
                (tile(&rate(now.refused), "undecided per second"))
            }
            (plot(&service.history.columns()))
            @if let Some(rules) = &rules {
                @let rates = service.history.of_rules(rules);
                (top(rules, &rates))
                @if reader == Reader::Admin { (worst::section(service.cache(), rules, &rates)) }
                (table(rules, &rates))
            }
        }
    }
}

fn state(service: &Service, rules: Option<&RuleSet>, loads: u64) -> Markup {
    html! {
        p.soft {
            @if service.is_healthy() {
                strong.good { "serving" }
            } @else if rules.is_none() {
                strong.bad { "no rules" }
            } @else {
                strong.bad { "stopping" }
            }
            @if let Some(rules) = rules {
                " · " (many(rules.rules().len(), "rule")) " in " (many(rules.domains().count(), "domain"))
                " · loaded " (many(usize::try_from(loads).unwrap_or(usize::MAX), "time"))
            }
        }
    }
}

/// A number followed by its noun, in the singular or the plural.
fn many(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn tile(figure: &str, what: &str) -> Markup {
    html! { div { b { (figure) } span { (what) } } }
}

/// The plot: two stacked areas, one for admissions and one for denials.
fn plot(columns: &[Rates]) -> Markup {
    let most = columns.iter().map(Rates::decisions).fold(0.0, f64::max);
    let top = round_up(most);
    let passed = area(columns, top, |_| 0.0, |rates| rates.allowed);
    let over = area(columns, top, |rates| rates.allowed, Rates::decisions);
    html! {
        section {
            h2 {
                "Decisions per second"
                span.key.pass {} span.soft { "allowed" }
                span.key.over {} span.soft { "refused" }
            }
            div.plot {
                svg viewBox=(format!("0 0 {COLUMNS} {HEIGHT}")) preserveAspectRatio="none" role="img"
                    aria-label=(format!("at most {} decisions per second", rate(most))) {
                    path.pass d=(passed) {}
                    path.over d=(over) {}
                }
                span.most { (rate(top)) }
            }
            div.axis { span { "15 minutes ago" } span { "now" } }
        }
    }
}

/// The SVG path of the area between two lines, which change in steps of one column. The last column is at the right
/// edge.
fn area(
    columns: &[Rates],
    top: f64,
    lower: impl Fn(&Rates) -> f64,
    upper: impl Fn(&Rates) -> f64,
) -> String {
    let begin = COLUMNS.saturating_sub(columns.len());
    let mut path = String::new();
    for (n, rates) in columns.iter().enumerate() {
        let height = |value: f64| HEIGHT - HEIGHT * value / top;
        let (above, below) = (height(upper(rates)), height(lower(rates)));
        if below - above > 0.0 {
            let left = begin + n;
            // An empty column is not drawn.
            let _ = write!(path, "M{left} {below:.2}V{above:.2}h1V{below:.2}z");
        }
    }
    path
}

/// Rounds up to the next of 1, 2, 5, 10, 20 and so on.
fn round_up(value: f64) -> f64 {
    let mut top = 1.0;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle().take(60) {
        if top >= value {
            break;
        }
        top *= factor;
    }
    top
}

/// The rules that have denied most in the last quarter of an hour.
fn top(rules: &RuleSet, rates: &[RuleRates]) -> Markup {
    let mut refusing: Vec<(&Rule, &RuleRates)> =
        rules.rules().iter().zip(rates).filter(|(_, rates)| rates.past_over > 0).collect();
    refusing.sort_by_key(|(_, rates)| Reverse(rates.past_over));
    refusing.truncate(MAX_TOP);
    let most = refusing.first().map_or(1, |(_, rates)| rates.past_over);
    html! {
        section {
            h2 { "Over their limits most" span.soft { " in the last 15 minutes" } }
            @if refusing.is_empty() {
                p.soft { "Nothing was over a limit." }
            }
            ol {
                @for (rule, rates) in refusing {
                    li {
                        div.row {
                            span.name { (name(rule)) @if rule.is_shadow() { span.soft { " (shadow)" } } }
                            span.n {
                                (grouped(rates.past_over)) ", " (share(part(rates.past_over, rates.past_hits)))
                                " of its hits; now " (rate(rates.over)) "/s"
                            }
                        }
                        div.bar { i style=(format!("width:{:.1}%", 100.0 * part(rates.past_over, most))) {} }
                    }
                }
            }
        }
    }
}

fn table(rules: &Arc<RuleSet>, rates: &[RuleRates]) -> Markup {
    let more = rules.rules().len().saturating_sub(MAX_ROWS);
    html! {
        section {
            h2 { "Rules" }
            div.wide {
                table {
                    thead { tr {
                        th { "Rule" } th.more { "Limit" } th.n { "Hits/s" } th.n { "Over/s" }
                        th.n.more { "Hits" } th.n.more { "Over" } th.n.more { "Near" }
                    } }
                    tbody {
                        @for (n, rule) in rules.rules().iter().take(MAX_ROWS).enumerate() {
                            (row(rule, rates.get(n).copied().unwrap_or_default()))
                        }
                    }
                }
            }
            @if more > 0 { p.soft { "and " (more) " more: see /rlconfig" } }
        }
    }
}

fn row(rule: &Rule, rates: RuleRates) -> Markup {
    let counts = rule.counts();
    html! {
        tr {
            td.name { (name(rule)) div.less.soft { (limits(rule)) } }
            td.more { (limits(rule)) }
            td.n { (rate(rates.hits)) }
            td.n { (rate(rates.over)) }
            td.n.more { (grouped(counts.total())) }
            td.n.more { (grouped(counts.over_limit)) }
            td.n.more { (grouped(counts.near_limit)) }
        }
    }
}

/// The limits of a rule, written as in its line in `/rlconfig`.
fn limits(rule: &Rule) -> String {
    let line = rule.to_string();
    line.strip_prefix(&format!("{}: ", name(rule))).map(str::to_owned).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_the_plot_is_a_round_number() {
        assert_eq!(
            [0.0, 1.0, 3.0, 5.0, 70.0, 101.0].map(round_up),
            [1.0, 1.0, 5.0, 5.0, 100.0, 200.0]
        );
    }

    #[test]
    fn areas_lie_on_each_other_and_end_now() {
        let rates = Rates { allowed: 3.0, over: 1.0, refused: 9.0 };
        let passed = area(&[rates], 5.0, |_| 0.0, |rates| rates.allowed);
        let over = area(&[rates], 5.0, |rates| rates.allowed, Rates::decisions);
        assert_eq!(passed, "M179 100.00V40.00h1V100.00z");
        assert_eq!(over, "M179 40.00V20.00h1V40.00z");
        assert_eq!(area(&[Rates::default()], 5.0, |_| 0.0, Rates::decisions), "");
    }
}
