//! Random cases of matmul, mul_mat_id, attention, RoPE and convolution.

use super::super::cases::FLOATS;
use super::super::compare::FEW;
use super::super::{Argument, Case, weights};
use super::draw::{Draw, Numbers, Rng, Special};
use super::pointwise::any;
use rustorch_core::{
    Attention, AttentionBackward, Cast, Conv, ConvBackwardData, ConvBackwardWeight, ConvParams, DType, Dims,
    Dropout, Embedding, IntMm, Layout, MatMul, MulMatId, Numerics, Op, PhiloxKey, QuantType, RopeParams,
    RopeStyle, Shape, UnaryOp, Yarn,
};

/// Numbers whose sums of so many products are the same in any order, or whose rounding the suite's tolerance allows: see
/// `conv.rs`.
fn terms(draw: &mut Draw, dtype: DType, count: usize) -> Numbers {
    let special = match dtype {
        // AVX-512's products of pairs of `BF16` take subnormal numbers for zeros, and zero times infinity is NaN.
        DType::BF16 => draw.fine.pick(&[Special::Subnormal, Special::NotFinite]),
        _ => Special::Infinite,
    };
    match dtype {
        _ if dtype.is_int() => any(dtype),
        _ if dtype.is_complex() && count > 30 => Numbers::GRID,
        _ if dtype.is_complex() => Numbers::within(-1.0, 1.0),
        _ if count > 72 || draw.fine.chance(50) => Numbers::GRID.with(special),
        _ => Numbers::within(-1.0, 1.0).with(special),
    }
}

fn numerics(unrounded: bool) -> Numerics {
    if unrounded { Numerics::F32 } else { Numerics::Ggml }
}

fn activation(draw: &mut Draw, dtype: DType) -> Option<UnaryOp> {
    use UnaryOp::*;
    // Near the poles that functions of complex numbers have, the last places of a sum are all that counts.
    let some = draw.kind.chance(25) && !dtype.is_complex();
    let op = draw.kind.pick(&[Relu, Relu, Gelu, Silu, Sigmoid, Tanh, Neg]);
    some.then_some(op)
}

/// Lengths of a product that is not too much to compute.
fn sizes(draw: &mut Draw) -> [usize; 3] {
    let mut sizes = [draw.len(300), draw.len(300), draw.len(1200)];
    while sizes.iter().product::<usize>() > 300_000 {
        let largest = (0..3).max_by_key(|&i| sizes[i]).unwrap_or(0);
        sizes[largest] = sizes[largest] / 3 + 1;
    }
    sizes
}

pub(super) fn matmul(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(DType::DENSE);
    let half = dtype == DType::F32 && draw.kind.chance(40);
    let weight = if half { draw.kind.pick(&[DType::F16, DType::BF16]) } else { dtype };
    let [m, n, k] = sizes(draw);
    let ndim = draw.kind.pick(&[0, 0, 0, 1, 2, 3]);
    // Where one length is zero, operands or results of the other two have their size all the same.
    let each = m.max(1) * n.max(1) * k.max(1);
    let lead = draw.dims(ndim, 1 + 200_000 / (1 + each).min(200_000));
    let (left, right) = (draw.narrower(&lead), draw.narrower(&lead));
    let numbers = terms(draw, weight, k);
    let a = draw.argument(dtype, &[&left[..], &[m, k]].concat(), numbers);
    let b = match half || draw.fine.chance(40) {
        // Weights lie in rows of k.
        true => {
            let dims = [&right[..], &[n, k]].concat();
            let mut b = draw.argument(weight, &dims, numbers.with(Special::None));
            b.layout = b.layout.transpose(dims.len() - 1, dims.len() - 2).ok()?;
            b
        }
        false => draw.argument(weight, &[&right[..], &[k, n]].concat(), numbers),
    };
    let mut args = vec![a, b];
    if draw.kind.chance(40) {
        args.push(draw.argument(dtype, &[n], numbers.with(Special::None)));
    }
    let op = MatMul {
        activation: activation(draw, dtype),
        numerics: numerics(half && draw.kind.chance(40)),
        ..MatMul::default()
    };
    if dtype == DType::I8 && draw.kind.chance(50) {
        args.truncate(2);
        return draw.case(Op::IntMm(IntMm), args);
    }
    draw.case(Op::MatMul(op), args)
}

