//! The parser of log lines that the command line tool uses. The tool is a program, not a library, so this crate
//! includes the tool's modules as source; their tests run in the tool.

#![allow(dead_code, unused_imports, reason = "the parser is needed, not the whole tool")]

#[path = "../../../crates/cli/src/replay/chain.rs"]
pub(crate) mod chain;
#[path = "../../../crates/cli/src/replay/clients.rs"]
pub(crate) mod clients;
#[path = "../../../crates/cli/src/replay/condition.rs"]
pub(crate) mod condition;
#[path = "../../../crates/cli/src/replay/event.rs"]
pub(crate) mod event;
#[path = "../../../crates/cli/src/replay/key.rs"]
pub(crate) mod key;
#[path = "../../../crates/cli/src/replay/parse/mod.rs"]
pub(crate) mod parse;
#[path = "../../../crates/cli/src/replay/reason.rs"]
pub(crate) mod reason;
#[path = "../../../crates/cli/src/replay/text.rs"]
pub(crate) mod text;
#[path = "../../../crates/cli/src/replay/wanted.rs"]
pub(crate) mod wanted;
