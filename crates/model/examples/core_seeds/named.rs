//! [`NamedSeed`]: one seed.

/// The name of a seed, and what it stands for.
pub(crate) type NamedSeed<C> = (&'static str, C);
