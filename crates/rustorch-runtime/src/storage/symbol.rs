//! Storages without memory, which stand for results that a capture records.

use super::{Block, Storage};
use crate::device_state::DeviceState;
use rustorch_core::Buffer;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a storage without memory stands for.
pub(crate) struct Symbol {
    /// The capture, told apart from others by its number.
    pub(crate) capture: u64,
    /// Its number among the storages that the capture knows.
    pub(crate) slot: usize,
    /// What made it: the operation's name, or `input`.
    pub(crate) origin: &'static str,
    /// Where the memory would be.
    pub(crate) state: Arc<DeviceState>,
}

impl Storage {
    /// A storage that stands for so many bytes. Its alignment, 0, suits no dtype: operands of it are refused wherever elements are
    /// to be read, but by the executor that captures.
    pub(crate) fn symbolic(symbol: Symbol, bytes: usize, truth: bool) -> Storage {
        let device = symbol.state.device;
        // SAFETY: no address is given.
        let buffer = unsafe { Buffer::device(device, 0, None, Box::new(symbol)) };
        let mut block = Block::new(buffer, bytes, truth, None);
        block.align = 0;
        Storage::from_block(Arc::new(block))
    }

    /// What the storage stands for, if it has no memory.
    #[inline]
    pub(crate) fn symbol(&self) -> Option<&Symbol> {
        if self.0.align == 0 { self.buffer().memory() } else { None }
    }

    /// Whether it has no memory: it stands for a result that a capture records.
    #[inline]
    pub fn is_symbolic(&self) -> bool {
        self.symbol().is_some()
    }

    /// Of a storage without memory what made it: the name of an operation, or `input`.
    pub fn symbol_origin(&self) -> Option<&'static str> {
        self.symbol().map(|symbol| symbol.origin)
    }

    /// Notes that a capture recorded a write in place, for tensors that the captured function saved.
    pub(crate) fn note_captured_write(&self) {
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// Takes back that note when the capture ends, since nothing was written.
    pub(crate) fn forget_captured_write(&self) {
        self.0.version.fetch_sub(1, Ordering::Release);
    }
}
