//! [`Entry`]: the description of a table in a state, before its snapshot.
//!
//! | Bytes | What |
//! |--:|---|
//! | 8 | the capacity, in clients |
//! | 8 | the time of the clock when the snapshot was taken, in ns |
//! | 8 | the length of the snapshot |
//! | 1 | 1 if the table has no spill because its rule is `on_full: deny`, else 0 |
//! | 1, 1 | bits of IPv4 and IPv6 addresses that tell clients apart; 0 if all do |
//! | 4 | the weight by which the rule had its share of the memory; 0 if a `capacity` or a setting decided the table's size |
//! | 4 and the text, five times | the domain; the rule ([`RuleId::text`]); the limit's place in the rule; the policy in force; the policy for which the words were laid out, empty if the table is fixed |

use std::io::Read;
use std::sync::Arc;

use tollgate::{Clock, KeyedLimiter, Policy};

use super::error::StateError;
use crate::language::identifier::AddressBits;
use crate::language::on_full::OnFull;
use crate::language::rule_id::RuleId;
use crate::set::carry::{CarriedTable, SizedBy, TableShape, tiers};
use crate::set::memory;
use crate::set::rule::RuleTable;

pub(super) struct Entry {
    pub(super) domain: String,
    pub(super) rule: String,
    pub(super) place: String,
    pub(super) policy: Policy,
    pub(super) planned_for: Option<Policy>,
    pub(super) capacity: u64,
    pub(super) sized_by: SizedBy,
    pub(super) denies: bool,
    pub(super) bits: AddressBits,
    pub(super) now_ns: u64,
    /// The length of the snapshot.
    pub(super) bytes: u64,
}

impl Entry {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut to = Vec::new();
        for number in [self.capacity, self.now_ns, self.bytes] {
            to.extend(number.to_le_bytes());
        }
        let AddressBits { v4, v6 } = self.bits;
        to.extend([self.denies.into(), v4.unwrap_or(0), v6.unwrap_or(0)]);
        let weight = if let SizedBy::Share(weight) = self.sized_by { weight } else { 0 };
        to.extend(weight.to_le_bytes());
        let planned_for = self.planned_for.map(|policy| policy.to_string()).unwrap_or_default();
        for text in [&self.domain, &self.rule, &self.place, &self.policy.to_string(), &planned_for]
        {
            // If a text is too long for `u32`, the whole head is too long, and is refused.
            to.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
            to.extend(text.as_bytes());
        }
        to
    }

    pub(super) fn from_bytes(head: &[u8]) -> Result<Self, StateError> {
        let mut fields = Fields(head);
        let [capacity, now_ns, bytes] = [fields.u64()?, fields.u64()?, fields.u64()?];
        let [denies, v4, v6] = fields.array()?;
        let sized_by = match fields.u32()? {
            0 => SizedBy::Number,
            weight => SizedBy::Share(weight),
        };
        let bits = |bits: u8| Some(bits).filter(|bits| *bits > 0);
        let [domain, rule, place] = [fields.text()?, fields.text()?, fields.text()?];
        let policy = policy(fields.text()?)?;
        let planned_for = Some(fields.text()?).filter(|text| !text.is_empty());
        let planned_for = planned_for.map(self::policy).transpose()?;
        fields.end()?;
        Ok(Self {
            domain: domain.into(),
            rule: rule.into(),
            place: place.into(),
            policy,
            planned_for,
            capacity,
            sized_by,
            denies: denies == 1,
            bits: AddressBits { v4: bits(v4), v6: bits(v6) },
            now_ns,
            bytes,
        })
    }

    pub(super) fn id(&self) -> Result<RuleId, StateError> {
        let unknown =
            || StateError::damaged(format!("names a rule {:?}, which none is called", self.rule));
        RuleId::parse(&self.domain, &self.rule).ok_or_else(unknown)
    }

    pub(super) fn table_bytes(&self) -> Result<u64, StateError> {
        let planned_for = self.planned_for.unwrap_or(self.policy);
        memory::table_bytes(planned_for, self.shape())
            .map_err(|error| StateError::Table { rule: self.name(), error: Box::new(error.into()) })
    }

    fn shape(&self) -> TableShape {
        let capacity = usize::try_from(self.capacity).unwrap_or(usize::MAX);
        let on_full = if self.denies { OnFull::Deny } else { OnFull::Spill };
        TableShape { capacity, on_full, bits: self.bits }
    }

    fn name(&self) -> String {
        format!("{}.{}", self.domain, self.rule).escape_debug().to_string()
    }

    /// Restores the table from its snapshot.
    pub(super) fn table(
        &self,
        clock: &Clock,
        snapshot: impl Read,
    ) -> Result<CarriedTable, StateError> {
        let Self { policy, denies, .. } = *self;
        let table = match self.planned_for {
            Some(_) => {
                let table = tiers(policy, denies).clock(clock.clone()).restore(snapshot);
                table.map(RuleTable::Changing)
            }
            None => {
                let table = KeyedLimiter::builder(policy).clock(clock.clone()).restore(snapshot);
                table.map(RuleTable::Fixed)
            }
        };
        let refused = |error| StateError::Table { rule: self.name(), error: Box::new(error) };
        let table = table.map_err(refused)?;
        let TableShape { capacity, bits, .. } = self.shape();
        if table.stats().capacity != capacity {
            let text =
                format!("says that {} has {capacity} clients; its table differs", self.name());
            return Err(StateError::damaged(text));
        }
        Ok(CarriedTable {
            table: Arc::new(table),
            policy,
            capacity,
            sized_by: self.sized_by,
            place: self.place.as_str().into(),
            denies,
            bits,
            bytes: self.table_bytes()?,
            planned_for: self.planned_for,
        })
    }
}

fn policy(text: &str) -> Result<Policy, StateError> {
    let refused = |error| StateError::damaged(format!("has a policy {text:?}: {error}"));
    text.parse().map_err(|error: tollgate::PolicyError| refused(error))
}

/// The part of a head that is not parsed yet.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let short = || StateError::damaged("has a head that is too short");
        let (array, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(super) fn u32(&mut self) -> Result<u32, StateError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, StateError> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'a str, StateError> {
        let length = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        let short = || StateError::damaged("has a head that is too short");
        let (text, rest) = self.0.split_at_checked(length).ok_or_else(short)?;
        self.0 = rest;
        str::from_utf8(text).map_err(|_| StateError::damaged("has a name that is no UTF-8"))
    }

    pub(super) fn end(self) -> Result<(), StateError> {
        let long = || StateError::damaged("has a head that is too long");
        if self.0.is_empty() { Ok(()) } else { Err(long()) }
    }
}
