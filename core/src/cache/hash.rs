//! Hashes that never change: names and checksums of files must mean the same to every build, compiler and platform.

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

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

fn round(sum: u64, lane: u64) -> u64 {
    sum.wrapping_add(lane.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

/// The XXH64 function as its specification defines it.
pub(super) fn xxh64(bytes: &[u8], seed: u64) -> u64 {
    let (stripes, rest) = bytes.as_chunks::<32>();
    let mut hash = if stripes.is_empty() {
        seed.wrapping_add(P5)
    } else {
        let mut lanes_acc =
            [seed.wrapping_add(P1).wrapping_add(P2), seed.wrapping_add(P2), seed, seed.wrapping_sub(P1)];
        for stripe in stripes {
            for (sum, lane) in lanes_acc.iter_mut().zip(stripe.as_chunks::<8>().0) {
                *sum = round(*sum, u64::from_le_bytes(*lane));
            }
        }
        let rotated = lanes_acc.iter().zip([1, 7, 12, 18]).fold(0u64, |h, (s, by)| h.wrapping_add(s.rotate_left(by)));
        lanes_acc.iter().fold(rotated, |h, &s| (h ^ round(0, s)).wrapping_mul(P1).wrapping_add(P4))
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    let (lanes, rest) = rest.as_chunks::<8>();
    for lane in lanes {
        hash = (hash ^ round(0, u64::from_le_bytes(*lane))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
    }
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        let word = u64::from(u32::from_le_bytes(*word));
        hash = (hash ^ word.wrapping_mul(P1)).rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
    }
    for &byte in rest {
        hash = (hash ^ u64::from(byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(P2);
    hash = (hash ^ hash >> 29).wrapping_mul(P3);
    hash ^ hash >> 32
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
