//! From blocks to numbers.

use rustorch_core::QuantType;

use crate::block::{Block, Levels, Visitor, blocks_of, visit};
use crate::error::QuantError;

/// Writes the values of the blocks of type `quant` in `bytes` to `out`.
///
/// The values are those of ggml's and gguf-py's reference decoders, bit for bit (NaNs keep no particular payload). Any
/// bytes are valid blocks; a scale of infinity or NaN gives infinities and NaNs.
///
/// # Errors
/// [`QuantError::PartialBlock`] where `bytes` are no whole number of blocks, [`QuantError::LengthMismatch`] where `out`
/// has another length than the values have.
pub fn decode(quant: QuantType, bytes: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    visit(quant, Decode { bytes, out })
}

/// Writes one block of type `quant` as integer levels with scales and minima; see [`Block::expand`].
///
/// # Errors
/// [`QuantError::LengthMismatch`] where `block` is not exactly one block long.
pub fn expand(quant: QuantType, block: &[u8], out: &mut Levels) -> Result<(), QuantError> {
    visit(quant, Expand { block, out })
}

/// Writes the values of `blocks` to `out`: [`decode`] where the type is known.
///
/// # Errors
/// [`QuantError::LengthMismatch`] where `out` has another length than the values have.
pub fn decode_blocks<B: Block>(blocks: &[B], out: &mut [f32]) -> Result<(), QuantError> {
    if blocks.len().checked_mul(B::LEN) != Some(out.len()) {
        return Err(mismatch(B::TYPE, size_of_val(blocks), out.len()));
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        unsafe { decode_avx2(blocks, out) };
        return Ok(());
    }
    decode_body(blocks, out);
    Ok(())
}

struct Decode<'a> {
    bytes: &'a [u8],
    out: &'a mut [f32],
}

impl Visitor for Decode<'_> {
    type Output = Result<(), QuantError>;

    fn visit<B: Block>(self) -> Self::Output {
        decode_blocks(blocks_of::<B>(self.bytes)?, self.out)
    }
}

struct Expand<'a> {
    block: &'a [u8],
    out: &'a mut Levels,
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
fn decode_avx2<B: Block>(blocks: &[B], out: &mut [f32]) {
    decode_body(blocks, out);
}

#[inline(always)]
fn decode_body<B: Block>(blocks: &[B], out: &mut [f32]) {
    let mut levels = Levels::new();
    for (block, out) in blocks.iter().zip(out.chunks_exact_mut(B::LEN)) {
        block.expand(&mut levels);
        levels.decode(out);
    }
}
