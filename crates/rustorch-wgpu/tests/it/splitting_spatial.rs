//! Convolution, pooling, interpolation and the normalisation of channels, in chunks that share what lies between them: the
//! same bits as in one.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

use crate::common::splitting as common;
use crate::common::splitting::{LIMIT, argument, case, engines, indices, launches, same_bits};
use rustorch_core::{
    AdaptiveAvgPool, AdaptiveAvgPoolBackward, AdaptiveMaxPool, AvgPool, AvgPoolBackward, Backend, BatchNorm,
    Conv, ConvBackwardData, ConvBackwardWeight, ConvParams, DType, Device, Dims, GroupNorm, Interpolate,
    InterpolateBackward, InterpolateMode, MaxPool, MaxPoolBackward, Op, PoolWindow, TensorMeta, UnaryOp,
};
use rustorch_testkit::conformance::{Argument, Case, Extent};

/// The lengths of the first result's dimensions.
fn result(op: &Op, args: &[&Argument]) -> Vec<usize> {
    let metas: Vec<TensorMeta<'_>> =
        args.iter().map(|x| TensorMeta { dtype: x.dtype, layout: &x.layout, device: Device::CPU }).collect();
    op.infer(&metas).unwrap()[0].shape.dims().to_vec()
}

/// A convolution and its gradients: dimensions of the input and of the weight, and how it moves.
struct Shape<'a> {
    x: &'a [usize],
    weight: &'a [usize],
    stride: usize,
    dilation: usize,
    padding: (usize, usize),
    groups: usize,
}

fn convolutions(dtype: DType, shape: &Shape<'_>, seed: u32) -> Vec<Case> {
    let spatial = shape.x.len() - 2;
    let params = ConvParams {
        stride: Dims::from_elem(shape.stride, spatial),
        dilation: Dims::from_elem(shape.dilation, spatial),
        padding: std::iter::repeat_n(shape.padding, spatial).collect(),
        groups: shape.groups,
    };
    let (x, weight) = (argument(dtype, shape.x, seed), argument(dtype, shape.weight, seed + 1));
    let [per_output, per_input] = [shape.weight[0], shape.x[1]].map(|n| argument(dtype, &[n], seed + 2));
    let forward = |activation| Op::from(Conv { params: params.clone(), activation });
    let dy = argument(dtype, &result(&forward(None), &[&x, &weight]), seed + 3);
    let size = Dims::from_slice(&shape.x[2..]);
    let kernel = Dims::from_slice(&shape.weight[2..]);
    let data = Op::from(ConvBackwardData { params: params.clone(), size });
    let mut cases = vec![
        case(forward(None), [x.clone(), weight.clone()]),
        case(forward(Some(UnaryOp::Silu)), [x.clone(), weight.clone(), per_output]),
        case(data, [dy.clone(), weight, per_input]),
    ];
    // A channel of all images has to be seen at once, in memory of its own; or images whose positions are whole steps.
    let steps = dy.layout.dims()[2..].iter().product::<usize>().is_multiple_of(256);
    if steps || [&x, &dy].iter().all(|x| x.bytes.len() / x.layout.dims()[1] < LIMIT as usize - 260) {
        cases.push(case(Op::from(ConvBackwardWeight { params, kernel }), [x, dy]));
    }
    cases
}

/// Some of which kernels see whole: a chunk, or nothing, is done in one.
fn cut(cases: Vec<Case>) -> Vec<Case> {
    let engines = engines(LIMIT);
    let Some([whole, narrow]) = engines.first() else { return Vec::new() };
    let count = cases.len();
    let cut: Vec<Case> = cases
        .into_iter()
        .filter(|case| {
            let args = common::metas(case, narrow);
            whole.supports(&case.op, &args).is_err()
                || narrow.supports(&case.op, &args).is_err()
                || launches(case, whole, narrow.hardware()) > launches(case, whole, whole.hardware())
        })
        .collect();
    assert!(2 * cut.len() > count, "{} of {count} cut", cut.len());
    cut
}

