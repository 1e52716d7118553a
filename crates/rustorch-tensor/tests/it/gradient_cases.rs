//! The gradients of every operation, on a sample of the conformance suite's cases, against finite differences; on all of them with
//! `RUSTORCH_GRADCHECK=all`.

use rustorch_core::{
    BinaryOp, Cast, Linalg, Op, OpKind, Reduce, ReduceKind, ReduceOp, Scan, ScanOp, UnaryOp,
};
use rustorch_tensor::autograd::{GradCheck, apply, gradcheck, gradgradcheck};
use rustorch_tensor::{DType, Result, Tensor};
use rustorch_testkit::conformance::{self, Argument, Case};
use std::collections::{BTreeMap, BTreeSet};

/// The dtype in which gradients are compared.
fn fine(dtype: DType) -> DType {
    match dtype {
        dtype if dtype.is_complex() => DType::C128,
        dtype if dtype.is_float() => DType::F64,
        other => other,
    }
}

/// The case's operation for arguments in those dtypes; none where its point is another dtype.
fn fine_op(op: &Op) -> Option<Op> {
    match op {
        Op::Cast(Cast { to }) if to.is_quant() => None,
        Op::Cast(Cast { to }) => Some(Op::Cast(Cast { to: fine(*to) })),
        Op::FusedPointwise(program) => {
            let rounds =
                |op: &Op| matches!(op, Op::Cast(Cast { to }) if !matches!(to, DType::F64 | DType::C128));
            (!program.steps().iter().any(|step| rounds(step.op()))).then(|| op.clone())
        }
        other => Some(other.clone()),
    }
}

/// The argument as a tensor; where the case's is not packed, neither is this one.
fn tensor(number: usize, arg: &Argument) -> Result<Tensor> {
    let packed = arg.packed();
    let x = Tensor::from_bytes(&packed.bytes, arg.dtype, arg.layout.shape().clone())?
        .to_dtype(fine(arg.dtype))?;
    let x = if matches!(x.dtype(), DType::F64 | DType::C128) { apart(&x, number)? } else { x };
    if arg.layout.is_contiguous() || x.ndim() < 2 {
        return Ok(x);
    }
    x.transpose(-2, -1)?.copy()?.transpose(-2, -1)
}

/// The numbers of an argument, each a little smaller by another part, so that none are equal: extrema and sorting have no derivative
/// where some are.
fn apart(x: &Tensor, number: usize) -> Result<Tensor> {
    // Multiples of the golden ratio, which are as far from each other as can be, for each argument from another start.
    let part = |i: usize| (i as f64 * 0.618_033_988_749_895 + number as f64 * 0.414_213_562_373_095).fract();
    let factors: Vec<f64> = (1..=x.numel()).map(|i| 1.0 - 2e-3 * part(i)).collect();
    x.mul(&Tensor::from_vec(factors, x.shape().clone())?)
}

/// Whether all numbers of a result are finite.
fn is_finite(x: &Tensor) -> Result<bool> {
    if !(x.dtype().is_float() || x.dtype().is_complex()) {
        return Ok(true);
    }
    x.isfinite()?.all_all()?.item().map(|all| all.to_bool())
}

/// Whether a result of the operation has a gradient at all.
fn is_differentiable(op: &Op) -> bool {
    use OpKind as K;
    !matches!(
        op.kind(),
        K::Fill
            | K::Arange
            | K::Random(_)
            // The gradient is that of a quantile, along which the algorithm's draw does not move.
            | K::Sample(_)
            | K::LogGammaGrad
            | K::Compare(_)
            | K::Custom(_)
            | K::Binary(BinaryOp::FloorDiv)
            | K::OptimizerStep(_)
            | K::TotalNorm
            | K::Assert
            | K::CachedAttention
            | K::SliceUpdate
            | K::ForeachMul
    ) && !matches!(
        op,
        Op::Unary(
            UnaryOp::LogicalNot | UnaryOp::BitwiseNot | UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::IsFinite
        )
    )
}

struct Outcome {
    /// The most elements of a case that is checked.
    most: usize,
    checked: usize,
    refused: usize,
    twice: usize,
    kinds: BTreeSet<OpKind>,
    wrong: Vec<String>,
}

