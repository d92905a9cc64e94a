//! The cases of the core as fuzz targets, by name, and the seeds of targets.

use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arbitrary::{Arbitrary, Unstructured};

use crate::plant::Plant;
use crate::{
    GcraCase, KeyedCase, LayoutCase, MixedCase, SketchCase, SlidingLogCase, SnapshotCase, TextCase,
    TogetherCase, WindowCase,
};

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the program in `fuzz/fuzz_targets` and of the directory in `fuzz/seeds`.
    pub name: &'static str,
    /// Runs the case that the bytes stand for; panics if an answer is not the one expected.
    pub run: fn(&[u8], Plant),
    /// The case that the bytes stand for, as Rust source.
    pub source: fn(&[u8]) -> String,
}

/// The target of this name, whose bytes stand for a case of this type.
#[macro_export]
macro_rules! target {
    ($name:literal, $case:ty) => {
        $crate::Target {
            name: $name,
            run: |bytes, plant| $crate::read::<$case>(bytes).run_against(plant),
            source: |bytes| format!("{:?}.run();", $crate::read::<$case>(bytes)),
        }
    };
}

/// The targets of the core.
pub const TARGETS: &[Target] = &[
    target!("gcra_oracle", GcraCase),
    target!("window_oracle", WindowCase),
    target!("layout_roundtrip", LayoutCase),
    target!("keyed_ops", KeyedCase),
    target!("sketch_ops", SketchCase),
    target!("log_ops", SlidingLogCase),
    target!("mixed_ops", MixedCase),
    target!("together_ops", TogetherCase),
    target!("policy_text", TextCase<'_>),
    target!("snapshot_bytes", SnapshotCase<'_>),
];

/// The case that the bytes stand for, read as libFuzzer's macro reads it.
#[must_use]
pub fn read<'b, C: Arbitrary<'b>>(bytes: &'b [u8]) -> C {
    C::arbitrary_take_rest(Unstructured::new(bytes)).expect("any bytes stand for something")
}

/// The least number of seeds of a target.
const SEEDS_MIN: usize = 8;

impl Target {
    /// Runs every seed in this directory's folder of the target. Panics if a seed fails, or if there are too few seeds.
    pub fn replay(&self, directory: &Path) {
        let seeds = self.seeds(directory);
        assert!(seeds.len() >= SEEDS_MIN, "{} has {} seeds", self.name, seeds.len());
        for (file, bytes) in seeds {
            if let Some(found) = self.finding(&bytes, Plant::Nothing) {
                panic!("{}: {found}\n\n{}\n", file.display(), (self.source)(&bytes));
            }
        }
    }

    /// Panics unless some seed fails under this planted error with a message that contains `words`.
    pub fn catches(&self, directory: &Path, plant: Plant, words: &str) {
        let seeds = self.seeds(directory);
        let found: Vec<_> =
            seeds.iter().filter_map(|(_, bytes)| self.finding(bytes, plant)).collect();
        assert!(found.iter().any(|found| found.contains(words)), "{found:#?}");
    }

    fn seeds(&self, directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(directory.join(self.name)).expect("a folder of seeds");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
        files.sort();
        let read = |file: PathBuf| (file.clone(), fs::read(file).expect("a seed"));
        files.into_iter().map(read).collect()
    }

    /// The failure that these bytes cause, if there is one.
    fn finding(&self, bytes: &[u8], plant: Plant) -> Option<String> {
        let thrown = catch_unwind(AssertUnwindSafe(|| (self.run)(bytes, plant))).err()?;
        Some(words_of(&*thrown))
    }
}

fn words_of(thrown: &(dyn Any + Send)) -> String {
    let text = thrown.downcast_ref::<String>().cloned();
    text.or_else(|| thrown.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}
