//! The slot of a cluster that a key is in: the CRC16 of its hash tag, as the Redis Cluster specification says.

use std::sync::OnceLock;

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The CRC-16/XMODEM of each possible byte.
const TABLE: [u16; 256] = {
    let mut table = [0_u16; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

/// The slot of a key. It is the slot of the key's hash tag, the text between the first `{` and the next `}`. If the tag
/// is missing or empty, the slot is that of the whole key.
pub(crate) fn of_key(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let inside = &key[open + 1..];
        let close = inside.iter().position(|byte| *byte == b'}').filter(|close| *close > 0)?;
        Some(&inside[..close])
    });
    let next = |crc: u16, byte: &u8| {
        let [high, low] = crc.to_be_bytes();
        u16::from_be_bytes([low, 0]) ^ TABLE[usize::from(high ^ byte)]
    };
    tag.unwrap_or(key).iter().fold(0, next) % SLOTS
}

/// A number whose decimal digits form a key in this slot.
pub(crate) fn number_in(slot: u16) -> u32 {
    static NUMBERS: OnceLock<Box<[u32]>> = OnceLock::new();
    let numbers = NUMBERS.get_or_init(|| {
        let mut numbers = vec![None; usize::from(SLOTS)];
        let mut missing = numbers.len();
        for number in 0.. {
            let entry = &mut numbers[usize::from(of_key(number.to_string().as_bytes()))];
            if entry.is_none() {
                *entry = Some(number);
                missing -= 1;
                // Six digits are enough: their CRCs take every value.
                if missing == 0 {
                    break;
                }
            }
        }
        numbers.into_iter().flatten().collect()
    });
    numbers[usize::from(slot % SLOTS)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the test value of the specification, and with slots that a redis-server computed (`CLUSTER
    /// KEYSLOT`).
    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(of_key(b"123456789"), 0x31c3 % SLOTS);
        assert_eq!([b"foo".as_slice(), b"{foo}.bar", b"a{foo}{bar}"].map(of_key), [12_182; 3]);
        assert_eq!(of_key(b"{}foo"), 9_500);
        assert_ne!(of_key(b"{foo"), of_key(b"foo"));
    }

    #[test]
    fn every_slot_has_a_number() {
        for slot in 0..SLOTS {
            assert_eq!(of_key(number_in(slot).to_string().as_bytes()), slot);
        }
    }
}
