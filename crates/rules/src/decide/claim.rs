//! [`Claim`]: the claim of a request on limits that are kept elsewhere.

use tollgate::Wait;

use super::act::{Act, Manner};
use crate::decide::request::Override;
use crate::language::identifier::readable;
use crate::set::rule::{Limit, Rule};

/// The limits that a claim asks for.
#[derive(Clone, Copy, Debug)]
pub enum Claimed<'a> {
    /// All limits of a rule. No limit among them is 0.
    Limits(&'a Rule),
    /// A limit that came with the request.
    OwnLimit {
        /// The limit, lowered to the highest that can be counted.
        limit: Override,
        /// The rule whose limits are replaced, if a rule matches. Its `on_error` applies.
        rule: Option<&'a Rule>,
    },
}

/// The units that a request asks for, either under the limits of one rule, which are all charged or none, or under a
/// limit that comes with the request.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The limits that are asked.
    pub of: Claimed<'a>,
    /// The key of the client. No other client of this rule has the same bytes. If the limit came with the request, the
    /// key is that of the whole descriptor, and no other descriptor of any domain has the same bytes.
    pub key: &'a [u8],
    /// The key of the client in envoyproxy/ratelimit, without the time of the window at its end. It consists of the
    /// domain and of each key and value, all with `_` behind them. It is set under
    /// [`envoyproxy_stems`](crate::Settings::envoyproxy_stems).
    pub envoyproxy_stem: Option<&'a [u8]>,
    /// The units to charge, or to give back.
    pub cost: u64,
    /// The way in which the units are treated.
    pub manner: Manner,
    pub(super) act: Act,
    pub(super) is_quota: bool,
}

impl<'a> Claim<'a> {
    /// The rule that matches, if one does.
    #[must_use]
    pub fn rule(&self) -> Option<&'a Rule> {
        match self.of {
            Claimed::Limits(rule) => Some(rule),
            Claimed::OwnLimit { rule, .. } => rule,
        }
    }

    /// Whether the rule is in shadow mode: then the claim is counted, but never denies.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        matches!(self.of, Claimed::Limits(rule) if rule.is_shadow())
    }

    /// Whether the claim is in quota mode: it denies only if all other claims of the request in quota mode deny as
    /// well.
    #[must_use]
    pub fn is_quota(&self) -> bool {
        self.is_quota
    }

    /// The key as text: the values that the rule leaves open, with `,` between them, and `%2C` for a comma within a
    /// value. No other client of this rule has the same text.
    #[must_use]
    pub fn client(&self) -> String {
        readable(self.key)
    }

    /// The time that this limit of the rule lets the request wait; `None` if it is admitted at once or not at all.
    #[must_use]
    pub fn wait(&self, limit: &Limit) -> Option<Wait> {
        self.act.wait(limit.gate.as_ref()?)
    }
}
