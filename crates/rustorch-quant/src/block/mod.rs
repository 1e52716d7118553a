//! The block structs, laid out as in memory and in files, and what each of them means.

mod bits;
mod fp4;
mod iq1;
mod iq2;
mod iq3;
mod iq4;
mod k;
mod legacy;
mod ternary;

pub use fp4::{BlockMxfp4, BlockNvfp4};
pub(crate) use fp4::{e2m1_doubled, e8m0_halved, ue4m3_halved};
pub use iq1::{BlockIq1M, BlockIq1S};
pub use iq2::{BlockIq2S, BlockIq2Xs, BlockIq2Xxs};
pub use iq3::{BlockIq3S, BlockIq3Xxs};
pub use iq4::{BlockIq4Nl, BlockIq4Xs, KVALUES_IQ4NL};
pub use k::{
    BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K, BlockQ8K, pack_scales_mins, unpack_scales_mins,
};
pub use legacy::{BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, BlockQ8_1};
pub use ternary::{BlockQ1_0, BlockQ2_0, BlockTq1_0, BlockTq2_0};

use bytemuck::Pod;
use rustorch_core::QuantType;

use crate::QuantError;

/// A block of a ggml type: a struct of bytes with ggml's field names, of alignment 1.
pub trait Block: Pod + Send + Sync {
    /// The type that the block belongs to.
    const TYPE: QuantType;
    /// The number of values in a block.
    const LEN: usize = Self::TYPE.block_len();

    /// Writes the block as integer codes with a scale and a minimum for each 16 of them.
    ///
    /// The first [`LEN`](Self::LEN) codes and the first `LEN / 16` scales and minima are written.
    fn expand(&self, out: &mut Codes);
}

/// A block of any type as integers: value `i` is `scale[i / 16] * q[i] - min[i / 16]`, and evaluating that in `f32`
/// gives ggml's value bit for bit.
///
/// Where ggml adds a minimum (Q4_1, Q5_1), `min` is its negative. Where codes would have fractions, integers stand for them
/// and the scale makes up for it, exactly: FP4 values are doubled, IQ1 values are multiplied by eight.
#[derive(Clone, Debug, PartialEq)]
pub struct Codes {
    /// The codes.
    pub q: [i8; 256],
    /// A scale for each 16 codes.
    pub scale: [f32; 16],
    /// What to subtract, for each 16 codes.
    pub min: [f32; 16],
}

impl Codes {
    /// All zero.
    pub const fn new() -> Self {
        Self { q: [0; 256], scale: [0.0; 16], min: [0.0; 16] }
    }

    /// Writes the values of the first `out.len()` codes.
    ///
    /// # Panics
    /// If `out` is longer than 256 values or no multiple of 16.
    #[inline(always)]
    pub fn dequantize(&self, out: &mut [f32]) {
        assert!(
            out.len() <= 256 && out.len().is_multiple_of(16),
            "a block has 16 to 256 values, in groups of 16"
        );
        for (group, out) in out.chunks_exact_mut(16).enumerate() {
            let (scale, min) = (self.scale[group], self.min[group]);
            let q = &self.q[16 * group..][..16];
            for i in 0..16 {
                out[i] = scale * f32::from(q[i]) - min;
            }
        }
    }

    /// Gives the first `groups` groups one scale and no minimum.
    #[inline(always)]
    fn set_scales(&mut self, groups: usize, scale: f32) {
        self.scale[..groups].fill(scale);
        self.min[..groups].fill(0.0);
    }
}

impl Default for Codes {
    fn default() -> Self {
        Self::new()
    }
}

/// A generic function over block types, called for a type that is known only at run time; see [`visit`].
pub trait Visitor {
    /// The result.
    type Output;

    /// Is called with the block type `B`.
    fn visit<B: Block>(self) -> Self::Output;
}

macro_rules! block_types {
    ($($quant:ident = $block:ident;)*) => {
        $(
            const _: () = assert!(
                size_of::<$block>() == QuantType::$quant.block_bytes()
                    && align_of::<$block>() == 1
                    && matches!($block::TYPE, QuantType::$quant)
            );
        )*

        /// Calls `visitor` with the struct of the blocks of `quant`: the one place where types at run time meet types
        /// at compile time.
        #[inline]
        pub fn visit<V: Visitor>(quant: QuantType, visitor: V) -> V::Output {
            match quant { $(QuantType::$quant => visitor.visit::<$block>(),)* }
        }
    };
}

block_types! {
    Q4_0 = BlockQ4_0;
    Q4_1 = BlockQ4_1;
    Q5_0 = BlockQ5_0;
    Q5_1 = BlockQ5_1;
    Q8_0 = BlockQ8_0;
    Q8_1 = BlockQ8_1;
    Q2_K = BlockQ2K;
    Q3_K = BlockQ3K;
    Q4_K = BlockQ4K;
    Q5_K = BlockQ5K;
    Q6_K = BlockQ6K;
    Q8_K = BlockQ8K;
    IQ2_XXS = BlockIq2Xxs;
    IQ2_XS = BlockIq2Xs;
    IQ3_XXS = BlockIq3Xxs;
    IQ1_S = BlockIq1S;
    IQ4_NL = BlockIq4Nl;
    IQ3_S = BlockIq3S;
    IQ2_S = BlockIq2S;
    IQ4_XS = BlockIq4Xs;
    IQ1_M = BlockIq1M;
    TQ1_0 = BlockTq1_0;
    TQ2_0 = BlockTq2_0;
    MXFP4 = BlockMxfp4;
    NVFP4 = BlockNvfp4;
    Q1_0 = BlockQ1_0;
    Q2_0 = BlockQ2_0;
}

/// Sees `bytes` as blocks, without a copy. Any alignment will do.
///
/// # Errors
/// [`QuantError::PartialBlock`] where the length is no multiple of the block's.
pub fn blocks_of<B: Block>(bytes: &[u8]) -> Result<&[B], QuantError> {
    bytemuck::try_cast_slice(bytes).map_err(|_| partial::<B>(bytes.len()))
}

/// Sees `bytes` as blocks to be written, without a copy. Any alignment will do.
///
/// # Errors
/// [`QuantError::PartialBlock`] where the length is no multiple of the block's.
pub fn blocks_of_mut<B: Block>(bytes: &mut [u8]) -> Result<&mut [B], QuantError> {
    let len = bytes.len();
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| partial::<B>(len))
}

fn partial<B: Block>(bytes: usize) -> QuantError {
    QuantError::PartialBlock { quant: B::TYPE, bytes }
}
