//! Snapshots of a [`Limiter`]: one word, or the slots of a log.

use std::io::{Read, Write};
use std::time::SystemTime;

use super::{
    Form, Preamble, Reader, RestoreError, SnapshotError, SnapshotKind, SnapshotSummary, WORDS_AT,
    field, length, resume, wall_ns, write,
};
use crate::clock::Clock;
use crate::limiter::{Limiter, State};
use crate::log::{Log, LogRule, is_marked};
use crate::meter::Meter;
use crate::policy::Policy;
use crate::word::Word;

impl Limiter {
    /// Writes the state of this limit. Other threads can go on deciding meanwhile. The file holds all charges from
    /// before this call. If a request is charged meanwhile, the file holds either its whole cost or nothing of it; for
    /// a sliding log it may hold any part of the units. Units in leases are stored as charged.
    ///
    /// The writer is flushed, but not synced to the disk. Write to a new file, sync it, and then rename it over the old
    /// one, so that a whole file exists at every moment.
    ///
    /// # Errors
    /// Returns an error if the writer fails, if there is no memory for a copy of a sliding log, or if the limiter was
    /// built as [`changing`](crate::LimiterBuilder::changing).
    ///
    /// ```
    /// use tollgate::{Clock, Limiter, Quota};
    /// let quota = Quota::per_hour(2);
    /// let limiter = Limiter::new(quota);
    /// assert!(limiter.check_n(2).is_allowed());
    /// let mut file = Vec::new();
    /// limiter.snapshot(&mut file)?;
    /// let restored = Limiter::builder(quota).clock(Clock::monotonic()).restore(&file[..])?;
    /// assert!(!restored.check().is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self, writer: impl Write) -> Result<SnapshotSummary, SnapshotError> {
        let (words, form) = match &self.state {
            State::Plain { cell, gcra } => {
                (vec![cell.load().to_bits()], of_word(&Meter::plain(*gcra)))
            }
            State::Word { cell, meter } => (vec![cell.load().to_bits()], of_word(meter)),
            // The count of this log is fixed, so its number of slots follows from its policy.
            State::Log(log) if log.policy().is_none() => {
                // All memory is allocated before the first slot is read.
                let (saved, mut words) = (log.saved(), Vec::new());
                let bytes = saved.len() * size_of::<u64>();
                words
                    .try_reserve_exact(saved.len())
                    .map_err(|_| SnapshotError::OutOfMemory { bytes })?;
                words.extend(saved);
                (words, of_slots(&log.rule()))
            }
            // The policy of these limiters may have changed since they were built, and the file would name the policy
            // with which they were built.
            State::Log(_) | State::Changing(_) => return Err(SnapshotError::NotFixed),
        };
        // The clocks are read after the word, and in this order: see the top of `crate::snapshot`.
        let now = self.now();
        let wall = SystemTime::now();
        let preamble = Preamble {
            kind: SnapshotKind::Limiter,
            origin: self.clock.origin(),
            length: length(words.len() as u64).unwrap_or(0),
            now_ns: now.as_nanos(),
            wall_ns: wall_ns(wall),
            capacity: 1,
            shards: 0,
            form,
            fingerprint: 0,
            seeds: None,
            policy: self.policy.to_string(),
        };
        // The words of a limit that was never charged are all 0, and such a limit does not count as a key.
        let keys = usize::from(words.iter().any(|&word| word != 0));
        write(writer, &preamble, words.into_iter())?;
        Ok(SnapshotSummary::of(&preamble, keys))
    }

    /// Reads a limiter with a fixed policy.
    pub(crate) fn read(
        policy: Policy,
        clock: Clock,
        reader: impl Read,
    ) -> Result<Self, RestoreError> {
        let (mut reader, preamble) = Reader::open(reader)?;
        let meter = Meter::of(&policy);
        let rule = LogRule::in_slots(&policy);
        let (words, form) = match &meter {
            Some(meter) => (1, of_word(meter)),
            None => (1 + rule.slots, of_slots(&rule)),
        };
        preamble.is_of(SnapshotKind::Limiter, policy, form, clock.origin())?;
        // The fields that this kind of snapshot does not use must be empty, since no other file is ever written.
        field("mark of seeds", u64::from(preamble.seeds.is_some()), 0)?;
        for (name, found, expected) in [
            ("capacity", preamble.capacity, 1),
            ("number of shards", preamble.shards, 0),
            ("length", preamble.length, length(words as u64).unwrap_or(0)),
            ("fingerprint", preamble.fingerprint, 0),
        ] {
            field(name, found, expected)?;
        }
        if meter.is_some() {
            // All bits are a valid state: see `Word::from_bits`.
            let word = Word::from_bits(reader.word()?);
            reader.close()?;
            return Ok(Self::holding(word, policy, resume(clock, &preamble)?));
        }
        // The words are collected one by one, so that a file that ends too early takes memory only for the words that
        // it contains.
        let words = (0..words).map(|_| reader.word()).collect::<Result<Vec<_>, _>>()?;
        reader.close()?;
        let slots = words.len() as u64 - 1;
        // A marked slot is refused, since no thread would ever end its mark. A cursor beyond the slots is refused, too.
        let is_wrong =
            |(at, word): &(u64, u64)| if *at == 0 { *word >= slots } else { is_marked(*word) };
        if let Some((at, word)) = (0..).zip(words.iter().copied()).find(is_wrong) {
            let accepted = if at == 0 { "the number of a slot" } else { "an instant, below 2^63" };
            return Err(RestoreError::word(WORDS_AT + 8 * at, word, accepted));
        }
        let state = State::Log(Box::new(Log::holding(rule, words.into_iter())));
        Ok(Self { state, clock: resume(clock, &preamble)?, policy })
    }
}

/// The layout of a word.
fn of_word(meter: &Meter) -> Form {
    let count_bits = meter.fields.count_bits;
    Form {
        cells: 1,
        count_bits,
        time_bits: 64 - count_bits,
        fineness: meter.kernel.fineness(),
        end_quantum_ns: meter.rules.end_quantum_ns(),
        ..Form::default()
    }
}

/// The layout of a slot, which is a time of 63 bits. `fineness` is the number of slots.
fn of_slots(rule: &LogRule) -> Form {
    Form { cells: 1, time_bits: 63, fineness: rule.slots as u64, ..Form::default() }
}
