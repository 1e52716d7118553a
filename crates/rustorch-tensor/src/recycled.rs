//! Shared ownership by blocks of memory that each thread keeps for the next value: tensors and the nodes of graphs live shortly,
//! and asking the system for a block and giving it back takes longer than adding two scalars.

use std::cell::Cell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::LocalKey;

/// Blocks that a thread keeps at most, of each type.
const MOST: usize = 64;

/// The blocks that a thread keeps for values of a type, each of which holds the pointer to the next. Nothing else leads to them.
pub(crate) struct SpareBlocks<T> {
    first: Cell<*mut MaybeUninit<T>>,
    count: Cell<usize>,
}

impl<T> SpareBlocks<T> {
    /// A value is written where the pointer to the next block stands.
    const FITS: () = assert!(
        size_of::<T>() >= size_of::<*mut MaybeUninit<T>>()
            && align_of::<T>() >= align_of::<*mut MaybeUninit<T>>()
    );

    pub(crate) const fn new() -> SpareBlocks<T> {
        let () = SpareBlocks::<T>::FITS;
        SpareBlocks { first: Cell::new(ptr::null_mut()), count: Cell::new(0) }
    }

    /// A block, if there is one: an `Arc`'s.
    #[inline(always)]
    fn pop(&self) -> Option<*mut MaybeUninit<T>> {
        let first = self.first.get();
        if first.is_null() {
            return None;
        }
        // SAFETY: `push` wrote the pointer there, and nothing but this list leads to the block.
        self.first.set(unsafe { first.cast::<*mut MaybeUninit<T>>().read() });
        self.count.set(self.count.get() - 1);
        Some(first)
    }

    /// Keeps a block, unless there are enough.
    #[inline(always)]
    fn push(&self, block: *mut MaybeUninit<T>) -> bool {
        let count = self.count.get();
        if count == MOST {
            return false;
        }
        // SAFETY: the block is the caller's, an `Arc`'s to which nothing else leads, and the pointer fits.
        unsafe { block.cast::<*mut MaybeUninit<T>>().write(self.first.get()) };
        self.first.set(block);
        self.count.set(count + 1);
        true
    }
}

impl<T> Drop for SpareBlocks<T> {
    fn drop(&mut self) {
        while let Some(block) = self.pop() {
            // SAFETY: what is in the list are `Arc`s without a value, which only the list owned.
            drop(unsafe { Arc::from_raw(block.cast_const()) });
        }
    }
}

/// A type whose blocks are kept.
pub(crate) trait Recycle: Sized + 'static {
    /// The thread's spare blocks.
    fn spare() -> &'static LocalKey<SpareBlocks<Self>>;

    /// Drops a value whose block is kept: as `drop_in_place`, or a shorter way to the same end.
    ///
    /// # Safety
    /// The pointer is to a value to which nothing else leads, and which is not used again.
    #[inline(always)]
    unsafe fn release(place: *mut Self) {
        // SAFETY: the caller's promise.
        unsafe { place.drop_in_place() };
    }
}

/// An `Arc` whose block is kept when the last one goes.
pub(crate) struct Recycled<T: Recycle>(ManuallyDrop<Arc<T>>);

impl<T: Recycle> Recycled<T> {
    #[inline]
    pub(crate) fn new(value: T) -> Recycled<T> {
        // SAFETY: the value is written.
        unsafe { Recycled::made_by(|place: *mut T| place.write(value)) }
    }

    /// # Safety
    /// `make` initialises what it is given a pointer to.
    #[inline(always)]
    pub(crate) unsafe fn made_by(make: impl FnOnce(*mut T)) -> Recycled<T> {
        let spare = T::spare().try_with(SpareBlocks::pop).ok().flatten();
        let place = spare.unwrap_or_else(|| Arc::into_raw(Arc::new_uninit()).cast_mut()).cast::<T>();
        make(place);
        // SAFETY: nothing else leads to a spare or new block, so it could be written; now it is initialised, and an `Arc` of
        // the same layout.
        Recycled(ManuallyDrop::new(unsafe { Arc::from_raw(place) }))
    }

    /// The value's address, which keeps the handle: [`from_raw`](Self::from_raw) gives it back.
    #[inline]
    pub(crate) fn into_raw(self) -> *const T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this.0` is not used again.
        Arc::into_raw(unsafe { ManuallyDrop::take(&mut this.0) })
    }

    /// # Safety
    /// The pointer came from [`into_raw`](Self::into_raw), and each of those is turned back once.
    #[inline]
    pub(crate) unsafe fn from_raw(place: *const T) -> Recycled<T> {
        // SAFETY: the caller's promise.
        Recycled(ManuallyDrop::new(unsafe { Arc::from_raw(place) }))
    }

    /// The value's address, which tells handles to different values apart.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *const T {
        Arc::as_ptr(&self.0)
    }

    /// Whether both lead to the same value.
    #[inline]
    pub(crate) fn same(&self, other: &Recycled<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The value, where this is the only handle.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: nobody else leads to the value, and this handle is borrowed for as long as the result.
        self.is_only().then(|| unsafe { &mut *Arc::as_ptr(&self.0).cast_mut() })
    }

    /// Whether this is the only handle, and what others did before they dropped theirs is visible here.
    #[inline]
    fn is_only(&self) -> bool {
        // No `Weak` is ever made, so a count of one means that there is no other handle. It is read without an order; dropping a
        // handle releases.
        let only = Arc::strong_count(&self.0) == 1;
        if only {
            fence(Ordering::Acquire);
        }
        only
    }
}

impl<T: Recycle> Clone for Recycled<T> {
    #[inline]
    fn clone(&self) -> Recycled<T> {
        Recycled(ManuallyDrop::new(Arc::clone(&self.0)))
    }
}

impl<T: Recycle> Deref for Recycled<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Recycle> Drop for Recycled<T> {
    #[inline(always)]
    fn drop(&mut self) {
        let only = self.is_only();
        // SAFETY: `self.0` is not used again.
        let block = unsafe { ManuallyDrop::take(&mut self.0) };
        if only {
            drop_last(block);
        }
    }
}

/// Drops the only handle, and keeps its block.
#[inline(never)]
fn drop_last<T: Recycle>(last: Arc<T>) {
    let place = Arc::into_raw(last).cast_mut();
    // SAFETY: nothing else leads to the value, and it is not used again.
    unsafe { T::release(place) };
    let block = place.cast::<MaybeUninit<T>>();
    if !T::spare().try_with(|spare| spare.push(block)).unwrap_or(false) {
        // SAFETY: the block is an `Arc` of the same layout, whose only handle this function had.
        drop(unsafe { Arc::from_raw(block.cast_const()) });
    }
}
