//! Pages about using the middleware: programs in them are compiled and run as tests.

pub mod recipes {
    #![doc = include_str!("guide/recipes.md")]
}

pub mod from_tower_governor {
    #![doc = include_str!("guide/from_tower_governor.md")]
}

pub mod plans {
    #![doc = include_str!("../docs/plans.md")]
}

pub mod headers {
    #![doc = include_str!("../docs/headers.md")]
}

pub mod cost {
    #![doc = include_str!("../docs/cost.md")]
}
