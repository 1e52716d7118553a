//! Where the new tokens of a forward pass are: at a position that is known, or at one that is data of a captured graph.

use super::decoder::ForwardPass;
use crate::{Error, Result};
use rustorch_core::{Attention, CachedAttention, Op};
use rustorch_tensor::Tensor;

/// Where the new tokens are.
pub(super) enum Position {
    /// Behind so many.
    At(usize),
    /// Wherever a run says.
    Rows {
        /// The row at which they enter each cache of keys and values, `[caches]`.
        rows: Tensor,
        /// How many rows of each cache attention may read: all tokens so far are among these first ones.
        most: usize,
    },
}

/// Keys or values.
#[derive(Clone, Copy)]
pub(super) enum KeysOrValues {
    Keys = 0,
    Values = 1,
}

/// The error of a module that a captured graph would be right for one position of only.
pub(super) fn reads_position() -> Error {
    Error::Request("a part of the model reads the tokens' position in Rust".into())
}

impl Position {
    /// The position of the first new token.
    ///
    /// # Errors
    /// If it is data.
    pub(super) fn start(&self) -> Result<usize> {
        match self {
            Position::At(start) => Ok(*start),
            Position::Rows { .. } => Err(reads_position()),
        }
    }
}

impl ForwardPass<'_> {
    /// Puts keys or values of the new tokens, `[kv_heads, n, columns]`, into a cache, from a column on.
    pub(super) fn remember(&self, cache: usize, part: KeysOrValues, column: usize, x: &Tensor) -> Result<()> {
        let columns = x.dims()[2];
        match &self.position {
            Position::At(_) => {
                let slots = &self.cache.slots(cache, self.n)?[part as usize];
                slots.narrow(2, column, columns)?.copy_(x)?;
            }
            Position::Rows { rows, .. } => {
                let all = self.cache.whole(cache)[part as usize];
                all.narrow(2, column, columns)?.slice_update_(1, x, &rows.select(0, cache as isize)?)?;
            }
        }
        Ok(())
    }

    /// Attention of queries over a cache, the first of which is the new token `first`: what `run` makes of the operation and its arguments, of
    /// which the first three are queries, keys and values.
    pub(super) fn attend(
        &self,
        cache: usize,
        first: usize,
        query: &Tensor,
        attention: Attention,
        run: impl FnOnce(Op, &[&Tensor]) -> Result<Tensor>,
    ) -> Result<Tensor> {
        match &self.position {
            Position::At(start) => {
                let ([keys, values], first_key) = self.cache.read(cache, self.n)?;
                let causal = self.causal.then_some(start + first - first_key);
                run(Op::Attention(Attention { causal, ..attention }), &[query, &keys, &values])
            }
            Position::Rows { rows, most } => {
                let [keys, values] = self.cache.whole(cache).map(|x| x.narrow(1, 0, x.dims()[1].min(*most)));
                let (keys, values) = (keys?, values?);
                let row = rows.select(0, cache as isize)?;
                let row = if first == 0 { row } else { row.add(first as i64)? };
                run(Op::CachedAttention(CachedAttention { attention }), &[query, &keys, &values, &row])
            }
        }
    }
}