#[test]
fn convolutions_in_chunks_have_the_same_bits() {
    let s =
        |x, weight, stride, dilation, padding, groups| Shape { x, weight, stride, dilation, padding, groups };
    let mut cases = Vec::new();
    for (i, shape) in [
        // By images.
        s(&[8, 5, 23, 21], &[7, 5, 3, 3], 1, 1, (1, 1), 1),
        // One image: by rows, whose neighbours are other chunks'.
        s(&[1, 3, 67, 61], &[4, 3, 3, 3], 1, 1, (1, 1), 1),
        s(&[1, 3, 67, 61], &[5, 3, 5, 3], 2, 1, (2, 1), 1),
        s(&[1, 4, 71, 53], &[6, 4, 3, 3], 2, 3, (0, 4), 1),
        // Steps over elements that nothing needs; and chunks that see nothing but padding.
        s(&[1, 2, 90, 64], &[3, 2, 2, 1], 5, 1, (0, 0), 1),
        s(&[1, 3, 5, 400], &[5, 3, 2, 3], 1, 1, (17, 19), 1),
        // By groups, and by channels of a group; two rows of a group, and fewer than two in a chunk.
        s(&[2, 12, 31, 29], &[18, 4, 3, 3], 1, 1, (1, 1), 3),
        s(&[2, 10, 41, 31], &[10, 1, 3, 3], 1, 2, (2, 2), 10),
        s(&[1, 6, 70, 33], &[9, 2, 3, 2], 2, 1, (1, 0), 3),
        // A weight that is more than a chunk.
        s(&[2, 40, 5, 5], &[60, 40, 3, 3], 1, 1, (1, 1), 1),
        // Along one dimension and along three.
        s(&[3, 5, 1301], &[9, 5, 7], 3, 2, (5, 2), 1),
        s(&[2, 5, 13, 9, 11], &[4, 5, 3, 2, 3], 1, 2, (2, 1), 1),
        s(&[1, 2, 17, 19, 23], &[3, 2, 3, 2, 3], 1, 1, (1, 1), 1),
        s(&[1, 4, 18, 16, 15], &[4, 2, 2, 3, 3], 2, 1, (1, 0), 2),
        // Sums over images that go on from chunk to chunk, of tiles and of single rows.
        s(&[7, 5, 16, 32], &[7, 5, 3, 3], 1, 1, (1, 1), 1),
        s(&[33, 3, 31, 19], &[7, 3, 4, 4], 1, 1, (0, 0), 1),
        s(&[17, 6, 18, 18], &[9, 2, 3, 3], 1, 1, (0, 0), 3),
        s(&[40, 2, 17, 18], &[2, 1, 2, 3], 1, 1, (0, 0), 2),
        s(&[60, 1, 18, 20], &[1, 1, 3, 5], 1, 1, (0, 0), 1),
        s(&[60, 1, 31, 32], &[2, 1, 2, 3], 2, 1, (1, 1), 1),
    ]
    .iter()
    .enumerate()
    {
        let dtypes: &[DType] = if i % 3 == 0 || i > 12 { &[DType::F32, DType::F16] } else { &[DType::F32] };
        for &dtype in dtypes {
            cases.extend(convolutions(dtype, shape, 100 + 4 * i as u32));
        }
    }
    same_bits(cut(cases));
}

#[test]
fn pools_in_chunks_have_the_same_bits() {
    let mut cases = Vec::new();
    for (dims, spatial, kernel, stride, padding, dilation, ceil_mode) in [
        // By planes.
        (&[4, 5, 23, 21][..], 2, 3, 2, 1, 1, false),
        // One plane: by rows.
        (&[1, 131, 97][..], 2, 3, 1, 1, 1, false),
        (&[1, 131, 97][..], 2, 4, 3, 2, 2, true),
        (&[131, 98][..], 2, 2, 5, 0, 1, true),
        (&[3, 17001][..], 1, 5, 2, 2, 3, false),
        (&[1, 2, 21, 23, 26][..], 3, 3, 2, 1, 1, true),
    ] {
        let each = |n| Dims::from_elem(n, spatial);
        let window =
            PoolWindow { kernel: each(kernel), stride: each(stride), padding: each(padding), ceil_mode };
        let plane = Dims::from_slice(&dims[dims.len() - spatial..]);
        let elements: usize = plane.iter().product();
        for dtype in [DType::F32, DType::F16] {
            let x = argument(dtype, dims, 200);
            let max = Op::from(MaxPool { window: window.clone(), dilation: each(dilation) });
            let pooled = result(&max, &[&x]);
            let grad = argument(dtype, &pooled, 201);
            cases.push(case(max, [x.clone()]));
            // Several planes: each has to be seen whole.
            if elements < 2000 && elements.is_multiple_of(2) {
                let op = Op::MaxPoolBackward(MaxPoolBackward { spatial: plane.clone() });
                cases.push(case(op, [grad, indices(DType::I64, &pooled, elements, 202)]));
            }
            for (count_include_pad, divisor) in [(true, None), (false, None), (true, Some(5))] {
                let pool = AvgPool { window: window.clone(), count_include_pad, divisor };
                let op = Op::from(pool.clone());
                let grad = argument(dtype, &result(&op, &[&x]), 203);
                cases.push(case(op, [x.clone()]));
                cases.push(case(Op::from(AvgPoolBackward { pool, spatial: plane.clone() }), [grad]));
            }
            for size in [7, 60] {
                let mean = Op::AdaptiveAvgPool(AdaptiveAvgPool { size: each(size) });
                let grad = argument(dtype, &result(&mean, &[&x]), 204);
                cases.push(case(Op::AdaptiveMaxPool(AdaptiveMaxPool { size: each(size) }), [x.clone()]));
                cases.push(case(mean, [x.clone()]));
                cases.push(case(
                    Op::AdaptiveAvgPoolBackward(AdaptiveAvgPoolBackward { spatial: plane.clone() }),
                    [grad],
                ));
            }
        }
    }
    // 16-bit floats are added in sums of 32 bits, of which kernels see half as many.
    for dtype in [DType::F32, DType::F16] {
        let grad = argument(dtype, &[11, 700], 205);
        let at = indices(DType::I64, &[11, 700], 1400, 206);
        cases.push(case(
            Op::MaxPoolBackward(MaxPoolBackward { spatial: Dims::from_slice(&[1400]) }),
            [grad, at],
        ));
    }
    same_bits(cut(cases));
}

