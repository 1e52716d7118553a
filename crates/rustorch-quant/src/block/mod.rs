//! The blocks as they lie in memory and in files.

mod fp4;
mod iq;
mod k;
mod legacy;
mod ternary;

pub use fp4::{BlockMxfp4, BlockNvfp4};
pub use iq::{
    BlockIq1M, BlockIq1S, BlockIq2S, BlockIq2Xs, BlockIq2Xxs, BlockIq3S, BlockIq3Xxs, BlockIq4Nl, BlockIq4Xs,
};
pub use k::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K, BlockQ8K};
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
}

macro_rules! block_types {
    ($($block:ident = $quant:ident;)*) => {
        $(
            impl Block for $block {
                const TYPE: QuantType = QuantType::$quant;
            }
            const _: () = assert!(size_of::<$block>() == QuantType::$quant.block_bytes() && align_of::<$block>() == 1);
        )*
    };
}

block_types! {
    BlockQ4_0 = Q4_0;
    BlockQ4_1 = Q4_1;
    BlockQ5_0 = Q5_0;
    BlockQ5_1 = Q5_1;
    BlockQ8_0 = Q8_0;
    BlockQ8_1 = Q8_1;
    BlockQ2K = Q2_K;
    BlockQ3K = Q3_K;
    BlockQ4K = Q4_K;
    BlockQ5K = Q5_K;
    BlockQ6K = Q6_K;
    BlockQ8K = Q8_K;
    BlockIq2Xxs = IQ2_XXS;
    BlockIq2Xs = IQ2_XS;
    BlockIq3Xxs = IQ3_XXS;
    BlockIq1S = IQ1_S;
    BlockIq4Nl = IQ4_NL;
    BlockIq3S = IQ3_S;
    BlockIq2S = IQ2_S;
    BlockIq4Xs = IQ4_XS;
    BlockIq1M = IQ1_M;
    BlockTq1_0 = TQ1_0;
    BlockTq2_0 = TQ2_0;
    BlockMxfp4 = MXFP4;
    BlockNvfp4 = NVFP4;
    BlockQ1_0 = Q1_0;
    BlockQ2_0 = Q2_0;
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
