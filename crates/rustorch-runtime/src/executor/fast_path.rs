//! Fast path for pointwise functions of a few contiguous elements on the CPU.
//!
//! Adding two scalars takes a nanosecond, so everything around it counts. Where all arguments are alike, the result
//! has their shape, nothing needs to be inferred, and the CPU computes from addresses instead of views
//! ([`Backend::run_packed`](rustorch_core::Backend::run_packed)). Checks, guards and memory are those of every operation.
//! Whatever is not plainly fit for this way takes the general one, which also deals with every fault.

use super::{FromOutput, HybridExecutor, Operand, Output};
use rustorch_core::{DType, FromScalar, Op, Result, Scalar, Shape, dispatch_dtype};
use std::mem::MaybeUninit;

/// Elements up to which it pays.
const MOST: usize = 64;

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
            None => self.run_alone(op, args).map(R::output),
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
        if let Some(fast_path) = self.fast_path(op, &x, 2, 1) {
            let number = fill(&mut repeated[..fast_path.n], x.dtype, number).cast();
            let _guard = x.storage.read();
            let args = if is_first { [number, fast_path.address] } else { [fast_path.address, number] };
            // SAFETY: the scalar stands there `n` times, and `x` is as `fast_path` says, and guarded.
            if let Some(result) = unsafe { self.compute_fast_path(op, &x, &fast_path, &args) } {
                return Ok(result);
            }
        }
        let bytes = fill(&mut repeated[..1], x.dtype, number).cast::<u8>();
        // SAFETY: one element of the dtype was written there.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, x.dtype.size().unwrap_or(0)) };
        let number = self.upload(bytes, x.dtype, &Shape::scalar(), x.storage)?;
        let args = if is_first { [number.operand(), x] } else { [x, number.operand()] };
        self.run_alone(op, &args).map(R::output)
    }

    #[cold]
    fn run_alone(&self, op: &Op, args: &[Operand<'_>]) -> Result<Output> {
        Ok(self.run_asked(op, args, None)?.pop().expect("every operation has a result"))
    }

    #[inline(always)]
    fn run_alike<const N: usize, R: FromOutput>(&self, op: &Op, args: &[Operand<'_>; N]) -> Option<R> {
        let (first, rest) = args.split_first()?;
        let fast_path = self.fast_path(op, first, N, N)?;
        let mut addresses = [fast_path.address; N];
        for (address, arg) in addresses[1..].iter_mut().zip(rest) {
            if arg.dtype != first.dtype || arg.layout.shape() != first.layout.shape() {
                return None;
            }
            *address = packed_address(arg, fast_path.n, fast_path.size)?;
        }
        let _guards = args.each_ref().map(|arg| arg.storage.read());
        // SAFETY: all arguments have the dtype and as many elements, are contiguous and guarded.
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
        Some(FastPath { n, size, out, out_bytes, address: packed_address(x, n, size)? })
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
    address: *const u8,
}

/// Where the `n` elements are, of `size` bytes each, if they are contiguous on the CPU and may be read.
#[inline(always)]
fn packed_address(x: &Operand<'_>, n: usize, size: usize) -> Option<*const u8> {
    if !x.layout.is_contiguous() || !x.device().is_cpu() || !x.is_readable() {
        return None;
    }
    let end = x.layout.offset().checked_add(n)?.checked_mul(size)?;
    if end > x.storage.bytes() {
        return None;
    }
    let base = x.storage.buffer().host_address()?.as_ptr();
    // SAFETY: inside the storage, as the end is.
    Some(unsafe { base.add(x.layout.offset() * size) })
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
