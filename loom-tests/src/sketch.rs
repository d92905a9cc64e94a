//! Sketches of a few cells, and keys whose cells a model chooses.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use tollgate::{ManualClock, Policy, SketchLimiter, SketchSize};

use crate::table::ModelKey;

/// A hash without a seed.
pub type Plain = BuildHasherDefault<DefaultHasher>;

/// The sketch of the models.
pub type Sketch = SketchLimiter<ModelKey, Plain>;

/// An empty sketch of two rows with four cells each.
///
/// # Panics
/// Panics if the policy does not fit.
#[must_use]
pub fn sketch(policy: &str) -> Arc<Sketch> {
    let policy: Policy = policy.parse().expect("a policy");
    let size = SketchSize::new(2, 4).expect("a size");
    let sketch = SketchLimiter::builder(policy)
        .clock(ManualClock::new())
        .hasher(Plain::default())
        .build(size);
    Arc::new(sketch.expect("a sketch"))
}

/// A key with these cells: one in each row.
///
/// # Panics
/// Panics if no key has these cells.
#[must_use]
pub fn key_with(sketch: &Sketch, cells: [usize; 2]) -> ModelKey {
    let mut keys = (1..10_000).map(|tag| ModelKey { first: 0, tag });
    keys.find(|key| sketch.cells_of(key) == cells).expect("such cells")
}
