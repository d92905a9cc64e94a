//! The cases of the core as targets, by name; and the seeds of targets.

use std::any::Any;
use std::fmt::Debug;
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
    /// Runs what the bytes stand for; panics if an answer is not the one expected.
    pub run: fn(&[u8], Plant),
    /// What the bytes stand for, as Rust source.
    pub source: fn(&[u8]) -> String,
}

/// Those of the core.
pub const TARGETS: &[Target] = &[
    Target {
        name: "gcra_oracle",
        run: |bytes, plant| read::<GcraCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<GcraCase>(bytes)),
    },
    Target {
        name: "window_oracle",
        run: |bytes, plant| read::<WindowCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<WindowCase>(bytes)),
    },
    Target {
        name: "layout_roundtrip",
        run: |bytes, plant| read::<LayoutCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<LayoutCase>(bytes)),
    },
    Target {
        name: "keyed_ops",
        run: |bytes, plant| read::<KeyedCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<KeyedCase>(bytes)),
    },
    Target {
        name: "sketch_ops",
        run: |bytes, plant| read::<SketchCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<SketchCase>(bytes)),
    },
    Target {
        name: "log_ops",
        run: |bytes, plant| read::<SlidingLogCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<SlidingLogCase>(bytes)),
    },
    Target {
        name: "mixed_ops",
        run: |bytes, plant| read::<MixedCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<MixedCase>(bytes)),
    },
    Target {
        name: "together_ops",
        run: |bytes, plant| read::<TogetherCase>(bytes).run_against(plant),
        source: |bytes| source(&read::<TogetherCase>(bytes)),
    },
    Target {
        name: "policy_text",
        run: |bytes, plant| read::<TextCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<TextCase<'_>>(bytes)),
    },
    Target {
        name: "snapshot_bytes",
        run: |bytes, plant| read::<SnapshotCase<'_>>(bytes).run_against(plant),
        source: |bytes| source(&read::<SnapshotCase<'_>>(bytes)),
    },
];

/// What the bytes stand for, as libFuzzer's macro does it.
#[must_use]
pub fn read<'b, C: Arbitrary<'b>>(bytes: &'b [u8]) -> C {
    C::arbitrary_take_rest(Unstructured::new(bytes)).expect("any bytes stand for something")
}

/// A case as Rust source.
#[must_use]
pub fn source(case: &impl Debug) -> String {
    format!("{case:?}.run();")
}

/// The least number of seeds of a target.
const SEEDS_MIN: usize = 8;

impl Target {
    /// Runs every seed in this directory's folder of the target. Panics if one fails, or if there are few.
    pub fn replay(&self, directory: &Path) {
        let seeds = self.seeds(directory);
        assert!(seeds.len() >= SEEDS_MIN, "{} has {} seeds", self.name, seeds.len());
        for (file, bytes) in seeds {
            if let Some(found) = self.finding(&bytes, Plant::Nothing) {
                panic!("{}: {found}\n\n{}\n", file.display(), (self.source)(&bytes));
            }
        }
    }

    /// Panics if no seed notices the error, with these words.
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
