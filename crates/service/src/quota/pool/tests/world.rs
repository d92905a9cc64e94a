//! A simulated world: a pool, with Envoys that take all that they can, and with messages that come late.

use std::collections::VecDeque;

use super::super::*;
use super::Fault;

/// The length of a step of the simulation, in nanoseconds.
pub(super) const STEP: u64 = SECOND / 50;

/// The numbers of allowed and denied requests that a stream reports.
struct Report {
    stream: u64,
    allowed: u64,
    denied: u64,
}

/// An Envoy that behaves as its filter does. It treats assignments as Envoy's sources do; other tests check the same
/// with Envoy itself.
#[derive(Default)]
pub(super) struct Envoy {
    /// The number of its stream.
    pub(super) id: u64,
    share: Option<Share>,
    ends: u64,
    tokens: u128,
    /// The demand in thousandths of a request per step.
    pub(super) demand: u64,
    waiting: u64,
    allowed: u64,
    denied: u64,
    interval: u64,
    pub(super) next_report: u64,
    /// The messages under way, each with the time when it arrives.
    told: VecDeque<(u64, Action)>,
    pub(super) admitted: u64,
}

pub(super) struct World {
    pub(super) pool: Pool,
    pub(super) now: u64,
    pub(super) envoys: Vec<Envoy>,
    reports: Vec<VecDeque<(u64, Report)>>,
    next_id: u64,
    /// The longest delay of a message.
    delay: u64,
    /// True from the end of one service to the start of the next.
    is_down: bool,
    /// The time when a service that has restored nothing begins to give leases. All tokens are saved again then, so the
    /// measurement begins anew.
    forgets: u64,
    random: u64,
    /// The used part of the burst: the largest number of tokens that were used beyond the rate since any instant.
    above: u128,
    pub(super) max_above: u128,
}

/// The way in which a service ends, which determines what the next service knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It stops. Each Envoy has an address of its own.
    Stops,
    /// It stops. All Envoys come from one address.
    StopsBehindOneAddress,
    /// It is killed.
    IsKilled,
}

/// Takes the next message from the queue if it has arrived.
fn next<T>(queue: &mut VecDeque<(u64, T)>, now: u64) -> Option<T> {
    if queue.front()?.0 > now {
        return None;
    }
    queue.pop_front().map(|(_, message)| message)
}

impl World {
    pub(super) fn new(allowance: Allowance, delay: u64, seed: u64) -> Self {
        Self {
            pool: Pool::new(allowance, 0, 0),
            now: 0,
            envoys: Vec::new(),
            reports: Vec::new(),
            next_id: 0,
            delay,
            is_down: false,
            forgets: 0,
            random: seed | 1,
            above: 0,
            max_above: 0,
        }
    }

    pub(super) fn draw(&mut self, below: u64) -> u64 {
        // These are the constants of Knuth's generator.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below.max(1)
    }

    /// Adds an Envoy that gets this many requests per second, and reports once per interval.
    pub(super) fn join(&mut self, per_second: u64, interval: u64) -> usize {
        self.next_id += 1;
        self.envoys.push(Envoy {
            id: self.next_id,
            demand: per_second * 1_000 / (SECOND / STEP),
            interval,
            next_report: self.now,
            ..Envoy::default()
        });
        self.reports.push(VecDeque::new());
        self.envoys.len() - 1
    }

    pub(super) fn send(&mut self, actions: Vec<HolderAction>) {
        for HolderAction { holder: id, action } in actions {
            let late = self.draw(self.delay);
            let Some(envoy) = self.envoys.iter_mut().find(|envoy| envoy.id == id) else { continue };
            // Messages arrive in order.
            let before = envoy.told.back().map_or(0, |(at, _)| *at);
            envoy.told.push_back(((self.now + late).max(before), action));
        }
    }

    /// Breaks the stream of an Envoy, which then opens another. Messages under way are lost.
    pub(super) fn reconnect(&mut self, place: usize) {
        let old = self.envoys[place].id;
        let actions = self.pool.close(self.now, old);
        self.next_id += 1;
        self.envoys[place].id = self.next_id;
        self.envoys[place].told.clear();
        self.reports[place].clear();
        self.send(actions);
    }

