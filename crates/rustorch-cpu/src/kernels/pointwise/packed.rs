//! Functions of a few elements that lie side by side: without views, loops over strides and threads, which take longer
//! than the elements.

use super::Pointwise;
use rustorch_core::{DType, DTypeKind, Op, UnaryOp, dispatch_dtype};
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// See [`Backend::run_packed`](rustorch_core::Backend::run_packed).
///
/// # Safety
/// As there.
pub(crate) unsafe fn run(op: &Op, dtype: DType, args: &[*const u8], out: *mut u8, n: usize) -> bool {
    // SAFETY, of all slices: this function's contract. Results are of the arguments' type, or truth values.
    match (op, args) {
        (Op::Unary(op), &[x]) => dispatch_dtype!(dtype, all, T => {
            // SAFETY: see above.
            let x: &[T] = unsafe { from_raw_parts(x.cast(), n) };
            match op {
                UnaryOp::LogicalNot | UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::IsFinite => {
                    // SAFETY: see above.
                    T::property(*op, x, unsafe { room(out, n) });
                }
                // The result is real.
                _ if dtype.kind() == DTypeKind::Complex && op.output(dtype) != Some(dtype) => return false,
                // SAFETY: see above.
                _ => T::unary(*op, x, unsafe { room(out, n) }),
            }
            true
        }, _ => false),
        (Op::Binary(op), &[a, b]) => dispatch_dtype!(dtype, all, T => {
            // SAFETY: see above.
            let (a, b): (&[T], &[T]) = unsafe { (from_raw_parts(a.cast(), n), from_raw_parts(b.cast(), n)) };
            // SAFETY: see above.
            unsafe { T::binary(*op, a, b, room(out, n)) }
        }, _ => false),
        (Op::Compare(op), &[a, b]) => dispatch_dtype!(dtype, all, T => {
            // SAFETY: see above.
            let (a, b): (&[T], &[T]) = unsafe { (from_raw_parts(a.cast(), n), from_raw_parts(b.cast(), n)) };
            // SAFETY: see above.
            T::compare(*op, a, b, unsafe { room(out, n) });
            true
        }, _ => false),
        _ => false,
    }
}

/// # Safety
/// As of [`from_raw_parts_mut`], except that the elements may be uninitialised, which nothing reads.
unsafe fn room<'a, T>(out: *mut u8, n: usize) -> &'a mut [T] {
    // SAFETY: by the contract.
    unsafe { from_raw_parts_mut(out.cast(), n) }
}
