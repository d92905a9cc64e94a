//! A world consists of a subject, a clock, and threads with their requests, all drawn from one seed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tollgate::{Algorithm, ManualClock, Policy, Timestamp, WhenFull};
use tollgate_model::Draw;

use crate::history::{LimitSet, Rate};
use crate::kinds::{Ask, Family, Scene, Time, VERBS, Verb};
use crate::state::stamp;
use crate::subject::{LIMITER, LIVE, Shop, Subject};

pub(crate) struct World {
    pub(crate) family: Family,
    pub(crate) time: Time,
    pub(crate) subject: Subject,
    pub(crate) clock: ManualClock,
    /// No request has a later time.
    pub(crate) horizon_ns: u64,
    /// The policy that a change of quota sets.
    pub(crate) other: Policy,
    pub(crate) policy: Policy,
    /// The policy of the second tier.
    pub(crate) second: Policy,
    /// The number of words that share one limit: its stripes.
    pub(crate) words: u64,
    pub(crate) setup: Vec<Ask>,
    pub(crate) lists: Vec<Vec<Ask>>,
    /// The scopes in which a thread has begun a change of quota.
    changing: Mutex<Vec<u64>>,
    /// Turns of the clock, each with its stamp and the time to which the clock was turned.
    turned: Mutex<Vec<(u64, u64)>>,
    /// The limits that a log was given.
    limits: Mutex<Vec<LimitSet>>,
}

pub(crate) const BASE_NS: u64 = 1_000_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

const GCRAS: [&str; 6] = [
    "gcra 1/s burst 4",
    "gcra 2/s burst 6",
    "gcra 10/s burst 12",
    "gcra 3/s burst 3",
    "gcra 1/s burst 2",
    "gcra 1000/s burst 8",
];

/// Policies that remember enough debt for all that the requests of a world charge.
const OWING: [&str; 3] =
    ["gcra 1/s burst 2 debt 100x", "gcra 10/s burst 4 debt 50x", "gcra 3/s burst 3 debt 200x"];

const WINDOWS: [&str; 6] = [
    "fixed-window 5/s",
    "sliding-window 5/s exact",
    "sliding-window 4/s strict",
    "sliding-window 5/s",
    "segmented-window 6/s x4",
    "fixed-window 4/s from-first",
];

const LOGS: [&str; 3] = ["gcra 3/s burst 3", "gcra 5/s burst 5", "gcra 9/s burst 9"];

