//! A [`Suite`] runs models and their controls, and counts executions.
//!
//! A control is the same scenario as its model with a bug planted. It passes if, and only if, loom finds an execution
//! that fails with the expected message. So a control fails if its model no longer notices the bug.

use std::cell::Cell;
use std::env;
use std::fmt;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use loom::model::Builder;
use tollgate::control::{self, Fault};

use crate::race::{self, Order};

/// The time after which an exploration fails. This limit is five times as long as the longest model takes on an idle
/// machine. There is no limit of time if `--bound` is given.
const TIME_MAX: Duration = Duration::from_secs(900);

/// The most branch points that one execution may have. Loom panics if there are more.
const BRANCHES_MAX: usize = 20_000;

/// The default number of explorations that run at a time. It leaves the rest of the machine to other programs.
const WORKERS: usize = 2;

/// The flag with which this program calls itself to run one exploration.
const ALONE: &str = "--alone";

/// The number of preemptions up to which executions are explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Every execution.
    None,
    /// Every execution with at most this many preemptions.
    Preemptions(usize),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Preemptions(most) => f.pad(&most.to_string()),
        }
    }
}

type Scenario = Arc<dyn Fn() + Send + Sync>;

/// One scenario, which is explored completely, and the bugs that it must notice.
pub struct Model {
    name: String,
    bound: Bound,
    scenario: Scenario,
    controls: Vec<Control>,
}

/// A bug that a model must notice.
#[derive(Clone, Debug)]
struct Control {
    name: String,
    fault: Fault,
    message: &'static str,
    bound: Bound,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Model {
    /// A named model. The scenario panics if in any execution within the bound a property does not hold.
    pub fn new(
        name: impl Into<String>,
        bound: Bound,
        scenario: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), bound, scenario: Arc::new(scenario), controls: Vec::new() }
    }

    /// Adds a control. With its fault the model must fail with a message that contains `message`.
    #[must_use]
    pub fn control(mut self, name: impl Into<String>, fault: Fault, message: &'static str) -> Self {
        let (name, bound) = (name.into(), self.bound);
        self.controls.push(Control { name, fault, message, bound });
        self
    }

    /// Explores the last control only within this bound, because that is enough to find its fault.
    #[must_use]
    pub fn found_within(mut self, preemptions: usize) -> Self {
        if let Some(control) = self.controls.last_mut() {
            control.bound = Bound::Preemptions(preemptions);
        }
        self
    }
}

/// One exploration: of a model, or of a control.
struct ModelRun {
    name: String,
    bound: Bound,
    scenario: Scenario,
    fault: Option<Fault>,
    message: Option<&'static str>,
    time_max: Duration,
}

/// The result of an exploration.
struct ModelReport {
    line: String,
    is_control: bool,
    executions: usize,
    failure: Option<String>,
}

/// All models. The suite refuses to run if a model has no control.
#[derive(Debug, Default)]
pub struct Suite {
    models: Vec<(&'static str, Model)>,
}

impl Suite {
    /// Adds the models on one subject.
    #[must_use]
    pub fn subject(mut self, subject: &'static str, models: Vec<Model>) -> Self {
        self.models.extend(models.into_iter().map(|model| (subject, model)));
        self
    }

    /// Runs the models that the command line chooses, with these options:
    /// * names or parts of names, `--exact`, `--list` and `--test-threads N`, as for `cargo test`;
    /// * `--fail-fast`, which starts no more explorations after a failure;
    /// * `--bound N` or `--bound none` replaces the models' own bounds and removes the limit of time.
    ///
    /// Returns true if everything passed.
    pub fn run(self, arguments: impl Iterator<Item = String>) -> bool {
        let choice = match SuiteOptions::parse(arguments) {
            Ok(choice) => choice,
            Err(complaint) => {
                say(&complaint);
                return false;
            }
        };
        let mut jobs = self.into_jobs();
        jobs.retain(|job| choice.has(job));
        for job in jobs.iter_mut().filter(|job| job.fault.is_none()) {
            job.bound = choice.bound.unwrap_or(job.bound);
            job.time_max = choice.bound.map_or(job.time_max, |_| Duration::MAX);
        }
        if choice.list {
            for job in &jobs {
                say(&format!("{}: test", job.name));
            }
            return true;
        }
        if choice.alone {
            return jobs.iter().all(explore_alone);
        }
        let start = Instant::now();
        say(&format!("{:<64} {:>5} {:>12} {:>8}", "model", "bound", "executions", "seconds"));
        let reports = explore_all(jobs, choice.workers, choice.fail_fast);
        summarise(&reports, start.elapsed())
    }

