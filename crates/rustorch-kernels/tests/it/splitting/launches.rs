//! How many launches operations on 4 GiB take where kernels see 128 MiB: of plans alone, nothing runs.

use super::{hardware, matmul, packed, plan_on};
use rustorch_core::{
    BatchNorm, Conv, ConvBackwardWeight, ConvParams, CopyOp, DType, Dims, Layout, MaxPool, Op, PoolWindow,
    Reduce, ReduceOp, Softmax, UnaryOp,
};
use rustorch_kernels::{Hardware, Kernel};

const SEEN: u64 = 128 << 20;

fn f32(dims: &[usize]) -> (DType, Layout) {
    (DType::F32, packed(dims))
}

/// Launches in all, and those of copies.
fn launches(op: &Op, args: &[(DType, Layout)]) -> [usize; 2] {
    let hardware = Hardware { max_buffer: 64 << 30, ..hardware(SEEN) };
    let plan = plan_on(op, args, &hardware).unwrap();
    for step in &plan.steps {
        assert!(step.bindings.iter().all(|binding| binding.end - binding.start <= SEEN), "{step:?}");
    }
    // Memory for the chunks is that for one of them.
    assert!(
        plan.scratch.iter().all(|&bytes| bytes as u64 <= SEEN) && plan.scratch.len() <= 6,
        "{:?}",
        plan.scratch
    );
    let copies = plan.steps.iter().filter(|step| matches!(step.kernel, Kernel::Copy(_))).count();
    [plan.steps.len(), copies]
}

fn params(groups: usize) -> ConvParams {
    ConvParams { padding: [(1, 1); 2].into_iter().collect(), groups, ..ConvParams::new(2) }
}

/// 4 GiB in 64 images.
const IMAGES: [usize; 4] = [64, 64, 512, 512];

/// Where parts are contiguous, one launch for each part, or two.
#[test]
fn images_and_rows_take_a_launch_for_each_part() {
    let conv = |groups| Op::from(Conv { params: params(groups), activation: None });
    let kernel = Dims::from_slice(&[3, 3]);
    let gradient = Op::from(ConvBackwardWeight { params: params(1), kernel });
    let two = || Dims::from_slice(&[2, 2]);
    let window =
        PoolWindow { kernel: two(), stride: two(), padding: Dims::from_slice(&[0, 0]), ceil_mode: false };
    let pool = Op::from(MaxPool { window, dilation: Dims::from_slice(&[1, 1]) });
    let norm = Op::BatchNorm(BatchNorm { training: false, eps: 1e-5 });
    let sum = |axes: &[usize]| {
        Op::Reduce(Reduce { op: ReduceOp::Sum, axes: Dims::from_slice(axes), keepdim: false })
    };
    let softmax = Op::Softmax(Softmax { axis: 1, log: false });
    let x = || f32(&IMAGES);
    for (op, args) in [
        (conv(1), vec![x(), f32(&[64, 64, 3, 3])]),
        (conv(64), vec![x(), f32(&[64, 1, 3, 3])]),
        // Each goes on with the sums of the one before.
        (gradient, vec![x(), x()]),
        (pool, vec![x()]),
        (norm, vec![x(), f32(&[64]), f32(&[64])]),
        (sum(&[0, 1, 2, 3]), vec![f32(&[63, 64, 512, 512])]),
        (sum(&[0]), vec![f32(&[1 << 22, 256])]),
        (softmax, vec![f32(&[1 << 12, 1 << 18])]),
    ] {
        let [all, copies] = launches(&op, &args);
        assert!((32..=66).contains(&all) && copies == 0, "{}: {all}, {copies}", op.name());
    }
}

/// Where each part that is written takes something of each that is read, one for each pair, which is a thousand here.
#[test]
fn turned_around_they_take_one_for_each_pair() {
    let training = Op::BatchNorm(BatchNorm { training: true, eps: 1e-5 });
    let sum = |axes: &[usize]| {
        Op::Reduce(Reduce { op: ReduceOp::Sum, axes: Dims::from_slice(axes), keepdim: false })
    };
    let softmax = Op::Softmax(Softmax { axis: 0, log: false });
    let conv = Op::from(Conv { params: params(1), activation: None });
    let turned = |rows: usize, columns| vec![(DType::F32, packed(&[rows, columns]).transpose(0, 1).unwrap())];
    let gaps = packed(&[32_700, 32_779]).slice(1, 5, 32_771, 1).unwrap();
    for (op, args, most) in [
        // By channels, of all images; by rows of one image, of all channels.
        (training, vec![f32(&IMAGES)], 2200),
        (sum(&[0, 2, 3]), vec![f32(&IMAGES)], 1100),
        (conv, vec![f32(&[1, 64, 4096, 4096]), f32(&[64, 64, 3, 3])], 2200),
        (sum(&[0]), vec![f32(&[1 << 20, 1024])], 1100),
        // A few launches for each part of one sum, where rows do not begin with runs.
        (sum(&[0, 1]), turned(1 << 15, 1 << 15), 1100),
        (sum(&[0, 1]), vec![(DType::F32, gaps)], 200),
        (softmax, vec![f32(&[1 << 12, 1 << 18])], 2200),
        (Op::Copy(CopyOp), turned(1 << 15, 1 << 15), 1100),
        (Op::Unary(UnaryOp::Neg), turned(1 << 15, 1 << 15), 1200),
        (Op::Copy(CopyOp), turned(1 << 16, 1 << 15), 4400),
        // The output layer of a large model, as a matrix whose columns lie across it: 10 parts of 1.2 GiB.
        (matmul(), vec![f32(&[1, 4096]), (DType::F16, packed(&[4096, 152_064]))], 120),
    ] {
        let [all, copies] = launches(&op, &args);
        assert!(all <= most && copies > all / 2, "{}: {all}, {copies}", op.name());
    }
}
