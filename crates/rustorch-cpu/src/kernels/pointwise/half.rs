//! Pointwise functions of the 16-bit floats, through `f32`.

use super::real;
use crate::kernels::strided::Side;
use crate::math::Half;
use rustorch_core::{BinaryOp, CompareOp, UnaryOp};

/// Elements converted at a time.
pub(super) const BLOCK: usize = 256;

pub(super) fn unary<T: Half>(op: UnaryOp, x: &[T], out: &mut [T]) {
    map(x, out, |x, out| real::unary(op, x, out));
}

pub(super) fn binary<T: Half>(op: BinaryOp, a: &[T], b: &[T], out: &mut [T]) -> bool {
    if T::arithmetic(op, a, b, out) {
        return true;
    }
    map2(a, b, out, |a, b, out| {
        real::binary(op, a, b, out);
    });
    true
}

pub(super) fn scalar<T: Half>(op: BinaryOp, side: Side, scalar: T, x: &[T], out: &mut [T]) {
    let mut wide = [0.0];
    T::widen_all(&[scalar], &mut wide);
    map(x, out, |x, out| real::scalar(op, side, wide[0], x, out));
}

pub(super) fn compare<T: Half>(op: CompareOp, a: &[T], b: &[T], out: &mut [bool]) {
    let (mut wide_a, mut wide_b) = ([0.0; BLOCK], [0.0; BLOCK]);
    for ((a, b), out) in a.chunks(BLOCK).zip(b.chunks(BLOCK)).zip(out.chunks_mut(BLOCK)) {
        T::widen_all(a, &mut wide_a[..a.len()]);
        T::widen_all(b, &mut wide_b[..b.len()]);
        real::compare(op, &wide_a[..a.len()], &wide_b[..b.len()], out);
    }
}

pub(super) fn property<T: Half>(op: UnaryOp, x: &[T], out: &mut [bool]) {
    let mut wide = [0.0; BLOCK];
    for (x, out) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        T::widen_all(x, &mut wide[..x.len()]);
        real::property(op, &wide[..x.len()], out);
    }
}

/// Runs `f` in single precision.
pub(super) fn map<T: Half>(x: &[T], out: &mut [T], f: impl Fn(&[f32], &mut [f32])) {
    let (mut wide, mut result) = ([0.0; BLOCK], [0.0; BLOCK]);
    for (x, out) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        T::widen_all(x, &mut wide[..x.len()]);
        f(&wide[..x.len()], &mut result[..x.len()]);
        T::narrow_all(&result[..x.len()], out);
    }
}

/// Runs `f` in single precision.
pub(super) fn map2<T: Half>(a: &[T], b: &[T], out: &mut [T], f: impl Fn(&[f32], &[f32], &mut [f32])) {
    let (mut wide_a, mut wide_b, mut result) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
    for ((a, b), out) in a.chunks(BLOCK).zip(b.chunks(BLOCK)).zip(out.chunks_mut(BLOCK)) {
        let n = a.len();
        T::widen_all(a, &mut wide_a[..n]);
        T::widen_all(b, &mut wide_b[..n]);
        f(&wide_a[..n], &wide_b[..n], &mut result[..n]);
        T::narrow_all(&result[..n], out);
    }
}
