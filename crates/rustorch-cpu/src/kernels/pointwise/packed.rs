//! Pointwise functions of contiguous elements: without views, loops over strides and threads, which take longer than a few
//! elements do, and which a fused op's steps have in common.

use super::select::{Bounded, Gated, choose};
use super::{Pointwise, cast, checked, complex};
use crate::kernels::strided::unreachable_memory;
use rustorch_core::{Cast, Clamp, DType, DTypeKind, Fault, Op, UnaryOp, Where, dispatch_dtype};
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// See [`Backend::run_packed`](rustorch_core::Backend::run_packed).
///
/// # Safety
/// As there.
pub(crate) unsafe fn run(op: &Op, dtype: DType, args: &[*const u8], out: *mut u8, n: usize) -> bool {
    // SAFETY, of all slices: this function's contract. Results are of the arguments' type, or booleans.
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

/// Runs any pointwise op on arguments of the given dtypes.
///
/// # Safety
/// The operation has a result for the dtypes. Each argument points to `n` elements of its dtype, `out` to room for `n` of the
/// result's, which overlaps no argument; all are aligned, and nobody else writes the arguments or uses the room meanwhile.
pub(super) unsafe fn run_any(
    op: &Op,
    args: &[(DType, *const u8)],
    out: *mut u8,
    n: usize,
) -> Result<(), Fault> {
    // SAFETY, of all slices: this function's contract.
    match (op, args) {
        (Op::Where(Where), &[(_, condition), (dtype, a), (_, b)]) => dispatch_dtype!(dtype, all, T => {
            // SAFETY: see above.
            unsafe {
                let (a, b): (&[T], &[T]) = (from_raw_parts(a.cast(), n), from_raw_parts(b.cast(), n));
                choose(from_raw_parts(condition.cast(), n), a, b, room(out, n));
            }
            Ok(())
        }, _ => Err(unreachable_memory())),
        (Op::Clamp(Clamp { min, max }), &[(dtype, x)]) => dispatch_dtype!(dtype, real, T => {
            // SAFETY: see above.
            unsafe { T::clamp_all([*min, *max], from_raw_parts(x.cast(), n), room(out, n)) };
            Ok(())
        }, _ => Err(unreachable_memory())),
        (Op::Glu(op), &[(dtype, gates), (_, ups)]) => dispatch_dtype!(dtype, float, T => {
            // SAFETY: see above.
            unsafe {
                T::gate_all(*op, from_raw_parts(gates.cast(), n), from_raw_parts(ups.cast(), n), room(out, n));
            }
            Ok(())
        }, _ => Err(unreachable_memory())),
        // SAFETY: this function's contract.
        (Op::Cast(Cast { to }), &[(from, x)]) => unsafe { cast::cast_packed([from, *to], x, out, n) },
        (Op::Unary(op @ (UnaryOp::Abs | UnaryOp::Real | UnaryOp::Imag | UnaryOp::Angle)), &[(dtype, x)])
            if dtype.kind() == DTypeKind::Complex =>
        {
            dispatch_dtype!(dtype, complex, T => {
                // SAFETY: see above.
                unsafe { complex::part::<T>(*op, from_raw_parts(x.cast(), n), room(out, n)) };
                Ok(())
            }, _ => Err(unreachable_memory()))
        }
        (op, &[(dtype, x)]) => {
            // SAFETY: this function's contract.
            if unsafe { run(op, dtype, &[x], out, n) } { Ok(()) } else { Err(unreachable_memory()) }
        }
        (op, &[(dtype, a), (_, b)]) => {
            // SAFETY: this function's contract.
            match (unsafe { run(op, dtype, &[a, b], out, n) }, op) {
                (true, _) => Ok(()),
                (false, Op::Binary(op)) => checked(*op, false),
                (false, _) => Err(unreachable_memory()),
            }
        }
        _ => Err(unreachable_memory()),
    }
}

/// # Safety
/// As of [`from_raw_parts_mut`], except that the elements may be uninitialised, which nothing reads.
pub(super) unsafe fn room<'a, T>(out: *mut u8, n: usize) -> &'a mut [T] {
    // SAFETY: by the contract.
    unsafe { from_raw_parts_mut(out.cast(), n) }
}
