//! Pages about using the middleware, each compiled and run as a test.

pub mod recipes {
    #![doc = include_str!("guide/recipes.md")]
}

pub mod from_tower_governor {
    #![doc = include_str!("guide/from_tower_governor.md")]
}