/// A weight `[lead.., rows, k]` of a block type, with gaps between rows.
fn blocks(draw: &mut Draw, quant: QuantType, lead: &[usize], rows: usize, k: usize) -> Option<Argument> {
    let block = quant.block_len();
    let gap = if draw.simpler.packed { 0 } else { block * draw.fine.pick(&[0, 0, 1, 3]) };
    let skipped = if draw.simpler.packed { 0 } else { draw.fine.pick(&[0, 0, 1, 2]) };
    let outer: usize = lead.iter().product();
    let elements = (skipped + outer * rows) * (k + gap) + gap;
    // Few blocks are quantized, which takes its time, and come again and again.
    const DIFFERENT: usize = 5;
    let some = weights::weight(quant, &[DIFFERENT, block], draw.fine.next())?;
    let size = quant.block_bytes();
    let mut order = Rng::new(draw.fine.next());
    let bytes = (0..elements / block)
        .flat_map(|_| {
            let i = order.below(DIFFERENT);
            some.bytes[i * size..(i + 1) * size].to_vec()
        })
        .collect();
    let dims = [lead, &[rows, k]].concat();
    let mut strides = vec![1; dims.len()];
    let mut step = k + gap;
    for axis in (0..dims.len() - 1).rev() {
        strides[axis] = step;
        step *= dims[axis];
    }
    let shape = Shape::new(dims.as_slice()).ok()?;
    let layout = Layout::new(shape, strides.as_slice(), skipped * (k + gap)).ok()?;
    Some(Argument { layout, bytes, ..some })
}

fn quant(draw: &mut Draw) -> QuantType {
    draw.kind.pick(QuantType::ALL)
}

/// Whole blocks.
fn row_of(draw: &mut Draw, quant: QuantType) -> usize {
    let block = quant.block_len();
    let most = 1024 / block;
    block * (1 + draw.fine.below(most.max(1)))
}

pub(super) fn quant_matmul(draw: &mut Draw) -> Option<Case> {
    let quant = quant(draw);
    let k = row_of(draw, quant);
    let (m, n) = (draw.len(40), draw.some(70));
    let b = blocks(draw, quant, &[], n, k)?;
    let b = Argument { layout: b.layout.transpose(0, 1).ok()?, ..b };
    let ndim = draw.kind.pick(&[0, 0, 0, 1, 2]);
    let lead = draw.dims(ndim, 4);
    let a = draw.argument(
        DType::F32,
        &[&lead[..], &[m, k]].concat(),
        Numbers::within(-3.0, 3.0).with(Special::Zeros),
    );
    // Of one number that repeats, the weights' terms of either sign add up, and cancel each other to what rounding left: too little to
    // compare sums of another order, which are those of many rows.
    if a.layout.strides().last() == Some(&0) && a.layout.numel() / k > FEW {
        return None;
    }
    let mut args = vec![a, b];
    if draw.kind.chance(40) {
        args.push(draw.argument(DType::F32, &[n], Numbers::within(-3.0, 3.0)));
    }
    draw.case(Op::MatMul(MatMul::default()), args)
}

pub(super) fn experts(draw: &mut Draw) -> Option<Case> {
    let (t, k, e) = (draw.len(12), draw.some(4), draw.some(6));
    let shared = if draw.fine.chance(50) { 1 } else { k };
    let ids = draw.indices(&[t, k], e);
    if draw.kind.chance(50) {
        let quant = quant(draw);
        let inner = row_of(draw, quant);
        let rows = draw.some(40);
        let w = blocks(draw, quant, &[e], rows, inner)?;
        let x =
            draw.argument(DType::F32, &[t, shared, inner], Numbers::within(-3.0, 3.0).with(Special::Zeros));
        return draw.case(Op::MulMatId(MulMatId { numerics: Numerics::Ggml }), vec![x, w, ids]);
    }
    let dtype = draw.dtype(FLOATS);
    let half = dtype == DType::F32 && draw.kind.chance(50);
    let weight = if half { draw.kind.pick(&[DType::F16, DType::BF16]) } else { dtype };
    let (out, inner) = (draw.len(70), draw.len(200));
    let numbers = terms(draw, dtype, inner).with(Special::Zeros);
    let x = draw.argument(dtype, &[t, shared, inner], numbers);
    let mut w = draw.argument(weight, &[e, out, inner], numbers);
    if w.layout.strides()[2] != 1 {
        w = w.packed();
    }
    let numerics = numerics(half && draw.kind.chance(50));
    draw.case(Op::MulMatId(MulMatId { numerics }), vec![x, w, ids])
}

/// Rows of a table of a block type, or dequantization of all of it.
pub(super) fn quant_rows(draw: &mut Draw) -> Option<Case> {
    let quant = quant(draw);
    let (rows, k) = (draw.some(20), row_of(draw, quant));
    let table = blocks(draw, quant, &[], rows, k)?;
    if draw.kind.chance(60) {
        let ndim = draw.ndim(0, 3);
        let dims = draw.dims(ndim, 30);
        let ids = draw.indices(&dims, rows);
        return draw.case(Op::Embedding(Embedding), vec![table, ids]);
    }
    let to = draw.kind.pick(&[DType::F32, DType::F16, DType::BF16]);
    draw.case(Op::Cast(Cast { to }), vec![table])
}

