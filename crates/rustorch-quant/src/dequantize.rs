//! Dequantization: from blocks to `f32` values.

use rustorch_core::QuantType;

use crate::block::{Block, Codes, Visitor, blocks_of, visit};
use crate::error::QuantError;

/// Writes the values of the blocks of type `quant` in `bytes` to `out`.
///
/// The values are those of ggml's and gguf-py's reference code, bit for bit (NaNs keep no particular payload). Any
/// bytes are valid blocks; a scale of infinity or NaN gives infinities and NaNs.
///
/// # Errors
/// [`QuantError::PartialBlock`] where `bytes` are no whole number of blocks, [`QuantError::LengthMismatch`] where `out`
/// has another length than the values have.
pub fn dequantize(quant: QuantType, bytes: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    visit(quant, Dequantize { bytes, out })
}

/// Writes one block of type `quant` as integer codes with scales and minima; see [`Block::expand`].
///
/// # Errors
/// [`QuantError::LengthMismatch`] where `block` is not exactly one block long.
pub fn expand(quant: QuantType, block: &[u8], out: &mut Codes) -> Result<(), QuantError> {
    visit(quant, Expand { block, out })
}

/// Writes the values of `blocks` to `out`: [`dequantize`] where the type is known.
///
/// # Errors
/// [`QuantError::LengthMismatch`] where `out` has another length than the values have.
pub fn dequantize_blocks<B: Block>(blocks: &[B], out: &mut [f32]) -> Result<(), QuantError> {
    if blocks.len().checked_mul(B::LEN) != Some(out.len()) {
        return Err(mismatch(B::TYPE, size_of_val(blocks), out.len()));
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        unsafe { dequantize_avx2(blocks, out) };
        return Ok(());
    }
    dequantize_body(blocks, out);
    Ok(())
}

struct Dequantize<'a> {
    bytes: &'a [u8],
    out: &'a mut [f32],
}

impl Visitor for Dequantize<'_> {
    type Output = Result<(), QuantError>;

    fn visit<B: Block>(self) -> Self::Output {
        dequantize_blocks(blocks_of::<B>(self.bytes)?, self.out)
    }
}

struct Expand<'a> {
    block: &'a [u8],
    out: &'a mut Codes,
}

impl Visitor for Expand<'_> {
    type Output = Result<(), QuantError>;

    fn visit<B: Block>(self) -> Self::Output {
        match blocks_of::<B>(self.block) {
            Ok([block]) => {
                block.expand(self.out);
                Ok(())
            }
            _ => Err(mismatch(B::TYPE, self.block.len(), B::LEN)),
        }
    }
}

pub(crate) fn mismatch(quant: QuantType, bytes: usize, values: usize) -> QuantError {
    let held = bytes / quant.block_bytes() * quant.block_len();
    QuantError::LengthMismatch { quant, bytes, held, values }
}

/// The same code as elsewhere, compiled for wider vectors. Multiplication and subtraction stay separate, so the values
/// are the same, too.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn dequantize_avx2<B: Block>(blocks: &[B], out: &mut [f32]) {
    dequantize_body(blocks, out);
}

#[inline(always)]
fn dequantize_body<B: Block>(blocks: &[B], out: &mut [f32]) {
    let mut codes = Codes::new();
    for (block, out) in blocks.iter().zip(out.chunks_exact_mut(B::LEN)) {
        block.expand(&mut codes);
        codes.dequantize(out);
    }
}
