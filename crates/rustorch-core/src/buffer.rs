//! Device memory (`Buffer`) and typed, strided views of it (`View`, `ViewMut`).

use crate::{DType, Device, Element, Fault, Layout};
use std::alloc;
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of host buffers: a cache line, and the widest SIMD register.
pub const HOST_ALIGN: usize = 64;

/// A piece of memory on one device, freed when dropped. Its contents are unspecified until written.
///
/// A buffer hands out addresses, not references: who reads or writes through them is governed by [`View`] and
/// [`ViewMut`].
pub struct Buffer {
    device: Device,
    bytes: usize,
    host: Option<NonNull<u8>>,
    owner: Owner,
}

enum Owner {
    Heap(alloc::Layout),
    /// Host memory that something else keeps alive, such as a mapped file; never written.
    Shared(#[allow(dead_code, reason = "held for its drop")] Arc<dyn Any + Send + Sync>),
    /// Whatever the device's driver needs, freed by its own drop.
    Device(Box<dyn Any + Send + Sync>),
}

// SAFETY: the address is owned by (or kept alive by) this value, and nothing is read or written through a shared
// `Buffer` except by way of `View`/`ViewMut`, whose constructors put the duty of exclusion on their caller.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Host memory from the global allocator, aligned to [`HOST_ALIGN`].
    ///
    /// # Errors
    /// [`Fault::OutOfMemory`] if `bytes` is more than an allocation may have. (Where the system overcommits, running
    /// out shows only when the memory is touched.)
    pub fn host(bytes: usize) -> Result<Buffer, Fault> {
        let fault = Fault::OutOfMemory { device: Device::CPU, requested: bytes };
        // At least one line, so that empty tensors have a valid address, too.
        let layout =
            alloc::Layout::from_size_align(bytes.max(HOST_ALIGN), HOST_ALIGN).map_err(|_| fault.clone())?;
        // SAFETY: the layout has non-zero size.
        let host = NonNull::new(unsafe { alloc::alloc(layout) }).ok_or(fault)?;
        Ok(Buffer { device: Device::CPU, bytes, host: Some(host), owner: Owner::Heap(layout) })
    }

    /// Read-only host memory kept alive by `owner`, for example a mapped file.
    ///
    /// # Safety
    /// The bytes that `owner` gives now stay where they are, and unchanged, for as long as it lives.
    pub unsafe fn shared<T: AsRef<[u8]> + Send + Sync + 'static>(owner: Arc<T>) -> Buffer {
        let bytes = T::as_ref(&owner);
        let (host, len) = (NonNull::from(bytes).cast::<u8>(), bytes.len());
        Buffer { device: Device::CPU, bytes: len, host: Some(host), owner: Owner::Shared(owner) }
    }

    /// Memory of another device; `memory` frees it when dropped.
    ///
    /// `host` is its address where the CPU can reach it directly.
    ///
    /// # Safety
    /// If given, `host` is valid for reads and writes of `bytes` bytes for as long as `memory` lives.
    pub unsafe fn device(
        device: Device,
        bytes: usize,
        host: Option<NonNull<u8>>,
        memory: Box<dyn Any + Send + Sync>,
    ) -> Buffer {
        Buffer { device, bytes, host, owner: Owner::Device(memory) }
    }

    /// Where the memory is.
    #[inline]
    pub fn location(&self) -> Device {
        self.device
    }

    /// Its size in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it must not be written, because something else owns it.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        matches!(self.owner, Owner::Shared(_))
    }

    /// The address, where the CPU can reach the memory directly.
    #[inline]
    pub fn host_address(&self) -> Option<NonNull<u8>> {
        self.host
    }

    /// The device's own handle, if it is a `T`.
    pub fn memory<T: 'static>(&self) -> Option<&T> {
        match &self.owner {
            Owner::Device(memory) => memory.downcast_ref(),
            _ => None,
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let (Owner::Heap(layout), Some(host)) = (&self.owner, self.host) {
            // SAFETY: allocated with this layout in `Buffer::host` and freed only here.
            unsafe { alloc::dealloc(host.as_ptr(), *layout) }
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes on {})", self.bytes, self.device)
    }
}