/// `F32` to a block type.
pub(super) fn quantize(draw: &mut Draw) -> Option<Case> {
    let quant = quant(draw);
    let (rows, k) = (draw.len(8), row_of(draw, quant));
    let x = draw.argument(DType::F32, &[rows, k], Numbers::within(-3.0, 3.0).with(Special::Zeros));
    draw.case(Op::Cast(Cast { to: DType::Quant(quant) }), vec![x])
}

pub(super) fn attention(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let keys = match dtype {
        DType::F32 => draw.kind.pick(&[DType::F32, DType::F16, DType::BF16]),
        other => other,
    };
    let (kv, group) = (draw.some(3), 1 + draw.fine.below(4));
    let (m, n) = (draw.len(9), draw.len(140));
    let (d, e) = (draw.some(72), draw.some(72));
    let lead: Vec<usize> = (0..draw.kind.pick(&[0, 1, 1, 2])).map(|_| 1 + draw.fine.below(2)).collect();
    let dims = |own: [usize; 3]| [&lead[..], &own].concat();
    let numbers = Numbers::within(-1.0, 1.0).with(Special::Zeros);
    let q = draw.argument(dtype, &dims([kv * group, m, d]), numbers);
    let k = draw.argument(keys, &dims([kv, n, d]), numbers);
    let v = draw.argument(keys, &dims([kv, n, e]), numbers);
    let mut args = vec![q, k, v];
    if draw.kind.chance(40) {
        let own = draw.narrower(&dims([kv * group, m, n]));
        let mask = match draw.kind.chance(50) {
            true => draw.argument(DType::Bool, &own, numbers),
            false => draw.argument(dtype, &own, numbers),
        };
        args.push(mask);
    }
    let fine = &mut draw.fine;
    let attention = Attention {
        causal: fine.chance(50).then(|| fine.below(n + 2)),
        window: fine.chance(30).then(|| 1 + fine.below(n + 2)),
        softcap: draw.kind.chance(25).then_some(5.0),
        numerics: numerics(!(keys == DType::F16 && dtype == DType::F32 && draw.kind.chance(50))),
        lse: draw.kind.chance(30),
        ..Attention::new(fine.between(0.05, 0.6) as f32)
    };
    let rounds = attention.rounds_to_f16(dtype, keys);
    let dropout = (!rounds && draw.kind.chance(15)).then(|| {
        let key = PhiloxKey { seed: draw.fine.next(), offset: draw.fine.next() };
        Dropout { p: 0.3, key }
    });
    let attention = Attention { dropout, ..attention };
    draw.case(Op::Attention(attention), args)
}

pub(super) fn attention_backward(draw: &mut Draw) -> Option<Case> {
    let Case { op: Op::Attention(attention), args: forward } = attention(draw)? else { return None };
    let attention = Attention { numerics: Numerics::F32, ..attention };
    let (dtype, dims) = (forward[0].dtype, forward[0].layout.dims().to_vec());
    let (queries, n) = (&dims[..dims.len() - 1], forward[1].layout.dims()[dims.len() - 2]);
    let like = [queries, &forward[2].layout.dims()[dims.len() - 1..]].concat();
    let numbers = Numbers::within(-1.0, 1.0);
    let (grad, out) = (draw.argument(dtype, &like, numbers), draw.argument(dtype, &like, numbers));
    let wide = if dtype == DType::F64 { dtype } else { DType::F32 };
    // As if the sum of the exponentiated scores were about their number, or more: weights are at most about one.
    let least = (n.max(1) as f64).ln() + 2.0;
    let lse = draw.argument(wide, queries, Numbers::within(least, least + 1.0));
    let mut args = vec![grad];
    args.extend(forward[..3].iter().cloned());
    args.extend([out, lse]);
    args.extend(forward.get(3).cloned());
    let wanted = 1 + draw.kind.below(7);
    let [q, k, v] = [1, 2, 4].map(|bit| wanted & bit != 0);
    draw.case(Op::AttentionBackward(AttentionBackward { attention, q, k, v }), args)
}

