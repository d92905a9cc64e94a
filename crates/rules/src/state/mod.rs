//! Keeps counts over a restart: [`RuleCache::save`] writes the tables of all limits, and [`RuleCache::restore`] reads
//! them before the first load.
//!
//! The first load treats restored tables like the tables of previous rules. A limit whose quota has changed keeps its
//! counts ([`crate::set::carry`]); if it cannot keep them, it begins anew, and the reason is reported. The tables of
//! rules that are gone linger ([`crate::set::linger`]).
//!
//! # The file
//! The file consists of a head and, for each table, a head and a [snapshot](tollgate::KeyedLimiter::snapshot). All
//! numbers are little endian. A head consists of the length of its content (4 bytes), the content, and the CRC-32 of
//! the content (4 bytes). A snapshot contains its own checksum. The content of the first head is `TOLLRULE`, the
//! version (4 bytes) and the number of tables (4 bytes). The content of a table's head is described in `entry.rs`.
//! Nothing follows the last snapshot.
//!
//! Like every snapshot **the file is a secret**: it contains the seeds of the hashers. A restored table continues with
//! these seeds, so it finds every key again.

mod entry;
mod error;

use std::collections::HashMap;
use std::io::{self, Read, Write};

use ahash::RandomState;
use tollgate::{Clock, SnapshotError, Timestamp};

use self::entry::{Entry, Fields};
pub use self::error::StateError;
use crate::language::rule_id::RuleId;
use crate::load::cache::RuleCache;
use crate::set::carry::CarriedTable;
use crate::set::rule_set::RuleSet;

const MAGIC: [u8; 8] = *b"TOLLRULE";
const VERSION: u32 = 2;

/// The maximum length of a head. Most of its content is texts from a rule file, which has at most 1 MiB.
const MAX_HEAD: u32 = 4 << 20;

/// The bytes that a snapshot has in addition to those of its table: the preamble, the tiers and the end.
const BESIDES: usize = 1024;

/// The number and the size of a state's tables.
///
/// ```
/// assert_eq!(tollgate_rules::StateSummary::default().tables, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateSummary {
    /// The tables: one for each limit other than 0.
    pub tables: usize,
    /// The length of all snapshots, in bytes.
    pub bytes: u64,
}

impl RuleCache {
    /// Writes the tables of all limits in force, while other threads go on deciding. Charges that are made meanwhile
    /// may be missing. Tables that linger, limits that come with requests, and loans of pools are not written. The
    /// writer is flushed, but not synced to disk. A reload waits while one table is copied. The call takes memory for
    /// two copies of the largest table.
    ///
    /// # Errors
    /// [`StateError::NoRules`] before the first load; [`StateError::Elsewhere`] if limits are kept elsewhere; an error
    /// of the writer; or there is no memory for a copy.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleText, RuleSettings};
    /// let text = "{domain: shop, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 5}}]}";
    /// let cache = RuleCache::new(RuleSettings::default());
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// let mut state = Vec::new();
    /// assert_eq!(cache.save(&mut state)?.tables, 1);
    /// // The process ends, another begins.
    /// let mut cache = RuleCache::new(RuleSettings::default());
    /// assert_eq!(cache.restore(&state[..])?.tables, 1);
    /// cache.load(&[RuleText::new("shop.yaml", text)]).map_err(|errors| errors[0].clone())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, mut writer: impl Write) -> Result<StateSummary, StateError> {
        if self.is_elsewhere() {
            return Err(StateError::Elsewhere);
        }
        let rules = self.rules().ok_or(StateError::NoRules)?;
        let tables = rules.tables.values().map(Vec::len).sum::<usize>();
        let mut first = Vec::from(MAGIC);
        first.extend(VERSION.to_le_bytes());
        // More tables than `u32` counts do not fit in memory, because each takes at least 1 KiB.
        first.extend(u32::try_from(tables).unwrap_or(u32::MAX).to_le_bytes());
        put_head(&mut writer, &first)?;
        let mut summary = StateSummary { tables, bytes: 0 };
        for (id, kept) in
            rules.tables.iter().flat_map(|(id, all)| all.iter().map(move |one| (id, one)))
        {
            let (entry, words) = self.copy(id, kept)?;
            put_head(&mut writer, &entry.to_bytes())?;
            writer.write_all(&words)?;
            summary.bytes += entry.bytes;
        }
        writer.flush()?;
        Ok(summary)
    }

    fn copy(&self, id: &RuleId, kept: &CarriedTable) -> Result<(Entry, Vec<u8>), StateError> {
        // The lock keeps a load from changing the quota between the reading of the policy and the copying of the words.
        let _loading = self.loading();
        let bytes = kept.table.stats().bytes.saturating_add(BESIDES);
        let mut words = Vec::new();
        let refused = |_| SnapshotError::OutOfMemory { bytes };
        words.try_reserve(bytes).map_err(refused)?;
        let summary = kept.table.snapshot(&mut words)?;
        let entry = Entry {
            domain: id.domain.to_string(),
            rule: id.text(),
            policy: kept.table.policy(),
            planned_for: kept.planned_for,
            place: kept.place.to_string(),
            capacity: kept.capacity as u64,
            sized_by: kept.sized_by,
            denies: kept.denies,
            bits: kept.bits,
            now_ns: summary.now.as_nanos(),
            bytes: summary.bytes,
        };
        Ok((entry, words))
    }

    /// Reads the tables that [`save`](RuleCache::save) has written. The first load then keeps them. After an error no
    /// table is kept. After a successful call the cache's clock shows no time before that of the state
    /// ([`Clock::resumed_at`](tollgate::Clock::resumed_at)); only a manual or a coarse clock stays as it is. A limit
    /// admits no more than if the process had continued from the time of the state. Charges after that time are lost.
    ///
    /// # Errors
    /// The file is damaged or has another version; the tables would take more than
    /// [`RuleSettings::max_table_bytes`](crate::RuleSettings::max_table_bytes); [`StateError::Late`] after the first
    /// load; [`StateError::Elsewhere`] if limits are kept elsewhere.
    ///
    /// ```
    /// use tollgate_rules::{RuleCache, RuleSettings, StateError};
    /// let refused = RuleCache::new(RuleSettings::default()).restore(&b"domain: shop"[..]);
    /// assert!(matches!(refused, Err(StateError::Damaged(_))));
    /// ```
    pub fn restore(&mut self, mut reader: impl Read) -> Result<StateSummary, StateError> {
        if self.is_elsewhere() {
            return Err(StateError::Elsewhere);
        }
        if self.rules().is_some() {
            return Err(StateError::Late);
        }
        let count = read_first(&mut reader)?;
        let mut tables: HashMap<RuleId, Vec<CarriedTable>, RandomState> = HashMap::default();
        let mut summary = StateSummary::default();
        let (mut own, mut saved) = (0_u64, Timestamp::from_nanos(0));
        for _ in 0..count {
            let entry = Entry::from_bytes(&read_head(&mut reader)?)?;
            let id = entry.id()?;
            // This is checked before memory is taken for the table.
            own = own.saturating_add(entry.table_bytes()?);
            let max = self.settings().max_table_bytes;
            if own > max {
                return Err(StateError::TooMuchMemory { bytes: own, max });
            }
            let kept = entry.table(self.clock(), reader.by_ref().take(entry.bytes))?;
            tables.entry(id).or_default().push(kept);
            saved = saved.max(Timestamp::from_nanos(entry.now_ns));
            summary.tables += 1;
            summary.bytes += entry.bytes;
        }
        if reader.read(&mut [0])? > 0 {
            return Err(StateError::damaged("goes on after its last table"));
        }
        let resumed = |clock: Clock| clock.resumed_at(saved);
        self.go_on_with(RuleSet { tables, ..RuleSet::default() }, resumed);
        Ok(summary)
    }
}

