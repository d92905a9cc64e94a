//! Snapshots of a [`Limiter`]: one word.

use std::io::{Read, Write};
use std::time::SystemTime;

use super::{
    Form, Preamble, Reader, RestoreError, SnapshotError, SnapshotKind, SnapshotSummary, field,
    length, resume, wall_ns, write,
};
use crate::clock::Clock;
use crate::limiter::Limiter;
use crate::meter::Meter;
use crate::policy::{Algorithm, Policy};
use crate::word::Word;

impl Limiter {
    /// Writes what this limit holds, while others go on deciding: all that was charged before this call,
    /// and of a request that is charged meanwhile either its whole cost or nothing. Units that lie in
    /// leases are charged.
    ///
    /// The writer is flushed, not synced. Write to a new file, sync that, and then rename it over the old
    /// one, so that there is a whole one at every moment.
    ///
    /// # Errors
    /// The writer's; a limiter that was built by [`changing`](Limiter::changing).
    ///
    /// ```
    /// use tollgate::{Clock, Limiter, Quota};
    /// let quota = Quota::per_hour(2);
    /// let limiter = Limiter::new(quota);
    /// assert!(limiter.check_n(2).is_allowed());
    /// let mut file = Vec::new();
    /// limiter.snapshot(&mut file)?;
    /// let restored = Limiter::restore(quota, Clock::monotonic(), &file[..])?;
    /// assert!(!restored.check().is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self, writer: impl Write) -> Result<SnapshotSummary, SnapshotError> {
        // A file holds one word, and its policy is the one that the limiter was built with.
        if self.apart.is_some() {
            let is_log = self.policy.algorithm() == Algorithm::SlidingLog;
            return Err(if is_log { SnapshotError::Log } else { SnapshotError::NotFixed });
        }
        let word = self.cell.load().to_bits();
        // After the word, and in this order: see the head of `crate::snapshot`.
        let now = self.now();
        let wall = SystemTime::now();
        let bytes = length(1).unwrap_or(0);
        let preamble = Preamble {
            kind: SnapshotKind::Limiter,
            origin: self.clock.origin(),
            length: bytes,
            now_ns: now.as_nanos(),
            wall_ns: wall_ns(wall),
            capacity: 1,
            shards: 0,
            form: form(&self.meter),
            fingerprints: [0; 2],
            seeds: None,
            policy: self.policy.to_string(),
        };
        write(writer, &preamble, std::iter::once(word))?;
        // A word that was never charged is 0: no key, as a table counts keys.
        Ok(SnapshotSummary { keys: usize::from(word != 0), bytes, now })
    }

    /// The limiter whose [`snapshot`](Limiter::snapshot) this is. It goes on where that left off.
    ///
    /// What has drained meanwhile by the wall clock has drained. Give a clock of the kind that it had; one
    /// with an origin of its own is set to go on from the old one's reading, see [`Clock::resumed_at`].
    ///
    /// # Errors
    /// A reader that fails, and a file that is not, to the bit, one of a limiter of this policy.
    ///
    /// ```
    /// use tollgate::{Clock, Limiter, Quota, RestoreError};
    /// let mut file = Vec::new();
    /// Limiter::new(Quota::per_hour(2)).snapshot(&mut file)?;
    /// let refused = Limiter::restore(Quota::per_hour(3), Clock::monotonic(), &file[..]);
    /// assert!(matches!(refused, Err(RestoreError::Policy(_))));
    /// # Ok::<(), tollgate::SnapshotError>(())
    /// ```
    pub fn restore(
        policy: impl Into<Policy>,
        clock: impl Into<Clock>,
        reader: impl Read,
    ) -> Result<Self, RestoreError> {
        let (policy, clock): (Policy, Clock) = (policy.into(), clock.into());
        let (mut reader, preamble) = Reader::open(reader)?;
        let form = form(&Meter::new(policy)?);
        preamble.is_of(SnapshotKind::Limiter, policy, form, clock.origin())?;
        // What a limit of one word has no use for must be empty: such a file was never written.
        field("mark of seeds", u64::from(preamble.seeds.is_some()), 0)?;
        for (name, found, expected) in [
            ("capacity", preamble.capacity, 1),
            ("number of shards", preamble.shards, 0),
            ("length", preamble.length, length(1).unwrap_or(0)),
            ("fingerprint", preamble.fingerprints[0], 0),
            ("fingerprint", preamble.fingerprints[1], 0),
        ] {
            field(name, found, expected)?;
        }
        // Any bits are some state: see `Word::from_bits`.
        let word = Word::from_bits(reader.word()?);
        reader.close()?;
        let clock = resume(clock, &preamble)?;
        Ok(Self::holding(word, policy, clock))
    }
}

fn form(meter: &Meter) -> Form {
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
