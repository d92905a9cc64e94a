//! [`Named`]: one seed.

/// The name of a seed, and what it stands for.
pub(crate) type Named<C> = (&'static str, C);
