//! A [`Hand`] makes the calls of one thread in a world. It holds the thread's permits, places and leases, and records
//! its answers.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tollgate::{
    Decision, DenialReason, Lease, Limiter, Permit, Reservation, Timestamp, Wait, control,
};

use crate::history::{Change, Event, Kind, LOST_CHARGE, LimitSet};
use crate::kinds::{Ask, Family, Time, Verb};
use crate::live_log::log_of;
use crate::state::stamp;
use crate::subject::{At, LIMITER, LIVE, Shop, Subject};
use crate::verdict::scope;
use crate::world::World;

/// The message when a denial, or a peek, has written to the state.
pub(crate) const DENIAL_WROTE: &str = "a denied request wrote";

/// The answers of a thread.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) events: Vec<Event>,
    pub(crate) verbs: Vec<Verb>,
    /// The changes of quota, each with its scope.
    pub(crate) changes: Vec<(u64, Change)>,
    /// Snapshots, each with the stamps of the call's beginning and end, and the bytes.
    pub(crate) files: Vec<(u64, u64, Vec<u8>)>,
}

pub(crate) struct Hand<'a> {
    told: Told,
    permits: Vec<(usize, Permit)>,
    places: Vec<(usize, Reservation)>,
    leases: Vec<(usize, Lease<'a>)>,
}

/// A call in progress: its time, its first stamp, the clock's time when it began, and the number of writes of its
/// thread before it.
#[derive(Clone, Copy)]
struct Begun {
    at: At,
    begin: u64,
    from_ns: u64,
    writes: u64,
}

impl Begun {
    fn new(world: &World, at: At) -> Self {
        let from_ns = at.map_or_else(|| world.clock.now().as_nanos(), Timestamp::as_nanos);
        Self { at, begin: stamp(), from_ns, writes: control::writes() }
    }
}

impl<'a> Hand<'a> {
    pub(crate) fn new() -> Self {
        Self { told: Told::default(), permits: Vec::new(), places: Vec::new(), leases: Vec::new() }
    }

    /// Makes a request of the setup at the time that the request gives, even if the world has a clock.
    pub(crate) fn ask_at(&mut self, world: &'a World, ask: &Ask) {
        let begun = Begun::new(world, Some(Timestamp::from_nanos(ask.time_ns)));
        let decision = world.subject.check(ask.key, ask.cost, begun.at);
        self.decided(world, ask, begun, decision);
    }

    pub(crate) fn ask(&mut self, world: &'a World, ask: &Ask) {
        let at = world.is_of_callers().then(|| Timestamp::from_nanos(ask.time_ns));
        if at.is_none() {
            world.turn_clock(ask.time_ns);
        }
        // If a verb needs something that the thread does not hold yet, the thread instead calls the verb that provides
        // it.
        let verb = match ask.verb {
            Verb::Refund if self.permits.is_empty() => Verb::Check,
            Verb::Cancel if self.places.is_empty() => Verb::Reserve,
            Verb::Return if self.leases.is_empty() => Verb::Lease,
            verb => verb,
        };
        let ask = &Ask { verb, ..*ask };
        let begun = Begun::new(world, at);
        let is_done = match (verb, world.subject.shop()) {
            (Verb::Check, _) => {
                let decision = world.subject.check(ask.key, ask.cost, at);
                self.decided(world, ask, begun, decision)
            }
            (Verb::Peek, _) => {
                let _ = world.subject.peek(ask.key, ask.cost, at);
                // While a quota of the table changes, a peek may write, because it converts words that it finds in the
                // spill.
                let wrote = control::writes() != begun.writes;
                let may_write = world.family == Family::Tiers && world.is_changing();
                assert!(!wrote || may_write, "{DENIAL_WROTE}: {ask:?}");
                true
            }
            (_, Some(shop)) => self.ask_shop(world, shop, ask, begun),
            (_, None) => match &world.subject {
                Subject::LiveLog(log) => self.ask_log(world, log, ask, begun),
                _ => false,
            },
        };
        self.add(world, ask, begun, (Kind::Asked, 0));
        if is_done {
            self.told.verbs.push(verb);
        }
    }

