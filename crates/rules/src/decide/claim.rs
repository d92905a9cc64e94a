//! [`Claim`]: what a request asks of limits that are kept elsewhere.

use tollgate::Wait;

use super::act::{Act, Manner};
use crate::identifier::readable;
use crate::request::Override;
use crate::rule::{Limit, Rule};

/// What a claim asks.
#[derive(Clone, Copy, Debug)]
pub enum Claimed<'a> {
    /// The limits of a rule, none of which is 0.
    Limits(&'a Rule),
    /// A limit that came with the request.
    OwnLimit {
        /// That limit, as it is counted.
        limit: Override,
        /// The rule that it replaces, if one matches. The `on_error` of that rule holds.
        rule: Option<&'a Rule>,
    },
}

/// What a request asks of the limits of one rule, of which all are charged or none; or of a limit that comes with it.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// What is asked.
    pub of: Claimed<'a>,
    /// The key of the client. No other client of this rule has the same bytes. The key of a limit that came with the request is
    /// that of the whole descriptor, and no other descriptor of any domain has the same.
    pub key: &'a [u8],
    /// What envoyproxy/ratelimit counts it under, before the time at which the window began: the domain, and each key and
    /// value, all with `_` behind them. Under [`envoyproxy_stems`](crate::Settings::envoyproxy_stems).
    pub envoyproxy_stem: Option<&'a [u8]>,
    /// The units to charge, or to give back.
    pub cost: u64,
    /// What is done with them.
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

    /// The key as text: the values that the rule leaves open, with `,` between them, and `%2C` for one within. No other
    /// client of this rule has the same.
    #[must_use]
    pub fn client(&self) -> String {
        readable(self.key)
    }

    /// How long this limit of the rule lets the request wait; `None` if it is admitted at once or not at all.
    #[must_use]
    pub fn wait(&self, limit: &Limit) -> Option<Wait> {
        self.act.wait(limit.gate.as_ref()?)
    }
}
