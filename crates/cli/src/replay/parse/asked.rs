//! [`Asked`]: the parts that are to be read from each line.

use crate::replay::condition::Condition;
use crate::replay::key::LineKey;
use crate::replay::wanted::Wanted;

/// The parts to read from each line.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(super) wanted: Wanted,
    pub(super) conditions: Vec<Condition>,
    /// The parts of `wanted`, followed by the parts of the conditions.
    pub(super) parts: Vec<LineKey>,
    /// The field of the time in JSON lines, if it differs from that of the format.
    pub(super) time_field: Option<String>,
}

impl Asked {
    pub(crate) fn new(wanted: Wanted, conditions: &[Condition], time_field: Option<&str>) -> Self {
        let of_conditions = conditions.iter().map(Condition::key);
        let parts = wanted.keys().iter().chain(of_conditions).cloned().collect();
        let (conditions, time_field) = (conditions.to_vec(), time_field.map(str::to_owned));
        Self { wanted, conditions, parts, time_field }
    }

    /// Returns the same parts, all joined in one key, so that the readings of two formats can be compared.
    pub(super) fn joined(&self) -> Self {
        Self::new(Wanted::Joined(self.parts.clone()), &[], self.time_field.as_deref())
    }

    /// Returns a request for the time alone.
    pub(super) fn of_times(&self) -> Self {
        Self::new(Wanted::Joined(Vec::new()), &[], self.time_field.as_deref())
    }
}
