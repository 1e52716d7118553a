//! The keys and values of positions that attention has seen.

use rustorch_tensor::{Error, Result, Tensor};

/// The keys and values of a sequence, or of a batch of them, for [`GroupedQueryAttention::forward_cached`]. Each layer has its own.
///
/// [`GroupedQueryAttention::forward_cached`]: crate::GroupedQueryAttention::forward_cached
#[derive(Clone, Debug, Default)]
pub struct KeyValueCache {
    /// Memory for keys and values, `[.., kv_heads, capacity, head_dim]`.
    memory: Option<[Tensor; 2]>,
    len: usize,
}

impl KeyValueCache {
    /// An empty cache. It takes the shape, the dtype and the device of what comes first.
    pub fn new() -> KeyValueCache {
        KeyValueCache::default()
    }

    /// How many positions it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all positions from `len` on, if it has more. Memory is kept.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Takes keys and values of more positions, and returns all.
    pub(super) fn append(&mut self, key: &Tensor, value: &Tensor) -> Result<[Tensor; 2]> {
        // An empty cache takes another batch.
        let memory = self.memory.as_ref().filter(|[keys, _]| !self.is_empty() || is_like(keys, key));
        if let Some([keys, _]) = memory
            && !is_like(keys, key)
        {
            let message = format!(
                "keys must be as those in the cache, {} on {}, but for their number",
                keys.dtype(),
                keys.device()
            );
            return Err(Error::shape("KeyValueCache", message, [keys.shape(), key.shape()]));
        }
        let dim = key.ndim() - 2;
        let added = key.dims()[dim];
        let end = self.len + added;
        let memory = match memory {
            Some(memory) if memory[0].dims()[dim] >= end => memory.clone(),
            memory => self.grown(memory, [key, value], end)?,
        };
        for (place, new) in memory.iter().zip([key, value]) {
            place.narrow(-2, self.len, added)?.copy_(new)?;
        }
        let all = [memory[0].narrow(-2, 0, end)?, memory[1].narrow(-2, 0, end)?];
        (self.memory, self.len) = (Some(memory), end);
        Ok(all)
    }

    /// Memory for twice the positions, at least, with those that are there.
    fn grown(&self, old: Option<&[Tensor; 2]>, like: [&Tensor; 2], end: usize) -> Result<[Tensor; 2]> {
        let dim = like[0].ndim() - 2;
        let capacity = old.map_or(end, |[keys, _]| end.max(2 * keys.dims()[dim]));
        let new = |i: usize| -> Result<Tensor> {
            let mut shape = like[i].dims().to_vec();
            shape[dim] = capacity;
            let memory = Tensor::zeros(shape, (like[i].dtype(), like[i].device()))?;
            if let Some(old) = old {
                memory.narrow(-2, 0, self.len)?.copy_(&old[i].narrow(-2, 0, self.len)?)?;
            }
            Ok(memory)
        };
        Ok([new(0)?, new(1)?])
    }
}

/// Whether the shapes are the same but for the length, and dtypes and devices, too.
fn is_like(memory: &Tensor, new: &Tensor) -> bool {
    let dim = new.ndim() - 2;
    let same = |i: usize| i == dim || memory.dims()[i] == new.dims()[i];
    memory.ndim() == new.ndim()
        && (0..new.ndim()).all(same)
        && memory.dtype() == new.dtype()
        && memory.device() == new.device()
}
