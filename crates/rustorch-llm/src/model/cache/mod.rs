//! Keys and values of the tokens so far.

mod block;
mod layout;

pub(super) use layout::{CacheLayout, CacheShape, StateShape};

use super::captured::{CapturedDecoder, Decoding};
use crate::{Error, Result};
use block::{ALIGNMENT, BlockCache, WindowCopy};
use rustorch_core::{DType, Device};
use rustorch_tensor::Tensor;
use std::collections::VecDeque;

/// The keys and values of every block for the tokens decoded so far: in `f16`, or in `f32` where the model had
/// [`Numerics::F32`](rustorch_core::Numerics::F32) when the cache was made. Recurrent blocks have a state in `f32` instead. Blocks
/// whose attention sees a window of the last tokens keep those in it and one batch.
///
/// Heads are outermost, so that the keys of a head are contiguous.
pub struct KvCache {
    blocks: Vec<BlockCache>,
    /// Of each recurrence, behind the last token.
    states: Vec<State>,
    /// The states before the first token.
    start: Vec<State>,
    /// What is needed to go back to earlier tokens, in ascending order.
    checkpoints: VecDeque<Checkpoint>,
    capacity: usize,
    /// The most tokens that are added at once.
    batch: usize,
    len: usize,
    dtype: DType,
    /// How single tokens are decoded.
    pub(super) decoder: CapturedDecoder,
}

/// What a cache cannot make again of what it has: the states behind `len` tokens, and of blocks with a window the keys and values in it.
struct Checkpoint {
    len: usize,
    states: Vec<State>,
    windows: Vec<Option<WindowCopy>>,
}

/// A recurrence's state: the inputs that it still needs, and what it remembers. Never written to, so that a copy is cheap.
pub(super) type State = Vec<Tensor>;

/// States are kept before each input of several tokens, and every so many tokens.
const CHECKPOINT_EVERY: usize = 256;
/// At most so many of them.
const CHECKPOINTS: usize = 16;
/// And so many bytes, but for one, which is always kept.
const CHECKPOINT_BYTES: usize = 512 << 20;