    /// Gives back the unspent units of all leases, as dropping a lease does, and records this.
    pub(crate) fn close(mut self, world: &'a World) -> Told {
        while !self.leases.is_empty() {
            self.give_back_lease(world, world.is_of_callers().then_some(Timestamp::from_nanos(0)));
        }
        self.told
    }

    /// Calls the verbs that only a [`Shop`] has. Returns `false` if there was nothing to call.
    fn ask_shop(&mut self, world: &'a World, shop: &'a Shop, ask: &Ask, begun: Begun) -> bool {
        let (Ask { key, cost, .. }, at) = (*ask, begun.at);
        let wait = Duration::from_nanos(ask.wait_ns);
        match ask.verb {
            Verb::UpTo => {
                let decision = shop.take_up_to(key, cost, at);
                self.decided(world, &Ask { cost: cost.min(1), ..*ask }, begun, decision)
            }
            Verb::Charge => {
                let units = shop.charge(key, cost, at);
                // Cells of the spill remember only as much debt as if the policy named no amount.
                let is_whole = world.remembers_debts(key) && !shop.was_crowded();
                assert!(units == cost || !is_whole, "{LOST_CHARGE}: {units} of {ask:?}");
                let kind = if world.is_gcra() { Kind::Loose } else { Kind::Firm };
                self.add(world, ask, begun, (kind, units))
            }
            Verb::Refund => self.refund(world, shop, at),
            Verb::Queue => {
                let wait = Wait::at_most(wait).behind(cost * 2);
                self.placed(world, ask, begun, shop.queue(key, cost, wait, at))
            }
            Verb::Acquire if at.is_none() => match self.acquire(world, shop, ask) {
                Some(Poll::Ready(permit)) => {
                    self.add(world, ask, begun, (Kind::Firm, permit.cost()))
                }
                Some(Poll::Pending) => self.add(world, ask, begun, (Kind::Unsure, cost)),
                None => key == LIMITER || !shop.has_tiers(),
            },
            Verb::Reserve | Verb::Acquire => {
                self.placed(world, ask, begun, shop.reserve(key, cost, wait, at))
            }
            Verb::Cancel => self.cancel(world, shop, at),
            Verb::Reset => {
                shop.reset(key, at);
                self.add(world, ask, begun, (Kind::Forgiven, 0))
            }
            Verb::Many => self.many(world, shop, ask, begun),
            Verb::All => self.all(world, shop, ask, begun),
            Verb::Lease => {
                let Some(mut lease) = shop.lease(cost, at) else { return false };
                let _ = lease.spend(cost / 2);
                self.add(world, &Ask { key: LIMITER, ..*ask }, begun, (Kind::Firm, cost));
                self.leases.push((self.told.events.len() - 1, lease));
                true
            }
            Verb::Return => self.give_back_lease(world, at),
            Verb::SetQuota => self.set_quota(world, shop, ask, begun),
            Verb::MoveKey => {
                let moved = (key > LIVE).then(|| shop.move_key(key, at)).flatten();
                let Some(units) = moved else { return false };
                self.add(world, ask, begun, (Kind::Forgiven, 0));
                // The number of moved units is rounded up, because a part of the last unit may have drained.
                let units = if world.time == Time::Still { units } else { units.saturating_sub(1) };
                self.add(world, &Ask { key: key ^ 1, ..*ask }, begun, (Kind::Loose, units))
            }
            Verb::Snapshot => {
                let file = shop.snapshot();
                self.told.files.extend(file.map(|file| (begun.begin, stamp(), file)));
                true
            }
            Verb::Check | Verb::Peek => unreachable!("every subject knows these"),
        }
    }

