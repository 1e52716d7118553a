//! Pointwise functions of contiguous elements: without views, loops over strides and threads, which take longer than a few
//! elements do, and which a fused op's steps have in common.

use super::select::{Bounded, Gated, choose};
use super::{Pointwise, cast, checked, complex};
use crate::kernels::strided::unreachable_memory;
use rustorch_core::{
    Cast, Clamp, DType, DTypeKind, Fault, FromScalar, FusedPointwise, FusedValue, Op, UnaryOp, Where,
    dispatch_dtype,
};
use std::mem::MaybeUninit;
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
        // SAFETY: this function's contract.
        (Op::FusedPointwise(fused), args) => unsafe { run_fused(fused, dtype, args, out, n) },
        _ => false,
    }
}

/// Elements of a block, and blocks, of a fused op that is run here.
const MOST: usize = 64;
const BLOCKS: usize = 8;

/// The most arguments of a step.
pub(super) const MOST_ARGS: usize = 3;

/// A block of elements of any dtype of up to 8 bytes.
type Block = [MaybeUninit<u64>; MOST];

/// Runs a fused op all of whose values have one dtype, each of a block on the stack.
///
/// # Safety
/// As of [`run`].
unsafe fn run_fused(
    fused: &FusedPointwise,
    dtype: DType,
    args: &[*const u8],
    out: *mut u8,
    n: usize,
) -> bool {
    let (steps, constants) = (fused.steps(), fused.constants());
    if n > MOST || steps.len() > BLOCKS || constants.len() > BLOCKS {
        return false;
    }
    let mut results: [Block; BLOCKS] = [const { [const { MaybeUninit::uninit() }; MOST] }; BLOCKS];
    let mut numbers: [Block; BLOCKS] = [const { [const { MaybeUninit::uninit() }; MOST] }; BLOCKS];
    for (block, constant) in numbers.iter_mut().zip(constants) {
        dispatch_dtype!(dtype, float, T => {
            // SAFETY: a block has room for as many elements of up to 8 bytes, and is aligned to as many.
            let block = unsafe { room::<MaybeUninit<T>>(block.as_mut_ptr().cast(), n) };
            block.fill(MaybeUninit::new(T::from_scalar(constant.value)));
        }, _ => return false);
    }
    let (numbers, results) = (numbers.as_ptr(), results.as_mut_ptr());
    for (i, step) in steps.iter().enumerate() {
        let address = |&value: &FusedValue| match value {
            FusedValue::Input(i) => args[i],
            FusedValue::Constant(i) => numbers.wrapping_add(i).cast::<u8>(),
            FusedValue::Step(i) => results.wrapping_add(i).cast::<u8>().cast_const(),
        };
        // In place: a list that is moved is read before it has come to memory.
        let mut list = [(dtype, std::ptr::null()); MOST_ARGS];
        let count = step.args().len();
        for (place, value) in list.iter_mut().zip(step.args()) {
            place.1 = address(value);
        }
        let place = if i + 1 == steps.len() { out } else { results.wrapping_add(i).cast() };
        // SAFETY: arguments are this function's, constants that were filled, or results of earlier steps, each of `n` elements of the
        // dtype, which every step has for such arguments; its room is no argument's.
        if unsafe { run_any(step.op(), &list[..count], place, n) }.is_err() {
            return false;
        }
    }
    true
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
