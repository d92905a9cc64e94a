//! Pages about using the limits. The programs on these pages are compiled as tests.

pub mod pool {
    #![doc = include_str!("../docs/pool.md")]
}
