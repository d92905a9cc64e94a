//! Lists the clients that rules deny most, by name, for the admin only.

use std::cmp::Reverse;

use maud::{Markup, html};
use tollgate_rules::{Rule, RuleCache, RuleSet, WorstClient};

use super::figures::{grouped, name, part};
use crate::history::RuleRates;

/// The maximum number of rules whose clients are named. These are the rules that deny most.
const MAX_RULES: usize = 20;

/// The section of the page with the clients that are denied most, for the rules that deny most. `rates` is empty until
/// the rules have been sampled.
pub(super) fn section(cache: &RuleCache, rules: &RuleSet, rates: &[RuleRates]) -> Markup {
    let over = |n: usize| rates.get(n).map_or(0, |rates| rates.past_over);
    let mut found: Vec<(u64, &Rule, Vec<WorstClient>)> = rules
        .rules()
        .iter()
        .enumerate()
        .map(|(n, rule)| (over(n), rule, cache.worst_clients(rule)))
        .filter(|(_, _, clients)| !clients.is_empty())
        .collect();
    found.sort_by_key(|(over, ..)| Reverse(*over));
    found.truncate(MAX_RULES);
    html! {
        section {
            h2 { "Clients over their limits most" span.soft { " in the last 8 to 15 minutes" } }
            @if found.is_empty() {
                p.soft { "No client was." }
            } @else {
                div.cards {
                    @for (_, rule, clients) in &found { (card(rule, clients)) }
                }
                p.soft.note {
                    "Hits that were refused, by the values that a rule leaves open. Each rule keeps 64 clients: where two \
                     numbers stand, the true one lies between them, and no more than a 64th of all apart. Only this \
                     address shows names."
                    @if rules.rules().len() > WorstClient::MAX_RULES {
                        " Of the " (grouped(rules.rules().len() as u64)) " rules the first "
                        (WorstClient::MAX_RULES) " that refused a client keep such a list; the others name none."
                    }
                }
            }
        }
    }
}

fn card(rule: &Rule, clients: &[WorstClient]) -> Markup {
    let most = clients.iter().map(|client| client.at_most).max().unwrap_or(1);
    html! {
        div {
            h3.name { (name(rule)) @if rule.is_shadow() { span.soft { " (shadow)" } } }
            ol {
                @for client in clients {
                    li {
                        div.row {
                            span.name { (client.client.escape_debug()) }
                            span.n { (hits(client)) }
                        }
                        div.bar {
                            i style=(width(client.at_least, most)) {}
                            i.perhaps style=(width(client.at_most - client.at_least, most)) {}
                        }
                    }
                }
            }
        }
    }
}

fn hits(client: &WorstClient) -> String {
    let (least, most) = (grouped(client.at_least), grouped(client.at_most));
    if client.at_least == client.at_most { least } else { format!("{least} to {most}") }
}

fn width(of: u64, all: u64) -> String {
    format!("width:{:.1}%", 100.0 * part(of, all))
}
