//! How each block type takes part in a product.

use rustorch_core::QuantType;
use rustorch_quant::{
    Block, BlockIq1M, BlockIq1S, BlockIq2S, BlockIq2Xs, BlockIq2Xxs, BlockIq3S, BlockIq3Xxs, BlockIq4Nl,
    BlockIq4Xs, BlockMxfp4, BlockNvfp4, BlockQ1_0, BlockQ2_0, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1,
    BlockQ4K, BlockQ5_0, BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, BlockQ8_1, BlockQ8K, BlockTq1_0,
    BlockTq2_0,
};

/// The 8-bit block type to which activations are rounded before a product, as in ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Companion {
    /// Blocks of 32 with an f16 scale.
    Q8_0,
    /// The same, with the scaled sum of the levels (f16).
    Q8_1,
    /// Blocks of 256 with an f32 scale.
    Q8K,
}

impl Companion {
    /// Values for each scale.
    pub(crate) const fn block(self) -> usize {
        match self {
            Companion::Q8_0 | Companion::Q8_1 => 32,
            Companion::Q8K => 256,
        }
    }
}

/// The arithmetic of a type. In every case sums of products of levels are exact integers, and an output element is one
/// chain of fused multiply-adds over the blocks of its row, in order; so every kernel gives the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A float scale (and minimum) for each 32 values: `acc += (d·dx)·Σ q·x`, then `acc += m·sx`.
    Blocks,
    /// Integer scales (and minima) for each group within 256 values: `acc += (d·dx)·Σ sc·Σ q·x`, then
    /// `acc -= (dmin·dx)·Σ mn·Σ x`.
    Integer,
    /// A float scale for each 16 values: `inner += scale·Σ q·x` over the companion's block, then `acc += dx·inner`.
    Groups,
}

/// A block type as the left side of integer dot products.
///
/// Levels are handled as unsigned bytes, `level + OFFSET`.
pub(crate) trait Weight: Block {
    /// What activations are rounded to.
    const COMPANION: Companion;
    /// The arithmetic.
    const KIND: Kind;
    /// Values for each integer scale ([`Kind::Integer`] only).
    const GROUP: usize = 16;
    /// What makes levels unsigned. 128 where they use all eight bits.
    const OFFSET: u8 = 128;
    /// Whether there are minima.
    const MINS: bool = false;

    /// The float scale and minimum ([`Kind::Blocks`] and [`Kind::Integer`]).
    fn factors(&self) -> (f32, f32) {
        (0.0, 0.0)
    }

    /// The integer scales and minima of the groups ([`Kind::Integer`]).
    fn scales(&self) -> ([i8; 16], [u8; 16]) {
        ([0; 16], [0; 16])
    }
}

/// Whether levels use all eight bits, so that pairs of products may leave 16 bits.
pub(crate) const fn wide<W: Weight>() -> bool {
    W::OFFSET == 128
}

macro_rules! blocks {
    ($($block:ty: $companion:ident, offset $offset:literal, $factors:expr;)*) => {$(
        impl Weight for $block {
            const COMPANION: Companion = Companion::$companion;
            const KIND: Kind = Kind::Blocks;
            const OFFSET: u8 = $offset;
            const MINS: bool = matches!(Companion::$companion, Companion::Q8_1);

            #[inline(always)]
            fn factors(&self) -> (f32, f32) {
                let factors: fn(&Self) -> (f32, f32) = $factors;
                factors(self)
            }
        }
    )*};
}

blocks! {
    BlockQ4_0: Q8_0, offset 8, |b| (b.d.get(), 0.0);
    BlockQ4_1: Q8_1, offset 0, |b| (b.d.get(), b.m.get());
    BlockQ5_0: Q8_0, offset 16, |b| (b.d.get(), 0.0);
    BlockQ5_1: Q8_1, offset 0, |b| (b.d.get(), b.m.get());
    BlockQ8_0: Q8_0, offset 128, |b| (b.d.get(), 0.0);
    BlockQ8_1: Q8_0, offset 128, |b| (b.d.get(), 0.0);
    BlockIq4Nl: Q8_0, offset 128, |b| (b.d.get(), 0.0);
    BlockMxfp4: Q8_0, offset 128, |b| (e8m0_halved(b.e), 0.0);
}

/// Half of the scale of an MXFP4 block, which goes with the doubled levels.
#[inline(always)]
fn e8m0_halved(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (u32::from(e) - 1) << 23 })
}

