//! Shared ownership of a tensor's parts, by blocks of memory that each thread keeps for the next tensor: results live
//! shortly, and asking the system for a block and giving it back takes longer than adding two scalars.

use crate::tensor::Inner;
use rustorch_core::{DType, Layout, Shape};
use rustorch_runtime::Storage;
use std::cell::RefCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Blocks that a thread keeps at most: 12 KiB.
const MOST: usize = 64;

thread_local! {
    /// Nothing else leads to these blocks.
    static SPARE: RefCell<Vec<Arc<MaybeUninit<Inner>>>> = const { RefCell::new(Vec::new()) };
}

/// An `Arc` whose block is kept when the last one goes.
#[derive(Clone)]
pub(crate) struct Handle(ManuallyDrop<Arc<Inner>>);

impl Handle {
    #[inline]
    pub(crate) fn new(inner: Inner) -> Handle {
        // SAFETY: the parts are written.
        unsafe { Handle::made_by(|place| place.write(inner)) }
    }

    /// The parts of a tensor whose elements are contiguous from the start of a storage: made where they stay.
    #[inline]
    pub(crate) fn packed(storage: Storage, dtype: DType, shape: &Shape) -> Handle {
        // SAFETY: each part is written. The layout's place may be uninitialised, as its type says.
        unsafe {
            Handle::made_by(|place| {
                // Reads nothing, but names every part: another one does not compile until it is written here, too.
                let Inner { storage: _, dtype: _, layout: _ } = *place;
                (&raw mut (*place).storage).write(storage);
                (&raw mut (*place).dtype).write(dtype);
                Layout::contiguous_in(&mut *(&raw mut (*place).layout).cast(), shape);
            })
        }
    }

    /// # Safety
    /// `make` initialises what it is given a pointer to.
    #[inline(always)]
    unsafe fn made_by(make: impl FnOnce(*mut Inner)) -> Handle {
        let spare = SPARE.try_with(|spare| spare.try_borrow_mut().ok()?.pop()).ok().flatten();
        let block = spare.unwrap_or_else(Arc::new_uninit);
        let place = Arc::into_raw(block).cast_mut().cast::<Inner>();
        make(place);
        // SAFETY: nothing else leads to a spare or new block, so it could be written; now it is initialised, and an `Arc` of
        // the same layout.
        Handle(ManuallyDrop::new(unsafe { Arc::from_raw(place) }))
    }
}

impl Deref for Handle {
    type Target = Inner;

    #[inline]
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Drop for Handle {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `self.0` is not used again.
        let block = unsafe { ManuallyDrop::take(&mut self.0) };
        if Arc::strong_count(&block) != 1 {
            return;
        }
        // No `Weak` is ever made, so a count of one means that this is the only handle, and the fence makes visible what
        // other threads did before they dropped theirs.
        fence(Ordering::Acquire);
        let place = Arc::into_raw(block).cast_mut();
        // SAFETY: nothing else leads to the parts, and they are not used again; the block is an `Arc` of the same layout.
        let block = unsafe {
            place.drop_in_place();
            Arc::from_raw(place.cast_const().cast::<MaybeUninit<Inner>>())
        };
        // A block that is not kept is freed after the list is let go of.
        let _rest = SPARE.try_with(|spare| match spare.try_borrow_mut() {
            Ok(mut spare) if spare.len() < MOST => {
                spare.push(block);
                None
            }
            _ => Some(block),
        });
    }
}
