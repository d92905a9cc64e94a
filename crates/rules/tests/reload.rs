//! Reloads: the limits that are kept, and those that start empty. No request sees a half-loaded set of rules.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crate::common::{World, over_and_left};
use tollgate::ManualClock;
use tollgate_rules::{
    DecisionMaker, Descriptor, FileSource, Refresh, Request, Retriever, Rule, RuleCache,
    RuleSettings, RuleText, Timing,
};

fn rules(requests: u32, more: &str) -> String {
    format!(
        "domain: reload\ndescriptors:\n  - key: user\n    \
         rate_limit: {{unit: hour, requests_per_unit: {requests}}}\n{more}"
    )
}

const BLOCK: &str = "  - {key: block, value: foo, rate_limit: {unit: second}}\n";

#[test]
fn row_105_a_bad_file_leaves_the_rules_and_what_was_spent() {
    let world = World::new(&rules(5, ""));
    let left = || over_and_left(&world.check("reload", &[&[("user", "x")]]))[0];
    assert_eq!(left(), (false, 4));
    let whole = rules(5, BLOCK);
    for end in 1..whole.len() {
        let _ = world.load(&whole[..end]); // some of these are rules; none may panic
    }
    assert!(world.load("domain: ''").is_err());
    let status = world.maker.cache().status();
    assert!(status.refused_loads > 0 && status.errors.len() == 1);
    world.load(&rules(5, "")).expect("good rules");
    assert!(world.maker.cache().status().errors.is_empty());
    assert_eq!(left(), (false, 3));
}

