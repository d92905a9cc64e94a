//! All tests of the core that do not need a process of their own. They are one program, so that only one has to be
//! linked.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod acquire;
mod all;
mod all_stores;
mod arrival;
mod at_limit;
mod at_limit_elsewhere;
mod bad_inputs;
mod calendar;
mod check_or;
mod clock;
mod common;
mod debts;
mod decision_summary;
mod give_back;
mod late_requests;
mod lease;
mod live_change;
mod log_policy;
mod log_verbs;
mod many;
mod own_quotas;
mod placement;
mod policy_slips;
mod policy_text;
mod queue;
mod readme;
mod sketch;
mod sliding_log;
mod snapshot;
mod spill;
mod striped;
mod table_health;
mod tiered;
mod types;
mod vectors;
mod verbs;
mod waiting;
mod worked_examples;