    fn into_jobs(self) -> Vec<ModelRun> {
        let mut jobs = Vec::new();
        for (subject, model) in self.models {
            let Model { name, bound, scenario, controls } = model;
            assert!(!controls.is_empty(), "{subject}::{name} has no control");
            for Control { name, fault, message, bound } in controls {
                assert!(name.ends_with("_is_caught"), "a control's name says so: {name}");
                let (fault, message) = (Some(fault), Some(message));
                let (name, scenario) = (format!("{subject}::{name}"), Arc::clone(&scenario));
                jobs.push(ModelRun { name, bound, scenario, fault, message, time_max: TIME_MAX });
            }
            let (name, fault, message) = (format!("{subject}::{name}"), None, None);
            jobs.push(ModelRun { name, bound, scenario, fault, message, time_max: TIME_MAX });
        }
        jobs
    }
}

/// The options of the command line.
struct SuiteOptions {
    parts: Vec<String>,
    exact: bool,
    list: bool,
    fail_fast: bool,
    alone: bool,
    workers: usize,
    bound: Option<Bound>,
}

impl SuiteOptions {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (parts, workers) = (Vec::new(), WORKERS);
        let (exact, list, fail_fast, alone, bound) = (false, false, false, false, None);
        let mut choice = Self { parts, exact, list, fail_fast, alone, workers, bound };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--exact" => choice.exact = true,
                "--list" => choice.list = true,
                "--fail-fast" => choice.fail_fast = true,
                ALONE => choice.alone = true,
                "--test-threads" => {
                    let count = arguments.next().and_then(|count| count.parse().ok());
                    choice.workers = count.filter(|&count| count > 0).ok_or("--test-threads N")?;
                }
                "--bound" => {
                    let most = arguments.next().unwrap_or_default();
                    choice.bound = Some(match most.parse() {
                        Ok(most) => Bound::Preemptions(most),
                        Err(_) if most == "none" => Bound::None,
                        Err(_) => return Err(format!("--bound N or --bound none, not {most:?}")),
                    });
                }
                flag if flag.starts_with('-') => {} // a flag of libtest, which has no meaning here
                _ => choice.parts.push(argument),
            }
        }
        Ok(choice)
    }

    fn has(&self, job: &ModelRun) -> bool {
        let fits = |part: &String| {
            if self.exact { job.name == *part } else { job.name.contains(part.as_str()) }
        };
        self.parts.is_empty() || self.parts.iter().any(fits)
    }
}

fn explore_all(jobs: Vec<ModelRun>, workers: usize, fail_fast: bool) -> Vec<ModelReport> {
    let queue = Mutex::new(jobs.into_iter());
    let reports = Mutex::new(Vec::new());
    let failed = AtomicBool::new(false);
    let next = || {
        let enough = fail_fast && failed.load(Ordering::Relaxed);
        queue.lock().unwrap_or_else(PoisonError::into_inner).next().filter(|_| !enough)
    };
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(job) = next() {
                    let report = explore(&job);
                    say(&report.line);
                    failed.fetch_or(report.failure.is_some(), Ordering::Relaxed);
                    reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
                }
            });
        }
    });
    reports.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Explores in a separate process. Loom maps memory for the stack of each thread in each execution, and explorations in
/// the same process wait for each other meanwhile, unless `keep_stacks.c` is loaded. Two at the same time took as long as
/// one after the other.
fn explore(job: &ModelRun) -> ModelReport {
    let start = Instant::now();
    let (executions, failure) = match explored_apart(job) {
        Ok((executions, found)) => (executions, found),
        Err(complaint) => (0, Some(complaint)),
    };
    let (mark, name) = (if failure.is_some() { "FAILED " } else { "" }, &job.name);
    let fault = job.fault.map_or(String::new(), |fault| format!("  {fault:?}"));
    let (bound, seconds) = (job.bound, start.elapsed().as_secs_f64());
    let line = format!("{mark}{name:<64} {bound:>5} {executions:>12} {seconds:>8.1}{fault}");
    ModelReport { line, is_control: job.fault.is_some(), executions, failure }
}

