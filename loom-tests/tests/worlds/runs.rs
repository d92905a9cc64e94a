//! The command first runs the planted faults, each of which must be caught, and then the worlds, which must all pass.

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use tollgate::control::{self, Fault};
use tollgate_model::Draw;

use crate::controls::{CONTROLS, Control, SCHEDULES_MAX};
use crate::kinds::VERBS;
use crate::run::run_world;
use crate::state::{self, Pairs};
use crate::turns::Turns;

/// The size of a coroutine's stack. The verdict is computed on that stack, too.
const STACK_BYTES: usize = 1 << 18;

/// The most steps of one schedule, which is hundreds of times what any schedule has taken. A world that takes more does
/// not end.
const STEPS_MAX: usize = 1_000_000;

/// The number of worlds after which the time is checked.
const ROUND: u64 = 2_000;

/// The default number of worlds. They take about twelve seconds on two cores, and each pair of verbs meets several
/// times.
const SCHEDULES: u64 = 200_000;

const USAGE: &str = "--schedules N   so many worlds, one schedule each
--hours H       worlds for so long, on every core
--first N       another sequence of worlds than that of 1
--seed 0xS      one world, told in full
--test-threads N
--no-controls   no planted faults first";

/// The result of a run of worlds.
#[derive(Default)]
struct Run {
    schedules: u64,
    points: u64,
    /// The seed of the world that failed, and the failure.
    failure: Option<(u64, String)>,
}

/// The options of the command line.
struct Choice {
    schedules: u64,
    hours: Option<f64>,
    first: u64,
    seed: Option<u64>,
    workers: usize,
    controls: bool,
}

impl Choice {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let mut choice = Self {
            schedules: SCHEDULES,
            hours: None,
            first: 1,
            seed: None,
            workers,
            controls: true,
        };
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().ok_or_else(|| format!("{argument} takes a value\n{USAGE}"));
            let wrong = |value: &str| format!("{argument} {value}: not a number above 0\n{USAGE}");
            match argument.as_str() {
                "--schedules" => choice.schedules = number(&value()?, wrong)?,
                "--first" => choice.first = number(&value()?, wrong)?,
                "--seed" => choice.seed = Some(number(&value()?, wrong)?),
                "--test-threads" => {
                    choice.workers = usize::try_from(number(&value()?, wrong)?).unwrap_or(1);
                }
                "--hours" => {
                    let text = value()?;
                    let hours = text.parse().ok().filter(|&hours: &f64| hours > 0.0);
                    choice.hours = Some(hours.ok_or_else(|| wrong(&text))?);
                }
                "--no-controls" => choice.controls = false,
                _ => return Err(format!("{argument}: unknown\n{USAGE}")),
            }
        }
        Ok(choice)
    }
}

fn number(text: &str, wrong: impl Fn(&str) -> String) -> Result<u64, String> {
    let parsed = text
        .strip_prefix("0x")
        .map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok());
    parsed.filter(|&number| number > 0).ok_or_else(|| wrong(text))
}

pub(crate) fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let choice = match Choice::parse(arguments) {
        Ok(choice) => choice,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            return ExitCode::FAILURE;
        }
    };
    hush();
    if let Some(seed) = choice.seed {
        let run = run_worlds([seed].into_iter(), None, true);
        say(&run.failure.as_ref().map_or_else(|| "passed".into(), |(_, what)| what.clone()));
        return if run.failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let are_caught = !choice.controls || controls(choice.workers);
    if are_caught && worlds(&choice) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Silences panics, because a failure is reported with its seed and a trace would name only a scheduler. Shuttle
/// installs its own panic hook when it first runs, so one run is made before this hook replaces it.
fn hush() {
    Runner::new(RandomScheduler::new_from_seed(0, 1), config()).run(|| {});
    panic::set_hook(Box::new(|_| {}));
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.failure_persistence = FailurePersistence::None;
    config
}

/// Runs the worlds of these seeds until one fails.
fn run_worlds(seeds: impl Iterator<Item = u64> + 'static, fault: Option<Fault>, tell: bool) -> Run {
    let (mut seeds, begun) = (seeds, std::rc::Rc::new(Cell::new(0)));
    let counted = std::rc::Rc::clone(&begun);
    state::seeds_from(move || seeds.next().inspect(|_| counted.set(counted.get() + 1)));
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        Runner::new(Turns::new(), config()).run(move || {
            control::plant(fault);
            run_world(tell);
            control::plant(None);
        })
    }));
    control::run_in_turns(false);
    control::plant(None);
    let failure = match outcome {
        Ok(_) => state::take_failure(),
        Err(payload) => Some(state::words_of(&*payload)),
    };
    let failure = failure.map(|what| (state::seed(), what));
    Run { schedules: begun.get(), points: state::take_points(), failure }
}

