//! A book in a file: for each tier the index that its words carry, its policy, and how that policy divides words.

use std::io::Read;

use super::{Book, FormerQuota, index_bits_for, indices_for};
use crate::algorithm::Former;
use crate::keyed::memory::layout::{Coded, Layout, Shared};
use crate::keyed::memory::shard::{CELLS, GRANULE_BITS};
use crate::policy::{NUMBERS, Policy};
use crate::snapshot::{Form, Reader, RestoreError};

/// The number of words for a policy.
const POLICY_WORDS: usize = NUMBERS;

/// The number of words per tier: for its index, its policy, how that policy divides words, and the former quota of a
/// surplus.
const WORDS_PER_TIER: usize =
    1 + POLICY_WORDS + size_of::<Coded>() / size_of::<u64>() + FORMER_WORDS;

/// The number of words for the quota under which a surplus was spent: its policy, two instants, and the most units of a
/// surplus. All are 0 if there is no such quota.
const FORMER_WORDS: usize = POLICY_WORDS + 3;

/// The division of words in a table of this book, as a file has it. `latest_ns` is the instant of the last change.
pub(in crate::keyed) fn form(book: &Book, latest_ns: u64) -> Form {
    form_of(book.shared(), book.tiers(), latest_ns)
}

/// The book, as a file has it. The caller has the right to change the book.
pub(in crate::keyed) fn words(book: &Book) -> Vec<u64> {
    let of_tier = |(tier, index): (usize, usize)| {
        // Every tier of the book has a policy, so this is never `None`.
        let policy = book.policy(tier).map_or([0; POLICY_WORDS], |policy| policy.numbers());
        let code = Shared::code(&book.in_force(tier).layout);
        let (former, name) = book.named_former(index);
        // All three are 0 if the quota has never been changed.
        let numbers = |Former { at_ns, until_ns, most, .. }| [at_ns, until_ns, most];
        let former = name.into_iter().chain(former.map_or([0; 3], numbers));
        std::iter::once(index as u64).chain(policy).chain(code).chain(former)
    };
    book.indices().enumerate().flat_map(of_tier).collect()
}

/// The number of words of a book with this number of tiers.
pub(in crate::keyed) fn words_of(tiers: usize) -> u64 {
    (tiers * WORDS_PER_TIER) as u64
}

/// The division of words, as a file has it. `latest_ns` is the instant of the last change.
#[expect(clippy::cast_possible_truncation, reason = "7 cells, 20 bits, up to 5 of an index")]
pub(in crate::keyed) fn form_of(shared: Shared, tiers: usize, latest_ns: u64) -> Form {
    Form {
        cells: CELLS as u8,
        granule_bits: GRANULE_BITS as u8,
        // Three of the fields would differ from quota to quota. In a table of several quotas they hold something else:
        // the bits of an index, the number of tiers, and the instant of the last change.
        count_bits: index_bits_for(tiers) as u8,
        time_bits: 0,
        tag_bits: shared.division().tag_bits,
        fineness: tiers as u64,
        epoch: shared.epoch,
        back: latest_ns,
        end_quantum_ns: 0,
    }
}

/// Reads the book, and returns for each tier its index and the former quota of a surplus. The quotas and layouts in the
/// file must be those that the caller gives.
pub(in crate::keyed) fn read_book<R: Read>(
    reader: &mut Reader<R>,
    shared: Shared,
    quotas: &[(Policy, Layout)],
) -> Result<Vec<(usize, Option<FormerQuota>)>, RestoreError> {
    let mut indices: Vec<(usize, Option<FormerQuota>)> = Vec::with_capacity(quotas.len());
    for (tier, (policy, layout)) in quotas.iter().enumerate() {
        // The words come in the order in which `words` wrote them.
        let index = reader.word()?;
        let mut numbers = [0; POLICY_WORDS];
        for number in &mut numbers {
            *number = reader.word()?;
        }
        let mut code = Coded::default();
        for number in &mut code {
            *number = reader.word()?;
        }
        // In the file the tier has another quota, so its words would be read in the wrong ticks.
        if numbers != policy.numbers() {
            // If this version knows no policy with these numbers, the error says so.
            let unknown = || "of no policy".to_string();
            let found = Policy::of_numbers(numbers).map_or_else(unknown, |found| found.to_string());
            let expected = policy.to_string();
            return Err(RestoreError::Policy(format!(
                "tier {tier} was {found:?} when the snapshot was taken; only one that was \
                 {expected:?} is read",
            )));
        }
        let expected = Shared::code(layout);
        // The quota is the same, but it divides words in another way than this version does.
        if code != expected {
            let [found, expected] = [code, expected].map(|code| format!("{code:?}"));
            return Err(RestoreError::layout(found, expected));
        }
        let former = read_former(reader, shared, tier)?;
        let is_taken = |index: &usize| indices.iter().any(|(taken, _)| taken == index);
        let free = (0..indices_for(quotas.len())).filter(|index| !is_taken(index));
        let free = free.map(|index| index as u64).collect::<Vec<_>>();
        // The index is out of range, or another tier has it.
        if !free.contains(&index) {
            let expected = free.first().copied().unwrap_or(0); // there are more indices than tiers
            return Err(RestoreError::field("index of a tier", index, expected));
        }
        // No two tiers may have the same index, so an index that has been read is no longer free.
        indices.push((usize::try_from(index).unwrap_or(0), former)); // one of the free ones
    }
    Ok(indices)
}

/// Reads the quota under which a surplus of a tier's words was spent.
fn read_former<R: Read>(
    reader: &mut Reader<R>,
    shared: Shared,
    tier: usize,
) -> Result<Option<FormerQuota>, RestoreError> {
    let mut numbers = [0; FORMER_WORDS];
    for number in &mut numbers {
        *number = reader.word()?;
    }
    // The quota of the tier has never been changed.
    if numbers == [0; FORMER_WORDS] {
        return Ok(None);
    }
    let (policy, rest) = numbers.split_at(POLICY_WORDS);
    let [at_ns, until_ns, most] = <[u64; 3]>::try_from(rest).unwrap_or_default();
    // The policy must be one that words of this division can count. Otherwise the file is not of such a table.
    let policy = <[u64; POLICY_WORDS]>::try_from(policy).ok().and_then(Policy::of_numbers);
    let former = policy.and_then(|policy| {
        let kernel = shared.layout(&policy)?.kernel;
        (most > 0)
            .then_some(FormerQuota { former: Former { kernel, at_ns, until_ns, most }, policy })
    });
    let unknown = || {
        RestoreError::Policy(format!(
            "the quota that tier {tier} had before its last change is none that its words can count"
        ))
    };
    former.map(Some).ok_or_else(unknown)
}
