//! The descriptors that the lines of a log give, each stored once.

use indexmap::IndexSet;
use tollgate_rules::{Descriptor, DescriptorEntry};

use crate::replay::clients::ClientsBy;
use crate::replay::gather::Keys;
use crate::replay::key::LineKey;
use crate::replay::mapping::{Mapping, Pair, name};
use crate::replay::wanted::{Wanted, parts};

/// All `--descriptor` options together.
#[derive(Debug)]
pub(super) struct Mappings<'m> {
    mappings: &'m [Mapping],
    /// The fields that the mappings read, without repetition.
    fields: Vec<LineKey>,
}

impl<'m> Mappings<'m> {
    pub(super) fn new(mappings: &'m [Mapping]) -> Self {
        let mut fields: Vec<LineKey> = Vec::new();
        for field in mappings.iter().flat_map(Mapping::fields) {
            if !fields.contains(field) {
                fields.push(field.clone());
            }
        }
        Self { mappings, fields }
    }

    /// Returns the fields to read from a line.
    pub(super) fn wanted(&self, clients: &ClientsBy) -> Wanted {
        Wanted::Row(self.fields.iter().map(|field| field.by(clients)).collect())
    }

    /// Returns the descriptors of a line with these values.
    pub(super) fn of_row(&self, row: &[u8]) -> impl Iterator<Item = Vec<Pair>> {
        // Rules are text: invalid UTF-8 is replaced, as it would be on its way to a service.
        let values: Vec<_> = parts(row).map(String::from_utf8_lossy).collect();
        self.mappings.iter().filter_map(move |mapping| {
            mapping.descriptor(|key| {
                let place = self.fields.iter().position(|field| field == key);
                place.and_then(|place| values.get(place)).map_or("-", |value| value.as_ref())
            })
        })
    }
}

/// Every descriptor of a log, and the descriptors that each row gives.
#[derive(Debug)]
pub(super) struct Descriptors {
    /// The names of descriptors, by number, followed by those of requests with several descriptors.
    pub(super) names: Keys,
    pairs: IndexSet<Vec<Pair>, ahash::RandomState>,
    rows: Vec<RowText>,
}

/// The descriptors of a row.
#[derive(Debug)]
struct RowText {
    name: usize,
    descriptors: Vec<usize>,
}

impl Descriptors {
    pub(super) fn new(mappings: &Mappings<'_>, rows: &Keys) -> Self {
        let mut pairs = IndexSet::<Vec<Pair>, ahash::RandomState>::default();
        let mut number = |made: Vec<Pair>| pairs.insert_full(made).0;
        let rows: Vec<Vec<usize>> =
            rows.iter().map(|row| mappings.of_row(row).map(&mut number).collect()).collect();
        // Different descriptors have different names, so names and descriptors have the same
        // numbers.
        let mut names: Keys = pairs.iter().map(|pairs| name(pairs).into_bytes().into()).collect();
        let text = |descriptors: Vec<usize>| {
            let of = |n: &usize| String::from_utf8_lossy(&names[*n]).into_owned();
            let all = descriptors.iter().map(of).collect::<Vec<_>>().join("; ");
            let name = names.insert_full(all.into_bytes().into()).0;
            RowText { name, descriptors }
        };
        let rows = rows.into_iter().map(text).collect();
        Self { names, pairs, rows }
    }

    /// Returns the entries of each descriptor, in the form of the rules, in the order of the descriptors' numbers.
    pub(super) fn entries(&self) -> Vec<Vec<DescriptorEntry<'_>>> {
        self.pairs.iter().map(|pairs| pairs.iter().map(entry).collect()).collect()
    }

    /// Returns the request of each row. `entries` are those that `Self::entries` returns.
    pub(super) fn requests<'e>(
        &self,
        entries: &'e [Vec<DescriptorEntry<'e>>],
    ) -> Vec<DescriptorRow<'e>> {
        let row = |row: &RowText| DescriptorRow {
            name: row.name,
            numbers: row.descriptors.clone(),
            descriptors: row.descriptors.iter().map(|n| Descriptor::new(&entries[*n])).collect(),
        };
        self.rows.iter().map(row).collect()
    }
}

/// Returns a key and a value in the form of the rules.
pub(super) fn entry((key, value): &Pair) -> DescriptorEntry<'_> {
    (key, value)
}

/// The request of all lines with one row.
#[derive(Debug)]
pub(super) struct DescriptorRow<'e> {
    /// The number of its name.
    pub(super) name: usize,
    /// The numbers of its descriptors, in the order of the mappings.
    pub(super) numbers: Vec<usize>,
    pub(super) descriptors: Vec<Descriptor<'e>>,
}
