//! Quantization: from `f32` values to blocks.
//!
//! | module | types | result |
//! |---|---|---|
//! | [`legacy`], [`ternary`], [`fp4`] | Q4_0 … Q8_1, TQ, Q1_0, Q2_0, FP4 | ggml's reference, byte for byte |
//! | [`k`], [`iq4`], [`codebook`], [`iq1`] | K types, IQ1, IQ2, IQ3, IQ4 | our own [`search`], as close as ggml's or closer |

mod codebook;
mod fp4;
mod iq1;
mod iq4;
mod k;
mod legacy;
mod search;
mod ternary;

use bytemuck::bytes_of_mut;
use rustorch_core::QuantType;

use crate::block::*;
use crate::dequantize::mismatch;
use crate::error::QuantError;

/// Writes one block.
pub(crate) trait QuantizeBlock: Block {
    /// The block of `x`, which has [`Block::LEN`] finite values. `importance`, of the same length, weighs the errors.
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self;
}

macro_rules! quantizers {
    ($($quant:ident = $block:ident;)*) => {
        /// Writes `src` as blocks of type `quant` to `out`.
        ///
        /// `importance` says how much an error in each column weighs: one number for each value of a row (ggml's
        /// importance matrix). The columns repeat over `src`, which may hold several rows.
        ///
        /// Without importances, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, TQ1_0, TQ2_0 and MXFP4 are written byte for byte as by
        /// gguf-py's `quantize`; Q8_1, Q8_K, NVFP4, Q1_0 and Q2_0 as by ggml's reference code. All but Q8_K round halves
        /// away from zero, unlike ggml's vector code for activations: for that see
        /// [`quantize_q8_0`](crate::quantize_q8_0) and its kin. With importances, Q4_0, Q4_1, Q5_0 and Q5_1 are
        /// searched for; for the other types of this paragraph importances are checked, but change nothing.
        ///
        /// K, IQ1, IQ2, IQ3 and IQ4 types are always searched for, minimising a weighted square error. The bytes differ from
        /// ggml's; the error is about the same or smaller. A group of columns without any importance is quantized as if
        /// these were equal.
        ///
        /// # Errors
        /// [`QuantError::LengthMismatch`], [`QuantError::PartialBlock`] and [`QuantError::ImportanceLength`] for lengths that do not fit;
        /// [`QuantError::NotFinite`] and [`QuantError::BadImportance`] for values or importances that make no sense;
        /// [`QuantError::OutOfRange`] where a scale would exceed the range of `f16`. After an error `out` may be
        /// partly written.
        pub fn quantize(
            quant: QuantType,
            src: &[f32],
            importance: Option<&[f32]>,
            out: &mut [u8],
        ) -> Result<(), QuantError> {
            match quant {
                $(QuantType::$quant => rows::<$block>(src, importance, out),)*
            }
        }
    };
}

quantizers! {
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

fn rows<B: QuantizeBlock>(src: &[f32], importance: Option<&[f32]>, out: &mut [u8]) -> Result<(), QuantError> {
    let bytes = out.len();
    let blocks = blocks_of_mut::<B>(out)?;
    if blocks.len().checked_mul(B::LEN) != Some(src.len()) {
        return Err(mismatch(B::TYPE, bytes, src.len()));
    }
    // This loop vectorises, unlike one that stops early.
    let finite = src.iter().fold(true, |finite, x| finite & x.is_finite());
    if let (false, Some(index)) = (finite, src.iter().position(|x| !x.is_finite())) {
        return Err(QuantError::NotFinite { index, value: src[index] });
    }
    if let Some(importance) = importance {
        check_importance::<B>(importance, src.len())?;
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        return unsafe { rows_avx2(src, importance, blocks) };
    }
    rows_body(src, importance, blocks)
}

fn check_importance<B: Block>(importance: &[f32], values: usize) -> Result<(), QuantError> {
    let columns = importance.len();
    let fits = columns != 0 && columns.is_multiple_of(B::LEN) && values.is_multiple_of(columns);
    if !fits && values != 0 {
        return Err(QuantError::ImportanceLength { quant: B::TYPE, columns, values });
    }
    match importance.iter().position(|w| !w.is_finite() || *w < 0.0) {
        Some(column) => Err(QuantError::BadImportance { column, value: importance[column] }),
        None => Ok(()),
    }
}

/// The same code, compiled for wider vectors, with the same results.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn rows_avx2<B: QuantizeBlock>(
    src: &[f32],
    importance: Option<&[f32]>,
    blocks: &mut [B],
) -> Result<(), QuantError> {
    rows_body(src, importance, blocks)
}

#[inline(always)]
fn rows_body<B: QuantizeBlock>(
    src: &[f32],
    importance: Option<&[f32]>,
    blocks: &mut [B],
) -> Result<(), QuantError> {
    let mut codes = Codes::new();
    for (i, (x, block)) in src.chunks_exact(B::LEN).zip(blocks).enumerate() {
        let index = i * B::LEN;
        let weights = importance.map(|w| &w[index % w.len()..][..B::LEN]);
        *block = B::quantize(x, weights);
        block.expand(&mut codes);
        let groups = B::LEN / 16;
        if !codes.scale[..groups].iter().chain(&codes.min[..groups]).all(|s| s.is_finite()) {
            bytes_of_mut(block).fill(0);
            return Err(QuantError::OutOfRange { quant: B::TYPE, index, largest: search::largest(x).abs() });
        }
    }
    Ok(())
}
