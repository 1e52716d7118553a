//! Keys and values of one block, of which some see a window of the last tokens alone.

use crate::Result;
use rustorch_tensor::Tensor;

/// Positions of first rows are multiples of so many: attention adds up keys in groups, counted from the first.
pub(super) const ALIGNMENT: usize = 64;

/// Keys and values of the last tokens, or of all.
pub(super) struct BlockCache {
    /// `[kv_heads, rows, key_length]`.
    pub(super) keys: Tensor,
    /// `[kv_heads, rows, value_length]`.
    pub(super) values: Tensor,
    /// How many of the last tokens are seen, if that is fewer than the cache holds.
    pub(super) window: Option<usize>,
    /// The position of the token in the first row.
    pub(super) first: usize,
}

/// The rows of a block from this position on.
pub(super) struct WindowCopy {
    first: usize,
    pub(super) keys: Tensor,
    pub(super) values: Tensor,
}

impl BlockCache {
    /// The position that the first row must not be behind of, so that a token at `position` sees all of its window.
    fn needed(&self, position: usize) -> usize {
        let window = self.window.unwrap_or(usize::MAX);
        (position + 1).saturating_sub(window) / ALIGNMENT * ALIGNMENT
    }

    /// Whether the next token may be at this position.
    pub(super) fn reaches(&self, position: usize) -> bool {
        self.first <= self.needed(position)
    }

    pub(super) fn rows(&self, row: usize, n: usize) -> Result<[Tensor; 2]> {
        Ok([self.keys.narrow(1, row, n)?, self.values.narrow(1, row, n)?])
    }

    /// A copy of what tokens from `len` on see of those before; nothing where the block keeps all.
    pub(super) fn copy(&self, len: usize) -> Result<Option<WindowCopy>> {
        if self.window.is_none() {
            return Ok(None);
        }
        let first = self.needed(len).max(self.first);
        let [keys, values] = self.rows(first - self.first, len - first)?;
        Ok(Some(WindowCopy { first, keys: keys.copy()?, values: values.copy()? }))
    }

    /// Makes the first rows those of a copy.
    pub(super) fn restore(&mut self, copy: Option<&WindowCopy>) -> Result<()> {
        let Some(WindowCopy { first, keys, values }) = copy else { return Ok(()) };
        let [to_keys, to_values] = self.rows(0, keys.dims()[1])?;
        to_keys.copy_(keys)?;
        to_values.copy_(values)?;
        self.first = *first;
        Ok(())
    }

    /// Moves rows so that `n` more fit behind `len` tokens.
    pub(super) fn make_room(&mut self, len: usize, n: usize) -> Result<()> {
        if len - self.first + n > self.keys.dims()[1] {
            let seen = self.copy(len)?;
            self.restore(seen.as_ref())?;
        }
        Ok(())
    }
}
