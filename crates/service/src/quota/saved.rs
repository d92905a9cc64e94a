//! [`SavedQuotas`]: the assignments that Envoys hold when a service stops, saved for the service that starts next.
//!
//! # The file
//! The file contains `TOLLQUOT`, the version (4 bytes), messages of Protocol Buffers, each preceded by its length, and
//! the CRC-32 of all bytes before it (4 bytes). The version and the CRC-32 are little endian. The first message is a
//! [`SavedHead`]. Then each limit has a [`SavedLimit`], followed by a [`SavedHolder`] for each bucket of an Envoy that
//! may hold a part of it. Times are nanoseconds before or after the moment of writing. The head contains this moment,
//! as a time of the system's clock.

use std::io::Read;

use prost::Message;
use tollgate_rules::StateError;

use super::allowance::Allowance;
use super::holder::IN_FORCE;

const MAGIC: [u8; 8] = *b"TOLLQUOT";
const VERSION: u32 = 1;

/// The maximum length of a message. The longest message contains the names and values of one report.
const MAX_MESSAGE: usize = 4 << 20;

/// The maximum length of the file, and of its contents in memory.
const MAX_BYTES: usize = 128 << 20;

/// The memory in bytes that a message takes besides its texts.
const OVERHEAD: usize = 512;

/// All limits of which Envoys may hold a part.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SavedQuotas {
    pub(super) head: SavedHead,
    pub(super) pools: Vec<SavedPool>,
}

/// A limit, and the Envoys' buckets that may hold parts of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SavedPool {
    pub(super) limit: SavedLimit,
    pub(super) holders: Vec<SavedHolder>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SavedHead {
    /// The time of writing, as a time of the system's clock.
    #[prost(uint64, tag = "1")]
    pub(super) wall_ns: u64,
    /// The time for which assignments that the service did not know may still be in force.
    #[prost(uint64, tag = "2")]
    pub(super) from_ns: u64,
    #[prost(uint32, tag = "3")]
    pools: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SavedLimit {
    #[prost(string, tag = "1")]
    pub(super) domain: String,
    #[prost(string, tag = "2")]
    pub(super) rule: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) key: Vec<u8>,
    #[prost(uint32, tag = "4")]
    per_fill: u32,
    #[prost(uint32, tag = "5")]
    fill_s: u32,
    #[prost(uint32, tag = "6")]
    burst: u32,
    /// Saved tokens, rounded down.
    #[prost(uint32, tag = "7")]
    pub(super) tokens: u32,
    /// The time for which nothing of this limit may be assigned.
    #[prost(uint64, tag = "8")]
    pub(super) from_ns: u64,
    #[prost(uint32, tag = "9")]
    holders: u32,
}

/// A bucket of an Envoy. Its leases are saved as one lease, with the highest of their rates and the sum of their
/// tokens.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SavedHolder {
    #[prost(uint32, tag = "1")]
    pub(super) per_fill: u32,
    #[prost(uint32, tag = "2")]
    pub(super) max_tokens: u32,
    /// The time for which the lease may still be in force.
    #[prost(uint64, tag = "3")]
    pub(super) left_ns: u64,
    /// Whether Envoy is certain to have received the last message about this lease.
    #[prost(bool, tag = "4")]
    pub(super) is_sure: bool,
    #[prost(uint64, optional, tag = "5")]
    pub(super) demand: Option<u64>,
    /// The time since the demand was measured.
    #[prost(uint64, tag = "6")]
    pub(super) measured_ns: u64,
    /// The address that the bucket's stream came from; empty if no stream was open.
    #[prost(string, tag = "7")]
    pub(super) address: String,
    /// Whether the bucket's stream was the only stream from that address.
    #[prost(bool, tag = "8")]
    pub(super) is_alone: bool,
    /// The names and values of the bucket, alternating; empty if no stream was open.
    #[prost(string, repeated, tag = "9")]
    pub(super) entries: Vec<String>,
}

impl SavedLimit {
    pub(super) fn new(allowance: Allowance, tokens: u32, from_ns: u64) -> Self {
        let Allowance { per_fill, fill_s, burst } = allowance;
        Self { per_fill, fill_s, burst, tokens, from_ns, ..Self::default() }
    }

    pub(super) fn allowance(&self) -> Allowance {
        Allowance { per_fill: self.per_fill, fill_s: self.fill_s, burst: self.burst }
    }

    fn bytes(&self) -> usize {
        OVERHEAD + self.domain.len() + self.rule.len() + self.key.len()
    }
}

impl SavedHolder {
    fn bytes(&self) -> usize {
        OVERHEAD + self.entries.iter().map(|text| OVERHEAD / 8 + text.len()).sum::<usize>()
    }
}

impl SavedQuotas {
    pub(super) fn new(wall_ns: u64, from_ns: u64, pools: Vec<SavedPool>) -> Self {
        let head = SavedHead { wall_ns, from_ns, pools: count(&pools) };
        Self { head, pools }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut to = Vec::from(MAGIC);
        to.extend(VERSION.to_le_bytes());
        to.extend(self.head.encode_length_delimited_to_vec());
        for pool in &self.pools {
            let limit = SavedLimit { holders: count(&pool.holders), ..pool.limit.clone() };
            to.extend(limit.encode_length_delimited_to_vec());
            for holder in &pool.holders {
                to.extend(holder.encode_length_delimited_to_vec());
            }
        }
        to.extend(crc32fast::hash(&to).to_le_bytes());
        to
    }

