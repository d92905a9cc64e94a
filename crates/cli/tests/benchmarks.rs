//! The pictures of `docs/benchmarks.md` match `figures.json`.

#![allow(
    dead_code,
    unused_imports,
    reason = "what is shared with the command has other uses there"
)]

#[path = "../examples/plot_benches/draw.rs"]
mod draw;
#[path = "../examples/plot_benches/figures.rs"]
mod figures;
#[path = "../src/plot/mod.rs"]
mod plot;
#[path = "../src/spans.rs"]
mod spans;
#[path = "../src/tables.rs"]
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use figures::Figures;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks")
}

fn read(name: &str) -> String {
    fs::read_to_string(directory().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn the_pictures_are_those_of_the_figures() {
    let figures = Figures::from_json(&read("figures.json")).expect("figures");
    let pictures = draw::all(&figures).expect("memory can be drawn on");
    for (name, picture) in &pictures {
        roxmltree::Document::parse(picture).expect("a picture");
        assert!(*picture == read(name), "{name}: draw it again, see plot_benches");
    }
    // The directory has the pictures and `figures.json`, and no other files.
    let files = fs::read_dir(directory()).expect("a directory").count();
    assert_eq!(files, pictures.len() + 1);
}

#[test]
fn the_page_shows_every_picture() {
    let page = read("../benchmarks.md");
    let figures = Figures::from_json(&read("figures.json")).expect("figures");
    for (name, _) in draw::all(&figures).expect("memory can be drawn on") {
        assert!(page.contains(&format!("](benchmarks/{name})")), "{name}");
    }
    assert!(figures.runs >= 3, "medians of {} runs", figures.runs);
}

#[test]
fn the_median_of_runs_is_taken_by_row() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("the_median_of_runs");
    let bench = directory.join("criterion/contention_one limit/striped_2 threads/new");
    fs::create_dir_all(&bench).expect("a directory below target");
    let other = directory.join("criterion/keyed_1 k/u64_1 threads/new");
    fs::create_dir_all(&other).expect("a directory below target");
    for path in [&bench, &other] {
        let estimates = r#"{"median": {"point_estimate": 12.34567}}"#;
        fs::write(path.join("estimates.json"), estimates).expect("a file below target");
    }
    let mut inputs = vec![directory.join("criterion")];
    for (n, nanos) in [30.5, 10.0, 20.25].into_iter().enumerate() {
        let row = |contender, nanos| {
            format!(
                r#"{{"workload": "w", "contender": "{contender}", "threads": 2, "median_ns": {nanos}}}"#
            )
        };
        let rows = format!("[{}, {}]", row("a", nanos), row("b", 1_234_567.0));
        inputs.push(directory.join(format!("{n}.json")));
        fs::write(&inputs[n + 1], rows).expect("a file below target");
    }
    let figures = Figures::of_runs(&inputs).expect("good inputs");
    let values: Vec<_> = figures.peers.iter().map(|peer| (&*peer.contender, peer.value)).collect();
    assert_eq!((figures.runs, values), (3, vec![("a", 20.25), ("b", 1_235_000.0)]));
    let threads: Vec<_> =
        figures.threads.iter().map(|found| (&*found.name, found.threads, found.value)).collect();
    assert_eq!(threads, [("one limit: striped", 2, 12.35)]);
}