/// The copies of recurrences' states, and of keys and values in windows, that a cache keeps, to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    /// How many there are.
    pub count: usize,
    /// How many there can be: the oldest goes first.
    pub most: usize,
    /// After how many tokens one is kept, besides those before each input of several tokens.
    pub every: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl KvCache {
    /// An empty cache, each block's part of it on the block's device.
    pub(super) fn new(
        layout: &CacheLayout,
        capacity: usize,
        batch: usize,
        dtype: DType,
        device: impl Fn(usize) -> Device,
    ) -> Result<KvCache> {
        let zeros = |block: usize, shape: &[usize], dtype| -> Result<Tensor> {
            Ok(Tensor::zeros(shape, dtype)?.to_device(device(block))?)
        };
        let keys_values = layout.keys_values.iter().map(|shape| {
            let (rows, window) = shape.rows(capacity, batch);
            let empty = |length| zeros(shape.block, &[shape.kv_heads, rows, length], dtype);
            let (keys, values) = (empty(shape.key_length)?, empty(shape.value_length)?);
            Ok(BlockCache { keys, values, window, first: 0 })
        });
        let blocks = keys_values.collect::<Result<Vec<_>>>()?;
        let states = layout.states.iter().map(|StateShape { block, shapes }| {
            shapes.iter().map(|shape| zeros(*block, shape, DType::F32)).collect()
        });
        let start = states.collect::<Result<Vec<State>>>()?;
        let (states, checkpoints) = (start.clone(), VecDeque::new());
        Ok(KvCache {
            blocks,
            states,
            start,
            checkpoints,
            capacity,
            batch,
            len: 0,
            dtype,
            decoder: CapturedDecoder::default(),
        })
    }

    /// The dtype of keys and values.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How the last single token was decoded.
    pub fn decoding(&self) -> Decoding<'_> {
        self.decoder.decoding()
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
        let size = |t: &Tensor| t.meta().packed_bytes();
        let blocks = self.blocks.iter().flat_map(|block| [&block.keys, &block.values]);
        blocks.chain(self.states.iter().flatten()).map(size).sum::<usize>()
            + self.checkpoints.iter().map(Checkpoint::bytes).sum::<usize>()
    }

    /// What it keeps to go back to earlier tokens; `None` where it goes back to any token without, because there is neither a recurrence nor a
    /// window that is smaller than the cache.
    pub fn checkpoints(&self) -> Option<Checkpoints> {
        let most = most_checkpoints(self.checkpoint_bytes());
        let bytes = self.checkpoints.iter().map(Checkpoint::bytes).sum();
        let checkpoints = Checkpoints { count: self.checkpoints.len(), most, every: CHECKPOINT_EVERY, bytes };
        self.is_selective().then_some(checkpoints)
    }

    /// The bytes of a checkpoint behind many tokens.
    fn checkpoint_bytes(&self) -> usize {
        let of_window = |block: &BlockCache| {
            let rows = block.window.map_or(0, |window| window + ALIGNMENT);
            let bytes = block.keys.meta().packed_bytes() + block.values.meta().packed_bytes();
            bytes / block.keys.dims()[1].max(1) * rows
        };
        let states = self.start.iter().flatten().map(|state| state.meta().packed_bytes());
        states.chain(self.blocks.iter().map(of_window)).sum()
    }

    /// The devices that hold it.
    pub fn devices(&self) -> impl Iterator<Item = Device> + '_ {
        self.blocks.iter().map(|block| &block.keys).chain(self.states.iter().flatten()).map(Tensor::device)
    }

    /// Whether a device that holds a part of it failed for good.
    pub fn is_lost(&self) -> bool {
        let tensors = self.blocks.iter().flat_map(|block| [&block.keys, &block.values]);
        tensors.chain(self.states.iter().flatten()).any(|x| x.storage().is_lost())
    }

    /// Forgets all tokens from position `len` on; returns how many are left. Those are fewer where a recurrence or a window cannot go back that far,
    /// but to an earlier checkpoint: whoever wants them has to decode them again.
    pub fn truncate(&mut self, len: usize) -> usize {
        if len >= self.len {
            return self.len;
        }
        self.checkpoints.retain(|checkpoint| checkpoint.len <= len);
        if self.states.is_empty() && self.blocks.iter().all(|block| block.reaches(len)) {
            self.len = len;
            return len;
        }
        // Where a device fails, or there is no checkpoint, the beginning is always at hand.
        let restored = self.checkpoints.back().and_then(|checkpoint| {
            let mut windows = self.blocks.iter_mut().zip(&checkpoint.windows);
            windows.try_for_each(|(block, copy)| block.restore(copy.as_ref())).ok()?;
            Some((checkpoint.len, checkpoint.states.clone()))
        });
        (self.len, self.states) = restored.unwrap_or_else(|| {
            self.blocks.iter_mut().for_each(|block| block.first = 0);
            (0, self.start.clone())
        });
        self.len
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

    /// How many tokens can be added at once.
    pub(super) fn batch(&self) -> usize {
        if self.blocks.iter().any(|block| block.window.is_some()) { self.batch } else { self.capacity }
    }

    /// Makes room for `n` tokens in blocks with a window, by moving what is seen to the first rows.
    pub(super) fn make_room(&mut self, n: usize) -> Result<()> {
        self.blocks.iter_mut().try_for_each(|block| block.make_room(self.len, n))
    }

    /// Views to write a block's keys and values `[kv_heads, n, length]` of the `n` tokens after [`len`](Self::len) to.
    pub(super) fn slots(&self, block: usize, n: usize) -> Result<[Tensor; 2]> {
        let block = &self.blocks[block];
        block.rows(self.len - block.first, n)
    }

    /// Views of a block's keys and values up to and including those tokens, and the position of the first.
    pub(super) fn read(&self, block: usize, n: usize) -> Result<([Tensor; 2], usize)> {
        let block = &self.blocks[block];
        Ok((block.rows(0, self.len - block.first + n)?, block.first))
    }

    /// All rows of a block's keys and values.
    pub(super) fn whole(&self, block: usize) -> [&Tensor; 2] {
        let BlockCache { keys, values, .. } = &self.blocks[block];
        [keys, values]
    }

    /// The row of each block's keys and values at which the next token enters.
    pub(super) fn next_rows(&self) -> impl Iterator<Item = usize> {
        self.blocks.iter().map(|block| self.len - block.first)
    }

    /// Whether a recurrence has a state.
    pub(super) fn has_states(&self) -> bool {
        !self.states.is_empty()
    }

    /// A recurrence's state behind the tokens so far.
    pub(super) fn state<const N: usize>(&self, place: usize) -> [&Tensor; N] {
        std::array::from_fn(|i| &self.states[place][i])
    }

    /// Counts the tokens that every block has written, behind which recurrences have these states.
    pub(super) fn advance(&mut self, n: usize, new_states: Vec<(usize, State)>) {
        let last = self.checkpoints.back().map_or(0, |checkpoint| checkpoint.len);
        let is_due = n > 1 || self.len >= last + CHECKPOINT_EVERY;
        if self.is_selective() && self.len > last && is_due {
            let windows = self.blocks.iter().map(|block| block.copy(self.len)).collect::<Result<_>>();
            // Without the memory for it, going back takes longer.
            if let Ok(windows) = windows {
                self.checkpoints.push_back(Checkpoint {
                    len: self.len,
                    states: self.states.clone(),
                    windows,
                });
            }
            if self.checkpoints.len() > most_checkpoints(self.checkpoint_bytes()) {
                self.checkpoints.pop_front();
            }
        }
        new_states.into_iter().for_each(|(place, state)| self.states[place] = state);
        self.len += n;
    }

    /// Whether it forgets what it may be asked to go back to.
    fn is_selective(&self) -> bool {
        !self.states.is_empty() || self.blocks.iter().any(|block| block.window.is_some())
    }
}

impl Checkpoint {
    fn bytes(&self) -> usize {
        let windows = self.windows.iter().flatten().flat_map(|copy| [&copy.keys, &copy.values]);
        windows.chain(self.states.iter().flatten()).map(|x| x.meta().packed_bytes()).sum()
    }
}

/// How many checkpoints of so many bytes are kept.
fn most_checkpoints(bytes: usize) -> usize {
    (CHECKPOINT_BYTES / bytes.max(1)).clamp(1, CHECKPOINTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_bounded_by_count_and_bytes() {
        assert_eq!(most_checkpoints(0), CHECKPOINTS);
        assert_eq!(most_checkpoints(CHECKPOINT_BYTES / CHECKPOINTS), CHECKPOINTS);
        assert_eq!(most_checkpoints(CHECKPOINT_BYTES / 5), 5);
        assert_eq!(most_checkpoints(2 * CHECKPOINT_BYTES), 1);
    }
}
