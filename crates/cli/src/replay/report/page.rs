//! The report as one HTML page: it loads nothing, runs nothing, and escapes all text from the log.

use std::io;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{PolicyReport, ReplayReport, pictures};
use crate::plot;
use crate::replay::parse::wait;
use crate::replay::suggest::{SuggestedLimit, Suggestion};
use crate::replay::text;
use crate::tables::{grouped, share};

/// Longer keys are cut: a key may be a whole `User-Agent` header, and such keys would fill the page.
const KEY_CHARS: usize = 80;

/// The style: light or dark by the reader's own setting, and always light on paper.
const STYLE: &str = "\
:root { color-scheme: light dark; --paper: #FFFFFF; --ink: #1F2328; --faint: #59636E; --line: #DDE1E6;
  --refused: #D55E00; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #14181D; --ink: #E6EAEF;
  --faint: #9AA5B1; --line: #2E363F; --refused: #FF8C3A; } }
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 0; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem 1.5rem 3rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; } h3 { font-size: 1rem; }
p.log, caption, footer { color: var(--faint); } caption { text-align: left; padding: .5rem 0; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
.wide { overflow-x: auto; } .beside { display: flex; flex-wrap: wrap; gap: 0 3rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line); text-align: right; }
th { font-weight: 600; } th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
table.names td:first-child { white-space: nowrap; }
td.bar { min-width: 8rem; text-align: left; }
td.bar span { display: block; height: .7rem; background: var(--refused); print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
@media print { section { break-inside: avoid; } main { max-width: none; padding: 0; }
  body { font-size: 11px; } .wide { overflow: visible; } }
";

impl ReplayReport {
    /// Returns the report as a self-contained page.
    pub(crate) fn to_html(&self) -> io::Result<String> {
        let pictures: Vec<_> = self
            .rows()
            .iter()
            .map(|policy| pictures::timeline(self, policy))
            .collect::<io::Result<_>>()?;
        let cumulative = pictures::cumulative(self)?;
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { "What limits would have refused" }
                    style { (PreEscaped(STYLE)) (PreEscaped(plot::STYLE)) }
                }
                body { main {
                    h1 { "What limits would have refused" }
                    (about(self))
                    section {
                        h2 { "Side by side" }
                        (side_by_side(self))
                        figure { (PreEscaped(cumulative)) }
                    }
                    @for (policy, picture) in self.rows().iter().zip(&pictures) {
                        (of_policy(policy, picture))
                    }
                    @if let Some(suggestion) = &self.suggestion { (suggested(suggestion)) }
                    footer { p { "tollgate replay " (env!("CARGO_PKG_VERSION")) } }
                } }
            }
        };
        Ok(markup.into_string())
    }
}

fn about(report: &ReplayReport) -> Markup {
    html! {
        p.log {
            (report.log)
            @if let Some(about) = &report.about { br; (about.in_words()) }
        }
    }
}

fn side_by_side(report: &ReplayReport) -> Markup {
    html! {
        div.wide { table.names {
            thead { tr {
                th { (report.noun()) } th { "requests" } th { "admitted" } th { "refused" } th { "share refused" }
                th { "keys" } th { "keys refused" } th { "longest wait" } th { "peak admitted/s" }
            } }
            tbody {
                @for policy in report.rows() {
                    tr {
                        td { (policy.name()) }
                        td { (grouped(policy.requests)) }
                        td { (grouped(policy.admitted)) }
                        td { (grouped(policy.refused)) }
                        td { (share(policy.refused, policy.requests)) }
                        td { (grouped(policy.keys)) }
                        td { (grouped(policy.keys_refused)) }
                        td { (wait(policy.longest_wait)) }
                        td { (grouped(policy.peak_admitted_per_second)) }
                    }
                }
            }
        } }
    }
}

fn of_policy(policy: &PolicyReport, picture: &str) -> Markup {
    html! {
        section {
            h2 { (policy.name()) }
            figure { (PreEscaped(picture)) }
            @if policy.worst.is_empty() {
                p { "Nothing refused." }
            } @else {
                @if let Some(delays) = &policy.delays { p { (delays.to_string()) } }
                div.beside { (worst(policy)) (waits(policy)) }
            }
        }
    }
}

fn suggested(suggestion: &Suggestion) -> Markup {
    html! {
        section {
            h2 { "Smallest limits that refuse nothing to " (suggestion.share) " of the keys" }
            p.log {
                (grouped(suggestion.keys)) " keys, of which "
                (grouped(suggestion.keys_that_may_be_refused)) " may be refused"
            }
            (limits(&suggestion.limits))
            @for error in &suggestion.too_large { p { (error) } }
            h3 { "gcra: the higher the rate, the smaller the burst" }
            (limits(&suggestion.gcra_trade_off))
        }
    }
}

fn limits(limits: &[SuggestedLimit]) -> Markup {
    html! {
        div.wide { table.names {
            thead { tr {
                th { "policy" } th { "most in a period" } th { "keys refused" } th { "refused" }
                th { "share refused" } th { "longest wait" }
            } }
            tbody {
                @for limit in limits {
                    tr {
                        td { (limit.policy) }
                        td { (grouped(limit.max_in_period)) }
                        td { (grouped(limit.keys_refused)) }
                        td { (grouped(limit.refused)) }
                        td { (share(limit.refused, limit.requests)) }
                        td { (wait(limit.longest_wait)) }
                    }
                }
            }
        } }
    }
}

fn worst(policy: &PolicyReport) -> Markup {
    html! {
        div.wide { table {
            caption { "most refused keys" }
            thead { tr { th { "key" } th { "requests" } th { "refused" } th { "share refused" } } }
            tbody {
                @for worst in &policy.worst {
                    tr {
                        td { (text::shortened(&worst.raw, KEY_CHARS)) }
                        td { (grouped(worst.requests)) }
                        td { (grouped(worst.refused)) }
                        td { (share(worst.refused, worst.requests)) }
                    }
                }
            }
        } }
    }
}

fn waits(policy: &PolicyReport) -> Markup {
    let classes = policy.waits.classes();
    let most = classes.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let width = |count: u64| u128::from(count) * 100 / u128::from(most);
    html! {
        div.wide { table {
            caption { "how long the refused were told to wait" }
            thead { tr { th { "wait" } th { "refused" } th { "" } } }
            tbody {
                @for (name, count) in classes {
                    tr {
                        td { (name) }
                        td { (grouped(count)) }
                        td.bar { span style={ "width:" (width(count)) "%" } {} }
                    }
                }
            }
        } }
    }
}
