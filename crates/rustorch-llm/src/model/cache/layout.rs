//! What a model keeps of the tokens so far, by block.

use super::block::ALIGNMENT;
use rustorch_core::DType;

/// What a model keeps of the tokens so far.
#[derive(Default)]
pub(in crate::model) struct CacheLayout {
    pub(in crate::model) keys_values: Vec<CacheShape>,
    pub(in crate::model) states: Vec<StateShape>,
}

/// The keys and values of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) struct CacheShape {
    pub(in crate::model) block: usize,
    pub(in crate::model) kv_heads: usize,
    pub(in crate::model) key_length: usize,
    pub(in crate::model) value_length: usize,
    /// How many of the last tokens attention sees, if not all.
    pub(in crate::model) window: Option<usize>,
}

/// A recurrence's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::model) struct StateShape {
    pub(in crate::model) block: usize,
    pub(in crate::model) shapes: Vec<Vec<usize>>,
}

impl CacheLayout {
    /// The bytes of an empty cache.
    pub(in crate::model) fn bytes(&self, capacity: usize, batch: usize, dtype: DType) -> usize {
        let of_block = |shape: &CacheShape| {
            let values = shape.kv_heads * (shape.key_length + shape.value_length);
            let token = values * dtype.size().expect("keys and values are f16 or f32");
            shape.rows(capacity, batch).0.saturating_mul(token)
        };
        let elements = |state: &StateShape| {
            state.shapes.iter().map(|shape| shape.iter().product::<usize>()).sum::<usize>()
        };
        let states = self.states.iter().map(|state| elements(state) * size_of::<f32>());
        self.keys_values.iter().map(of_block).chain(states).fold(0, usize::saturating_add)
    }
}

impl CacheShape {
    /// How many tokens a cache of this capacity keeps of the block, and the window, if it is that and one batch, and not all.
    pub(super) fn rows(&self, capacity: usize, batch: usize) -> (usize, Option<usize>) {
        let rows = |window: usize| window.saturating_add(batch).saturating_add(ALIGNMENT);
        let window = self.window.filter(|&window| rows(window) < capacity);
        (window.map_or(capacity, rows), window)
    }
}
