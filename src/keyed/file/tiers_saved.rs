//! Snapshots of a table of several quotas: the file has the quotas, and each word has the index of its quota.
//!
//! The words are written as for a table of one quota. The *book* comes before them. For each tier it has the index that
//! the tier's words carry, the tier's policy, and how that policy divides words. The snapshot holds the right to change
//! quotas, so no thread changes a quota while the table is copied. A change of a quota re-bases every word of the old
//! quota before it gives this right back. So every word in the file carries the index of a quota in the file.
//!
//! The caller gives the tiers to a restore, as it would give a single policy. Every tier must be the same as in the
//! file, and must divide words in the same way. The headroom (policies that a tier may change to) may differ from that
//! of the old table, but must fit in the file's words.

use crate::clock::Clock;
use crate::snapshot::{Preamble, RestoreError, SnapshotKind as Whose, field};

use super::restore::Expected;
use crate::keyed::memory::layout::Shared;
use crate::keyed::quotas::book::index_bits_for;
use crate::keyed::quotas::book::saved::form_of;
use crate::keyed::verbs::tiers::Tiers;

impl Tiers {
    /// Returns the division of words that the tiers of an accepted file share, and the layout of each tier.
    pub(in crate::keyed) fn shared_of(
        &self,
        preamble: &Preamble,
        clock: &Clock,
    ) -> Result<Expected, RestoreError> {
        // The tiers and the headroom must pass the checks for a new table.
        let all = self.checked()?;
        // A file of one policy has no book, and its words have no index.
        preamble.is_of_kind(Whose::Tiers)?;
        let (form, tiers) = (preamble.form, self.count());
        // In a file of one policy this field is the fineness of its ticks. Here it is the number of tiers.
        if form.fineness != tiers as u64 {
            return Err(RestoreError::Policy(format!(
                "the snapshot's number of tiers is {}; it must be {tiers}",
                form.fineness,
            )));
        }
        // The policies are in the book, one for each tier, so the preamble has none.
        field("length of the policy", preamble.policy.len() as u64, 0)?;
        // The widths of the fields come from the file and not from a new plan, since a restore keeps the words as they
        // are.
        let shared = Shared::of(index_bits_for(tiers), form.tag_bits.into(), form.epoch)
            .ok_or_else(|| RestoreError::layout(form, "with tags of 24 to 32 bits"))?;
        let expected = form_of(shared, tiers, form.back);
        // The file's division of words is refused if no table with this number of tiers would have it.
        if form != expected {
            return Err(RestoreError::layout(form, expected));
        }
        preamble.has_origin(clock.origin())?;
        // `all` includes the headroom: the file's words must have room for it, too.
        if let Some(policy) = all.iter().find(|policy| shared.layout(policy).is_none()) {
            return Err(RestoreError::Policy(format!(
                "{:?} does not fit in the snapshot's words; use a smaller burst or limit, or leave \
                 it out of the headroom",
                policy.to_string(),
            )));
        }
        let refused = || RestoreError::layout(form, "such that all tiers fit");
        let quotas = self.in_words_of(shared).ok_or_else(refused)?;
        let policy = quotas[0].0; // there is a first tier
        Ok(Expected { shared: Some(shared), policy, quotas })
    }
}