    /// Ends the service, and starts another after this many seconds.
    pub(super) fn restart(&mut self, end: End, seconds: u64) {
        let ids: Vec<u64> = self.envoys.iter().map(|envoy| envoy.id).collect();
        let (at, fault) = (self.now, self.pool.fault);
        let (limit, saved) = self.pool.saved(at, |id| ids.contains(&id));
        for place in 0..self.envoys.len() {
            self.reports[place].clear();
            // Only the first few of the messages under way still arrive, a random number of them.
            let arrive = self.draw(self.envoys[place].told.len() as u64 + 1);
            self.envoys[place].told.truncate(usize::try_from(arrive).expect("small"));
        }
        self.is_down = true;
        self.run(seconds);
        self.is_down = false;
        let holders = saved.iter().map(|(id, saved)| (*id, saved));
        let holders = holders.filter(|_| fault != Some(Fault::ForgetsTheRestart));
        let waits = if fault == Some(Fault::ForgetsTheKill) { 0 } else { IN_FORCE };
        self.pool = match end {
            End::Stops | End::StopsBehindOneAddress => Pool::restored(&limit, holders, at),
            End::IsKilled => {
                self.forgets = self.now + waits.max(STEP);
                Pool::new(self.pool.allowance, self.now, self.now + waits)
            }
        };
        self.pool.fault = fault;
        if end == End::Stops {
            if fault == Some(Fault::TakesOneForTheOther) {
                self.envoys.iter_mut().zip(ids.iter().rev()).for_each(|(one, id)| one.id = *id);
            }
            return;
        }
        let last = saved.iter().map(|(_, saved)| at + saved.left_ns).max();
        for envoy in &mut self.envoys {
            self.next_id += 1;
            envoy.id = self.next_id;
            if end == End::StopsBehindOneAddress {
                self.pool.hold_back(self.now, envoy.id, last.unwrap_or(0));
            }
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        for place in 0..self.envoys.len() {
            self.receive(place);
            self.take(place);
            self.report(place);
        }
        let per_step = u128::from(self.pool.allowance.per_fill) * u128::from(STEP);
        self.max_above = self.max_above.max(self.above);
        self.above = self.above.saturating_sub(per_step);
        if self.now == self.forgets {
            self.above = 0;
        }
        if self.now.is_multiple_of(SECOND) && !self.is_down {
            let actions = self.pool.tick(self.now);
            self.send(actions);
        }
    }

    fn receive(&mut self, place: usize) {
        let (now, scale) = (self.now, self.pool.scale());
        let envoy = &mut self.envoys[place];
        if envoy.ends <= now {
            envoy.share = None;
        }
        while let Some(action) = next(&mut envoy.told, now) {
            match action {
                Action::Assign(share) => {
                    if envoy.share != Some(share) {
                        envoy.tokens = u128::from(share.max_tokens) * scale;
                    }
                    (envoy.share, envoy.ends) = (Some(share), now + TIME_TO_LIVE_S * SECOND);
                }
                Action::Abandon => {
                    envoy.share = None;
                    // Envoy begins anew with its next request.
                    self.next_id += 1;
                    envoy.id = self.next_id;
                    envoy.next_report = if envoy.demand > 0 { now } else { u64::MAX };
                }
            }
        }
    }

    fn take(&mut self, place: usize) {
        let scale = self.pool.scale();
        let envoy = &mut self.envoys[place];
        envoy.waiting += envoy.demand;
        let asked = envoy.waiting / 1_000;
        envoy.waiting %= 1_000;
        let mut passed = 0;
        if let Some(share) = envoy.share {
            let most = u128::from(share.max_tokens) * scale;
            let filled = u128::from(share.per_fill) * u128::from(STEP);
            passed = u64::try_from(envoy.tokens / scale).unwrap_or(u64::MAX).min(asked);
            // The requests of a step use tokens before the bucket is filled, so that no token of a full bucket goes
            // unused.
            envoy.tokens = (envoy.tokens - u128::from(passed) * scale + filled).min(most);
        }
        envoy.allowed += passed;
        envoy.denied += asked - passed;
        envoy.admitted += passed;
        self.above += u128::from(passed) * scale;
    }

    fn report(&mut self, place: usize) {
        let (now, late) = (self.now, self.draw(self.delay));
        let envoy = &mut self.envoys[place];
        let queue = &mut self.reports[place];
        if now >= envoy.next_report {
            let before = queue.back().map_or(0, |(at, _)| *at);
            let (stream, allowed, denied) = (envoy.id, envoy.allowed, envoy.denied);
            let report = Report { stream, allowed, denied };
            queue.push_back(((now + late).max(before), report));
            (envoy.allowed, envoy.denied, envoy.next_report) = (0, 0, now + envoy.interval);
        }
        if self.is_down {
            self.reports[place].clear();
        }
        while let Some(report) = next(&mut self.reports[place], now) {
            let Report { stream, allowed, denied } = report;
            let actions = self.pool.report(now, stream, allowed, denied);
            self.send(actions);
        }
    }

    pub(super) fn run(&mut self, seconds: u64) {
        (0..seconds * SECOND / STEP).for_each(|_| self.step());
    }

    /// Runs for this many seconds; returns how many requests each Envoy admits in this time.
    pub(super) fn admits_in(&mut self, seconds: u64) -> Vec<u64> {
        let before: Vec<u64> = self.envoys.iter().map(|envoy| envoy.admitted).collect();
        self.run(seconds);
        self.envoys.iter().zip(before).map(|(envoy, before)| envoy.admitted - before).collect()
    }

    pub(super) fn is_within_the_bound(&self) -> bool {
        let allowance = self.pool.allowance;
        self.max_above <= u128::from(allowance.burst) * self.pool.scale()
    }
}
