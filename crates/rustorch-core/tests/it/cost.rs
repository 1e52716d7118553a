//! Times by measured rates.

use rustorch_core::{
    CostModel, DType, Device, Layout, Link, MatMul, Op, OpKind, OpType, QuantType, Rate, RateOf, Shape,
    TensorMeta, UnaryOp,
};

const Q4: DType = DType::Quant(QuantType::Q4_0);
const Q5: DType = DType::Quant(QuantType::Q5_K);
const Q8: DType = DType::Quant(QuantType::Q8_0);

fn model() -> CostModel {
    let rate = |of, dtype, flops, bandwidth| Rate { of, dtype, flops, bandwidth };
    let matmul = || RateOf::Op(OpKind::MatMul);
    CostModel {
        launch_us: 2.0,
        flops: 1e9,
        bandwidth: 1e10,
        rates: vec![
            rate(matmul(), DType::F32, 1e12, 2e10),
            rate(matmul(), Q4, 4e11, 8e9),
            rate(matmul(), Q8, 3e11, 9e9),
            rate(RateOf::Class(OpType::LinearAlgebra), DType::F64, 5e11, 1e10),
            rate(RateOf::Class(OpType::Activation), DType::F32, f64::INFINITY, 5e9),
        ],
        upload: Link { start_us: 10.0, bandwidth: 1e9 },
        download: Link::NONE,
    }
}

#[test]
fn the_closest_measurement_counts() {
    let model = model();
    let product = |dtype| model.rates(OpKind::MatMul, OpType::LinearAlgebra, dtype);
    assert_eq!(product(DType::F32), (1e12, 2e10));
    assert_eq!(product(Q4), (4e11, 8e9));
    // An unmeasured block type is as slow as the slowest that was measured, in each respect.
    assert_eq!(product(Q5), (3e11, 8e9));
    // The class in the very dtype counts before the operation in a dtype of the kind.
    assert_eq!(product(DType::F64), (5e11, 1e10));
    assert_eq!(product(DType::C64), (1e12, 2e10));
    assert_eq!(model.rates(UnaryOp::Silu.into(), OpType::Activation, DType::F16), (f64::INFINITY, 5e9));
    assert_eq!(model.rates(OpKind::Sort, OpType::Sorting, DType::F32), (1e9, 1e10));
}

#[test]
fn matmuls_of_a_fixed_order_go_by_their_class() {
    let layout = Layout::contiguous(Shape::new([1000, 1000].as_slice()).unwrap());
    let of_class = |dtype| Rate {
        of: RateOf::Class(OpType::LinearAlgebra),
        dtype,
        flops: 1e11,
        bandwidth: f64::INFINITY,
    };
    let mut model = CostModel { launch_us: 0.0, ..model() };
    let us = |model: &CostModel, op: MatMul, dtypes: [DType; 2]| {
        let args = dtypes.map(|dtype| TensorMeta { dtype, layout: &layout, device: Device::CPU });
        let op = Op::MatMul(op);
        model.run_us(&op, &args, &op.infer(&args).unwrap()).round()
    };
    let plain = || MatMul::default();
    let invariant = || MatMul { batch_invariant: true, ..plain() };
    let single = [DType::F32; 2];
    // Without a rate of the class in the dtype, the operation's.
    assert_eq!([us(&model, plain(), single), us(&model, invariant(), single)], [2000.0; 2]);
    model.rates.push(of_class(DType::F32));
    assert_eq!([us(&model, plain(), single), us(&model, invariant(), single)], [2000.0, 20_000.0]);
    // Weights of 16 bits, whose order is always stated.
    let half = Rate { of: RateOf::Op(OpKind::MatMul), flops: 1e13, ..of_class(DType::F16) };
    model.rates.extend([half, of_class(DType::F16)]);
    assert_eq!(us(&model, plain(), [DType::F16; 2]), 200.0);
    assert_eq!(us(&model, plain(), [DType::F32, DType::F16]), 20_000.0);
}

#[test]
fn time_is_the_start_and_the_slower_of_arithmetic_and_memory() {
    let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).unwrap());
    let (a, b) = (layout(&[1000, 1000]), layout(&[1000, 1000]));
    let meta = |layout, dtype| TensorMeta { dtype, layout, device: Device::CPU };
    let op = Op::MatMul(MatMul::default());
    let args = [meta(&a, DType::F32), meta(&b, DType::F32)];
    let us = model().run_us(&op, &args, &op.infer(&args).unwrap());
    assert!((us - 2002.0).abs() < 1e-6, "{us}");
    let op = Op::Unary(UnaryOp::Silu);
    let us = model().run_us(&op, &args[..1], &op.infer(&args[..1]).unwrap());
    assert!((us - 1602.0).abs() < 1e-6, "{us}");
    assert_eq!(CostModel::UNKNOWN.run_us(&op, &args[..1], &[]), f64::INFINITY);
    assert_eq!((model().upload.us(1000), model().upload.us(0), Link::NONE.us(9)), (11.0, 0.0, 0.0));
}