macro_rules! integer {
    ($($block:ty: groups of $group:literal, offset $offset:literal, mins $mins:literal, $factors:expr, $scales:expr;)*) => {$(
        impl Weight for $block {
            const COMPANION: Companion = Companion::Q8K;
            const KIND: Kind = Kind::Integer;
            const GROUP: usize = $group;
            const OFFSET: u8 = $offset;
            const MINS: bool = $mins;

            #[inline(always)]
            fn factors(&self) -> (f32, f32) {
                let factors: fn(&Self) -> (f32, f32) = $factors;
                factors(self)
            }

            #[inline(always)]
            fn scales(&self) -> ([i8; 16], [u8; 16]) {
                let scales: fn(&Self) -> ([i8; 16], [u8; 16]) = $scales;
                scales(self)
            }
        }
    )*};
}

integer! {
    BlockQ2K: groups of 16, offset 0, mins true, |b| (b.d.get(), b.dmin.get()), |b| {
        let both = u128::from_le_bytes(b.scales);
        let nibbles = u128::from_le_bytes([15; 16]);
        ((both & nibbles).to_le_bytes().map(|sc| sc as i8), (both >> 4 & nibbles).to_le_bytes())
    };
    BlockQ3K: groups of 16, offset 4, mins false, |b| (b.d.get(), 0.0), |b| (q3_scales(&b.scales), [0; 16]);
    BlockQ4K: groups of 32, offset 0, mins true, |b| (b.d.get(), b.dmin.get()), |b| affine_scales(&b.scales);
    BlockQ5K: groups of 32, offset 0, mins true, |b| (b.d.get(), b.dmin.get()), |b| affine_scales(&b.scales);
    BlockQ6K: groups of 16, offset 32, mins false, |b| (b.d.get(), 0.0), |b| (b.scales, [0; 16]);
    BlockIq4Xs: groups of 32, offset 128, mins false, |b| (b.d.get(), 0.0), |b| {
        let (low, high) = (u32::from_le_bytes(b.scales_l), u32::from(b.scales_h.get()));
        let mut scales = [0; 16];
        for (j, scale) in scales[..8].iter_mut().enumerate() {
            *scale = ((low >> (4 * j) & 15) | (high >> (2 * j) & 3) << 4) as i8 - 32;
        }
        (scales, [0; 16])
    };
}

/// Eight 6-bit scales and eight 6-bit minima of Q4_K and Q5_K, four at a time in one word.
#[inline(always)]
fn affine_scales(packed: &[u8; 12]) -> ([i8; 16], [u8; 16]) {
    let [a, b, c] = words(packed);
    let scales = [a & 0x3f3f_3f3f, (c & 0x0f0f_0f0f) | (a >> 6 & 0x0303_0303) << 4];
    let mins = [b & 0x3f3f_3f3f, (c >> 4 & 0x0f0f_0f0f) | (b >> 6 & 0x0303_0303) << 4];
    let join = |[low, high]: [u32; 2]| u128::from(low) | u128::from(high) << 32;
    (join(scales).to_le_bytes().map(|sc| sc as i8), join(mins).to_le_bytes())
}

/// Sixteen 6-bit scales of Q3_K, less 32.
#[inline(always)]
fn q3_scales(packed: &[u8; 12]) -> [i8; 16] {
    let [a, b, c] = words(packed);
    let part = |low: u32, turn: u32| u128::from((low & 0x0f0f_0f0f) | (c >> turn & 0x0303_0303) << 4);
    let all = part(a, 0) | part(b, 2) << 32 | part(a >> 4, 4) << 64 | part(b >> 4, 6) << 96;
    all.to_le_bytes().map(|sc| sc as i8 - 32)
}

#[inline(always)]
fn words(packed: &[u8; 12]) -> [u32; 3] {
    let word = |i: usize| u32::from_le_bytes([packed[i], packed[i + 1], packed[i + 2], packed[i + 3]]);
    [word(0), word(4), word(8)]
}

macro_rules! groups {
    ($($block:ty: $companion:ident;)*) => {$(
        impl Weight for $block {
            const COMPANION: Companion = Companion::$companion;
            const KIND: Kind = Kind::Groups;
        }
    )*};
}

groups! {
    BlockIq1S: Q8K;
    BlockIq1M: Q8K;
    BlockIq2Xxs: Q8K;
    BlockIq2Xs: Q8K;
    BlockIq2S: Q8K;
    BlockIq3Xxs: Q8K;
    BlockIq3S: Q8K;
    BlockTq1_0: Q8K;
    BlockTq2_0: Q8K;
    BlockQ8K: Q8K;
    BlockNvfp4: Q8_0;
    BlockQ1_0: Q8_0;
    BlockQ2_0: Q8_0;
}