pub(super) fn rope(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let ndim = draw.ndim(2, 5);
    let mut dims = draw.dims(ndim, 6000);
    dims[ndim - 1] = dims[ndim - 1].max(2);
    let head = dims[ndim - 1];
    let rotated = 2 * (1 + draw.fine.below(head / 2));
    let x = draw.argument(dtype, &dims, Numbers::within(-3.0, 3.0).with(Special::Infinite));
    let below = draw.fine.pick(&[10, 500, 5000_u16]);
    // Every position is valid.
    let index = draw.kind.pick(&[DType::I32, DType::I64]);
    let positions = draw.argument(index, &[dims[ndim - 2]], Numbers::within(0.0, f64::from(below)));
    let mut args = vec![x, positions];
    if draw.kind.chance(30) {
        args.push(draw.argument(DType::F32, &[rotated / 2], Numbers::within(0.5, 8.0)));
    }
    let yarn = draw.fine.chance(30).then_some(Yarn {
        ext_factor: 1.0,
        attn_factor: 0.9,
        beta_fast: 32.0,
        beta_slow: 1.0,
        original_context: 512,
    });
    let rope = RopeParams {
        style: draw.kind.pick(&[RopeStyle::Adjacent, RopeStyle::Halves]),
        rotated,
        base: draw.fine.pick(&[10_000.0, 500_000.0]),
        scale: draw.fine.pick(&[1.0, 0.25]),
        yarn,
    };
    draw.case(Op::Rope(rope), args)
}

pub(super) fn conv(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(&[DType::F16, DType::BF16, DType::F32, DType::F64, DType::C64, DType::C128]);
    let spatial = 1 + draw.kind.below(3);
    let mut params = ConvParams::new(spatial);
    for axis in 0..spatial {
        let fine = &mut draw.fine;
        params.stride[axis] = fine.pick(&[1, 1, 1, 2, 3]);
        params.dilation[axis] = fine.pick(&[1, 1, 1, 2, 3]);
        params.padding[axis] = (fine.pick(&[0, 0, 1, 2]), fine.pick(&[0, 0, 1, 2]));
    }
    let depthwise = draw.kind.chance(25);
    params.groups = if depthwise { draw.some(20) } else { draw.fine.pick(&[1, 1, 2, 3]) };
    let (own, out) = match depthwise {
        true => (1, 1 + draw.fine.below(2)),
        false => (draw.len(40), draw.len(40)),
    };
    let (c_in, c_out) = (own * params.groups, out * params.groups);
    let images = draw.len(3);
    let kernel: Vec<usize> = (0..spatial).map(|_| 1 + draw.fine.below(4)).collect();
    let room = [120, 18, 7][spatial - 1];
    let size: Vec<usize> = (0..spatial).map(|_| draw.len(room)).collect();
    let outs: Option<Vec<usize>> =
        (0..spatial).map(|axis| params.output_len(axis, size[axis], kernel[axis])).collect();
    let outs = outs?;
    let taps = own * kernel.iter().product::<usize>();
    let count = images * c_out * outs.iter().product::<usize>();
    if taps * count > 400_000 || c_in * c_out == 0 && draw.fine.chance(80) {
        return None;
    }
    let what = draw.kind.below(3);
    let summed = match what {
        0 => taps,
        1 => out * kernel.iter().product::<usize>(),
        _ => images * outs.iter().product::<usize>(),
    };
    let numbers = terms(draw, dtype, summed);
    let (x, w, y) = (
        [&[images, c_in], &size[..]].concat(),
        [&[c_out, own], &kernel[..]].concat(),
        [&[images, c_out], &outs[..]].concat(),
    );
    let biased = draw.kind.chance(50);
    // Padding stands for zeros, which some multiply and others leave out: only what is padded may be infinite.
    let mut with = |dims: [&[usize]; 2], bias: usize| {
        let padded = draw.argument(dtype, dims[0], numbers);
        let mut args = vec![padded, draw.argument(dtype, dims[1], numbers.with(Special::Zeros))];
        if biased && bias != usize::MAX {
            args.push(draw.argument(dtype, &[bias], numbers.with(Special::None)));
        }
        args
    };
    match what {
        0 => {
            let args = with([&x, &w], c_out);
            let conv = Conv { params, activation: activation(draw, dtype) };
            draw.case(Op::from(conv), args)
        }
        1 => {
            let args = with([&y, &w], c_in);
            let size: Option<Dims> = (0..spatial)
                .map(|axis| {
                    let more = params.stride[axis].max(params.dilation[axis]);
                    Some(params.input_len(axis, outs[axis], kernel[axis])? + draw.fine.below(more))
                })
                .collect();
            draw.case(Op::from(ConvBackwardData { params, size: size? }), args)
        }
        _ => {
            let args = with([&x, &y], usize::MAX);
            let kernel = Dims::from_slice(&kernel);
            draw.case(Op::from(ConvBackwardWeight { params, kernel }), args)
        }
    }
}