    /// Waits for a turn. Calls alternate: one waits until the clock has reached its turn, and the next gives up if it
    /// would have to sleep.
    fn acquire(&self, world: &World, shop: &Shop, ask: &Ask) -> Option<Poll<Permit>> {
        let gives_up = self.told.verbs.len() % 2 == 1;
        let sleep = |pause| {
            let until = world.clock.now() + pause;
            // No request of this world has a later time.
            let ends = !gives_up && until.as_nanos() <= world.horizon_ns;
            if ends {
                world.turn_clock(until.as_nanos());
            }
            poll_fn(move |_| if ends { Poll::Ready(()) } else { Poll::Pending })
        };
        shop.acquire(ask.key, ask.cost, Wait::at_most(Duration::from_nanos(ask.wait_ns)), sleep)
    }

    fn add(&mut self, world: &World, ask: &Ask, begun: Begun, (kind, units): (Kind, u64)) -> bool {
        let (from_ns, to_ns) = match begun.at {
            Some(now) => (now.as_nanos(), now.as_nanos()),
            None => world.clock_since(begun.begin, begun.from_ns),
        };
        let span = (begun.begin, stamp());
        let event = Event::new(ask.key, ask.verb, kind, units, span);
        self.told.events.push(Event { from_ns, to_ns, ..event });
        true
    }

    fn decided(&mut self, world: &World, ask: &Ask, begun: Begun, decision: Decision) -> bool {
        match decision {
            Decision::Allowed(permit) => {
                self.add(world, ask, begun, (Kind::Firm, permit.cost()));
                self.permits.push((self.told.events.len() - 1, permit));
            }
            Decision::Denied(denial) => {
                // A denial may write in two cases: a table claims a cell for a new key and gives the cell back, and a
                // log marks its slots.
                let is_log = matches!(world.subject, Subject::Log(_) | Subject::LiveLog(_));
                if ask.key == LIMITER && !is_log {
                    assert_eq!(control::writes(), begun.writes, "{DENIAL_WROTE}: {ask:?}");
                }
                if !matches!(denial.reason(), DenialReason::NeverFits | DenialReason::TableFull) {
                    self.add(world, ask, begun, (Kind::Denied, ask.cost));
                }
            }
        }
        true
    }

    fn placed(
        &mut self,
        world: &World,
        ask: &Ask,
        begun: Begun,
        place: Option<Reservation>,
    ) -> bool {
        let Some(place) = place else { return true };
        let kind = Kind::Place { ready_ns: place.ready_at().as_nanos() };
        self.add(world, ask, begun, (kind, place.permit().cost()));
        self.places.push((self.told.events.len() - 1, place));
        true
    }

    /// Records that units of an earlier call were given back.
    fn back(&mut self, event: usize, begin: u64, units: u64) -> bool {
        let event = &mut self.told.events[event];
        (event.back, event.back_begin, event.back_end) = (units, begin, stamp());
        true
    }

    fn refund(&mut self, world: &World, shop: &Shop, at: At) -> bool {
        let Some((event, permit)) = self.permits.pop() else { return false };
        let (key, begin) = (self.told.events[event].key, stamp());
        // The refund has the latest time of the world, so that no other charge comes after it.
        let at = at.map(|_| Timestamp::from_nanos(world.horizon_ns));
        let units = shop.refund(key, permit, at);
        self.back(event, begin, units)
    }

    fn cancel(&mut self, world: &World, shop: &Shop, at: At) -> bool {
        let Some((event, place)) = self.places.pop() else { return false };
        let Event { key, units, .. } = self.told.events[event];
        let (begin, turn_ns) = (stamp(), place.ready_at().as_nanos());
        // The cancellation has the latest time of the world, so that no other charge comes after it.
        let at = at.map(|_| Timestamp::from_nanos(world.horizon_ns));
        let now_ns = at.unwrap_or_else(|| world.clock.now()).as_nanos();
        if shop.cancel(key, place, at) {
            // Until its turn a place is given back whole. After its turn only the units that have not drained since are
            // given back.
            let drained = world.least_flow(key, now_ns.saturating_sub(turn_ns));
            self.back(event, begin, units.saturating_sub(drained));
        }
        true
    }

