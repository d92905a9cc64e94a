//! Snapshots of a table of several quotas: they have the quotas, and each word has the index of its own.
//!
//! Its words stand in the file as those of a table of one quota do. Before them stands the *book*: for each tier the
//! index that its words carry, its policy, and how that divides words. The copy holds the right to change a
//! quota, so while it is taken no thread does; and a change has brought every word over before it gives that right
//! back. So no word in the file carries the index of a quota that is not in it.
//!
//! A restore is given the tiers, as a restore of a single policy is given that. Every tier must be the one that the file has, and divide the file's
//! words as the file says. Headroom must fit beside them: it may be another than before.

use crate::clock::Clock;
use crate::snapshot::{Preamble, RestoreError, SnapshotKind as Whose, field};

use super::restore::Expected;
use crate::keyed::memory::layout::Shared;
use crate::keyed::quotas::book::index_bits_for;
use crate::keyed::quotas::book::saved::form_of;
use crate::keyed::verbs::tiers::Tiers;

impl Tiers {
    /// The division of the file's words that all tiers share, and each tier's own.
    pub(in crate::keyed) fn shared_of(
        &self,
        preamble: &Preamble,
        clock: &Clock,
    ) -> Result<Expected, RestoreError> {
        // The tiers and the headroom, as for a table that is built.
        let all = self.checked()?;
        // A file of one policy has no book, and its words have no index.
        preamble.is_of_kind(Whose::Tiers)?;
        let (form, tiers) = (preamble.form, self.count());
        // A file of one policy has the fineness of its ticks in this place. This one has the number of its tiers.
        if form.fineness != tiers as u64 {
            return Err(RestoreError::Policy(format!(
                "the snapshot's number of tiers is {}; it must be {tiers}",
                form.fineness,
            )));
        }
        // The policies stand in the book, one for each tier.
        field("length of the policy", preamble.policy.len() as u64, 0)?;
        // The file's own widths are taken and not those of a new plan, since words are not divided anew.
        let shared = Shared::of(index_bits_for(tiers), form.tag_bits.into(), form.epoch)
            .ok_or_else(|| RestoreError::layout(form, "with tags of 24 to 32 bits"))?;
        let expected = form_of(shared, tiers, form.back);
        // No table of so many tiers divides its words as the file says.
        if form != expected {
            return Err(RestoreError::layout(form, expected));
        }
        preamble.has_origin(clock.origin())?;
        // Headroom is among them: the file's words have to have room for it, too.
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
