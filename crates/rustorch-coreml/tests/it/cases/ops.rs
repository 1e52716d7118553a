//! Operations, one by one.

use super::{Case, booleans, indices, values};
use rustorch_core::{
    AdaptiveAvgPool, AdaptiveMaxPool, AddRmsNorm, Arange, Attention, AvgPool, BatchNorm, BinaryOp, Cast,
    Clamp, CompareOp, Concat, Conv, ConvBackwardData, ConvParams, CopyOp, DType, Dims, Fill, FusedPointwise,
    Gather, GluOp, GroupNorm, IndexSelect, LayerNorm, MatMul, MaxPool, Op, Pad, PoolWindow, Reduce, ReduceOp,
    RmsNorm, RopeParams, RopeStyle, Scalar, Scan, ScanOp, Shape, Softmax, Tri, UnaryOp, Where,
};
use rustorch_tensor::Tensor;
use rustorch_tensor::autograd::apply;

/// An operation whose first arguments are inputs, and the others constants. Its first result is what is compared.
pub(super) fn op(name: &str, op: impl Into<Op>, args: &[Tensor], inputs: usize) -> Case {
    some(name, op, args, inputs, 1)
}

fn some(name: &str, op: impl Into<Op>, args: &[Tensor], inputs: usize, results: usize) -> Case {
    let op = op.into();
    let (given, constants) = args.split_at(inputs);
    Case::new(name, given, |x| {
        let args: Vec<&Tensor> = x.iter().chain(constants).collect();
        Ok(apply(&op, &args)?.into_iter().take(results).collect())
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    unary(&mut cases);
    binary(&mut cases);
    integers(&mut cases);
    creation(&mut cases);
    reductions(&mut cases);
    matmuls(&mut cases);
    norms(&mut cases);
    convolutions(&mut cases);
    pooling(&mut cases);
    indexing(&mut cases);
    attention(&mut cases);
    cases
}

fn unary(cases: &mut Vec<Case>) {
    for &unary in UnaryOp::ALL {
        use UnaryOp::*;
        if matches!(
            unary,
            Asinh
                | Acosh
                | Erfinv
                | Erfc
                | Lgamma
                | Digamma
                | Trigamma
                | BitwiseNot
                | Conj
                | Real
                | Imag
                | Angle
                | IsNan
                | IsInf
                | IsFinite
        ) {
            continue;
        }
        let x = values(&[3, 1, 7], 1);
        let x = match unary {
            Log | Log2 | Log10 | Sqrt | Rsqrt => x.abs().unwrap().add(0.01).unwrap(),
            Asin | Acos | Atanh => x.mul(0.49).unwrap(),
            Log1p => x.mul(0.45).unwrap(),
            LogicalNot => x.relu().unwrap(),
            Round => x.mul(2.0).unwrap().round().unwrap().mul(0.5).unwrap(),
            _ => x,
        };
        cases.push(op(&format!("unary_{}", unary.name()), unary, &[x], 1));
    }
    let special = Tensor::new([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e30, -1e30]).unwrap();
    for unary in [UnaryOp::IsNan, UnaryOp::IsInf, UnaryOp::IsFinite, UnaryOp::Sign, UnaryOp::Exp] {
        let name = format!("unary_{}_special", unary.name());
        cases.push(op(&name, unary, std::slice::from_ref(&special), 1));
    }
    let small = Tensor::new([1e-7f32, -1e-7, 0.0, 1e-3, 0.49, -0.49, 1e20]).unwrap();
    cases.push(op("unary_log1p_small", UnaryOp::Log1p, std::slice::from_ref(&small), 1));
    cases.push(op("unary_expm1_small", UnaryOp::Expm1, &[small.clamp(-1.0, 1.0).unwrap()], 1));
    cases.push(op("unary_softplus_large", UnaryOp::Softplus, &[values(&[9], 2).mul(40.0).unwrap()], 1));
    cases.push(op("unary_exp_scalar", UnaryOp::Exp, &[values(&[], 3)], 1));
    cases.push(op("unary_exp_rank_5", UnaryOp::Exp, &[values(&[2, 1, 3, 1, 2], 3)], 1));
}

fn binary(cases: &mut Vec<Case>) {
    let (a, b) = (values(&[2, 3, 4], 1), values(&[3, 1], 2));
    for &binary in BinaryOp::ALL {
        use BinaryOp::*;
        if matches!(binary, Atan2 | LogAddExp | BitwiseAnd | BitwiseOr | BitwiseXor | ShiftLeft | ShiftRight)
        {
            continue;
        }
        let a = if binary == Pow { a.abs().unwrap() } else { a.clone() };
        let name = format!("binary_{}", binary.name());
        cases.push(op(&name, binary, &[a.clone(), b.clone()], 2));
        cases.push(op(&format!("{name}_constant"), binary, &[a, b.clone()], 1));
    }
    for &compare in CompareOp::ALL {
        let (a, b) = (a.round().unwrap(), b.round().unwrap());
        cases.push(op(&format!("compare_{}", compare.name()), compare, &[a, b], 2));
        let name = format!("compare_{}_bool", compare.name());
        cases.push(op(&name, compare, &[booleans(&[5], 1), booleans(&[2, 5], 2)], 2));
    }
    for &glu in GluOp::ALL {
        cases.push(op(glu.name(), glu, &[values(&[3, 5], 1), values(&[3, 5], 2)], 2));
    }
    for logical in [BinaryOp::Add, BinaryOp::Mul, BinaryOp::BitwiseXor] {
        let name = format!("binary_{}_bool", logical.name());
        cases.push(op(&name, logical, &[booleans(&[4], 1), booleans(&[4], 2)], 2));
    }
    cases.push(op("not_bool", UnaryOp::BitwiseNot, &[booleans(&[4], 1)], 1));
    cases.push(op("where", Where, &[booleans(&[2, 3, 4], 3), a.clone(), b.clone()], 3));
    cases.push(op("where_large_condition", Where, &[booleans(&[2, 3, 4], 3), b.clone(), values(&[], 5)], 3));
    let bound = |x: f64| Some(Scalar::Float(x));
    cases.push(op("clamp", Clamp { min: bound(-0.5), max: bound(1.0) }, std::slice::from_ref(&a), 1));
    cases.push(op("clamp_min", Clamp { min: bound(0.5), max: None }, std::slice::from_ref(&a), 1));
    cases.push(op("clamp_crossed", Clamp { min: bound(1.0), max: bound(-1.0) }, std::slice::from_ref(&a), 1));
    cases.push(op("copy", CopyOp, std::slice::from_ref(&a), 1));
    cases.push(op("cast_to_i32", Cast { to: DType::I32 }, std::slice::from_ref(&a), 1));
    cases.push(op("cast_to_bool", Cast { to: DType::Bool }, &[a.relu().unwrap()], 1));
    cases.push(op("cast_from_bool", Cast { to: DType::F32 }, &[booleans(&[6], 1)], 1));

    let mut fused = FusedPointwise::builder(2).unwrap();
    let (x, y) = (fused.input(0).unwrap(), fused.input(1).unwrap());
    let half = fused.constant(0.5, DType::F32).unwrap();
    let product = fused.step(Op::Binary(BinaryOp::Mul), &[x, y]).unwrap();
    let above = fused.step(Op::Compare(CompareOp::Gt), &[product, half]).unwrap();
    let other = fused.step(Op::Unary(UnaryOp::Tanh), &[y]).unwrap();
    let chosen = fused.step(Op::Where(Where), &[above, half, other]).unwrap();
    let last = fused.step(Op::Binary(BinaryOp::Sub), &[chosen, x]).unwrap();
    cases.push(op("fused", fused.finish(last).unwrap(), &[a, b], 2));
}

fn integers(cases: &mut Vec<Case>) {
    let (a, b) = (
        indices(&[2, 3], 9, 1).to_dtype(DType::I32).unwrap(),
        indices(&[3], 9, 2).to_dtype(DType::I32).unwrap().add(1).unwrap(),
    );
    for binary in [
        BinaryOp::Add,
        BinaryOp::Sub,
        BinaryOp::Mul,
        BinaryOp::Maximum,
        BinaryOp::FloorDiv,
        BinaryOp::Remainder,
    ] {
        let a = a.sub(4).unwrap();
        cases.push(op(&format!("binary_{}_i32", binary.name()), binary, &[a, b.clone()], 2));
    }
    for unary in
        [UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Sign, UnaryOp::Relu, UnaryOp::Square, UnaryOp::LogicalNot]
    {
        cases.push(op(&format!("unary_{}_i32", unary.name()), unary, &[a.sub(4).unwrap()], 1));
    }
    cases.push(op("cast_i32_to_f32", Cast { to: DType::F32 }, std::slice::from_ref(&a), 1));
    // What is made in the function has known bounds.
    cases.push(Case::new("positions_i64", &[values(&[4, 2], 1)], |x| {
        let positions = Tensor::arange(0, 4, 1)?.mul(3)?.remainder(4)?;
        Ok(vec![x[0].index_select(0, &positions)?, positions.sub(7)?.to_dtype(DType::F32)?])
    }));
    cases.push(Case::new("argmax_arithmetic", &[values(&[4, 5], 1)], |x| {
        Ok(vec![x[0].argmax(-1, false)?.mul(2)?.add(1)?])
    }));
}

fn creation(cases: &mut Vec<Case>) {
    let shape = Shape::new([2, 3].as_slice()).unwrap();
    let fill = Fill { shape, dtype: DType::F32, value: Scalar::Float(1.5) };
    let arange = Arange { start: 1.into(), step: 2.into(), len: 3, dtype: DType::F32 };
    for (name, made) in [("fill", Op::from(fill)), ("arange", arange.into())] {
        cases.push(Case::without_passes(name, values(&[2, 3], 1), |x| {
            apply(&made, &[])?[0].add(x).map(|y| vec![y])
        }));
    }
}

fn reductions(cases: &mut Vec<Case>) {
    let x = values(&[3, 1, 4, 2], 1);
    for (name, reduce) in [
        ("sum", ReduceOp::Sum),
        ("mean", ReduceOp::Mean),
        ("prod", ReduceOp::Prod),
        ("amax", ReduceOp::Max),
        ("amin", ReduceOp::Min),
        ("any", ReduceOp::Any),
        ("all", ReduceOp::All),
        ("logsumexp", ReduceOp::LogSumExp),
        ("norm", ReduceOp::Norm),
        ("var", ReduceOp::Var { correction: 1.0 }),
        ("std", ReduceOp::Std { correction: 0.0 }),
    ] {
        for (axes, keepdim) in [(&[0, 2][..], false), (&[3], true), (&[0, 1, 2, 3], false)] {
            let reduce = Reduce { op: reduce, axes: Dims::from_slice(axes), keepdim };
            let x = if matches!(reduce.op, ReduceOp::Any | ReduceOp::All) {
                x.relu().unwrap()
            } else {
                x.clone()
            };
            cases.push(op(&format!("reduce_{name}_{}", axes.len()), reduce, &[x], 1));
        }
    }
    for (name, reduce) in [("argmax", ReduceOp::ArgMax), ("argmin", ReduceOp::ArgMin)] {
        for axes in [&[2][..], &[0, 1, 2, 3]] {
            let reduce = Reduce { op: reduce, axes: Dims::from_slice(axes), keepdim: false };
            cases.push(op(&format!("reduce_{name}_{}", axes.len()), reduce, std::slice::from_ref(&x), 1));
        }
    }
    let sum = Reduce { op: ReduceOp::Sum, axes: Dims::from_slice(&[0]), keepdim: false };
    cases.push(op("reduce_sum_bool", sum, &[booleans(&[7, 2], 1)], 1));
    let infinite = Tensor::new([[f32::NEG_INFINITY, f32::NEG_INFINITY], [f32::NEG_INFINITY, 1.0]]).unwrap();
    let logsumexp = Reduce { op: ReduceOp::LogSumExp, axes: Dims::from_slice(&[1]), keepdim: false };
    cases.push(op("reduce_logsumexp_infinite", logsumexp, &[infinite], 1));
    cases.push(op("cumsum", Scan { op: ScanOp::Sum, axis: 2 }, &[x], 1));
    cases.push(op("cumsum_bool", Scan { op: ScanOp::Sum, axis: 0 }, &[booleans(&[7, 2], 1)], 1));
}

fn matmuls(cases: &mut Vec<Case>) {
    let (a, b) = (values(&[3, 4], 1), values(&[4, 5], 2));
    cases.push(op("matmul", MatMul::default(), &[a.clone(), b.clone()], 2));
    cases.push(op("matmul_weight", MatMul::default(), &[a.clone(), values(&[5, 4], 2).t().unwrap()], 1));
    let gelu = MatMul { activation: Some(UnaryOp::Gelu), ..MatMul::default() };
    cases.push(op("matmul_bias_gelu", gelu, &[a.clone(), b, values(&[5], 3)], 1));
    cases.push(op("matmul_batch", MatMul::default(), &[values(&[2, 1, 3, 4], 1), values(&[6, 4, 2], 2)], 2));
    let transposed = values(&[2, 4, 3], 1).transpose(1, 2).unwrap();
    cases.push(Case::new("matmul_transposed", &[values(&[2, 4, 3], 1), values(&[2, 4, 5], 2)], |x| {
        Ok(vec![x[0].transpose(1, 2)?.matmul(&x[1])?])
    }));
    cases.push(op(
        "matmul_of_a_view",
        MatMul::default(),
        &[a, transposed.select(0, 1).unwrap().t().unwrap()],
        1,
    ));
}

fn norms(cases: &mut Vec<Case>) {
    let x = values(&[2, 6, 4], 1);
    let one = std::slice::from_ref(&x);
    for axis in [0, 1, 2] {
        cases.push(op(&format!("softmax_{axis}"), Softmax { axis, log: false }, one, 1));
    }
    cases.push(op("log_softmax", Softmax { axis: 1, log: true }, &[x.mul(30.0).unwrap()], 1));
    let (w, b) = (values(&[6, 4], 2), values(&[6, 4], 3));
    let norm = |dims| LayerNorm { dims, eps: 1e-5 };
    cases.push(op("layer_norm_plain", norm(1), one, 1));
    cases.push(op("layer_norm", norm(2), &[x.clone(), w.clone(), b.clone()], 1));
    cases.push(op("layer_norm_given", norm(2), &[x.clone(), w, b], 3));
    cases.push(op("rms_norm", RmsNorm { eps: 1e-6 }, &[x.clone(), values(&[4], 2)], 1));
    cases.push(op("rms_norm_plain", RmsNorm { eps: 1e-6 }, one, 1));
    let args = [x.clone(), values(&[2, 6, 4], 4), values(&[4], 2)];
    cases.push(some("add_rms_norm", AddRmsNorm { eps: 1e-6 }, &args, 2, 2));
    let c = |seed| values(&[6], seed);
    let variance = c(3).abs().unwrap().add(0.1).unwrap();
    let batch = || BatchNorm { training: false, eps: 1e-5 };
    let args = [x.clone(), c(2), variance.clone(), c(4), c(5)];
    cases.push(op("batch_norm", batch(), &args, 1));
    cases.push(op("batch_norm_given", batch(), &args, 5));
    let args = [values(&[3, 6], 1), c(2), variance];
    cases.push(op("batch_norm_rank_2", batch(), &args, 1));
    cases.push(op("group_norm", GroupNorm { groups: 3, eps: 1e-5 }, &[x.clone(), c(2), c(3)], 1));
    cases.push(op("instance_norm", GroupNorm { groups: 6, eps: 1e-5 }, &[values(&[2, 6, 3, 2], 1)], 1));
}

fn convolutions(cases: &mut Vec<Case>) {
    let conv = |spatial: usize| ConvParams::new(spatial);
    let plain = |params| Conv { params, activation: None };
    let x = values(&[2, 4, 7, 6], 1);
    let args = [x.clone(), values(&[6, 4, 3, 3], 2), values(&[6], 3)];
    cases.push(op("conv_2d", plain(conv(2)), &args, 1));
    cases.push(op("conv_2d_given", plain(conv(2)), &args, 3));
    let strided = ConvParams {
        stride: Dims::from_slice(&[2, 1]),
        padding: [(1, 1), (0, 2)].into_iter().collect(),
        dilation: Dims::from_slice(&[1, 2]),
        groups: 2,
    };
    let relu = Conv { params: strided.clone(), activation: Some(UnaryOp::Relu) };
    cases.push(op("conv_2d_strided_groups", relu, &[x.clone(), values(&[6, 2, 3, 3], 2)], 1));
    cases.push(op("conv_1d", plain(conv(1)), &[values(&[2, 3, 9], 1), values(&[5, 3, 4], 2)], 1));
    cases.push(op("conv_3d", plain(conv(3)), &[values(&[1, 2, 4, 5, 3], 1), values(&[3, 2, 2, 2, 2], 2)], 1));
    let transposed =
        ConvParams { stride: Dims::from_slice(&[2, 3]), dilation: Dims::from_slice(&[1, 1]), ..strided };
    let size = Dims::from_slice(&[13, 16]);
    let size = (0..2).map(|axis| transposed.input_len(axis, [7, 6][axis], 3).unwrap_or(size[axis])).collect();
    let op_ = ConvBackwardData { params: transposed, size };
    cases.push(op("conv_transpose_2d", op_, &[x, values(&[4, 3, 3, 3], 2), values(&[6], 3)], 1));
}

fn pooling(cases: &mut Vec<Case>) {
    let window = |kernel: &[usize], stride: &[usize], padding: &[usize], ceil_mode| PoolWindow {
        kernel: Dims::from_slice(kernel),
        stride: Dims::from_slice(stride),
        padding: Dims::from_slice(padding),
        ceil_mode,
    };
    let x = values(&[2, 3, 7, 8], 1);
    let one = std::slice::from_ref(&x);
    for (name, window) in [
        ("", window(&[2, 2], &[2, 2], &[0, 0], false)),
        ("_padded", window(&[3, 2], &[2, 1], &[1, 1], false)),
        ("_ceil", window(&[3, 3], &[2, 2], &[0, 1], true)),
    ] {
        let n = window.kernel.len();
        let max = MaxPool { window: window.clone(), dilation: Dims::from_elem(1, n) };
        cases.push(op(&format!("max_pool{name}"), max, one, 1));
        let avg = AvgPool { window: window.clone(), count_include_pad: false, divisor: None };
        cases.push(op(&format!("avg_pool{name}"), avg, one, 1));
        if !window.ceil_mode {
            let avg = AvgPool { window: window.clone(), count_include_pad: true, divisor: None };
            cases.push(op(&format!("avg_pool{name}_include"), avg, one, 1));
            let avg = AvgPool { window, count_include_pad: true, divisor: Some(3) };
            cases.push(op(&format!("avg_pool{name}_divisor"), avg, one, 1));
        }
    }
    let max = MaxPool { window: window(&[3], &[1], &[1], false), dilation: Dims::from_elem(1, 1) };
    cases.push(op("max_pool_1d_rank_2", max, &[values(&[3, 9], 1)], 1));
    let x = values(&[2, 3, 6, 8], 1);
    for size in [[1, 1], [3, 2]] {
        let size = Dims::from_slice(&size);
        let name = format!("adaptive_{}", size[0]);
        cases.push(op(
            &format!("{name}_avg"),
            AdaptiveAvgPool { size: size.clone() },
            std::slice::from_ref(&x),
            1,
        ));
        cases.push(op(&format!("{name}_max"), AdaptiveMaxPool { size }, std::slice::from_ref(&x), 1));
    }
}

fn indexing(cases: &mut Vec<Case>) {
    let table = values(&[7, 5], 1);
    cases.push(Case::new("embedding", &[indices(&[2, 3], 7, 2)], |x| Ok(vec![table.embedding(&x[0])?])));
    cases.push(Case::new("embedding_scalar", &[indices(&[], 7, 2)], |x| Ok(vec![table.embedding(&x[0])?])));
    let x = values(&[4, 3, 5], 1);
    cases.push(op("index_select", IndexSelect { axis: 1 }, &[x.clone(), indices(&[4], 3, 2)], 2));
    cases.push(op("index_select_constant", IndexSelect { axis: 2 }, &[x.clone(), indices(&[2], 5, 2)], 1));
    cases.push(op("gather", Gather { axis: 2 }, &[x.clone(), indices(&[4, 3, 2], 5, 2)], 2));
    cases.push(op("gather_smaller", Gather { axis: 1 }, &[x.clone(), indices(&[2, 6, 4], 3, 2)], 2));
    let other = values(&[4, 1, 5], 2);
    cases.push(op("concat", Concat { axis: 1 }, &[x.clone(), other.clone(), x.clone()], 3));
    cases.push(op("concat_constant", Concat { axis: 1 }, &[other, x.clone()], 1));
    let widths = [(1, 0), (0, 2), (3, 1)].into_iter().collect();
    cases.push(op("pad", Pad { widths, value: Scalar::Float(-1.5) }, std::slice::from_ref(&x), 1));
    for (upper, diagonal) in [(true, 0), (false, 1), (false, -2), (true, -1)] {
        let name = format!("tri_{}_{}", if upper { "upper" } else { "lower" }, diagonal + 3);
        cases.push(op(&name, Tri { upper, diagonal }, std::slice::from_ref(&x), 1));
    }
    cases.push(op("tri_bool", Tri { upper: false, diagonal: 0 }, &[booleans(&[4, 4], 1)], 1));
}

fn attention(cases: &mut Vec<Case>) {
    let (q, k, v) = (values(&[2, 4, 3, 8], 1), values(&[2, 2, 5, 8], 2), values(&[2, 2, 5, 6], 3));
    let args = [q.clone(), k.clone(), v.clone()];
    let plain = || Attention::new(0.35);
    // The scale that MIL's operation has, and another one.
    cases.push(op("attention_usual_scale", Attention::new(8f32.sqrt().recip()), &args, 3).fused());
    let window = Attention { causal: Some(2), window: Some(2), softcap: Some(5.0), ..plain() };
    cases.push(op("attention_window_softcap", window, &args, 3));
    let mut both = |name: &str, attention: Attention, args: &[Tensor]| {
        let case = || op(name, attention.clone(), args, args.len());
        cases.extend([case(), case().fused()]);
    };
    let causal = Attention { causal: Some(2), ..plain() };
    both("attention", plain(), &args);
    both("attention_causal", causal.clone(), &args);
    // Without a key behind the window, the last queries see nothing.
    let few = [values(&[2, 6, 4], 1), values(&[2, 2, 4], 2), values(&[2, 2, 4], 3)];
    both("attention_window_empty", Attention { window: Some(1), ..plain() }, &few);
    // The second query sees nothing.
    let nothing = Tensor::new([[1i64], [0], [1]]).unwrap().to_dtype(DType::Bool).unwrap();
    for (name, attention, mask) in [
        ("attention_mask", plain(), values(&[3, 5], 4)),
        ("attention_bool_mask", plain(), booleans(&[2, 1, 3, 5], 4)),
        ("attention_mask_of_heads", causal.clone(), values(&[4, 1, 5], 5)),
        ("attention_bool_mask_of_heads", causal, booleans(&[2, 4, 3, 5], 6)),
        ("attention_mask_of_keys", plain(), values(&[2, 1, 1, 5], 7)),
        ("attention_sees_nothing", plain(), nothing.expand([3, 5]).unwrap()),
    ] {
        both(name, attention, &[&args[..], &[mask]].concat());
    }
    for (name, style) in [("adjacent", RopeStyle::Adjacent), ("halves", RopeStyle::Halves)] {
        for rotated in [8, 4] {
            let rope = RopeParams { style, rotated, base: 10000.0, scale: 0.5, yarn: None };
            let args = [q.clone(), indices(&[3], 40, 5)];
            // Positions that are given may be any i64; as i32 they are known to fit.
            let args = [args[0].clone(), args[1].to_dtype(DType::I32).unwrap()];
            cases.push(op(&format!("rope_{name}_{rotated}"), rope, &args, 2));
        }
    }
}
