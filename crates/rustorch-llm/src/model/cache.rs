//! Keys and values of the tokens so far.

use crate::{Error, Result};
use rustorch_core::{DType, Device};
use rustorch_tensor::Tensor;
use std::collections::VecDeque;

/// The keys and values of every block for the tokens decoded so far: in `f16`, or in `f32` where the model had
/// [`Numerics::F32`](rustorch_core::Numerics::F32) when the cache was made. Recurrent blocks have a state in `f32` instead.
///
/// Heads are outermost, so that the keys of a head are contiguous.
pub struct KvCache {
    blocks: Vec<BlockCache>,
    /// Of each recurrence, behind the last token.
    states: Vec<State>,
    /// The states before the first token.
    start: Vec<State>,
    /// States behind earlier tokens, with their numbers of tokens, in ascending order.
    checkpoints: VecDeque<(usize, Vec<State>)>,
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

/// A recurrence's state: the inputs that it still needs, and what it remembers. Never written to, so that a copy is cheap.
pub(super) type State = Vec<Tensor>;

/// What a model keeps of the tokens so far.
#[derive(Default)]
pub(super) struct CacheLayout {
    pub(super) keys_values: Vec<CacheShape>,
    pub(super) states: Vec<StateShape>,
}

/// The keys and values of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheShape {
    pub(super) block: usize,
    pub(super) kv_heads: usize,
    pub(super) key_length: usize,
    pub(super) value_length: usize,
}

/// A recurrence's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateShape {
    pub(super) block: usize,
    pub(super) shapes: Vec<Vec<usize>>,
}

/// States are kept before each input of several tokens, and every so many tokens.
const CHECKPOINT_EVERY: usize = 256;
/// At most so many of them.
const CHECKPOINTS: usize = 16;
/// And so many bytes, but for one, which is always kept.
const CHECKPOINT_BYTES: usize = 512 << 20;

/// The copies of recurrences' states that a cache keeps, to go back to.
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
        dtype: DType,
        device: impl Fn(usize) -> Device,
    ) -> Result<KvCache> {
        let zeros = |block: usize, shape: &[usize], dtype| -> Result<Tensor> {
            Ok(Tensor::zeros(shape, dtype)?.to_device(device(block))?)
        };
        let keys_values = layout.keys_values.iter().map(|shape| {
            let empty = |length| zeros(shape.block, &[shape.kv_heads, capacity, length], dtype);
            Ok(BlockCache { keys: empty(shape.key_length)?, values: empty(shape.value_length)? })
        });
        let blocks = keys_values.collect::<Result<Vec<_>>>()?;
        let states = layout.states.iter().map(|StateShape { block, shapes }| {
            shapes.iter().map(|shape| zeros(*block, shape, DType::F32)).collect()
        });
        let start = states.collect::<Result<Vec<State>>>()?;
        let (states, checkpoints) = (start.clone(), VecDeque::new());
        Ok(KvCache { blocks, states, start, checkpoints, capacity, len: 0, dtype })
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
        let size = |t: &Tensor| t.meta().packed_bytes();
        let states = (self.checkpoints.len() + 1) * self.state_bytes();
        self.blocks.iter().map(|b| size(&b.keys) + size(&b.values)).sum::<usize>() + states
    }

    /// The copies of recurrences' states that it keeps; `None` where the model has no recurrence, and its cache goes back to any token.
    pub fn checkpoints(&self) -> Option<Checkpoints> {
        let (count, bytes) = (self.checkpoints.len(), self.state_bytes());
        let most = most_checkpoints(bytes);
        let checkpoints = Checkpoints { count, most, every: CHECKPOINT_EVERY, bytes: count * bytes };
        (!self.states.is_empty()).then_some(checkpoints)
    }

    /// The bytes of all states behind one token.
    fn state_bytes(&self) -> usize {
        self.start.iter().flatten().map(|t| t.meta().packed_bytes()).sum()
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

    /// Forgets all tokens from position `len` on; returns how many are left. Those are fewer where a recurrence cannot go back that far, but to
    /// an earlier checkpoint: whoever wants them has to decode them again.
    pub fn truncate(&mut self, len: usize) -> usize {
        if len < self.len {
            self.len = len;
            if !self.states.is_empty() {
                self.checkpoints.retain(|(at, _)| *at <= len);
                (self.len, self.states) =
                    self.checkpoints.back().cloned().unwrap_or_else(|| (0, self.start.clone()));
            }
        }
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

    /// A recurrence's state behind the tokens so far.
    pub(super) fn state<const N: usize>(&self, place: usize) -> [&Tensor; N] {
        std::array::from_fn(|i| &self.states[place][i])
    }

    /// Counts the tokens that every block has written, behind which recurrences have these states.
    pub(super) fn advance(&mut self, n: usize, new_states: Vec<(usize, State)>) {
        let last = self.checkpoints.back().map_or(0, |(at, _)| *at);
        let is_due = n > 1 || self.len >= last + CHECKPOINT_EVERY;
        if !self.states.is_empty() && self.len > last && is_due {
            self.checkpoints.push_back((self.len, self.states.clone()));
            if self.checkpoints.len() > most_checkpoints(self.state_bytes()) {
                self.checkpoints.pop_front();
            }
        }
        new_states.into_iter().for_each(|(place, state)| self.states[place] = state);
        self.len += n;
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
