//! A user's program needs `rustorch` alone: it names every type that the methods of tensors take or return.
//!
//! `cargo test -p rustorch --test face` runs with the default features, `tests/user-program` without them and without other crates.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use rustorch::{
    Attention, AvgPoolOptions, Axes, Buffer, C64, C128, ConvOptions, DType, Device, DeviceType, Element,
    Error, Expr, ExprOrScalar, Fused, FusedPointwise, Generator, InterpolateOptions, Interpolation,
    IntoShape, Layout, MatrixDefect, MaxPoolOptions, NestedArray, Numerics, Padding, PhiloxKey, QuantType,
    Result, RopeParams, RopeStyle, Scalar, ScaleFactors, Shape, Sizes, Storage, Tensor, TensorMeta,
    TensorOptions, TensorOrScalar, UnaryOp, Yarn, bf16, f16, fft, fuse, linalg, manual_seed,
};
use std::sync::Arc;

/// The example, which `cargo test` builds by itself, too.
#[path = "../examples/convnet.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program of its own")]
mod convnet;

#[test]
fn a_convolutional_network_needs_no_other_crate() {
    let source = include_str!("../examples/convnet.rs");
    assert!(!source.contains("rustorch_") && !source.contains("::core"));
    let images = Generator::new(1).rand([2, 3, 48, 40], DType::F32).unwrap();
    let net = convnet::ConvNet::new(7, 10).unwrap();
    assert_eq!(net.forward(&images).unwrap().dims(), [2, 10]);
}

fn zeros(shape: impl IntoShape, options: impl Into<TensorOptions>) -> Result<Tensor> {
    Tensor::zeros(shape, options)
}

fn total<'a>(x: &Tensor, add: impl Into<TensorOrScalar<'a>>, axes: impl Into<Axes>) -> Result<Tensor> {
    x.add(add)?.sum(axes, true)
}

fn of<A: NestedArray>(array: A) -> Result<Tensor> {
    Tensor::new(array)
}

fn scaled<'t>(x: Expr<'t>, by: impl Into<ExprOrScalar<'t>>) -> Expr<'t> {
    x.mul(by)
}

#[test]
fn fourier_transforms_compute_or_name_their_feature() {
    let x = of([1.0f32, 2.0, 3.0]).unwrap();
    match fft::rfft(&x, None, 0, fft::FftNorm::Backward) {
        Ok(y) => assert_eq!(y.dims(), [2]),
        // As in `tests/user-program`.
        Err(error) => assert!(error.to_string().contains("Cargo feature `fft`"), "{error}"),
    }
}

#[test]
fn singular_values_and_eigenvalues_compute_or_name_their_feature() {
    let x = Tensor::eye(2, 2, DType::F32).unwrap();
    for values in [
        linalg::svdvals(&x),
        linalg::eigvalsh(&x, linalg::Uplo::Lower),
        linalg::eigvals(&x),
        linalg::pinv(&x, &linalg::RankOptions::default()),
    ] {
        match values {
            Ok(values) => assert_eq!(values.dims()[0], 2),
            // As in `tests/user-program`.
            Err(error) => assert!(error.to_string().contains("Cargo feature `linalg`"), "{error}"),
        }
    }
}

#[test]
fn every_type_that_methods_take_has_a_name() -> Result<()> {
    let options = TensorOptions::from(DType::F32);
    let x = zeros([2, 6], options)?;
    assert_eq!(total(&x, 1, [0, -1])?.item()?, Scalar::Float(12.0));
    assert_eq!(x.reshape(Sizes::from([3, -1]))?.shape(), &Shape::new([3usize, 4].as_slice())?);
    let f: Fused = fuse(|[x]| scaled(x, 2.0))?;
    let fused: Option<FusedPointwise> = f.fused_pointwise(&[&x])?;
    assert_eq!(fused.map(|fused| fused.to_string()).as_deref(), Some("x0 * 2"));
    let meta: TensorMeta<'_> = x.meta();
    let layout: &Layout = meta.layout;
    let storage: &Storage = x.storage();
    assert_eq!((layout.strides(), storage.device(), meta.device), (&[6, 1][..], Device::CPU, x.device()));
    assert_eq!("cpu".parse::<DeviceType>().ok(), Some(DeviceType::Only(Device::CPU)));

    let signal = of([[1.0f32, 2.0, 3.0, 4.0]])?.unsqueeze(0)?;
    let kernel = of([[[1.0f32, 1.0]]])?;
    let strided = signal.conv1d(&kernel, None, &ConvOptions::new().stride(2).padding(Padding::Valid))?;
    assert_eq!(strided.to_vec::<f32>()?, [3.0, 7.0]);
    assert_eq!(signal.max_pool1d(2, &MaxPoolOptions::new())?.to_vec::<f32>()?, [2.0, 4.0]);
    assert_eq!(signal.avg_pool1d(2, &AvgPoolOptions::new())?.to_vec::<f32>()?, [1.5, 3.5]);
    let double = InterpolateOptions::scale_factor(ScaleFactors::from(2.0)).mode(Interpolation::Nearest);
    assert_eq!(signal.interpolate(&double)?.dims(), [1, 1, 8]);

    manual_seed(3);
    let g = Generator::new(3);
    let state: PhiloxKey = g.state();
    let first = g.rand([3], DType::F32)?.to_vec::<f32>()?;
    g.set_state(state);
    assert_eq!(g.rand([3], DType::F32)?.to_vec::<f32>()?, first);

    let rope = RopeParams { style: RopeStyle::Halves, rotated: 2, base: 1e4, scale: 1.0, yarn: None::<Yarn> };
    assert_eq!(x.rope(&of([0i64, 1])?, &rope, None)?.dims(), x.dims());
    let numerics = Numerics::F32;
    let attention = Attention { numerics, ..Attention::new(1.0) };
    let q = x.unsqueeze(0)?;
    assert_eq!(Tensor::attention(&q, &q, &q, None, &attention)?.dims(), [1, 2, 6]);
    let weight = zeros([2, 32], DType::F32)?.to_dtype(DType::Quant(QuantType::Q8_0))?;
    let y = zeros([1, 32], DType::F32)?.linear_activated(&weight, None, Some(UnaryOp::Relu))?;
    assert_eq!(y.dims(), [1, 2]);

    let z = Tensor::complex(&of([1.0f64])?, &of([2.0f64])?)?;
    assert_eq!(z.to_vec::<C128>()?, [C128::new(1.0, 2.0)]);
    assert_eq!([C64::DTYPE, f16::DTYPE, bf16::DTYPE].map(|dtype| dtype.is_complex()), [true, false, false]);
    let error = linalg::inv(&zeros([2, 2], DType::F32)?).unwrap_err();
    assert!(matches!(error, Error::Matrix { defect: MatrixDefect::Singular { .. }, .. }), "{error}");

    let bytes: Arc<Vec<u8>> = Arc::new(vec![1, 2, 3]);
    // SAFETY: the vector is owned by the buffer alone.
    let file = unsafe { Buffer::shared(bytes) };
    assert_eq!(Tensor::from_buffer(file, DType::U8, [2], 1)?.to_vec::<u8>()?, [2, 3]);
    Ok(())
}
