//! The arithmetic of each block type in matmuls.

use rustorch_core::{QuantType, f16};
use rustorch_quant::{
    Block, BlockIq1M, BlockIq1S, BlockIq2S, BlockIq2Xs, BlockIq2Xxs, BlockIq3S, BlockIq3Xxs, BlockIq4Nl,
    BlockIq4Xs, BlockMxfp4, BlockNvfp4, BlockQ1_0, BlockQ2_0, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1,
    BlockQ4K, BlockQ5_0, BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, BlockQ8_1, BlockQ8K, BlockTq1_0,
    BlockTq2_0,
};

/// The 8-bit block type to which activations are rounded before a matmul, as in ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActivationQuant {
    /// Blocks of 32 with an f16 scale.
    Q8_0,
    /// The same, with the scaled sum of the codes (f16).
    Q8_1,
    /// Blocks of 256 with an f32 scale.
    Q8K,
}

impl ActivationQuant {
    /// Values for each scale.
    pub(crate) const fn block(self) -> usize {
        match self {
            ActivationQuant::Q8_0 | ActivationQuant::Q8_1 => 32,
            ActivationQuant::Q8K => 256,
        }
    }
}

/// The arithmetic of a type. In every case sums of products of codes are exact integers, and an output element is made of
/// chains of fused multiply-adds over the blocks of its row, in order; so every kernel gives the same bits. They are the
/// chains of ggml on x86-64 ([`super`]): one for the types whose blocks it interleaves by eight rows, eight for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A float scale (and minimum) for each 32 values, in eight lanes: lane `l` has values `4l..4l + 4` of every block,
    /// `acc[l] += (d·dx)·Σ q·x`. A chain of its own has `m·sx`, and is added to the sum of the lanes.
    LaneBlocks,
    /// Integer scales for each group within 256 values, in eight lanes: lane `l` has values `4l..4l + 4` of every 32,
    /// `acc[l] += (d·dx)·Σ sc·q·x`. A chain of its own has `(dmin·dx)·Σ mn·Σ x`. The result is the sum of the lanes times
    /// [`Weight::FACTOR`], plus the chain of minima times [`Weight::MIN_FACTOR`].
    Lanes,
    /// A float scale (and minimum) for each 32 values: `acc += (d·dx)·Σ q·x`, then `acc += m·sx`.
    Blocks,
    /// Integer scales (and minima) for each group within 256 values: `acc += (d·dx)·Σ sc·Σ q·x`. The
    /// minima have a chain of their own, `min += (dmin·dx)·Σ mn·Σ x`, which is subtracted in the end.
    Integer,
    /// A float scale for each 16 values: `inner += scale·Σ q·x` over the activation type's block, then `acc += dx·inner`.
    Groups,
}

/// A block type as the left side of integer dot products.
///
/// Codes are handled as unsigned bytes, `code + OFFSET`.
pub(crate) trait Weight: Block {
    /// What activations are rounded to.
    const ACTIVATION_QUANT: ActivationQuant;
    /// The arithmetic.
    const KIND: Kind;
    /// Values for each integer scale ([`Kind::Integer`] and [`Kind::Lanes`]).
    const GROUP: usize = 16;
    /// Bits of a code with its offset.
    const BITS: u32 = 8;
    /// What makes codes unsigned. 128 where they use all eight bits.
    const OFFSET: u8 = 128;
    /// Whether there are minima.
    const MINS: bool = false;
    /// Whether lane `l` takes back the offset of groups `2l` and `2l + 1`, and not that of its own values
    /// ([`Kind::Lanes`] only, with groups of 16).
    const GROUP_OFFSET: bool = false;
    /// See [`Kind::Lanes`]; a power of two.
    const FACTOR: f32 = 1.0;
    /// See [`Kind::Lanes`]; a power of two.
    const MIN_FACTOR: f32 = 1.0;
    /// How many sets of codes share the scales ([`Kind::Lanes`] only). The lanes of each are summed on their own, and
    /// those of a second one times [`MIN_FACTOR`](Self::MIN_FACTOR) are added.
    const PLANES: usize = 1;

    /// A code of [`Kind::Lanes`] in one of the planes, from the code of dequantization.
    #[inline(always)]
    fn code(q: i8, _plane: usize) -> i8 {
        q
    }

    /// The float scale and minimum ([`Kind::Blocks`] and [`Kind::Integer`]).
    fn factors(&self) -> (f32, f32) {
        (0.0, 0.0)
    }

    /// The integer scales and minima of the groups ([`Kind::Integer`]).
    fn scales(&self) -> ([i8; 16], [i8; 16]) {
        ([0; 16], [0; 16])
    }
}

