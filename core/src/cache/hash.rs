//! Hashes that never change: names and checksums of files must mean the same to every build, compiler and platform.

use twox_hash::XxHash64;

/// 128 bits of hash from two unrelated functions (XXH64 above, FNV-1a below), for names of files.
///
/// Stable for ever. Not for secrets: whoever wants to can construct two equal ones, so a reader compares full keys as well.
///
/// ```
/// assert_eq!(millstream_core::cache::stable_hash(b""), 0xef46_db37_51d8_e999_cbf2_9ce4_8422_2325);
/// ```
pub fn stable_hash(bytes: &[u8]) -> u128 {
    u128::from(xxh64(bytes, 0)) << 64 | u128::from(fnv1a(bytes))
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// XXH64.
pub(super) fn xxh64(bytes: &[u8], seed: u64) -> u64 {
    XxHash64::oneshot(seed, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_of_both_functions_are_met() {
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(xxh64(b"", 0), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"a", 0), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(xxh64(b"abc", 0), 0x44bc_2cf5_ad77_0999);
        assert_eq!(xxh64(b"Nobody inspects the spammish repetition", 0), 0xfbce_a83c_8a37_8bf1);
    }

    #[test]
    fn every_bit_of_every_length_counts() {
        for len in 1..100usize {
            let plain: Vec<u8> = (0..len).map(|i| (i * 37) as u8).collect();
            let hash = stable_hash(&plain);
            for bit in 0..len * 8 {
                let mut changed = plain.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                let other = stable_hash(&changed);
                assert!(hash >> 64 != other >> 64 && hash as u64 != other as u64, "{len} bytes, bit {bit}");
            }
        }
    }
}