/// The number of executions, and the failure if there was one. Returns an error if the process did not report.
fn explored_apart(job: &ModelRun) -> Result<(usize, Option<String>), String> {
    let program = env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    let mut command = Command::new(program);
    command.args([ALONE, "--exact", &job.name]).stderr(Stdio::inherit());
    if job.time_max == Duration::MAX {
        command.args(["--bound".to_owned(), job.bound.to_string()]);
    }
    let output = command.output().map_err(|error| format!("not started: {error}"))?;
    let told = String::from_utf8_lossy(&output.stdout);
    let (executions, failure) = told.split_once('\n').unwrap_or((&told, ""));
    let executions = executions
        .parse()
        .map_err(|_| format!("the exploration ended with {}: {told:?}", output.status))?;
    let failure = Some(failure.trim_end()).filter(|failure| !failure.is_empty());
    if output.status.success() == failure.is_some() {
        return Err(format!("the exploration ended with {}: {told:?}", output.status));
    }
    Ok((executions, failure.map(str::to_owned)))
}

/// Explores in this process, and prints the number of executions in the first line and a failure in the lines after it.
fn explore_alone(job: &ModelRun) -> bool {
    hush_controls();
    IS_CONTROL.set(job.fault.is_some());
    let executions = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        check(job, Order::Listed, start, &executions);
        // It is enough if a control's fault is found in one of the two orders. If a race's lists are the same in both
        // orders, one exploration is enough.
        if job.fault.is_none() && !race::is_same_reversed() {
            check(job, Order::Reversed, start, &executions);
        }
    }));
    let found = outcome.err().map(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()));
        text.unwrap_or_else(|| "a panic without words".to_owned())
    });
    let failure = match (job.message, found) {
        (None, found) => found,
        (Some(message), Some(found)) if found.contains(message) => None,
        (Some(message), Some(found)) => Some(format!("expected {message:?}, found: {found}")),
        (Some(_), None) => Some("the planted fault was not noticed".to_owned()),
    };
    say(&executions.load(Ordering::Relaxed).to_string());
    if let Some(failure) = &failure {
        say(failure);
    }
    failure.is_none()
}

/// Sets all options that loom would otherwise read from the environment.
fn check(job: &ModelRun, order: Order, start: Instant, executions: &Arc<AtomicUsize>) {
    let mut builder = Builder::new();
    builder.preemption_bound = match job.bound {
        Bound::None => None,
        Bound::Preemptions(most) => Some(most),
    };
    builder.max_branches = BRANCHES_MAX;
    // A cap on executions or time would end the exploration with success, so none is set. The limit of time is checked
    // below, where exceeding it is a failure.
    builder.max_permutations = None;
    builder.max_duration = None;
    builder.checkpoint_interval = usize::MAX;
    builder.checkpoint_file = None;
    builder.expect_explicit_explore = false;
    builder.location = false;
    builder.log = false;
    race::start_in(order);
    let (scenario, fault, time_max) = (Arc::clone(&job.scenario), job.fault, job.time_max);
    let executions = Arc::clone(executions);
    builder.check(move || {
        let count = executions.fetch_add(1, Ordering::Relaxed);
        let late = count.is_multiple_of(1000) && start.elapsed() > time_max;
        assert!(!late, "truncated after {count} executions");
        control::plant(fault);
        control::fail_spuriously(0);
        control::use_rounds(3);
        control::use_unit(1);
        control::count_apart(false);
        control::mark_floors(true);
        control::use_row_bits(u32::MAX);
        control::tell_answers(true);
        scenario();
        control::plant(None);
    });
}

fn summarise(reports: &[ModelReport], took: Duration) -> bool {
    let controls = reports.iter().filter(|report| report.is_control).count();
    let executions: usize = reports.iter().map(|report| report.executions).sum();
    let failed: Vec<_> =
        reports.iter().filter_map(|report| Some((report, report.failure.as_ref()?))).collect();
    for (report, failure) in &failed {
        say(&format!("{}\n    {failure}", report.line));
    }
    say(&format!(
        "total: {} models and {controls} controls, {executions} executions, {:.0} s, {} failed",
        reports.len() - controls,
        took.as_secs_f64(),
        failed.len(),
    ));
    failed.is_empty() && !reports.is_empty()
}

fn say(line: &str) {
    // An error in writing the result is ignored, because there is no other place to report it.
    let _ = writeln!(io::stdout().lock(), "{line}");
}

thread_local! {
    static IS_CONTROL: Cell<bool> = const { Cell::new(false) };
}

/// The panic of a control is expected and not printed. Any other panic is printed in one line, without a trace: the
/// trace would name only loom's scheduler, and the stack is small.
fn hush_controls() {
    panic::set_hook(Box::new(|info| {
        if !IS_CONTROL.get() {
            let _ = writeln!(io::stderr(), "{info}");
        }
    }));
}