/// The bytes from the start of a buffer that a layout of this dtype reaches; `None` if its end is not on a block border.
#[inline]
pub fn bytes_reached(dtype: DType, layout: &Layout) -> Option<usize> {
    match layout.end() {
        // Empty: the end of a layout with elements lies behind its offset.
        end if end == layout.offset() => Some(0),
        end => dtype.bytes_for(end),
    }
}

/// A typed window for reading.
#[derive(Clone, Copy)]
pub struct View<'a> {
    buffer: &'a Buffer,
    dtype: DType,
    layout: &'a Layout,
    aliased: bool,
}

/// A typed window for writing, exclusive while it lives.
pub struct ViewMut<'a> {
    buffer: &'a Buffer,
    dtype: DType,
    layout: &'a Layout,
}

impl<'a> View<'a> {
    /// A window onto `buffer`.
    ///
    /// # Safety
    /// `layout` stays inside the buffer, whose host address, if it has one, is aligned to `dtype`; the bytes that it reaches hold
    /// valid values of `dtype`; and nothing writes them while the view lives.
    #[inline]
    pub unsafe fn new(buffer: &'a Buffer, dtype: DType, layout: &'a Layout) -> View<'a> {
        debug_assert!(
            bytes_reached(dtype, layout).is_some_and(|n| n <= buffer.bytes()),
            "{dtype} {layout:?} {buffer:?}"
        );
        View { buffer, dtype, layout, aliased: false }
    }

    /// A window onto the elements that an output of the same operation overwrites, each after it was read: what
    /// [`Op::may_overwrite`](crate::Op::may_overwrite) allows. There are no slices of such a view, only addresses.
    ///
    /// # Safety
    /// As of [`new`](Self::new), except that the output's [`ViewMut`], which has the same dtype and layout, may write.
    #[inline]
    pub unsafe fn aliased(buffer: &'a Buffer, dtype: DType, layout: &'a Layout) -> View<'a> {
        // SAFETY: this function's contract; nothing makes references to an aliased view's elements.
        View { aliased: true, ..unsafe { View::new(buffer, dtype, layout) } }
    }

    /// Whether an output of the same operation overwrites the elements: see [`View::aliased`].
    #[inline]
    pub fn is_aliased(&self) -> bool {
        self.aliased
    }

    /// A window onto some of the elements of this one.
    ///
    /// # Safety
    /// Every element of `layout` is one of this view's.
    #[inline]
    pub unsafe fn part<'b>(&self, layout: &'b Layout) -> View<'b>
    where
        'a: 'b,
    {
        View { layout, ..*self }
    }

    /// The elements as a slice, if they are of type `T`, contiguous, reachable by the CPU, and not aliased.
    #[inline]
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        if T::DTYPE != self.dtype || self.aliased || !self.layout.is_contiguous() {
            return None;
        }
        let address = self.address::<T>()?;
        // SAFETY: by the contract of `new`, the elements are valid and unchanging while the view lives.
        Some(unsafe { std::slice::from_raw_parts(address, self.layout.numel()) })
    }

    /// The address of the first element, if the elements are of type `T` and reachable by the CPU.
    ///
    /// Reading `address.add(i)` is sound for every `i` that is an index of [`layout`](Self::layout) minus its offset.
    #[inline]
    pub fn address<T: Element>(&self) -> Option<*const T> {
        if T::DTYPE != self.dtype {
            return None;
        }
        let base = self.buffer.host_address()?.as_ptr().cast::<T>();
        let offset = if self.layout.numel() == 0 { 0 } else { self.layout.offset() };
        // SAFETY: by the contract of `new`, a non-empty layout's offset is inside the buffer.
        Some(unsafe { base.add(offset) }.cast_const())
    }

    /// The bytes of a contiguous view of any dtype, block types included, if reachable by the CPU and not aliased.
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        if self.aliased || !self.layout.is_contiguous() {
            return None;
        }
        let base = self.buffer.host_address()?.as_ptr();
        let len = self.dtype.bytes_for(self.layout.numel())?;
        let start = if len == 0 { 0 } else { self.dtype.bytes_for(self.layout.offset())? };
        // SAFETY: by the contract of `new`, these bytes are inside the buffer, initialised and unchanging.
        Some(unsafe { std::slice::from_raw_parts(base.add(start), len) })
    }

    /// Every byte of the buffer from its start to the last that the layout reaches, if reachable by the CPU and not
    /// aliased: the form in which kernels address strided block types.
    ///
    /// # Safety
    /// Gaps between the layout's elements must be initialised and unchanging, too.
    pub unsafe fn bytes_to_end(&self) -> Option<&'a [u8]> {
        let len = bytes_reached(self.dtype, self.layout).filter(|_| !self.aliased)?;
        // SAFETY: inside the buffer by the contract of `new`, initialised by the contract of this function.
        Some(unsafe { std::slice::from_raw_parts(self.buffer.host_address()?.as_ptr(), len) })
    }
}

