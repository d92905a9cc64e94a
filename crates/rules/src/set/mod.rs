//! The rules that are in force, and how a load makes them.
//!
//! [`texts`] decides which files are compiled. [`compile`] makes a [`rule_set::RuleSet`] of these files: a tree of keys
//! and values for each domain, with the rules at its nodes. [`carry`] and [`linger`] keep the tables of rules over
//! loads. [`memory`], [`share`] and [`reclaim`] decide how large the tables are.

pub(crate) mod before;
pub(crate) mod carry;
pub(crate) mod compile;
pub(crate) mod debt;
pub(crate) mod forwards;
pub(crate) mod hidden;
pub(crate) mod linger;
pub(crate) mod loss;
pub(crate) mod memory;
pub(crate) mod narrowed;
pub(crate) mod pool;
pub(crate) mod reclaim;
pub(crate) mod rule;
pub(crate) mod rule_set;
pub(crate) mod settings;
pub(crate) mod share;
pub(crate) mod texts;
pub(crate) mod tree;
pub(crate) mod vet;