/// True if each planted fault is caught, with its message, within the number of schedules that it may take.
fn controls(workers: usize) -> bool {
    let (next, missed) = (AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let next = || CONTROLS.get(usize::try_from(next.fetch_add(1, Relaxed)).ok()?);
                while let Some(control) = next() {
                    missed.fetch_add(u64::from(!is_caught(control)), Relaxed);
                }
            });
        }
    });
    let (missed, count) = (missed.into_inner(), CONTROLS.len());
    let took = start.elapsed().as_secs_f64();
    say(&format!(
        "controls: {count} planted faults, {} caught, {took:.0} s",
        count as u64 - missed
    ));
    missed == 0
}

fn is_caught(control: &Control) -> bool {
    let &Control { fault, family, messages } = control;
    let mut random = Draw::new(1);
    let seeds = (0..SCHEDULES_MAX).map(move |_| family.seed_from(random.next()));
    let run = run_worlds(seeds, Some(fault), false);
    let (count, found) = (run.schedules, run.failure.map(|(_, what)| what));
    let says = |what: &String| messages.iter().any(|message| what.contains(message));
    let is_caught = found.as_ref().is_some_and(says);
    say(&match found {
        Some(_) if is_caught => format!("{fault:?}: caught in schedule {count}, {family:?}"),
        Some(what) => format!("FAILED {fault:?}: expected one of {messages:?}, found: {what}"),
        None => format!("FAILED {fault:?}: not noticed in {count} schedules, {family:?}"),
    });
    is_caught
}

/// True if all chosen worlds pass, and every pair of verbs has met.
fn worlds(choice: &Choice) -> bool {
    let start = Instant::now();
    let hours = choice.hours.map(|hours| Duration::from_secs_f64(hours * 3_600.0));
    let rounds = choice.hours.map_or(choice.schedules.div_ceil(ROUND), |_| u64::MAX);
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new((Run::default(), Pairs::default()));
    thread::scope(|scope| {
        for _ in 0..choice.workers {
            scope.spawn(|| {
                loop {
                    let round = next.fetch_add(1, Relaxed);
                    let is_over = hours.is_some_and(|hours| start.elapsed() > hours);
                    if round >= rounds || is_over || failed.load(Relaxed) {
                        break;
                    }
                    let count = ROUND.min(choice.schedules.saturating_sub(round * ROUND));
                    let count = if choice.hours.is_some() { ROUND } else { count };
                    let mut random = Draw::of_round(choice.first, round);
                    let run = run_worlds((0..count).map(move |_| random.next()), None, false);
                    failed.fetch_or(run.failure.is_some(), Relaxed);
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.0.schedules += run.schedules;
                    total.0.points += run.points;
                    total.0.failure = total.0.failure.take().or(run.failure);
                    total.1.add(&state::take_pairs());
                }
            });
        }
    });
    let (total, pairs) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    let missing = pairs.missing();
    let all = VERBS.len() * (VERBS.len() + 1) / 2;
    let (count, points) = (total.schedules, total.points);
    let mut line = format!(
        "total: {count} schedules, {points} switch points, {} of {all} pairs of verbs, {:.0} s",
        all - missing.len(),
        start.elapsed().as_secs_f64(),
    );
    // In a short run some pairs may not meet.
    let is_short = choice.hours.is_none() && choice.schedules < SCHEDULES;
    if !missing.is_empty() && !is_short {
        let _ = write!(line, ", FAILED: never met: {missing:?}");
    }
    if let Some((seed, what)) = &total.failure {
        let _ = write!(line, "\nFAILED --seed {seed:#x}: {what}");
    }
    say(&line);
    total.failure.is_none() && (missing.is_empty() || is_short)
}

fn say(line: &str) {
    // An error in writing is ignored, because there is no other place to report it.
    let _ = writeln!(io::stdout().lock(), "{line}");
}
