//! Fast path for pointwise functions of a few contiguous elements on the CPU.
//!
//! Adding two scalars takes a nanosecond, so everything around it counts. Where all arguments are alike, the result
//! has their shape, nothing needs to be inferred, and the CPU computes from addresses instead of views
//! ([`Backend::run_packed`](rustorch_core::Backend::run_packed)). Checks, guards and memory are those of every operation.
//! Whatever is not plainly fit for this way takes the general one, which also deals with every fault.

use super::{FromOutput, HybridExecutor, Operand};
use crate::storage::ReadGuard;
use rustorch_core::{DType, FromScalar, Op, Result, Scalar, Shape, dispatch_dtype};
use std::mem::MaybeUninit;

/// Elements up to which it pays.
pub(crate) const MOST: usize = 64;

/// One scalar again and again, as elements of any dtype.
type Repeated = [MaybeUninit<u128>; MOST];

impl HybridExecutor {
    /// As [`run`](Self::run), for an operation that has one result.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn run_one<const N: usize, R: FromOutput>(&self, op: &Op, args: &[Operand<'_>; N]) -> Result<R> {
        match self.run_alike(op, args) {
            Some(result) => Ok(result),
            None => self.run_single(op, args, None),
        }
    }

    /// As [`run_one`](Self::run_one), for a tensor and a scalar, which takes part as an element of the tensor's dtype: the
    /// second argument, or the first.
    ///
    /// # Errors
    /// As [`run`](Self::run), and if the dtype is a block type.
    #[inline]
    pub fn run_with_scalar<R: FromOutput>(
        &self,
        op: &Op,
        x: Operand<'_>,
        number: Scalar,
        is_first: bool,
    ) -> Result<R> {
        let mut repeated: Repeated = [const { MaybeUninit::uninit() }; MOST];
        let mut elements: Repeated = [const { MaybeUninit::uninit() }; MOST];
        if let Some(fast_path) = self.fast_path(op, &x, 2, 1) {
            let guard = x.storage.read();
            if let Some(address) = fast_path.address_of(&x, &guard, &mut elements) {
                let number = fill(&mut repeated[..fast_path.n], x.dtype, number).cast();
                let args = if is_first { [number, address] } else { [address, number] };
                // SAFETY: the scalar stands there `n` times, and as many elements of `x`, which is guarded.
                if let Some(result) = unsafe { self.compute_fast_path(op, &x, &fast_path, &args) } {
                    return Ok(result);
                }
            }
        }
        let bytes = fill(&mut repeated[..1], x.dtype, number).cast::<u8>();
        // SAFETY: one element of the dtype was written there.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, x.dtype.size().unwrap_or(0)) };
        let number = self.upload(bytes, x.dtype, &Shape::scalar(), x.storage)?;
        let args = if is_first { [number.operand(), x] } else { [x, number.operand()] };
        self.run_single(op, &args, None)
    }

    #[inline(always)]
    fn run_alike<const N: usize, R: FromOutput>(&self, op: &Op, args: &[Operand<'_>; N]) -> Option<R> {
        let (first, rest) = args.split_first()?;
        let fast_path = self.fast_path(op, first, N, N)?;
        let is_alike =
            |arg: &Operand<'_>| arg.dtype == first.dtype && arg.layout.shape() == first.layout.shape();
        if !rest.iter().all(is_alike) {
            return None;
        }
        let guards = args.each_ref().map(|arg| arg.storage.read());
        let mut elements = [const { [const { MaybeUninit::uninit() }; MOST] }; N];
        let mut addresses = [std::ptr::null(); N];
        for (i, address) in addresses.iter_mut().enumerate() {
            *address = fast_path.address_of(&args[i], &guards[i], &mut elements[i])?;
        }
        // SAFETY: all arguments have the dtype, as many elements at their addresses, and are guarded.
        unsafe { self.compute_fast_path(op, first, &fast_path, &addresses) }
    }

    /// Whether an operation on `terms` arguments like `x`, of which `tensors` are tensors, may go this way.
    #[inline(always)]
    fn fast_path(&self, op: &Op, x: &Operand<'_>, terms: usize, tensors: usize) -> Option<FastPath> {
        let n = x.layout.numel();
        if n == 0 || n > MOST {
            return None;
        }
        let size = x.dtype.size()?;
        let out = op.elementwise_output(x.dtype, terms)?;
        let out_bytes = n * out.size()?;
        // A scalar counts as a tensor of one element, which it would be otherwise.
        let bytes = || size * (n * tensors + terms - tensors) + out_bytes;
        if !self.needs_no_plan(bytes) {
            return None;
        }
        Some(FastPath { n, size, out, out_bytes })
    }

    /// `None`, where the general way has to be taken.
    ///
    /// # Safety
    /// `fast_path` was made for `x` and the operation, and each address is that of as many elements of its dtype, which nobody
    /// writes meanwhile.
    #[inline(always)]
    unsafe fn compute_fast_path<R: FromOutput>(
        &self,
        op: &Op,
        x: &Operand<'_>,
        fast_path: &FastPath,
        args: &[*const u8],
    ) -> Option<R> {
        let cpu = self.cpu();
        let memory = cpu.fresh(fast_path.out_bytes, fast_path.out == DType::Bool).ok()?;
        let place = memory.buffer().host_address()?.as_ptr();
        // SAFETY: by the contract; the operation has a result for the dtype, and the room is fresh and aligned to any dtype.
        let done = unsafe { cpu.backend.run_packed(op, x.dtype, args, place, fast_path.n) };
        // SAFETY: then all elements are written, which fill the memory.
        done.then(|| R::packed(unsafe { memory.assume_init() }, fast_path.out, x.layout.shape()))
    }
}

