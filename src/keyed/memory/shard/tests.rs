use super::*;
use crate::keyed::memory::layout::Layout;

#[test]
fn nonces_repeat_only_after_the_counter_has_turned() {
    let shard = Shard::new(5);
    // The counter is in the lowest bits, which every claim has room for. The bits of the floor follow.
    for count in 0..4096 {
        assert_eq!(shard.take_nonce(), count | 5 << 12);
    }
    assert_eq!(shard.take_nonce(), 5 << 12);
    assert_eq!(shard.header().floor(), 5);
}

#[test]
fn a_publication_fails_when_an_install_has_begun_meanwhile() {
    let shard = Shard::new(5);
    let seen = shard.header();
    shard.take_nonce();
    assert!(!shard.publish(seen, 6));
    let seen = shard.header();
    assert_eq!(shard.enter(), seen);
    assert!(!shard.publish(seen, 6));
    assert!(shard.publish(shard.header(), 6));
    assert_eq!(shard.header().floor(), 6);
}

/// Tests words that differ from the tag in one bit each, the tag's own word, vacant cells and claims.
#[test]
fn hints_name_the_first_live_word_of_a_tag_and_the_cells_that_are_vacant() {
    for policy in ["gcra 10/m burst 10", "gcra 1000000/s burst 1000", "fixed-window 100/m"] {
        let layout = Layout::plan(&policy.parse().expect("a policy")).expect("a layout");
        let tag =
            0x5a5a_5a5a_5a5a_5a5a >> 1 & (u64::MAX << layout.division.state_bits) & (u64::MAX >> 1);
        let words = (0..64).map(|bit| tag ^ 1 << bit).chain([0, tag, 1 << 63, u64::MAX]);
        for (word, cell) in words.flat_map(|word| (0..CELLS).map(move |cell| (word, cell))) {
            for others in [0, !tag, tag ^ 1 << 62, 1 << 63 | tag] {
                let mut all = [others; CELLS];
                all[cell] = word;
                let shard = Shard::holding(Header::first(tag), all.map(TableWord::from_bits));
                // A hint by vector instructions compares only the topmost bits; a hint word by word compares all bits
                // of the tag.
                let by_bits = |lowest: u32| (word >> lowest == tag >> lowest).then_some(cell);
                let told = shard.portable(tag, layout.division.state_bits).first();
                assert_eq!(told, by_bits(layout.division.state_bits), "{word:x} among {others:x}");
                if cfg!(all(target_arch = "x86_64", not(miri))) {
                    let told = shard.hint(Tag::from_bits(tag), layout.division.state_bits);
                    assert_eq!(told, by_bits(39), "{word:x} among {others:x}");
                }
                let told = shard.vacant();
                let expected = all.iter().filter(|&&word| word == 0).count();
                assert_eq!(told.count(), expected, "{word:x} among {others:x}");
                assert_eq!(told.first(), all.iter().position(|&word| word == 0));
                assert_eq!(told.0, shard.portable(0, 0).0);
            }
        }
    }
}
