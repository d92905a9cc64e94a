//! Tests of keys: different parts give different keys, all of one length.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq)]
enum PushedPart {
    Text(Vec<u8>),
    Secret(Vec<u8>),
    Absent,
}

fn key(parts: &[PushedPart]) -> Key {
    let mut key = Key::new();
    for part in parts {
        match part {
            PushedPart::Text(text) => key.push(text),
            PushedPart::Secret(text) => key.push_digest(text),
            PushedPart::Absent => key.push_absent(),
        }
    }
    key
}

/// Replaces each long text by a secret, because a key stores its digest.
fn canonical(parts: Vec<PushedPart>) -> Vec<PushedPart> {
    let long = |part| match part {
        PushedPart::Text(text) if text.len() > SHORT_MAX => PushedPart::Secret(text),
        part => part,
    };
    parts.into_iter().map(long).collect()
}

fn part() -> impl Strategy<Value = PushedPart> {
    // Texts of bytes that have a meaning in the encoding; their lengths include those around its bounds.
    let byte = prop_oneof![Just(0_u8), Just(1), Just(LONG), Just(FOLDED), Just(ABSENT)];
    let text = prop::collection::vec(byte, 0..70);
    prop_oneof![
        4 => text.clone().prop_map(PushedPart::Text),
        1 => text.prop_map(PushedPart::Secret),
        1 => Just(PushedPart::Absent),
    ]
}

proptest! {
    #[test]
    fn different_parts_are_different_keys(
        one in prop::collection::vec(part(), 0..6),
        other in prop::collection::vec(part(), 0..6),
    ) {
        let (one, other) = (canonical(one), canonical(other));
        prop_assert_eq!(key(&one) == key(&other), one == other);
    }

    #[test]
    fn a_part_cut_elsewhere_is_another_key(
        text in prop::collection::vec(any::<u8>(), 1..60),
        cuts in (0_usize..60, 0_usize..60),
    ) {
        let cut = |at: usize| {
            let (left, right) = text.split_at(at % (text.len() + 1));
            [PushedPart::Text(left.to_vec()), PushedPart::Text(right.to_vec())]
        };
        let (one, other) = (cut(cuts.0), cut(cuts.1));
        prop_assert_eq!(key(&one) == key(&other), one == other);
    }
}

/// A key of this many bytes, at least 65.
fn of_length(bytes: usize) -> Key {
    let mut key = Key::new();
    key.push(&[7; SHORT_MAX]);
    key.push(&vec![8; bytes - 65]);
    key
}

fn digest(mark: u8, bytes: &[u8]) -> Vec<u8> {
    [&[mark], &Sha256::digest(bytes)[..]].concat()
}

#[test]
fn a_part_of_up_to_63_bytes_is_kept_as_it_is_and_a_longer_one_as_its_digest() {
    let full = of_length(109);
    let assert_kept = |part: &[u8], kept: Vec<u8>| {
        let (mut alone, mut behind) = (Key::new(), full);
        alone.push(part);
        behind.push(part);
        assert_eq!(alone.as_bytes(), kept);
        assert_eq!(behind.as_bytes(), [digest(FOLDED, full.as_bytes()), kept].concat());
    };
    for length in [2, 50, 62, 63] {
        let part = vec![9; usize::from(length)];
        assert_kept(&part, [&[length], &part[..]].concat());
    }
    for length in [64, 65, 1_000] {
        let part = vec![9; length];
        assert_kept(&part, digest(LONG, &part));
    }
}

#[test]
fn a_key_is_folded_if_a_part_does_not_fit_and_not_before() {
    type Push = fn(&mut Key);
    let pushes: [(Vec<u8>, Push); 3] = [
        (vec![ABSENT], Key::push_absent),
        (digest(LONG, b"secret"), |key| key.push_digest(b"secret")),
        (b"\x03GET".to_vec(), |key| key.push(b"GET")),
    ];
    for (kept, push) in pushes {
        let start = KEY_BYTES - kept.len();
        let (mut fits, mut folds) = (of_length(start), of_length(start + 1));
        let (before, folded) = (fits, digest(FOLDED, folds.as_bytes()));
        push(&mut fits);
        push(&mut folds);
        assert_eq!(fits.as_bytes(), [before.as_bytes(), &kept].concat());
        assert_eq!(folds.as_bytes(), [folded, kept].concat());
    }
}

#[test]
fn a_tier_is_kept_when_a_key_is_folded_and_none_is_made_up() {
    let mut key = of_length(KEY_BYTES);
    key.set_tier(Some(3));
    key.push(b"more");
    assert_eq!((key.as_bytes()[0], key.tier()), (FOLDED, Some(3)));
    for (set, found) in [(None, None), (Some(255), None), (Some(254), Some(254))] {
        key.set_tier(set);
        assert_eq!(key.tier(), found);
    }
    assert_ne!(key, Key { tier: 0, ..key });
}

#[test]
fn no_parts_give_the_key_of_requests_that_have_none() {
    assert_eq!(Key::nobody().as_bytes(), [NOBODY]);
    assert_ne!(Key::nobody(), Key::new());
}

/// A hasher that records what is written to it.
#[derive(Default)]
struct RecordingHasher(Vec<u8>);

impl Hasher for RecordingHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

#[test]
fn no_key_gives_the_hash_what_another_begins_with() {
    let given = |key: &Key| {
        let mut hasher = RecordingHasher::default();
        key.hash(&mut hasher);
        hasher.0
    };
    let mut keys = vec![Key::new(), Key::nobody()];
    for length in 0..40 {
        for byte in [0, 1, 7, 8, 39] {
            let mut key = Key::new();
            key.push(&vec![byte; length]);
            keys.push(key);
            key.push(b"");
            keys.push(key);
            key.push_absent();
            keys.push(key);
            // This key and other keys of its length may differ in the last byte alone.
            let mut key = Key::new();
            key.push(&[&vec![7; length][..], &[byte]].concat());
            keys.push(key);
        }
    }
    let given: Vec<_> = keys.iter().map(|key| (key, given(key))).collect();
    for (one, of_one) in &given {
        for (other, of_other) in given.iter().filter(|(other, _)| other != one) {
            assert!(!of_other.starts_with(of_one), "{one:?}, {other:?}");
        }
    }
}

#[test]
fn a_key_of_any_length_takes_the_same_memory() {
    let mut key = Key::new();
    let mut seen = Vec::new();
    for _ in 0..1_000 {
        key.push(&[7; SHORT_MAX]);
        assert!(!seen.contains(&key));
        seen.push(key);
    }
    assert_eq!(size_of::<Key>(), KEY_BYTES + 2);
}
