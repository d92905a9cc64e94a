//! Pages about using the limits, whose programs are compiled as tests.

pub mod pool {
    #![doc = include_str!("../docs/pool.md")]
}