macro_rules! blocks {
    ($($block:ty: $kind:ident, $activation_quant:ident, bits $bits:literal, offset $offset:literal, $factors:expr;)*) => {$(
        impl Weight for $block {
            const ACTIVATION_QUANT: ActivationQuant = ActivationQuant::$activation_quant;
            const KIND: Kind = Kind::$kind;
            const BITS: u32 = $bits;
            const OFFSET: u8 = $offset;
            const MINS: bool = matches!(ActivationQuant::$activation_quant, ActivationQuant::Q8_1);

            #[inline(always)]
            fn factors(&self) -> (f32, f32) {
                let factors: fn(&Self) -> (f32, f32) = $factors;
                factors(self)
            }
        }
    )*};
}

blocks! {
    BlockQ4_0: Blocks, Q8_0, bits 4, offset 8, |b| (b.d.get(), 0.0);
    BlockQ4_1: LaneBlocks, Q8_1, bits 4, offset 0, |b| (b.d.get(), b.m.get());
    BlockQ5_0: LaneBlocks, Q8_0, bits 5, offset 16, |b| (b.d.get(), 0.0);
    BlockQ5_1: LaneBlocks, Q8_1, bits 5, offset 0, |b| (b.d.get(), b.m.get());
    BlockQ8_0: LaneBlocks, Q8_0, bits 8, offset 128, |b| (b.d.get(), 0.0);
    BlockQ8_1: Blocks, Q8_0, bits 8, offset 128, |b| (b.d.get(), 0.0);
    BlockIq4Nl: Blocks, Q8_0, bits 8, offset 128, |b| (b.d.get(), 0.0);
    BlockMxfp4: Blocks, Q8_0, bits 8, offset 128, |b| (e8m0_halved(b.e), 0.0);
}

/// Half of the scale of an MXFP4 block, which goes with the doubled codes.
#[inline(always)]
fn e8m0_halved(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (u32::from(e) - 1) << 23 })
}

macro_rules! integer {
    ($($block:ty: $kind:ident, groups of $group:literal, bits $bits:literal, offset $offset:literal, mins $mins:literal, $factors:expr, $scales:expr
       $(, $constant:ident = $value:expr)* $(=> $code:expr)?;)*) => {$(
        impl Weight for $block {
            const ACTIVATION_QUANT: ActivationQuant = ActivationQuant::Q8K;
            const KIND: Kind = Kind::$kind;
            const GROUP: usize = $group;
            const BITS: u32 = $bits;
            const OFFSET: u8 = $offset;
            const MINS: bool = $mins;
            $(integer!(@constant $constant = $value);)*
            $(
                #[inline(always)]
                fn code(q: i8, plane: usize) -> i8 {
                    let code: fn(i8, usize) -> i8 = $code;
                    code(q, plane)
                }
            )?

            #[inline(always)]
            fn factors(&self) -> (f32, f32) {
                let factors: fn(&Self) -> (f32, f32) = $factors;
                factors(self)
            }

            #[inline(always)]
            fn scales(&self) -> ([i8; 16], [i8; 16]) {
                let scales: fn(&Self) -> ([i8; 16], [i8; 16]) = $scales;
                scales(self)
            }
        }
    )*};
    (@constant GROUP_OFFSET = $value:expr) => { const GROUP_OFFSET: bool = $value; };
    (@constant FACTOR = $value:expr) => { const FACTOR: f32 = $value; };
    (@constant MIN_FACTOR = $value:expr) => { const MIN_FACTOR: f32 = $value; };
    (@constant PLANES = $value:expr) => { const PLANES: usize = $value; };
}

