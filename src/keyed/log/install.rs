//! Giving a key an entry: claim, fence, verify, open. This is the protocol of `src/keyed/insert/install.rs`. The head
//! of that file proves that at every moment at most one live cell carries a key. The same proof holds for entries, if
//! an entry that a thread is about to forget (`Closing`) counts as live. The protocol differs in three points:
//!
//! * Claims are distinguished by the generation in each header, not by a counter in each shard.
//! * A key's log is opened empty, and the request is then decided in it as in any other log.
//! * A key's log begins at the later floor of its two shards. Before an entry is vacated, its shard's floor is raised
//!   at least to the instant from which everything in the entry is free. The floors are read after the claim is
//!   verified. If this key was forgotten in an entry, the scan has seen that entry without the key, so this thread
//!   also sees the floor that was raised before.
//!
//! A claim is given back by its own thread, or vacated or taken over by another thread that installs the same key.
//! Otherwise a thread that stalls with a claim keeps one entry from other keys until it goes on.

use crossbeam_utils::Backoff;

use crate::algorithm::Answers;
use crate::clock::Clock;
use crate::decision::Decision;
use crate::hash::Identity;
use crate::keyed::memory::shard::cells;
use crate::log::LogRequest;
use crate::sync::{Fault, Ordering, fence, planted, scale};
use crate::verdict::Verdict;

use super::decide::LogTable;
use super::entries::{LogPlace, pair};
use super::header::{HeaderKind, LogHeader};

/// The maximum number of rounds, as in `src/keyed/insert/install.rs`: three lost rounds in a row are rare.
const ROUNDS: usize = 8;
const EAGER_ROUNDS: usize = 3;

/// While a new key's first shard has fewer busy entries than this, the key goes there. Otherwise it goes to the emptier
/// of its two shards. In a table of words, a key's home may become fuller before the key goes elsewhere
/// (`src/keyed/insert/survey.rs`).
const FIRST_SHARD_SHARE: usize = 4;

/// The wait in the denial of a request that lost to other threads' claims.
// Claims last microseconds, so a millisecond is long enough, and it is short for a client.
const SOON_NS: u64 = 1_000_000;

/// The result of one round of an install.
enum LogRound {
    Decided(Decision),
    /// The key has an entry by now, or another thread was in the way. The caller searches again.
    Again,
}

/// An entry that a new key could take.
#[derive(Clone, Copy)]
struct Candidate {
    place: LogPlace,
    header: LogHeader,
}

/// The entries that a key's shards offer.
#[derive(Default)]
struct LogOffer {
    /// The first claim of the key's own tag that was found.
    own_claim: Option<Candidate>,
    /// For each of the two shards, a vacant entry or else an entry that can be forgotten.
    free: [Option<Candidate>; 2],
    /// For each of the two shards, the number of entries that are not vacant and cannot be forgotten yet.
    busy: [usize; 2],
    /// The instant at which the first busy entry can be forgotten.
    free_ns: Option<u64>,
}

