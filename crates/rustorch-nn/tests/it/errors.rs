//! What layers say of arguments that do not fit: the layer, what it takes, and what it got.

use rustorch_nn::{
    BatchNorm1d, BatchNorm2d, Conv1d, Conv1dOptions, Conv2d, Conv2dOptions, ConvPadding, ConvTranspose2d,
    ConvTranspose2dOptions, Flatten, GroupNorm, InstanceNorm1d, Layer, LayerNorm, LocalResponseNorm,
    MaxPool2d, PaddingMode, RMSNorm, ReflectionPad1d,
};
use rustorch_tensor::{DType, Result, Tensor};

fn zeros(dims: &[usize]) -> Tensor {
    Tensor::zeros(dims, DType::F32).unwrap()
}

/// Checks that an error has all these parts.
#[track_caller]
fn expect<T>(result: Result<T>, parts: &[&str]) {
    let message = result.err().unwrap().to_string();
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn convolutions() -> Result<()> {
    let conv = Conv2d::new(3, 4, 2)?;
    expect(conv.forward(&zeros(&[1, 2, 5, 5])), &["Conv2d", "[n, 3, h, w]", "[1, 2, 5, 5]"]);
    expect(conv.forward(&zeros(&[3, 5])), &["Conv2d", "[n, 3, h, w]", "[3, 5]"]);
    expect(conv.forward(&zeros(&[1, 3, 1, 5])), &["Conv2d", "[1, 3, 1, 5]"]);
    let wide = Tensor::zeros([1, 3, 5, 5], DType::F64)?;
    expect(conv.forward(&wide), &["Conv2d", "f32", "f64"]);
    let transposed = ConvTranspose2d::new(3, 4, 2)?;
    expect(transposed.forward(&zeros(&[4, 5, 5])), &["ConvTranspose2d", "[n, 3, h, w]", "[4, 5, 5]"]);
    Ok(())
}

#[test]
fn options_of_convolutions() {
    let conv = |options: Conv2dOptions| Conv2d::with(3, 4, 3, options);
    expect(conv(Conv2dOptions::default().groups(2)), &["Conv2d", "in_channels 3", "groups 2"]);
    expect(conv(Conv2dOptions::default().groups(0)), &["Conv2d", "groups 0"]);
    expect(conv(Conv2dOptions::default().output_padding(1)), &["Conv2d", "output_padding"]);
    let same = Conv2dOptions::default().padding(ConvPadding::Same);
    expect(conv(same.clone().stride([1, 2])), &["Conv2d", "Same", "[1, 2]"]);
    expect(ConvTranspose2d::with(3, 4, 3, same), &["ConvTranspose2d", "Same"]);
    let reflect = ConvTranspose2dOptions::default().padding(1).padding_mode(PaddingMode::Reflect);
    expect(ConvTranspose2d::with(3, 4, 3, reflect), &["ConvTranspose2d", "Reflect"]);
}

#[test]
fn paddings_pools_and_shapes() -> Result<()> {
    expect(ReflectionPad1d::new(3).forward(&zeros(&[1, 2, 3])), &["ReflectionPad1d", "3", "[1, 2, 3]"]);
    expect(ReflectionPad1d::new(1).forward(&zeros(&[3])), &["ReflectionPad1d", "2 without a batch", "[3]"]);
    let circular = Conv1dOptions::default().padding(4).padding_mode(PaddingMode::Circular);
    expect(
        Conv1d::with(1, 1, 3, circular)?.forward(&zeros(&[1, 1, 3])),
        &["Conv1d", "Circular", "[1, 1, 3]"],
    );
    expect(MaxPool2d::new(2).forward(&zeros(&[4, 4])), &["MaxPool2d", "3 without a batch", "[4, 4]"]);
    expect(Flatten::default().forward(&zeros(&[4])), &["Flatten"]);
    Ok(())
}

#[test]
fn norms() -> Result<()> {
    let x = zeros(&[2, 3, 4]);
    expect(BatchNorm2d::new(3)?.forward(&x), &["BatchNorm2d", "[n, c, h, w] with c = 3", "[2, 3, 4]"]);
    expect(BatchNorm1d::new(4)?.forward(&x), &["BatchNorm1d", "c = 4", "[2, 3, 4]"]);
    expect(BatchNorm1d::new(3)?.forward(&zeros(&[1, 3])), &["BatchNorm1d", "variance", "[1, 3]"]);
    expect(InstanceNorm1d::new(4)?.forward(&x), &["InstanceNorm1d", "[n, 4, l]", "[2, 3, 4]"]);
    expect(GroupNorm::new(2, 3), &["GroupNorm", "num_channels 3", "groups 2"]);
    expect(GroupNorm::new(2, 4)?.forward(&x), &["GroupNorm", "[n, 4, ..]", "[2, 3, 4]"]);
    expect(LayerNorm::new([3], 1e-5, DType::F32)?.forward(&x), &["LayerNorm", "[3]", "[2, 3, 4]"]);
    expect(RMSNorm::new([3])?.forward(&x), &["RMSNorm", "[3]", "[2, 3, 4]"]);
    expect(LocalResponseNorm::new(0), &["LocalResponseNorm", "size"]);
    expect(
        LocalResponseNorm::new(2)?.forward(&zeros(&[2, 3])),
        &["LocalResponseNorm", "[n, c, size..]", "[2, 3]"],
    );
    Ok(())
}