#[test]
fn what_a_vet_refuses_is_not_put_in_force_and_the_error_says_why() {
    let vet = |rule: &Rule| match rule.path() {
        "user" => Ok(()),
        other => Err(format!("no {other} here")),
    };
    let cache = RuleCache::with_clock(RuleSettings::default(), ManualClock::new()).vetted(vet);
    let load = |more: &str| {
        let loaded = cache.load(&[RuleText::new("test.yaml", rules(5, more))]);
        loaded.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(load("").expect("good rules").rules().len(), 1);
    let two = format!("{BLOCK}  - {{key: path, rate_limit: {{unit: second}}}}\n");
    let expected = ["reload.block_foo: no block_foo here", "reload.path: no path here"];
    assert_eq!(load(&two).expect_err("two that are refused"), expected);
    assert_eq!(cache.rules().expect("loaded").rules().len(), 1, "those of before");
    let status = cache.status();
    assert_eq!((status.loads, status.refused_loads, status.errors.len()), (1, 1, 2));
}

#[test]
fn row_106_a_hundred_reloads_take_no_more_memory_than_one() {
    let world = World::new(&rules(5, ""));
    let bytes = || world.rules().table_bytes();
    let once = bytes();
    for n in 0..100 {
        world.load(&rules(5 + n % 2, "")).expect("good rules");
        assert_eq!(bytes(), once);
    }
}

#[test]
fn a_decision_never_sees_a_mix_of_two_loads() {
    // Two rules whose limits are equal in every load.
    let load = |n: u32| {
        format!(
            "domain: d\ndescriptors:\n  - {{key: a, rate_limit: {{unit: hour, requests_per_unit: {n}}}}}\n  \
             - {{key: b, rate_limit: {{unit: hour, requests_per_unit: {n}}}}}\n"
        )
    };
    let settings = RuleSettings { default_capacity: Some(16), ..RuleSettings::default() };
    let cache = Arc::new(RuleCache::new(settings));
    cache.load(&[RuleText::new("d.yaml", load(1))]).expect("good rules");
    let maker = DecisionMaker::new(Arc::clone(&cache)).expect("small tables");
    std::thread::scope(|scope| {
        let loader = scope.spawn(|| {
            for n in 2..300 {
                cache.load(&[RuleText::new("d.yaml", load(n))]).expect("good rules");
            }
        });
        let mut seen = 0;
        while !loader.is_finished() || seen < 1_000 {
            let descriptors = [Descriptor::new(&[("a", "x")]), Descriptor::new(&[("b", "x")])];
            let answer = maker.peek(&Request::new("d", &descriptors)).expect("a good request");
            let limits: Vec<_> = answer.statuses().iter().map(|status| status.limit).collect();
            assert!(limits[0].is_some() && limits[0] == limits[1], "{limits:?}");
            seen += 1;
        }
    });
}

/// Makes a directory for one test.
fn directory(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory below target");
    path
}

/// The retriever reads only when a change is signalled, because polling would take longer than the test waits.
const WATCH_ONLY: Timing =
    Timing { poll: Duration::from_secs(3_600), settle: Duration::from_millis(5) };

/// Sends the sorted domains after each load, or the text of the error after a refused load.
fn follow(path: PathBuf) -> (Retriever, Arc<RuleCache>, mpsc::Receiver<String>) {
    let (tell, told) = mpsc::channel();
    let cache = Arc::new(RuleCache::new(RuleSettings {
        default_capacity: Some(16),
        ..RuleSettings::default()
    }));
    let retriever =
        Retriever::start(FileSource::new(path), Arc::clone(&cache), WATCH_ONLY, move |refresh| {
            let text = match refresh {
                Refresh::Loaded(rules) => {
                    let mut domains: Vec<&str> = rules.domains().collect();
                    domains.sort_unstable();
                    domains.join(" ")
                }
                Refresh::Refused(errors) => errors[0].to_string(),
                other => format!("{other:?}"),
            };
            let _ = tell.send(text);
        })
        .expect("a thread");
    (retriever, cache, told)
}

/// Waits for a load with this outcome. Loads with other outcomes may come before it, because files change one after
/// another.
#[track_caller]
fn wait_for(told: &mpsc::Receiver<String>, expected: &str) {
    loop {
        let text = told.recv_timeout(Duration::from_secs(60)).expect("a change is noticed");
        if text.contains(expected) {
            return;
        }
    }
}

#[test]
fn a_directory_is_followed_file_by_file() {
    let path = directory("a_directory_is_followed_file_by_file");
    fs::write(path.join("a.yaml"), "domain: one").expect("a file");
    let (retriever, cache, told) = follow(path.clone());
    wait_for(&told, "one");
    fs::write(path.join("b.yaml"), "domain: two").expect("a file");
    wait_for(&told, "one two");
    fs::write(path.join("b.yaml"), "domain: [").expect("a file");
    wait_for(&told, "error loading config file");
    assert_eq!(cache.rules().expect("loaded").domains().count(), 2, "the last good rules");
    fs::remove_file(path.join("b.yaml")).expect("the file");
    wait_for(&told, "one");
    fs::rename(path.join("a.yaml"), path.join("c.yaml")).expect("the file");
    retriever.changed().notify();
    drop(retriever);
}

#[cfg(unix)]
#[test]
fn row_105_a_mount_that_is_swapped_as_a_whole_is_one_load() {
    use std::os::unix::fs::symlink;
    let path = directory("a_mount_that_is_swapped_as_a_whole_is_one_load");
    for (version, domain) in [("..1", "one"), ("..2", "two")] {
        fs::create_dir(path.join(version)).expect("a directory");
        fs::write(path.join(version).join("a.yaml"), format!("domain: {domain}")).expect("a file");
    }
    symlink("..1", path.join("..data")).expect("a link");
    symlink("..data/a.yaml", path.join("a.yaml")).expect("a link");
    let (_retriever, cache, told) = follow(path.clone());
    wait_for(&told, "one");
    symlink("..2", path.join("..data_tmp")).expect("a link");
    fs::rename(path.join("..data_tmp"), path.join("..data")).expect("the link");
    wait_for(&told, "two");
    let status = cache.status();
    assert_eq!((status.loads, status.refused_loads), (2, 0));
}

#[cfg(unix)]
#[test]
fn a_directory_that_is_a_link_may_be_swapped() {
    use std::os::unix::fs::symlink;
    let path = directory("a_directory_that_is_a_link_may_be_swapped");
    for domain in ["one", "two"] {
        fs::create_dir(path.join(domain)).expect("a directory");
        fs::write(path.join(domain).join("a.yaml"), format!("domain: {domain}")).expect("a file");
    }
    symlink("one", path.join("current")).expect("a link");
    let (_retriever, _, told) = follow(path.join("current"));
    wait_for(&told, "one");
    symlink("two", path.join("next")).expect("a link");
    fs::rename(path.join("next"), path.join("current")).expect("the link");
    wait_for(&told, "two");
    fs::write(path.join("two").join("b.yaml"), "domain: three").expect("a file");
    wait_for(&told, "three two");
}
