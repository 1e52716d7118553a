//! Tolerances: when a result counts as equal.

use super::Case;
use super::branches::{cut, fine};
use super::values::decode;
use rustorch_core::{
    C128, CopyOp, DType, DTypeKind, MatMul, MulMatId, Numerics, Op, Reduce, ReduceOp, Scan, ScanOp, Where,
};

/// How two results differ, if they do. `ordered` asks for the reference's order of sums also where
/// devices may have their own.
pub(super) fn difference(
    case: &Case,
    dtype: DType,
    got: &[u8],
    want: &[u8],
    ordered: bool,
) -> Option<String> {
    if got == want {
        return None;
    }
    let size = dtype.block_bytes();
    if dtype.is_quant() {
        let i = got.iter().zip(want).position(|(a, b)| a != b)?;
        return Some(format!("block {} differs from its byte {}", i / size, i % size));
    }
    if !matches!(dtype.kind(), DTypeKind::Float | DTypeKind::Complex) {
        let i = got.iter().zip(want).position(|(a, b)| a != b)? / size;
        let at = |bytes: &[u8]| decode(dtype, &bytes[i * size..(i + 1) * size])[0].re;
        return Some(format!("element {i} is {}, not {}", at(got), at(want)));
    }
    let (absolute, relative) = tolerance(case, dtype, ordered);
    // Infinity counts as what would follow the largest number, since overflow may begin a few units earlier or later.
    let beyond = overflow(dtype);
    let finite = |x: f64| if x.is_infinite() { beyond.copysign(x) } else { x };
    let signs = dtype.is_complex() && matches!(case.op, Op::Unary(op) if cut(op));
    let close = |a: f64, b: f64, size: f64| {
        let (near, far) = (finite(a), finite(b));
        if signs && a == 0.0 && b == 0.0 {
            return a.is_sign_negative() == b.is_sign_negative();
        }
        a == b || a.is_nan() && b.is_nan() || (near - far).abs() <= absolute + relative * far.abs().max(size)
    };
    // Of a product of complex numbers, what rounding does to a part is relative to the modulus (Higham: *Accuracy and Stability of
    // Numerical Algorithms*, lemma 3.5).
    let by_modulus = dtype.is_complex()
        && matches!(
            &case.op,
            Op::Reduce(Reduce { op: ReduceOp::Prod, .. }) | Op::Scan(Scan { op: ScanOp::Prod, .. })
        );
    let size = |b: &C128| if by_modulus && b.is_finite() { b.norm() } else { 0.0 };
    decode(dtype, got)
        .into_iter()
        .zip(decode(dtype, want))
        .enumerate()
        .find(|(_, (a, b))| !close(a.re, b.re, size(b)) || !close(a.im, b.im, size(b)))
        .map(|(i, (a, b))| format!("element {i} is {a}, not {b}"))
}

/// The least number of which a dtype makes infinity, or nearly.
fn overflow(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65536.0,
        DType::BF16 | DType::F32 | DType::C64 => 2f64.powi(128),
        _ => f64::MAX,
    }
}

/// The least number that has all of a dtype's digits.
fn least(dtype: DType) -> f64 {
    match dtype {
        DType::C64 => f32::MIN_POSITIVE.into(),
        _ => f64::MIN_POSITIVE,
    }
}

/// Half the distance of numbers from 1 on.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        DType::F32 | DType::C64 => 2f64.powi(-24),
        _ => 2f64.powi(-53),
    }
}

/// The most rows of activations that every device multiplies with quantized weights in the reference's order, and the most queries
/// that it computes so over an `F16` cache.
pub(super) const FEW: usize = 8;

/// The most keys of these.
const SHORT: usize = 256;

/// The rows of a case's first argument.
fn rows(case: &Case) -> usize {
    let dims = case.args[0].layout.dims();
    dims[..dims.len() - 1].iter().product()
}

/// Whether an attention is of few queries and keys.
fn is_short(case: &Case) -> bool {
    let rows = |i: usize| case.args[i].layout.dims().iter().rev().nth(1).copied().unwrap_or(1);
    rows(0) <= FEW && rows(1) <= SHORT
}

/// The absolute and the relative difference that devices may have: a few units of the last place, and more where they
/// may add in another order.
fn tolerance(case: &Case, dtype: DType, ordered: bool) -> (f64, f64) {
    let unit = match &case.op {
        // A fused op rounds to the dtype of each step.
        Op::FusedPointwise(fused) => {
            let inputs: Vec<DType> = case.args.iter().map(|arg| arg.dtype).collect();
            let steps = fused.dtypes(&inputs).expect("the suite's cases are valid");
            steps.into_iter().filter(|x| x.is_float() || x.is_complex()).map(unit).fold(0.0, f64::max)
        }
        _ => unit(dtype),
    };
    match &case.op {
        // Integer sums, and a stated order of the few roundings.
        Op::MulMatId(MulMatId { numerics: Numerics::Ggml }) if case.args[1].dtype.is_quant() => (0.0, 0.0),
        &Op::MatMul(MatMul { numerics: Numerics::Ggml, batch_invariant, .. })
            if case.args[1].dtype.is_quant() && (ordered || batch_invariant || rows(case) <= FEW) =>
        {
            (0.0, 0.0)
        }
        // Long sums of numbers up to 6 in another order; in the end there may be little left of them.
        Op::MatMul(_) | Op::MulMatId(_) if case.args[1].dtype.is_quant() => {
            let len = case.args[0].layout.dims().last().copied().unwrap_or(1);
            (2.0 * unit * len as f64, 64.0 * unit)
        }
        Op::Copy(CopyOp)
        | Op::Fill(_)
        | Op::Where(Where)
        | Op::Concat(_)
        | Op::IndexSelect(_)
        | Op::Gather(_)
        | Op::MaxPool(_)
        | Op::AdaptiveMaxPool(_) => (0.0, 0.0),
        // GPUs round queries to `F16` as the CPU does, and add weighted values in `F32`, where the CPU rounds after each key.
        Op::Attention(attention)
            if attention.rounds_to_f16(case.args[0].dtype, case.args[1].dtype)
                && !ordered
                && !is_short(case) =>
        {
            let unit = self::unit(DType::F16);
            (4.0 * unit, 8.0 * unit)
        }
        // Devices may have no subnormal numbers.
        Op::Unary(op) if dtype.is_complex() && fine(*op) => (least(dtype), 8.0 * unit),
        Op::Unary(_) | Op::Binary(_) | Op::Clamp(_) | Op::Cast(_) => (4.0 * unit, 8.0 * unit),
        _ => (32.0 * unit, 64.0 * unit),
    }
}
