//! [`Claim`]: the claim of a request on limits that are kept elsewhere.

use tollgate::Wait;

use super::act::{Act, Manner};
use crate::identifier::readable;
use crate::request::Override;
use crate::rule::{Limit, Rule};

/// The limits that a claim asks for.
#[derive(Clone, Copy, Debug)]
pub enum Claimed<'a> {
    /// All limits of a rule; none of them is 0.
    Limits(&'a Rule),
    /// A limit that came with the request.
    OwnLimit {
        /// The limit, as it is counted.
        limit: Override,
        /// The rule that it replaces, if one matches. The `on_error` of that rule holds.
        rule: Option<&'a Rule>,
    },
}

/// The units that a request asks for under the limits of one rule, all of which are charged or none; or under a limit
/// that comes with the request.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The limits that are asked.
    pub of: Claimed<'a>,
    /// The key of the client; no other client of this rule has the same bytes. Under a limit that came with the request
    /// it is the key of the whole descriptor, and no other descriptor of any domain has the same bytes.
    pub key: &'a [u8],
    /// Its key in envoyproxy/ratelimit, without the time of the window at the end: the domain, and each key and value,
    /// all with `_` behind them. Set under [`envoyproxy_stems`](crate::Settings::envoyproxy_stems).
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

    /// Whether it only counts: the rule is in shadow mode.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        matches!(self.of, Claimed::Limits(rule) if rule.is_shadow())
    }

    /// Whether it is in quota mode: it denies only if all other such claims of the request do.
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
