//! [`NamedSeed`]: one seed.

/// The name of a seed, and the case that it stands for.
pub(crate) type NamedSeed<C> = (&'static str, C);