impl LogTable<'_> {
    /// Decides a request after the caller has looked for the key and has not found it.
    #[cold]
    #[inline(never)]
    pub(super) fn install(
        &self,
        identity: Identity,
        second: usize,
        mut ask: LogRequest,
        mut clock: Option<&Clock>,
    ) -> Decision {
        let backoff = Backoff::new();
        // The rounds are bounded, so that no thread waits for another. After the last round the request is denied.
        for round in 0..scale::rounds(ROUNDS) {
            // The pause ends the lockstep of two threads that vacate each other's claims.
            if round >= EAGER_ROUNDS {
                backoff.spin();
            }
            if let LogRound::Decided(decision) = self.round(identity, second, &mut ask, &mut clock)
            {
                return decision;
            }
            // Another thread may have opened an entry for the key meanwhile.
            if let Some(decision) = self.hit(identity, second, ask) {
                return decision;
            }
        }
        // Other threads were in the way in each round.
        self.tallies.contended(identity.first);
        self.full(ask, ask.now_ns.saturating_add(SOON_NS))
    }

    fn round(
        &self,
        identity: Identity,
        second: usize,
        ask: &mut LogRequest,
        clock: &mut Option<&Clock>,
    ) -> LogRound {
        // The key's two shards may be the same shard. Its floor is then read twice.
        let shards = [identity.first, second];
        // If the cost never fits, or the request's time is before the floor, the request is answered without an entry.
        if ask.is_never(self.rule.limit) || self.is_early(shards, ask, clock) {
            return LogRound::Decided(self.newcomer(shards, *ask));
        }
        // `None` means that the key has an entry by now. The scan after the claim would also find that entry, so this
        // look only saves a claim.
        let Some(offer) = self.offer(identity, second, ask.now_ns) else { return LogRound::Again };
        // Every entry of the key's shards holds a log that is in use, or a claim.
        let Some(choice) = offer.best() else {
            let free_ns = offer.free_ns.unwrap_or(ask.now_ns.saturating_add(SOON_NS));
            return LogRound::Decided(self.full(*ask, free_ns));
        };
        // A request that does not charge writes nothing. It is answered from an empty log, since a charge would get an
        // entry with an empty log.
        if !ask.charge {
            return LogRound::Decided(self.newcomer(shards, *ask));
        }
        // The next CAS expects the header that was judged, so it fails if the entry has changed since.
        let Candidate { place, mut header } = choice;
        if matches!(header.kind(), HeaderKind::Live | HeaderKind::Closing) {
            // `None` means that the entry's key has come back, or that another thread has changed the entry.
            let Some(vacant) = self.entries.forget(place, header, ask.now_ns) else {
                return LogRound::Again;
            };
            self.tallies.reclaimed(place.shard, 1);
            header = vacant;
        }
        match self.claim(identity, second, place, header) {
            // The claim is verified: no other thread can open this key.
            Some(claim) => {
                self.open(identity, second, Candidate { place, header: claim }, ask, clock)
            }
            // Another thread has got the entry, or installs the same key.
            None => LogRound::Again,
        }
    }

    /// True if the request's time is before the floor, even after the clock has been read once more.
    fn is_early(
        &self,
        shards: [usize; 2],
        ask: &mut LogRequest,
        clock: &mut Option<&Clock>,
    ) -> bool {
        if planted(Fault::LogBelowFloor) {
            return false;
        }
        // The floor is read anew at each call, since it rises.
        let floor_ns = self.entries.floor_ns(shards);
        // The request may have read its clock a while ago, so it reads the clock once more, but not a third time.
        if floor_ns > ask.now_ns
            && let Some(clock) = clock.take()
        {
            // The later of the two readings is used, so that the second reading never makes the request's time earlier.
            let now_ns = ask.now_ns.max(clock.now().as_nanos());
            *ask = LogRequest::new(ask.verb, ask.cost, now_ns, ask.charge);
        }
        floor_ns > ask.now_ns
    }

    /// The entries that the key's two shards offer; `None` if one of the shards has the key.
    fn offer(&self, identity: Identity, second: usize, now_ns: u64) -> Option<LogOffer> {
        let mut offer = LogOffer::default();
        for (nth, shard) in pair(identity.first, second).enumerate() {
            // Each header is read once. Later CASes expect exactly the header that was read here.
            for entry in cells() {
                let place = LogPlace { shard, entry };
                let header = self.entries.header(place);
                let candidate = Some(Candidate { place, header });
                match header.kind() {
                    // A vacant entry is preferred to a log that could be forgotten, so an idle log stays while there is
                    // room.
                    HeaderKind::Vacant => offer.free[nth] = candidate,
                    // This is a claim for the same key, perhaps by a thread that has stalled. This entry is chosen
                    // before any other.
                    HeaderKind::Claim if header.is_claim_of(identity.tag) => {
                        offer.own_claim = offer.own_claim.or(candidate);
                        offer.busy[nth] += 1;
                    }
                    // This is a claim for another key.
                    HeaderKind::Claim => offer.busy[nth] += 1,
                    // This is the key's own log, which was opened after the search for the key.
                    _ if header.is_log_of(identity.tag) => return None,
                    // This is another key's log. Whether it can be forgotten is only a guess here: `forget` looks
                    // again.
                    HeaderKind::Live | HeaderKind::Closing => {
                        let until_ns = self.entries.entry(place, header).idle_ns();
                        // Everything in this log is free, so the entry is chosen if there is no vacant entry.
                        if until_ns <= now_ns {
                            offer.free[nth] = offer.free[nth].or(candidate);
                        } else {
                            offer.busy[nth] += 1;
                            // The earliest instant is kept: from then on a new key may find an entry.
                            offer.free_ns =
                                Some(offer.free_ns.map_or(until_ns, |ns| ns.min(until_ns)));
                        }
                    }
                }
            }
        }
        Some(offer)
    }

    /// Puts a claim on an entry and makes sure that no other thread is opening this key.
    fn claim(
        &self,
        identity: Identity,
        second: usize,
        place: LogPlace,
        header: LogHeader,
    ) -> Option<LogHeader> {
        // The claim's generation differs from that of every older header of this entry that a thread may still hold.
        let claim = header.claimed_for(identity.tag);
        // If the CAS fails, another install has changed the entry.
        if !self.entries.replace(place, header, claim) {
            return None;
        }
        // SeqCst: as in `src/keyed/insert/install.rs`. Each thread claims, passes this fence, and then scans, so at
        // least one of two threads sees the other's claim.
        if !planted(Fault::NoFence) {
            fence(Ordering::SeqCst);
        }
        if planted(Fault::NoVerify) {
            return Some(claim);
        }
        // After the fence every header of both shards is read.
        for shard in pair(identity.first, second) {
            for other in cells().map(|entry| LogPlace { shard, entry }) {
                let header = self.entries.header(other);
                let rival = header.is_claim_of(identity.tag) && other != place;
                // If the other entry is the key's log, the request is decided there. If it is a lower claim, the other
                // install goes on. If it is a higher claim, this thread vacates that claim. If the CAS fails, the
                // higher claim may just have been opened.
                let in_the_way = header.is_log_of(identity.tag)
                    || (rival && other < place)
                    || (rival && !self.entries.replace(other, header, header.vacated()));
                if in_the_way {
                    self.give_back(place, claim);
                    return None;
                }
            }
        }
        Some(claim)
    }

    /// Gives a claim back. A claim carries no unit, so nothing is lost. If another thread has vacated the claim or
    /// claimed the entry anew, the CAS fails.
    fn give_back(&self, place: LogPlace, claim: LogHeader) {
        self.entries.replace(place, claim, claim.vacated());
    }

    /// Begins the key's log at the floor, and turns the claim into the header of that log.
    fn open(
        &self,
        identity: Identity,
        second: usize,
        claimed: Candidate,
        ask: &mut LogRequest,
        clock: &mut Option<&Clock>,
    ) -> LogRound {
        let Candidate { place, header: claim } = claimed;
        let shards = [identity.first, second];
        // A floor may have risen since it was first read, so that the log would begin later than the request's time.
        if self.is_early(shards, ask, clock) {
            self.give_back(place, claim);
            return LogRound::Decided(self.newcomer(shards, *ask));
        }
        if !planted(Fault::LogBelowFloor) {
            // The floor may have risen again since `is_early` read it. If the floor is later than the request's time,
            // the request is denied.
            self.entries.entry(place, claim).begin_at(self.entries.floor_ns(shards));
        }
        // The CAS expects the exact claim: if the entry was vacated and claimed anew, the generation differs.
        let live = claim.turned(HeaderKind::Live);
        // If the CAS fails, another install of the key has vacated the claim or taken it over.
        if self.entries.replace(place, claim, live) {
            #[cfg(any(loom, shuttle))]
            self.assert_one_live(identity, second);
            // The first request is decided in the log like any later one. `None` means that the entry was forgotten
            // again.
            if let Some(decision) = self.rule.decide(&self.entries.entry(place, live), *ask) {
                return LogRound::Decided(decision);
            }
        }
        LogRound::Again
    }

    /// The answer for a key without an entry, if the request does not charge, its cost never fits, or its time is
    /// before the floor.
    fn newcomer(&self, shards: [usize; 2], ask: LogRequest) -> Decision {
        // The log of such a key would begin at this instant.
        let from_ns = self.entries.floor_ns(shards).max(ask.now_ns);
        let limit = self.rule.limit;
        // Before the floor, units that the key was once charged may still count.
        let remaining = if from_ns > ask.now_ns { 0 } else { limit };
        // The new log would be empty, so it is idle and ready from its beginning on.
        let (ready_ns, idle_ns) = (from_ns, from_ns);
        let answers = Answers { limit, remaining, ready_ns, idle_ns, spilled: false, slots: None };
        // A cost of 0 fits even before the floor, since it takes no unit.
        let verdict = if ask.cost <= remaining { Verdict::Allowed } else { Verdict::Denied };
        self.rule.decision(ask, verdict, answers, ask.now_ns)
    }

    /// The denial of a new key for which there is no entry before `free_ns`.
    fn full(&self, ask: LogRequest, free_ns: u64) -> Decision {
        // `free_ns` may have passed already. Then an entry may be free now.
        let free_ns = free_ns.max(ask.now_ns);
        let limit = self.rule.limit;
        let (ready_ns, idle_ns) = (free_ns, free_ns);
        let answers =
            Answers { limit, remaining: 0, ready_ns, idle_ns, spilled: false, slots: None };
        self.rule.no_room(ask, answers, free_ns)
    }
}

impl LogOffer {
    fn best(&self) -> Option<Candidate> {
        let [first, second] = self.free;
        // The first shard is taken while it is less than about half full, or if it is no fuller than the other.
        let emptier = self.busy[0] < FIRST_SHARD_SHARE || self.busy[0] <= self.busy[1];
        // An existing claim for the key is taken over first, since a second claim would only have to be vacated.
        self.own_claim.or(if emptier { first.or(second) } else { second.or(first) })
    }
}