fn check(case: &Case, outcome: &mut Outcome) -> Result<()> {
    let Some(op) = fine_op(&case.op).filter(is_differentiable) else { return Ok(()) };
    let tensors: Vec<Tensor> =
        case.args.iter().enumerate().map(|(i, arg)| tensor(i, arg)).collect::<Result<_>>()?;
    let smooth: Vec<usize> =
        (0..tensors.len()).filter(|&i| matches!(tensors[i].dtype(), DType::F64 | DType::C128)).collect();
    if smooth.is_empty() {
        return Ok(());
    }
    // Singular vectors beyond the singular values are arbitrary, and have no gradient.
    if let Op::Linalg(Linalg::Svd { full: true, vectors: true }) = op {
        let [.., m, n] = *tensors[0].dims() else { unreachable!("matrices have two dimensions") };
        if m != n {
            return Ok(());
        }
    }
    let elements: usize = smooth.iter().map(|&i| tensors[i].numel()).sum();
    // Of a product of many numbers differences lose their digits.
    let is_product =
        matches!(op, Op::Scan(Scan { op: ScanOp::Prod, .. }) | Op::Reduce(Reduce { op: ReduceOp::Prod, .. }));
    if elements > outcome.most || is_product && elements > 64 {
        return Ok(());
    }
    let f = |moved: &[Tensor]| -> Result<Vec<Tensor>> {
        let mut args: Vec<&Tensor> = tensors.iter().collect();
        // Of a Hermitian matrix one half is read, and the gradient is that of a Hermitian one.
        let hermitian = match op {
            Op::Linalg(Linalg::Cholesky { .. } | Linalg::Eigh { .. }) => {
                Some(moved[0].add(&moved[0].transpose(-2, -1)?.conj()?)?.mul(0.5)?)
            }
            _ => None,
        };
        for (&i, x) in smooth.iter().zip(hermitian.iter().chain(&moved[usize::from(hermitian.is_some())..])) {
            args[i] = x;
        }
        Ok(apply(&op, &args)?.into_vec())
    };
    let inputs: Vec<&Tensor> = smooth.iter().map(|&i| &tensors[i]).collect();
    let Ok(results) = f(&inputs.iter().map(|&x| x.clone()).collect::<Vec<_>>()) else { return Ok(()) };
    // Differences of infinities are no numbers.
    for x in results.iter().chain(inputs.iter().copied()) {
        if !is_finite(x)? {
            return Ok(());
        }
    }
    if !results.iter().any(|y| y.dtype().is_float() || y.dtype().is_complex()) {
        return Ok(());
    }
    // Where two numbers nearly tie, a smaller step stays on one side.
    let small = GradCheck { eps: 1e-8, ..GradCheck::default() };
    if let Err(error) = gradcheck(f, &inputs, GradCheck::default()).or_else(|_| gradcheck(f, &inputs, small))
    {
        let refused = [
            "a step floor_divide, which has no gradient",
            "with a square Q of more rows",
            "depends on the phases of",
        ];
        match refused.iter().any(|reason| error.to_string().contains(reason)) {
            true => outcome.refused += 1,
            false => outcome.wrong.push(format!("{case}: {error}")),
        }
        return Ok(());
    }
    outcome.checked += 1;
    outcome.kinds.insert(op.kind());
    if elements <= 64 {
        outcome.twice += 1;
        let twice = gradgradcheck(f, &inputs, GradCheck::default());
        if let Err(error) = twice.or_else(|_| gradgradcheck(f, &inputs, small)) {
            outcome.wrong.push(format!("{case}: {error}"));
        }
    }
    Ok(())
}

#[test]
fn gradients_of_every_operation_equal_finite_differences() {
    let all = std::env::var("RUSTORCH_GRADCHECK").is_ok_and(|all| all == "all");
    let (part, most) = if all { (1, 400) } else { (12, 130) };
    let mut outcome =
        Outcome { most, checked: 0, refused: 0, twice: 0, kinds: BTreeSet::new(), wrong: Vec::new() };
    // Of cases that differ in the dtype alone the one with the most digits.
    let mut distinct: BTreeMap<String, (DType, Case)> = BTreeMap::new();
    for case in conformance::cases() {
        let Some(op) = fine_op(&case.op) else { continue };
        let args: Vec<String> = case
            .args
            .iter()
            .map(|arg| format!("{}{}{:?}", fine(arg.dtype), arg.layout.shape(), arg.layout.strides()))
            .collect();
        let dtype = case.args.iter().map(|arg| arg.dtype).max().unwrap_or(DType::Bool);
        let key = format!("{op:?} {args:?}");
        if distinct.get(&key).is_none_or(|(have, _)| *have < dtype) {
            distinct.insert(key, (dtype, case));
        }
    }
    // Of each operation's cases one in so many, but a few of all.
    let mut counts: BTreeMap<OpKind, usize> = BTreeMap::new();
    let mut differentiable = BTreeSet::new();
    for (_, case) in distinct.values() {
        if is_differentiable(&case.op) {
            differentiable.insert(case.op.kind());
        }
        let count = counts.entry(case.op.kind()).or_default();
        *count += 1;
        if *count <= 6 || count.is_multiple_of(part) {
            check(case, &mut outcome).unwrap();
        }
    }
    println!(
        "{} cases, {} of them twice, {} operations, {} cases refused",
        outcome.checked,
        outcome.twice,
        outcome.kinds.len(),
        outcome.refused
    );
    for wrong in &outcome.wrong {
        println!("{wrong}");
    }
    assert!(outcome.wrong.is_empty(), "{} cases differ", outcome.wrong.len());
    assert!(outcome.checked >= 1000, "only {} cases", outcome.checked);
    let unchecked: Vec<OpKind> = differentiable.difference(&outcome.kinds).copied().collect();
    assert!(unchecked.iter().all(|kind| has_no_floats(*kind)), "no case of {unchecked:?}");
}

/// Operations without floats, as arguments or as results.
fn has_no_floats(kind: OpKind) -> bool {
    use BinaryOp as B;
    matches!(
        kind,
        OpKind::IntMm
            | OpKind::Binary(B::BitwiseAnd | B::BitwiseOr | B::BitwiseXor | B::ShiftLeft | B::ShiftRight)
            | OpKind::Reduce(ReduceKind::Any | ReduceKind::All | ReduceKind::ArgMax | ReduceKind::ArgMin)
    )
}
