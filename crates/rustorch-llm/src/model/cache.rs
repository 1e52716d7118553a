//! Keys and values of the tokens so far.

use super::modules::CacheShape;
use crate::{Error, Result};
use rustorch_core::{DType, Device};
use rustorch_tensor::Tensor;

/// The keys and values of every block for the tokens decoded so far: in `f16`, or in `f32` where the model had
/// [`Numerics::F32`](rustorch_core::Numerics::F32) when the cache was made.
///
/// Heads are outermost, so that the keys of a head are contiguous.
pub struct KvCache {
    blocks: Vec<BlockCache>,
    capacity: usize,
    len: usize,
    dtype: DType,
}

struct BlockCache {
    /// `[kv_heads, capacity, key_length]`.
    keys: Tensor,
    /// `[kv_heads, capacity, value_length]`.
    values: Tensor,
}

impl KvCache {
    /// A cache for attention of these shapes, each on a device.
    pub(super) fn new(
        shapes: impl IntoIterator<Item = (CacheShape, Device)>,
        capacity: usize,
        dtype: DType,
    ) -> Result<KvCache> {
        let blocks = shapes
            .into_iter()
            .map(|(shape, device)| {
                let empty = |length: usize| -> Result<Tensor> {
                    Ok(Tensor::zeros([shape.kv_heads, capacity, length], dtype)?.to_device(device)?)
                };
                Ok(BlockCache { keys: empty(shape.key_length)?, values: empty(shape.value_length)? })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(KvCache { blocks, capacity, len: 0, dtype })
    }

    /// The dtype of keys and values.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How many tokens it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no token.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many tokens fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The bytes of all keys and values at full capacity.
    pub fn bytes(&self) -> usize {
        let size = |t: &Tensor| t.numel() * self.dtype.block_bytes();
        self.blocks.iter().map(|b| size(&b.keys) + size(&b.values)).sum()
    }

    /// The devices that hold it.
    pub fn devices(&self) -> impl Iterator<Item = Device> + '_ {
        self.blocks.iter().map(|block| block.keys.device())
    }

    /// Whether a device that holds a part of it failed for good.
    pub fn is_lost(&self) -> bool {
        self.blocks.iter().any(|block| block.keys.storage().is_lost() || block.values.storage().is_lost())
    }

    /// Forgets all tokens from position `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Fails unless `more` tokens fit.
    pub(super) fn check_room(&self, more: usize) -> Result<()> {
        match self.len.checked_add(more) {
            Some(needed) if needed <= self.capacity => Ok(()),
            needed => {
                Err(Error::ContextFull { capacity: self.capacity, needed: needed.unwrap_or(usize::MAX) })
            }
        }
    }

    /// Views to write a block's keys and values `[kv_heads, n, length]` of the `n` tokens after [`len`](Self::len) to.
    pub(super) fn slots(&self, block: usize, n: usize) -> Result<[Tensor; 2]> {
        self.rows(block, self.len, n)
    }

    /// Views of a block's keys and values up to and including those tokens.
    pub(super) fn read(&self, block: usize, n: usize) -> Result<[Tensor; 2]> {
        self.rows(block, 0, self.len + n)
    }

    fn rows(&self, block: usize, first: usize, n: usize) -> Result<[Tensor; 2]> {
        let BlockCache { keys, values } = &self.blocks[block];
        Ok([keys.narrow(1, first, n)?, values.narrow(1, first, n)?])
    }

    /// Counts the tokens that every block has written.
    pub(super) fn advance(&mut self, n: usize) {
        self.len += n;
    }
}