/// An operation that may go this way, and its first tensor.
struct FastPath {
    /// Elements of each argument and of the result.
    n: usize,
    /// Bytes of an element of the arguments.
    size: usize,
    /// The result's dtype.
    out: DType,
    out_bytes: usize,
}

impl FastPath {
    /// Where the elements of an argument are contiguous, if it is on the CPU and may be read: in its storage, or, of one that repeats
    /// one element, as a broadcast scalar does, in `elements`.
    #[inline(always)]
    fn address_of(
        &self,
        x: &Operand<'_>,
        _guard: &ReadGuard<'_>,
        elements: &mut Repeated,
    ) -> Option<*const u8> {
        if !x.device().is_cpu() || !x.is_readable() {
            return None;
        }
        let is_contiguous = x.layout.is_contiguous();
        if !is_contiguous && x.layout.strides().iter().any(|&stride| stride != 0) {
            return None;
        }
        let len = if is_contiguous { self.n } else { 1 };
        let end = x.layout.offset().checked_add(len)?.checked_mul(self.size)?;
        if end > x.storage.bytes() {
            return None;
        }
        let base = x.storage.buffer().host_address()?.as_ptr();
        // SAFETY: inside the storage, as the end is.
        let first = unsafe { base.add(x.layout.offset() * self.size) }.cast_const();
        if is_contiguous {
            return Some(first);
        }
        // SAFETY: the element may be read and is guarded; there is room for `n` elements, which take 16 bytes at most.
        unsafe { repeat(first, self.size, elements.as_mut_ptr().cast(), self.n) };
        Some(elements.as_ptr().cast())
    }
}

/// Writes an element of `size` bytes `n` times.
///
/// # Safety
/// `from` can be read and `to` written, both aligned to an element.
#[cold]
unsafe fn repeat(from: *const u8, size: usize, to: *mut u8, n: usize) {
    for i in 0..n {
        // SAFETY: this function's contract.
        unsafe { std::ptr::copy_nonoverlapping(from, to.add(i * size), size) };
    }
}

/// Writes a scalar as elements of a dtype, one for each place, and returns their address. A block type has none.
#[inline]
fn fill(places: &mut [MaybeUninit<u128>], dtype: DType, number: Scalar) -> *const u128 {
    dispatch_dtype!(dtype, all, T => {
        let value = T::from_scalar(number);
        for i in 0..places.len() {
            // SAFETY: the places have room for as many elements, which take 16 bytes at most and are aligned to as many.
            unsafe { places.as_mut_ptr().cast::<T>().add(i).write(value) };
        }
    }, _ => {});
    places.as_ptr().cast()
}