/// Something to be done for a block type that is known only at run time.
pub(crate) trait Visitor {
    /// What comes out.
    type Output;

    /// Does it for a type whose levels are unpacked by portable code.
    fn plain<W: Weight>(self) -> Self::Output;

    /// Does it for a type that has vector code, too.
    fn vector<W: super::Vectored>(self) -> Self::Output;
}

/// Calls `visitor` with the struct of the blocks of `quant`.
pub(crate) fn visit<V: Visitor>(quant: QuantType, visitor: V) -> V::Output {
    match quant {
        QuantType::Q4_0 => visitor.vector::<BlockQ4_0>(),
        QuantType::Q4_1 => visitor.vector::<BlockQ4_1>(),
        QuantType::Q5_0 => visitor.vector::<BlockQ5_0>(),
        QuantType::Q5_1 => visitor.vector::<BlockQ5_1>(),
        QuantType::Q8_0 => visitor.vector::<BlockQ8_0>(),
        QuantType::Q8_1 => visitor.vector::<BlockQ8_1>(),
        QuantType::Q2_K => visitor.vector::<BlockQ2K>(),
        QuantType::Q3_K => visitor.vector::<BlockQ3K>(),
        QuantType::Q4_K => visitor.vector::<BlockQ4K>(),
        QuantType::Q5_K => visitor.vector::<BlockQ5K>(),
        QuantType::Q6_K => visitor.vector::<BlockQ6K>(),
        QuantType::IQ4_NL => visitor.vector::<BlockIq4Nl>(),
        QuantType::IQ4_XS => visitor.vector::<BlockIq4Xs>(),
        QuantType::MXFP4 => visitor.vector::<BlockMxfp4>(),
        QuantType::Q8_K => visitor.plain::<BlockQ8K>(),
        QuantType::IQ2_XXS => visitor.plain::<BlockIq2Xxs>(),
        QuantType::IQ2_XS => visitor.plain::<BlockIq2Xs>(),
        QuantType::IQ3_XXS => visitor.plain::<BlockIq3Xxs>(),
        QuantType::IQ1_S => visitor.plain::<BlockIq1S>(),
        QuantType::IQ3_S => visitor.plain::<BlockIq3S>(),
        QuantType::IQ2_S => visitor.plain::<BlockIq2S>(),
        QuantType::IQ1_M => visitor.plain::<BlockIq1M>(),
        QuantType::TQ1_0 => visitor.plain::<BlockTq1_0>(),
        QuantType::TQ2_0 => visitor.plain::<BlockTq2_0>(),
        QuantType::NVFP4 => visitor.plain::<BlockNvfp4>(),
        QuantType::Q1_0 => visitor.plain::<BlockQ1_0>(),
        QuantType::Q2_0 => visitor.plain::<BlockQ2_0>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_quant::Levels;

    /// The scales that a type states here times its factors are those with which it decodes.
    fn agrees<W: Weight>() {
        let mut levels = Levels::new();
        for seed in 0..64u32 {
            let mut block = W::zeroed();
            for (i, byte) in bytemuck::bytes_of_mut(&mut block).iter_mut().enumerate() {
                *byte = (seed.wrapping_mul(0x9e37_79b9).wrapping_add(i as u32).wrapping_mul(0x85eb_ca6b)
                    >> 24) as u8;
            }
            block.expand(&mut levels);
            let ((d, m), (scales, mins)) = (block.factors(), block.scales());
            for i in 0..W::LEN / 16 {
                let (scale, min) = match W::KIND {
                    Kind::Blocks => (d, if W::MINS { -m } else { 0.0 }),
                    _ => {
                        let group = i * 16 / W::GROUP;
                        (d * f32::from(scales[group]), m * f32::from(mins[group]))
                    }
                };
                let same = |a: f32, b: f32| a == b || a.is_nan() && b.is_nan();
                assert!(same(scale, levels.scale[i]), "{} scale {i}", W::TYPE);
                assert!(same(min, levels.min[i]) || !W::MINS, "{} min {i}", W::TYPE);
            }
            let fits = |q: i8| (0..=255).contains(&(i32::from(q) + i32::from(W::OFFSET)));
            assert!(levels.q[..W::LEN].iter().all(|&q| fits(q)), "{}", W::TYPE);
        }
    }

    struct Agrees;

    impl Visitor for Agrees {
        type Output = ();
        fn plain<W: Weight>(self) {}
        fn vector<W: super::super::Vectored>(self) {
            agrees::<W>();
        }
    }

    #[test]
    fn scales_are_those_of_decoding() {
        for &quant in QuantType::ALL {
            visit(quant, Agrees);
        }
    }
}