#[test]
fn interpolation_in_chunks_has_the_same_bits() {
    let mut cases = Vec::new();
    for (dims, sizes) in [
        (&[4, 3, 29, 31][..], &[41usize, 37][..]),
        (&[1, 1, 97, 89][..], &[131, 64][..]),
        (&[1, 130, 97][..], &[23, 197][..]),
        (&[2, 9000][..], &[10_001][..]),
        (&[1, 1, 15, 17, 20][..], &[22, 11, 31][..]),
    ] {
        let n = sizes.len();
        for (mode, align_corners) in [
            (InterpolateMode::Nearest, false),
            (InterpolateMode::NearestExact, false),
            (InterpolateMode::Linear, false),
            (InterpolateMode::Linear, true),
            (InterpolateMode::Cubic, false),
            (InterpolateMode::Cubic, true),
        ] {
            // By a factor that is not that of the lengths, positions reach beyond the end, or not to it.
            for factor in [None, Some(0.7), Some(2.3)] {
                if factor.is_some() && align_corners {
                    continue;
                }
                let op = Interpolate {
                    mode,
                    size: Dims::from_slice(sizes),
                    factors: std::iter::repeat_n(factor, n).collect(),
                    align_corners,
                };
                let spatial = Dims::from_slice(&dims[dims.len() - n..]);
                for dtype in [DType::F32, DType::F16] {
                    let x = argument(dtype, dims, 300);
                    let forward = Op::from(op.clone());
                    let grad = argument(dtype, &result(&forward, &[&x]), 301);
                    let backward =
                        Op::from(InterpolateBackward { interpolate: op.clone(), spatial: spatial.clone() });
                    cases.extend([case(forward, [x]), case(backward, [grad])]);
                }
            }
        }
    }
    same_bits(cut(cases));
}

/// Positions from 2²⁵ on are rounded by four: what a chunk has is found with the roundings of kernels.
#[test]
fn places_far_from_the_first_are_in_the_piece() {
    let mut cases = Vec::new();
    let far = 3 << 24;
    let x = argument(DType::F16, &[1, far], 310);
    let modes = [
        (InterpolateMode::Nearest, false),
        (InterpolateMode::NearestExact, false),
        (InterpolateMode::Linear, false),
        (InterpolateMode::Cubic, true),
    ];
    for (mode, align_corners) in modes.into_iter().step_by(Extent::share(2)) {
        let size = Dims::from_slice(&[2803]);
        let op = Interpolate { mode, size, factors: [None].into_iter().collect(), align_corners };
        cases.push(case(Op::from(op), [x.clone()]));
    }
    same_bits(cut(cases));
}

#[test]
fn normalised_channels_in_chunks_have_the_same_bits() {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for dims in [&[3, 9, 20, 22][..], &[1, 4, 60, 62], &[5, 6, 302], &[300, 44], &[2, 3, 9, 10, 12]] {
            let x = argument(dtype, dims, 400);
            let list = |seed| argument(DType::F32, &[dims[1]], seed);
            let variance = argument(DType::U8, &[dims[1]], 403);
            let bytes = variance.bytes.iter().flat_map(|&x| (f32::from(x) / 64.0).to_le_bytes()).collect();
            let variance = Argument { dtype: DType::F32, bytes, ..variance };
            let norm = |training| Op::BatchNorm(BatchNorm { training, eps: 1e-5 });
            cases.push(case(norm(false), [x.clone(), list(401), variance.clone()]));
            cases.push(case(norm(false), [x.clone(), list(401), variance, list(402), list(404)]));
            // A channel of all samples has to be seen at once, in memory of its own.
            if dims[0] * dims[2..].iter().product::<usize>() < 4000 {
                cases.push(case(norm(true), [x.clone()]));
                cases.push(case(norm(true), [x.clone(), list(402), list(404)]));
            }
            for groups in [1, 3, dims[1]] {
                let len = dims[1] / groups * dims[2..].iter().product::<usize>();
                if dims[1].is_multiple_of(groups) && len < 4000 {
                    let op = Op::GroupNorm(GroupNorm { groups, eps: 1e-5 });
                    cases.push(case(op.clone(), [x.clone()]));
                    cases.push(case(op, [x.clone(), list(402), list(404)]));
                }
            }
        }
    }
    same_bits(cut(cases));
}
