//! The counter-based random generator behind every random operation.

/// Philox4x32-10: a function from a 128-bit counter and a 64-bit key to 128 random bits.
///
/// Salmon, Moraes, Dror, Shaw: *Parallel random numbers: as easy as 1, 2, 3*, SC 2011. Being a pure function it gives
/// the same numbers whatever the order, the thread or the device that asks for them.
#[inline]
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round != 0 {
            key[0] = key[0].wrapping_add(0x9E37_79B9);
            key[1] = key[1].wrapping_add(0xBB67_AE85);
        }
        let a = u64::from(counter[0]) * 0xD251_1F53;
        let b = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
    }
    counter
}

/// A stream of random numbers: a seed, and how many blocks of four 32-bit words have been used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct PhiloxKey {
    /// The seed.
    pub seed: u64,
    /// The first block to use.
    pub offset: u64,
}

impl PhiloxKey {
    /// The four words of block `index` after the offset.
    #[inline]
    pub fn block(self, index: u64) -> [u32; 4] {
        let n = self.offset.wrapping_add(index);
        philox4x32([n as u32, (n >> 32) as u32, 0, 0], [self.seed as u32, (self.seed >> 32) as u32])
    }

    /// A stream of its own for element `index` after the offset, for draws that take an unknown number of random numbers. It shares
    /// no block with another element's, nor with [`block`](Self::block).
    pub fn subsequence(self, index: u64) -> Philox {
        // The upper half of the counter, as in cuRAND; that of `block` is 0.
        let upper = self.offset.wrapping_add(index).wrapping_add(1);
        Philox { key: PhiloxKey { seed: self.seed, offset: 0 }, upper, block: [0; 4], used: 4 }
    }
}

/// A sequential generator over [`PhiloxKey`] blocks, for host code that needs one number after another.
#[derive(Clone, Debug)]
pub struct Philox {
    key: PhiloxKey,
    /// The upper half of the counter.
    upper: u64,
    block: [u32; 4],
    used: usize,
}

impl Philox {
    /// The generator of this seed, at its start.
    pub fn new(seed: u64) -> Philox {
        Philox { key: PhiloxKey { seed, offset: 0 }, upper: 0, block: [0; 4], used: 4 }
    }

    /// The next 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            let PhiloxKey { seed, offset } = self.key;
            let halves = |x: u64| [x as u32, (x >> 32) as u32];
            let ([a, b], [c, d]) = (halves(offset), halves(self.upper));
            self.block = philox4x32([a, b, c, d], halves(seed));
            self.key.offset = self.key.offset.wrapping_add(1);
            self.used = 0;
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    /// The next number in [0, 1), with 53 random bits.
    pub fn next_f64(&mut self) -> f64 {
        unit_f64(self.next_u32(), self.next_u32())
    }
}

/// A number in [0, 1) with 24 random bits.
#[inline]
pub fn unit_f32(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// A number in [0, 1) with 53 random bits.
#[inline]
pub fn unit_f64(low: u32, high: u32) -> f64 {
    (((u64::from(high) << 32) | u64::from(low)) >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}