fn read(text: &str) -> Policy {
    text.parse().expect("a policy")
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let (family, random) = (Family::of(seed), &mut Draw::new(seed));
        let time = match (family, random.of(&Time::SHARES)) {
            // The limit of a live log is judged exactly only if the callers give the times.
            (Family::LiveLog, Time::Clock | Time::Backward) => Time::Still,
            (_, time) => time,
        };
        let text = match family {
            Family::Windows => random.of(&WINDOWS),
            Family::Sketch if random.below(3) == 0 => random.of(&WINDOWS[..5]),
            Family::Log | Family::Logs | Family::LiveLog => random.of(&LOGS),
            Family::Gcra | Family::Tiers if random.below(4) == 0 => random.of(&OWING),
            _ => random.of(&GCRAS),
        };
        let policies = [text, random.of(&GCRAS), random.of(&GCRAS)].map(read);
        let has_scenes = matches!(family, Family::Gcra | Family::Tiers | Family::Windows);
        let scene = if has_scenes { random.of(&Scene::SHARES) } else { Scene::Verbs };
        let is_spilling = random.below(2) > 0 || scene == Scene::Crowd;
        let full = if is_spilling { WhenFull::Spill } else { WhenFull::Deny };
        let of_tiers = if family == Family::Tiers { &policies[..] } else { &policies[..1] };
        let bursts = of_tiers.iter().map(|policy| policy.quota().max_burst());
        let burst = bursts.min().expect("a policy");
        let mut threads = 2 + random.below(5);
        let mut cost_max = burst.min(4);
        // A key without its own cell keeps its bound only if the threads that decide it at the same moment together ask
        // for no more than a burst.
        if family == Family::Sketch || full == WhenFull::Spill {
            threads = threads.min(burst);
            cost_max = (burst / threads).max(1);
        }
        let words = if family == Family::Striped { (1 + random.below(4)).min(burst) } else { 1 };
        if family == Family::Striped {
            cost_max = burst / words;
        }
        let clock = ManualClock::new();
        let subject = Self::subject(random, (family, of_tiers), (full, words), &clock);
        let [policy, second, other] = policies;
        let mut world = Self {
            family,
            time,
            subject,
            clock,
            horizon_ns: 0,
            other,
            policy,
            second,
            words,
            setup: Vec::new(),
            lists: Vec::new(),
            changing: Mutex::default(),
            turned: Mutex::default(),
            limits: Mutex::default(),
        };
        world.plan(random, scene, threads, cost_max.max(1));
        world
    }

    fn subject(
        random: &mut Draw,
        (family, policies): (Family, &[Policy]),
        (full, words): (WhenFull, u64),
        clock: &ManualClock,
    ) -> Subject {
        let (policy, own_clock) = (policies[0], clock.clone());
        match family {
            Family::Gcra | Family::Windows | Family::Tiers => {
                // A sketch does not keep the bound of windows that start at the first request, and neither does a
                // spill.
                let is_from_first = policy.algorithm() == Algorithm::FixedWindowFromFirst;
                let full = if is_from_first { WhenFull::Deny } else { full };
                let capacity = random.of(&[4, 4, 9, 13]);
                Subject::Shop(Box::new(Shop::new(policies.to_vec(), capacity, full, clock)))
            }
            Family::Striped => {
                Subject::striped(policy, usize::try_from(words).expect("few"), own_clock)
            }
            Family::Sketch => {
                let (rows, cells) = (1 + random.index(3), 1 + random.index(4));
                Subject::sketch(policy, rows, cells, own_clock)
            }
            Family::Log => Subject::log(policy, own_clock),
            Family::LiveLog => Subject::live_log(policy, own_clock),
            Family::Logs => Subject::logs(policy, random.of(&[1, 2, 4, 7]), own_clock),
        }
    }

    /// Draws the requests of each thread and their times.
    fn plan(&mut self, random: &mut Draw, scene: Scene, threads: u64, cost_max: u64) {
        let is_any = scene == Scene::Verbs;
        let each = 1 + random.below(if is_any { 24 / threads } else { 3 });
        let keys = self.keys(random, scene);
        let verbs = if is_any { self.verbs() } else { vec![Verb::Check] };
        let pair = [random.of(&verbs), random.of(&verbs)];
        let quota = self.policy.quota();
        let period_ns = u64::try_from(quota.period().as_nanos()).expect("short");
        let unit_ns = period_ns / quota.count();
        let step_ns =
            random.of(&[0, 1, 1_000_000, unit_ns / 4, unit_ns / 2, unit_ns, unit_ns, period_ns]);
        let burst_ns = unit_ns * quota.max_burst();
        // A floor may be an epoch away from the times that it dates, and a word's time wraps after some epochs.
        let epoch = self.subject.shop().map_or(Duration::from_secs(70), |shop| shop.stats().epoch);
        let epoch_ns = u64::try_from(epoch.as_nanos()).expect("short").min(BASE_NS / 16);
        let leaps = [burst_ns, 2 * period_ns, 40 * SECOND_NS, epoch_ns, 2 * epoch_ns, 4 * epoch_ns];
        let draw = |random: &mut Draw, now_ns: &mut u64| {
            match random.below(16) {
                0 => *now_ns += random.of(&leaps),
                1 | 2 => *now_ns = now_ns.saturating_sub(step_ns * random.below(24)),
                3 => *now_ns = now_ns.saturating_sub(random.of(&leaps)).max(BASE_NS / 2),
                4..12 => *now_ns += step_ns * random.below(4),
                _ => {}
            }
            let verb = match random.below(20) {
                0..7 => pair[0],
                7..14 => pair[1],
                14..18 => Verb::Check,
                _ => random.of(&verbs),
            };
            let cost = if random.below(24) == 0 { 0 } else { 1 + random.below(cost_max) };
            let wait_ns = unit_ns * random.below(6);
            Ask { verb, key: random.of(&keys), cost, time_ns: *now_ns, wait_ns }
        };
        for _ in 0..threads {
            let skew_ns = step_ns * random.below(8);
            let mut now_ns = BASE_NS + if self.time == Time::Skewed { skew_ns } else { 0 };
            let mut list: Vec<Ask> = (0..each).map(|_| draw(random, &mut now_ns)).collect();
            if self.time == Time::Still {
                list.iter_mut().for_each(|ask| ask.time_ns = BASE_NS);
            }
            self.lists.push(list);
        }
        self.setup = self.strangers(random, scene, (&keys, &leaps), (unit_ns, cost_max));
        let asks = self.lists.iter().flatten().chain(&self.setup);
        self.horizon_ns = asks.map(|ask| ask.time_ns).max().unwrap_or(BASE_NS);
    }

    /// Draws the requests of the setup: those of strangers, of which some are idle by now, and some for the world's own
    /// keys.
    fn strangers(
        &self,
        random: &mut Draw,
        scene: Scene,
        (keys, leaps): (&[u64], &[u64]),
        (unit_ns, cost_max): (u64, u64),
    ) -> Vec<Ask> {
        let burst = self.policy.quota().max_burst();
        let cells = self.subject.shop().map_or(8, |shop| shop.stats().cells as u64);
        let count = match scene {
            _ if !self.has_keys() => 0,
            Scene::Crowd => cells + random.below(4),
            Scene::Newcomers => random.below(cells + 1),
            Scene::Verbs => random.below(12),
        };
        let stranger = |nth| {
            let before_ns = match self.time {
                Time::Still => 0,
                _ if scene == Scene::Crowd => unit_ns * random.below(burst + 1),
                _ => random.of(leaps),
            };
            let is_own = scene == Scene::Verbs && random.below(4) == 0;
            let key = if is_own { random.of(keys) } else { 1_000 + 2 * nth };
            let (time_ns, cost) = (BASE_NS - before_ns, 1 + random.below(cost_max));
            Ask { verb: Verb::Check, key, cost, time_ns, wait_ns: 0 }
        };
        (0..count).map(stranger).collect()
    }

    fn has_keys(&self) -> bool {
        !matches!(self.family, Family::Striped | Family::Log | Family::LiveLog)
    }

    fn keys(&self, random: &mut Draw, scene: Scene) -> Vec<u64> {
        let count =
            random.of(if scene == Scene::Verbs { &[1, 1, 2, 3, 10] } else { &[1, 1, 1, 2, 3] });
        let start = 2 + 2 * random.below(1_000_000);
        let own = start..start + count;
        match self.family {
            Family::Striped | Family::Log | Family::LiveLog => vec![LIMITER],
            Family::Sketch | Family::Logs => own.collect(),
            _ if scene != Scene::Verbs => own.collect(),
            _ => match random.below(8) {
                0 => vec![LIMITER],
                1 => vec![LIVE],
                2 => own.chain([LIMITER, LIVE]).collect(),
                _ => own.collect(),
            },
        }
    }

    fn verbs(&self) -> Vec<Verb> {
        let is_known = |verb: &Verb| match (self.family, *verb) {
            (_, Verb::Check | Verb::Peek) => true,
            (Family::LiveLog, verb) => {
                matches!(verb, Verb::UpTo | Verb::Refund | Verb::SetQuota)
            }
            (Family::Striped | Family::Sketch | Family::Log | Family::Logs, _) => false,
            // Units must not be given back at a time before their charge.
            (_, Verb::Refund | Verb::Lease | Verb::Return | Verb::Cancel | Verb::Acquire) => {
                self.time != Time::Backward
            }
            (_, Verb::Snapshot) => self.is_of_callers(),
            (family, Verb::MoveKey) => family == Family::Tiers,
            (family, Verb::SetQuota) => family != Family::Windows,
            _ => true,
        };
        VERBS.into_iter().filter(is_known).collect()
    }

    pub(crate) fn is_of_callers(&self) -> bool {
        matches!(self.time, Time::Still | Time::Skewed)
    }

    pub(crate) fn is_gcra(&self) -> bool {
        self.policy.algorithm() == Algorithm::Gcra
    }

    /// Turns the clock to a thread's time. It only moves forward, unless the world's clock runs backward.
    pub(crate) fn turn_clock(&self, to_ns: u64) {
        let (now_ns, to) = (self.clock.now().as_nanos(), Timestamp::from_nanos(to_ns));
        if self.time == Time::Backward {
            self.clock.set(to);
            let mut turned = self.turned.lock().unwrap_or_else(PoisonError::into_inner);
            turned.push((stamp(), to_ns));
        } else if to_ns > now_ns {
            // If another thread has turned the clock meanwhile, this goes further than `to_ns`.
            self.clock.advance(to - Timestamp::from_nanos(now_ns));
        }
    }

    /// The earliest and the latest time that the clock has shown since a call began. At the beginning it showed
    /// `from_ns`.
    pub(crate) fn clock_since(&self, begin: u64, from_ns: u64) -> (u64, u64) {
        let now_ns = self.clock.now().as_nanos();
        let turned = self.turned.lock().unwrap_or_else(PoisonError::into_inner);
        let since = turned.iter().filter(|(stamp, _)| *stamp > begin).map(|(_, to_ns)| *to_ns);
        since.chain([now_ns]).fold((from_ns, from_ns), |(from, to), ns| (from.min(ns), to.max(ns)))
    }

    /// Records that a limit was set.
    pub(crate) fn set_limit(&self, set: LimitSet) {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner).push(set);
    }

    pub(crate) fn limits(&self) -> Vec<LimitSet> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True once a change of quota has begun.
    pub(crate) fn is_changing(&self) -> bool {
        !self.changing.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The policy for the next change of a key's quota: the other policy at the first change, and the original policy
    /// at the second.
    pub(crate) fn begin_change(&self, scope: u64, key: u64) -> Option<Policy> {
        let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        changing.push(scope);
        match changing.iter().filter(|changed| **changed == scope).count() {
            1 => Some(self.other),
            2 => Some(self.policy_of(key)),
            _ => None,
        }
    }

    /// True if a key's quota remembers all debts that a world can charge, and is still the original quota.
    pub(crate) fn remembers_debts(&self, key: u64) -> bool {
        // At the time of a late request a debt is larger by the units that drain until the key's latest time, and the
        // word may have no room for that debt.
        let is_on_time = self.time == Time::Still;
        is_on_time && self.policy_of(key).at_limit().debt > 0 && !self.is_changing()
    }

    /// The rate, with the burst, of a policy that a key may have.
    pub(crate) fn rate_of(policy: Policy) -> Rate {
        let quota = policy.quota();
        Rate {
            count: quota.count(),
            period_ns: u64::try_from(quota.period().as_nanos()).expect("short"),
            burst: quota.max_burst(),
        }
    }

    /// The least number of whole units that come back to a key in `passed_ns`, under whichever quota it has. It is 0
    /// for windows, where either all units come back or none.
    pub(crate) fn least_flow(&self, key: u64, passed_ns: u64) -> u64 {
        if !self.is_gcra() {
            return 0;
        }
        let rates = [self.policy_of(key), self.other].map(Self::rate_of);
        let flow = |rate: Rate| {
            u128::from(passed_ns) * u128::from(rate.count) / u128::from(rate.period_ns)
        };
        rates
            .into_iter()
            .map(flow)
            .min()
            .map_or(0, |units| u64::try_from(units).unwrap_or(u64::MAX))
    }

    /// The policy that a key has before any change.
    pub(crate) fn policy_of(&self, key: u64) -> Policy {
        let is_second = key > LIVE && self.family == Family::Tiers && key % 2 == 1;
        if is_second { self.second } else { self.policy }
    }
}