    fn give_back_lease(&mut self, world: &World, at: At) -> bool {
        let Some((event, lease)) = self.leases.pop() else { return false };
        let Some(shop) = world.subject.shop() else { return false };
        let (left, begin) = (lease.left(), stamp());
        match at {
            Some(_) => {
                let horizon = Timestamp::from_nanos(world.horizon_ns);
                shop.refund(LIMITER, lease.into_unspent(), Some(horizon));
            }
            None => drop(lease),
        }
        self.back(event, begin, left)
    }

    fn many(&mut self, world: &World, shop: &Shop, ask: &Ask, begun: Begun) -> bool {
        if ask.key <= LIVE {
            return false;
        }
        // In a table of several tiers, all keys of a batch belong to the first tier.
        let key = if shop.has_tiers() { ask.key & !1 } else { ask.key };
        let keys = [key, key + 2, key];
        let mut decisions = Vec::new();
        shop.check_many(&keys, ask.cost, begun.at, |nth, decision| {
            decisions.push((keys[nth], decision));
        });
        for (key, decision) in decisions {
            self.decided(world, &Ask { key, ..*ask }, begun, decision);
        }
        true
    }

    fn all(&mut self, world: &World, shop: &Shop, ask: &Ask, begun: Begun) -> bool {
        if ask.key <= LIVE || ask.cost == 0 {
            return false;
        }
        let (joint, permits) = shop.check_all(ask.key, ask.cost, begun.at);
        for (key, permit) in [LIMITER, ask.key].into_iter().zip(permits) {
            let ask = Ask { key, ..*ask };
            // Neither the limit that denied the request nor any limit after it was charged.
            let Some(permit) = permit else { continue };
            if joint.is_allowed() {
                self.add(world, &ask, begun, (Kind::Firm, permit.cost()));
                self.permits.push((self.told.events.len() - 1, permit));
            } else {
                // The charge was undone if that was still possible.
                self.add(world, &ask, begun, (Kind::Unsure, permit.cost()));
            }
        }
        true
    }

    /// Calls the verbs of a log whose count changes. Its limit is set as often as the requests ask for it.
    fn ask_log(&mut self, world: &World, log: &Limiter, ask: &Ask, begun: Begun) -> bool {
        let entry = begun.at.map_or(log.entry(), |now| log.entry().at(now));
        match ask.verb {
            Verb::UpTo => {
                let decision = entry.take_up_to(ask.cost);
                self.decided(world, &Ask { cost: ask.cost.min(1), ..*ask }, begun, decision)
            }
            Verb::Refund => {
                let Some((event, permit)) = self.permits.pop() else { return false };
                let (begin, horizon) = (stamp(), Timestamp::from_nanos(world.horizon_ns));
                self.back(event, begin, log.entry().at(horizon).refund(permit))
            }
            _ => {
                let quota = world.policy.quota();
                let unit_ns = World::rate_of(world.policy).period_ns / quota.count();
                let count = 1 + (ask.cost + ask.wait_ns / unit_ns) % quota.count();
                // The change is refused while another change or a request is in progress.
                let set = log.set_quota_at(log_of(quota, count), Timestamp::from_nanos(0)).is_ok();
                if set {
                    world.set_limit(LimitSet { count, begin: begun.begin, end: stamp() });
                }
                set
            }
        }
    }

    /// Changes a quota, and at the next call changes it back. In a world this happens once for each tier, and once for
    /// the live limit.
    fn set_quota(&mut self, world: &World, shop: &Shop, ask: &Ask, begun: Begun) -> bool {
        let now = begun.at.unwrap_or_else(|| world.clock.now());
        let scope = scope(world.family, ask.key);
        let Some(policy) = world.begin_change(scope, ask.key) else { return false };
        if !shop.set_quota(ask.key, policy, now) {
            return false;
        }
        let change = Change {
            before: World::rate_of(world.policy_of(ask.key)),
            after: World::rate_of(policy),
            at_ns: now.as_nanos(),
            begin: begun.begin,
            end: stamp(),
        };
        self.told.changes.push((scope, change));
        true
    }
}