impl<'a> ViewMut<'a> {
    /// A window onto a buffer that nobody else holds.
    ///
    /// # Safety
    /// `layout` stays inside the buffer, whose host address, if it has one, is aligned to `dtype`, and does not overlap itself.
    #[inline]
    pub unsafe fn new(buffer: &'a mut Buffer, dtype: DType, layout: &'a Layout) -> ViewMut<'a> {
        // SAFETY: exclusive by the `&mut`; the rest is this function's contract.
        unsafe { ViewMut::from_shared(buffer, dtype, layout) }
    }

    /// A window onto part of a buffer that others hold, too.
    ///
    /// # Safety
    /// `layout` stays inside the buffer, whose host address, if it has one, is aligned to `dtype`, and does not overlap itself; the
    /// buffer is not read-only; nobody else reads
    /// or writes the bytes that it reaches while the view lives.
    #[inline]
    pub unsafe fn from_shared(buffer: &'a Buffer, dtype: DType, layout: &'a Layout) -> ViewMut<'a> {
        debug_assert!(
            bytes_reached(dtype, layout).is_some_and(|n| n <= buffer.bytes()),
            "{dtype} {layout:?} {buffer:?}"
        );
        debug_assert!(!buffer.is_read_only());
        ViewMut { buffer, dtype, layout }
    }

    /// The address of the first element, if the elements are of type `T` and reachable by the CPU.
    #[inline]
    pub fn address<T: Element>(&mut self) -> Option<*mut T> {
        if T::DTYPE != self.dtype {
            return None;
        }
        let base = self.buffer.host_address()?.as_ptr().cast::<T>();
        let offset = if self.layout.numel() == 0 { 0 } else { self.layout.offset() };
        // SAFETY: by the contract of the constructors, a non-empty layout's offset is inside the buffer.
        Some(unsafe { base.add(offset) })
    }

    /// The address of the first byte of a contiguous view and their number, if reachable by the CPU.
    /// The bytes may be uninitialised.
    pub fn byte_range(&mut self) -> Option<(*mut u8, usize)> {
        if !self.layout.is_contiguous() {
            return None;
        }
        let base = self.buffer.host_address()?.as_ptr();
        let len = self.dtype.bytes_for(self.layout.numel())?;
        let start = if len == 0 { 0 } else { self.dtype.bytes_for(self.layout.offset())? };
        // SAFETY: by the contract of the constructors, the range is inside the buffer.
        Some((unsafe { base.add(start) }, len))
    }

    /// Copies `src` to a contiguous view, if reachable by the CPU; `false` if it is not, or sizes differ.
    pub fn write_bytes(&mut self, src: &[u8]) -> bool {
        match self.byte_range() {
            Some((dst, len)) if len == src.len() => {
                // SAFETY: the range is ours alone by the contract of the constructors, so it cannot overlap `src`.
                unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), dst, len) };
                true
            }
            _ => false,
        }
    }
}

macro_rules! accessors {
    ($($view:ident),*) => {$(
        impl<'a> $view<'a> {
            /// The memory behind the window.
            #[inline]
            pub fn buffer(&self) -> &'a Buffer {
                self.buffer
            }

            /// The dtype.
            #[inline]
            pub fn dtype(&self) -> DType {
                self.dtype
            }

            /// Shape, strides and offset.
            #[inline]
            pub fn layout(&self) -> &'a Layout {
                self.layout
            }

            /// Where the memory is.
            #[inline]
            pub fn device(&self) -> Device {
                self.buffer.location()
            }
        }

        impl fmt::Debug for $view<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({}{} on {})", stringify!($view), self.dtype, self.layout.shape(), self.device())
            }
        }
    )*};
}

accessors!(View, ViewMut);