fn put_head(writer: &mut impl Write, content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len()).ok().filter(|length| *length <= MAX_HEAD);
    let length =
        length.ok_or_else(|| io::Error::other("the name of a rule is longer than a file"))?;
    writer.write_all(&length.to_le_bytes())?;
    writer.write_all(content)?;
    writer.write_all(&crc32fast::hash(content).to_le_bytes())
}

fn read_head(reader: &mut impl Read) -> Result<Vec<u8>, StateError> {
    let length = read_u32(reader)?;
    if length > MAX_HEAD {
        return Err(StateError::damaged(format!(
            "has a head of {length} bytes; at most {MAX_HEAD} are accepted"
        )));
    }
    // The buffer grows while the file is read. So a file that is shorter than `length` says takes no more memory than
    // its size.
    let mut content = Vec::new();
    reader.by_ref().take(length.into()).read_to_end(&mut content)?;
    if content.len() as u64 != u64::from(length) {
        return Err(StateError::damaged("ends within a head"));
    }
    let (found, computed) = (read_u32(reader)?, crc32fast::hash(&content));
    if found != computed {
        let text =
            format!("has a head whose checksum is {computed:#010x}; {found:#010x} was written");
        return Err(StateError::damaged(text));
    }
    Ok(content)
}

/// Reads the first head, and returns the number of tables.
fn read_first(reader: &mut impl Read) -> Result<u32, StateError> {
    let foreign = || StateError::damaged("is none that tollgate has written");
    let head = read_head(reader).map_err(|error| match error {
        StateError::Damaged(_) => foreign(),
        error => error,
    })?;
    let mut fields = Fields(&head);
    if fields.array()? != MAGIC {
        return Err(foreign());
    }
    let version = fields.u32()?;
    if version != VERSION {
        return Err(StateError::damaged(format!(
            "has version {version}; this program reads {VERSION}"
        )));
    }
    let count = fields.u32()?;
    fields.end()?;
    Ok(count)
}

fn read_u32(reader: &mut impl Read) -> Result<u32, StateError> {
    let mut bytes = [0; 4];
    match reader.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(StateError::damaged("ends before its last table"))
        }
        Err(error) => Err(error.into()),
        Ok(()) => Ok(u32::from_le_bytes(bytes)),
    }
}
