//! Loads rules: the cache that holds the set in force, and the thread that reads a source again when it changes.

pub(crate) mod cache;
pub(crate) mod file_source;
pub(crate) mod retriever;
