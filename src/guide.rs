//! The guide: a tutorial, and pages about using Tollgate, each of them compiled and run as a test.

#![doc = include_str!("../docs/tutorial.md")]

pub mod from_governor {
    #![doc = include_str!("../docs/from-governor.md")]
}

pub mod how_it_works {
    #![doc = include_str!("../docs/how-it-works.md")]
}

pub mod not_promised {
    #![doc = include_str!("../docs/not-promised.md")]
}

pub mod policies {
    #![doc = include_str!("../docs/policies.md")]
}

pub mod production {
    #![doc = include_str!("../docs/production.md")]
}

pub mod which_algorithm {
    #![doc = include_str!("../docs/which-algorithm.md")]
}
