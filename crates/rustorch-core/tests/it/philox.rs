//! Random numbers by Philox.

use rustorch_core::{PhiloxKey, philox4x32};

// Known answers of the Random123 distribution (tests/kat_vectors, philox4x32 with 10 rounds).
#[test]
fn known_answers() {
    assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox4x32([!0; 4], [!0; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    assert_eq!(
        philox4x32([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
    );
}

#[test]
fn subsequences_share_no_block() {
    let key = PhiloxKey { seed: 7 << 32 | 3, offset: (1 << 32) - 2 };
    for index in 0..4u64 {
        let mut random = key.subsequence(index);
        let upper = key.offset + index + 1;
        for block in 0..3 {
            let words: [u32; 4] = std::array::from_fn(|_| random.next_u32());
            assert_eq!(words, philox4x32([block, 0, upper as u32, (upper >> 32) as u32], [3, 7]));
        }
        assert_eq!(
            key.block(index),
            philox4x32([(upper - 1) as u32, ((upper - 1) >> 32) as u32, 0, 0], [3, 7])
        );
    }
}
