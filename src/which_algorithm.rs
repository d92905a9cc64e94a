#![doc = include_str!("../docs/which-algorithm.md")]
