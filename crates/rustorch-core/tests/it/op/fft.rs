//! Fourier transforms.

use rustorch_core::{
    DType, Device, Fft, FftScale, Layout, Op, OpType, OutputMeta, Result, Shape, TensorMeta,
};

fn infer(op: Fft, dtype: DType, dims: &[usize]) -> Result<(DType, Vec<usize>)> {
    let layout = Layout::contiguous(Shape::new(dims).unwrap());
    let metas = [TensorMeta { dtype, layout: &layout, device: Device::CPU }];
    let op = Op::Fft(op);
    let outs = op.infer(&metas)?;
    assert_eq!(op.class(&metas), OpType::Fourier);
    assert!(!op.fails_on_values());
    let [OutputMeta { dtype, shape }] = &outs[..] else { panic!("{outs:?}") };
    assert!(shape.numel() == 0 || op.work(&metas, &outs).flops > 0);
    Ok((*dtype, shape.dims().to_vec()))
}

const SCALE: FftScale = FftScale::One;

#[test]
fn results_have_the_shapes_of_pytorch() {
    use DType::{C64, C128, F32, F64};
    let whole = |axis| Fft::ComplexToComplex { axis, inverse: false, scale: SCALE };
    let half = |axis| Fft::RealToComplex { axis, scale: SCALE };
    let back = |axis, n| Fft::ComplexToReal { axis, n, scale: SCALE };
    assert_eq!(infer(whole(0), C64, &[3, 5]).unwrap(), (C64, vec![3, 5]));
    assert_eq!(infer(half(1), F64, &[3, 5]).unwrap(), (C128, vec![3, 3]));
    assert_eq!(infer(half(0), F32, &[6, 0]).unwrap(), (C64, vec![4, 0]));
    assert_eq!(infer(back(0, 4), C64, &[3, 5]).unwrap(), (F32, vec![4, 5]));
    assert_eq!(infer(back(0, 5), C64, &[3, 5]).unwrap(), (F32, vec![5, 5]));
    assert_eq!(infer(back(0, 1), C64, &[1]).unwrap(), (F32, vec![1]));
}

#[test]
fn what_does_not_fit_is_named() {
    use DType::{C64, F16, F32};
    let message = |op, dtype, dims: &[usize]| infer(op, dtype, dims).unwrap_err().to_string();
    let whole = Fft::ComplexToComplex { axis: 0, inverse: true, scale: SCALE };
    let half = Fft::RealToComplex { axis: 1, scale: SCALE };
    let back = |n| Fft::ComplexToReal { axis: 0, n, scale: SCALE };
    assert!(message(whole, F32, &[3]).contains("fft_c2c: needs c64 or c128"));
    assert!(message(half, C64, &[3, 3]).contains("fft_r2c: needs f32 or f64"));
    assert!(message(half, F16, &[3, 3]).contains("f16"));
    assert!(message(half, F32, &[3]).contains("fft_r2c"));
    assert!(message(half, F32, &[3, 0]).contains("dimension 1 has no points"));
    assert!(message(whole, C64, &[]).contains("0-d"));
    assert!(message(back(0), C64, &[1]).contains("no points"));
    assert!(message(back(6), C64, &[3]).contains("6 real points have 4 coefficients, dimension 0 has 3"));
    assert!(message(back(usize::MAX), C64, &[3]).contains("dimension 0 has 3"));
}

#[test]
fn factors_are_of_the_number_of_points() {
    assert_eq!(FftScale::One.factor(9), 1.0);
    assert_eq!(FftScale::InverseSqrt.factor(4), 0.5);
    assert_eq!(FftScale::Inverse.factor(8), 0.125);
}