    /// # Errors
    /// The file cannot be read, or it is damaged.
    pub(crate) fn read(reader: impl Read) -> Result<Self, StateError> {
        let mut bytes = Vec::new();
        reader.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > MAX_BYTES {
            return Err(damaged(format!("has more than {MAX_BYTES} bytes, which are accepted")));
        }
        let body = bytes.strip_prefix(&MAGIC).and_then(|rest| rest.split_first_chunk());
        let foreign = || damaged("was not written by tollgate");
        let (version, rest) = body.ok_or_else(foreign)?;
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(damaged(format!("has version {version}; this program reads {VERSION}")));
        }
        let (rest, found) = rest.split_last_chunk().ok_or_else(|| damaged("ends too early"))?;
        let computed = crc32fast::hash(&bytes[..bytes.len() - size_of::<u32>()]);
        if u32::from_le_bytes(*found) != computed {
            return Err(damaged("has another checksum than was written"));
        }
        Self::of_messages(rest)
    }

    fn of_messages(mut rest: &[u8]) -> Result<Self, StateError> {
        let head: SavedHead = next(&mut rest)?;
        bounded(head.from_ns)?;
        let (mut pools, mut bytes) = (Vec::new(), 0);
        let mut takes = |more: usize| {
            bytes += more;
            let much = || damaged(format!("takes more than {MAX_BYTES} bytes of memory"));
            if bytes <= MAX_BYTES { Ok(()) } else { Err(much()) }
        };
        for _ in 0..head.pools {
            let limit: SavedLimit = next(&mut rest)?;
            bounded(limit.from_ns)?;
            if limit.fill_s == 0 || limit.tokens > limit.burst {
                return Err(damaged("has a limit with impossible numbers"));
            }
            takes(limit.bytes())?;
            let mut holders = Vec::new();
            for _ in 0..limit.holders {
                let holder: SavedHolder = next(&mut rest)?;
                bounded(holder.left_ns)?;
                takes(holder.bytes())?;
                holders.push(holder);
            }
            pools.push(SavedPool { limit, holders });
        }
        if !rest.is_empty() {
            return Err(damaged("goes on after its last message"));
        }
        Ok(Self { head, pools })
    }
}

fn count<T>(all: &[T]) -> u32 {
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}

fn next<M: Message + Default>(rest: &mut &[u8]) -> Result<M, StateError> {
    let length = prost::decode_length_delimiter(&mut *rest);
    let message = length.ok().filter(|length| *length <= MAX_MESSAGE);
    let message = message.and_then(|length| rest.split_at_checked(length));
    let (message, after) = message.ok_or_else(|| {
        damaged(format!("ends within a message, or has one of more than {MAX_MESSAGE} bytes"))
    })?;
    *rest = after;
    M::decode(message).map_err(|error| damaged(format!("has a bad message: {error}")))
}

fn bounded(ns: u64) -> Result<(), StateError> {
    let long = || damaged("has an assignment that would be in force for too long");
    if ns <= IN_FORCE { Ok(()) } else { Err(long()) }
}

pub(super) fn damaged(reason: impl Into<String>) -> StateError {
    StateError::Damaged(reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUNDRED: Allowance = Allowance { per_fill: 1_000, fill_s: 10, burst: 100 };

    /// The error of reading a file with these contents.
    fn told(limit: SavedLimit, holders: Vec<SavedHolder>) -> String {
        let saved = SavedQuotas::new(0, 0, vec![SavedPool { limit, holders }]);
        match SavedQuotas::read(&saved.to_bytes()[..]) {
            Ok(read) => read.pools.len().to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_no_service_writes_is_refused_although_it_is_whole() {
        let holder = SavedHolder { left_ns: IN_FORCE, ..SavedHolder::default() };
        let limit = SavedLimit::new(HUNDRED, 100, IN_FORCE);
        assert_eq!(told(limit.clone(), vec![holder.clone()]), "1");
        let long = "the state has an assignment that would be in force for too long";
        let longer = SavedHolder { left_ns: IN_FORCE + 1, ..holder.clone() };
        assert_eq!(told(limit.clone(), vec![longer]), long);
        assert_eq!(told(SavedLimit::new(HUNDRED, 0, IN_FORCE + 1), vec![]), long);
        let none = "the state has a limit with impossible numbers";
        assert_eq!(told(SavedLimit::new(HUNDRED, 101, 0), vec![]), none);
        let never = Allowance { fill_s: 0, ..HUNDRED };
        assert_eq!(told(SavedLimit::new(never, 0, 0), vec![]), none);
        // A small file must not take much memory.
        let tiny = vec![SavedHolder::default(); MAX_BYTES / OVERHEAD];
        let large = "the state takes more than 134217728 bytes of memory";
        assert_eq!(told(SavedLimit::new(HUNDRED, 0, 0), tiny), large);
        let texts = SavedHolder { entries: vec![String::new(); MAX_MESSAGE / 2 + 1], ..holder };
        let long = "the state ends within a message, or has one of more than 4194304 bytes";
        assert_eq!(told(limit, vec![texts]), long);
    }
}