integer! {
    BlockQ2K: Integer, groups of 16, bits 2, offset 0, mins true, |b| (b.d.get(), b.dmin.get()), |b| {
        let both = u128::from_le_bytes(b.scales);
        let nibbles = u128::from_le_bytes([15; 16]);
        (bytemuck::cast((both & nibbles).to_le_bytes()), bytemuck::cast((both >> 4 & nibbles).to_le_bytes()))
    };
    BlockQ3K: Lanes, groups of 16, bits 3, offset 4, mins false, |b| (b.d.get(), 0.0), |b| (q3_scales(&b.scales), [0; 16]);
    BlockQ4K: Integer, groups of 32, bits 4, offset 0, mins true, |b| (b.d.get(), b.dmin.get()), |b| affine_scales(&b.scales);
    BlockQ5K: Lanes, groups of 32, bits 5, offset 0, mins true, |b| (b.d.get(), b.dmin.get()), |b| affine_scales(&b.scales);
    BlockQ6K: Lanes, groups of 16, bits 6, offset 32, mins false, |b| (b.d.get(), 0.0), |b| (b.scales, [0; 16]), GROUP_OFFSET = true;
    BlockIq4Xs: Lanes, groups of 32, bits 8, offset 128, mins false, |b| (b.d.get(), 0.0), |b| {
        let (low, high) = (u32::from_le_bytes(b.scales_l), u32::from(b.scales_h.get()));
        let mut scales = [0; 16];
        for (j, scale) in scales[..8].iter_mut().enumerate() {
            *scale = ((low >> (4 * j) & 15) | (high >> (2 * j) & 3) << 4) as i8 - 32;
        }
        (scales, [0; 16])
    };
    BlockIq2Xxs: Lanes, groups of 32, bits 8, offset 128, mins false, |b| (b.d.get(), 0.0), |b| {
        (each_group(|g| odd(b.qs[4 * g + 3].get() >> 12)), [0; 16])
    }, FACTOR = 0.125;
    BlockIq2Xs: Lanes, groups of 16, bits 8, offset 128, mins false, |b| (b.d.get(), 0.0), |b| {
        (nibble_scales(b.scales), [0; 16])
    }, FACTOR = 0.125;
    BlockIq2S: Lanes, groups of 16, bits 8, offset 128, mins false, |b| (b.d.get(), 0.0), |b| {
        (nibble_scales(b.scales), [0; 16])
    }, FACTOR = 0.125;
    BlockIq3Xxs: Lanes, groups of 32, bits 8, offset 128, mins false, |b| (b.d.get(), 0.0), |b| {
        (each_group(|g| odd(u16::from(b.scales_and_signs[4 * g + 3] >> 4))), [0; 16])
    }, FACTOR = 0.25;
    BlockIq3S: Lanes, groups of 32, bits 8, offset 128, mins false, |b| (b.d.get(), 0.0), |b| {
        (each_group(|g| odd(u16::from(b.scales[g / 2] >> (4 * (g % 2)) & 15))), [0; 16])
    };
    // The shift by an eighth is summed apart, as the minima of other types are.
    BlockIq1S: Lanes, groups of 32, bits 8, offset 128, mins true, |b| (b.d.get(), -b.d.get()), |b| {
        let scale = |g: usize| odd(b.qh[g].get() >> 12 & 7);
        (each_group(scale), each_group(|g| if b.qh[g].get() & 0x8000 == 0 { scale(g) } else { -scale(g) }))
    }, MIN_FACTOR = 0.125 => |q, _| (q + 4) >> 3;
    BlockIq1M: Lanes, groups of 16, bits 8, offset 128, mins false, |b| (f16::from_bits(b.d_bits()).to_f32(), 0.0), |b| {
        (std::array::from_fn(|g| odd(b.scales[g / 4].get() >> (3 * (g % 4)) & 7)), [0; 16])
    }, MIN_FACTOR = 0.125, PLANES = 2 => |q, plane| {
        let t = (q + 4) >> 3;
        if plane == 0 { t } else { q - 8 * t }
    };
    BlockTq1_0: Lanes, groups of 16, bits 2, offset 1, mins false, |b| (b.d.get(), 0.0), |_| ([1; 16], [0; 16]), GROUP_OFFSET = true;
    BlockTq2_0: Lanes, groups of 16, bits 2, offset 1, mins false, |b| (b.d.get(), 0.0), |_| ([1; 16], [0; 16]), GROUP_OFFSET = true;
}

/// The scale that a few bits stand for: an odd number.
#[inline(always)]
fn odd(bits: u16) -> i8 {
    2 * bits as i8 + 1
}

/// The scales of eight groups.
#[inline(always)]
fn each_group(scale: impl Fn(usize) -> i8) -> [i8; 16] {
    std::array::from_fn(|g| if g < 8 { scale(g) } else { 0 })
}

/// A scale for each 16 values, the low nibble first.
#[inline(always)]
fn nibble_scales(scales: [u8; 8]) -> [i8; 16] {
    std::array::from_fn(|g| odd(u16::from(scales[g / 2] >> (4 * (g % 2)) & 15)))
}

/// Eight 6-bit scales and eight 6-bit minima of Q4_K and Q5_K, four at a time in one word.
#[inline(always)]
fn affine_scales(packed: &[u8; 12]) -> ([i8; 16], [i8; 16]) {
    let [a, b, c] = words(packed);
    let scales = [a & 0x3f3f_3f3f, (c & 0x0f0f_0f0f) | (a >> 6 & 0x0303_0303) << 4];
    let mins = [b & 0x3f3f_3f3f, (c >> 4 & 0x0f0f_0f0f) | (b >> 6 & 0x0303_0303) << 4];
    let join = |[low, high]: [u32; 2]| u128::from(low) | u128::from(high) << 32;
    (bytemuck::cast(join(scales).to_le_bytes()), bytemuck::cast(join(mins).to_le_bytes()))
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
    ($($block:ty: $activation_quant:ident;)*) => {$(
        impl Weight for $block {
            const ACTIVATION_QUANT: ActivationQuant = ActivationQuant::$activation_quant;
            const KIND: Kind = Kind::Groups;
        }
    )*};
}

groups! {
    BlockQ8K: Q8K;
    BlockNvfp4: Q8_0;
    BlockQ1_0: Q8_0;
    BlockQ2_0: Q8_0;
}

/// Something to be done for a block type that is known only at run time.
pub(crate) trait Visitor {
    /// What comes out.
    type Output;

    /// Does it for a type whose codes are unpacked by portable code.
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
