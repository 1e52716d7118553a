//! Pooling.

use rustorch_core::{
    AdaptiveAvgPool, DType, Device, Dims, Layout, MaxPool, Op, PoolWindow, Result, Shape, TensorMeta,
};

fn outputs(dims: &[usize], dtype: DType, op: &Op) -> Result<Vec<Dims>> {
    let layout = Layout::contiguous(Shape::new(dims).unwrap());
    let meta = TensorMeta { dtype, layout: &layout, device: Device::CPU };
    Ok(op.infer(&[meta])?.iter().map(|out| Dims::from_slice(&out.shape)).collect())
}

fn max(kernel: usize, stride: usize, padding: usize, dilation: usize, ceil_mode: bool) -> Op {
    let one = |n| Dims::from_slice(&[n]);
    let window = PoolWindow { kernel: one(kernel), stride: one(stride), padding: one(padding), ceil_mode };
    Op::from(MaxPool { window, dilation: one(dilation) })
}

#[test]
fn the_last_window_starts_inside() {
    // (length, kernel, stride, padding, dilation): windows without and with ceil_mode, by PyTorch's formula.
    for (len, [kernel, stride, padding, dilation], floor, ceil) in [
        (7, [2, 2, 0, 1], 3, 4),
        (6, [2, 2, 0, 1], 3, 3),
        (5, [3, 2, 1, 1], 3, 3),
        (6, [3, 2, 1, 1], 3, 4),
        // The next window would start in the padding behind.
        (4, [2, 5, 1, 1], 1, 1),
        (5, [2, 5, 1, 1], 2, 2),
        (5, [1, 3, 0, 1], 2, 2),
        (4, [1, 3, 0, 1], 2, 2),
        (9, [3, 2, 1, 2], 4, 4),
    ] {
        let got = |ceil| outputs(&[len], DType::F32, &max(kernel, stride, padding, dilation, ceil)).unwrap();
        assert_eq!(got(false)[0][0], floor, "{len} {kernel} {stride} {padding} {dilation}");
        assert_eq!(got(true)[1][0], ceil, "{len} {kernel} {stride} {padding} {dilation}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refuse = |dims: &[usize], dtype, op: &Op, part: &str| {
        let text = outputs(dims, dtype, op).unwrap_err().to_string();
        assert!(text.contains(part), "`{text}` does not say `{part}`");
    };
    refuse(&[4], DType::F32, &max(5, 1, 0, 1, false), "does not fit");
    refuse(&[4], DType::F32, &max(3, 1, 2, 1, false), "half");
    refuse(&[4], DType::F32, &max(2, 0, 0, 1, false), "stride");
    refuse(&[4], DType::F32, &max(0, 1, 0, 1, false), "kernel");
    refuse(&[0], DType::F32, &max(1, 1, 0, 1, false), "empty");
    refuse(&[], DType::F32, &max(1, 1, 0, 1, false), "spatial");
    refuse(&[4], DType::C64, &max(1, 1, 0, 1, false), "c64");
    refuse(&[4], DType::F32, &max(usize::MAX, 1, 0, 3, true), "too large");
    let huge = AdaptiveAvgPool { size: Dims::from_slice(&[usize::MAX]) };
    refuse(&[4], DType::F32, &Op::AdaptiveAvgPool(huge), "too large");
    assert!(
        outputs(&[4], DType::I32, &Op::AdaptiveAvgPool(AdaptiveAvgPool { size: Dims::from_slice(&[2]) }))
            .is_err()
    );
}
