//! First values: PyTorch's distributions, whose bounds and moments follow from its documentation.

use rustorch_nn::{
    Conv2d, Conv2dOptions, ConvTranspose1d, Embedding, LSTM, Linear, Module, MultiheadAttention, init,
};
use rustorch_tensor::{DType, Result, Tensor, TensorOptions};

/// Mean and variance.
fn moments(x: &Tensor) -> Result<(f64, f64)> {
    let values: Vec<f64> = x.to_dtype(DType::F64)?.to_vec()?;
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    Ok((mean, values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n))
}

/// Whether the moments of `n` draws are within 4 standard deviations of those of a distribution with this kurtosis.
fn expect_moments(x: &Tensor, variance: f64, kurtosis: f64) -> Result<()> {
    let n = x.numel() as f64;
    let (mean, have) = moments(x)?;
    assert!(mean.abs() < 4.0 * (variance / n).sqrt(), "mean {mean}");
    let deviation = variance * ((kurtosis - 1.0) / n).sqrt();
    assert!((have - variance).abs() < 4.0 * deviation, "variance {have} for {variance}");
    Ok(())
}

#[test]
fn linear_layers_start_within_their_bounds() -> Result<()> {
    let linear = Linear::new(400, 250)?;
    let bound = 1.0 / 400f64.sqrt();
    let weight = linear.weight.tensor().detach();
    let values: Vec<f32> = weight.to_vec()?;
    assert!(values.iter().all(|x| f64::from(x.abs()) <= bound));
    expect_moments(&weight, bound * bound / 3.0, 1.8)
}

#[test]
fn convolutions_start_within_their_bounds() -> Result<()> {
    // fan_in counts what is behind the first dimension: the channels of a group and the kernel.
    let conv = Conv2d::with(32, 64, [3, 5], Conv2dOptions::default().groups(2))?;
    let transposed = ConvTranspose1d::new(50, 40, 5)?;
    for (weight, fan_in) in [(&conv.weight, 16.0 * 15.0), (&transposed.weight, 40.0 * 5.0)] {
        let (weight, bound) = (weight.tensor().detach(), 1.0 / f64::sqrt(fan_in));
        let values: Vec<f32> = weight.to_vec()?;
        assert!(values.iter().all(|x| f64::from(x.abs()) <= bound));
        expect_moments(&weight, bound * bound / 3.0, 1.8)?;
    }
    let bias: Vec<f32> = conv.bias.unwrap().tensor().to_vec()?;
    assert!(bias.iter().all(|x| f64::from(x.abs()) <= 1.0 / 240f64.sqrt()) && bias.iter().any(|x| *x != 0.0));
    Ok(())
}

#[test]
fn recurrent_networks_start_within_their_bounds() -> Result<()> {
    let lstm = LSTM::new(100, 64)?;
    for parameter in lstm.parameters() {
        let (values, bound) = (parameter.tensor().detach(), 1.0 / 8.0);
        assert!(values.to_vec::<f32>()?.iter().all(|x| x.abs() <= 0.125));
        expect_moments(&values, bound * bound / 3.0, 1.8)?;
    }
    Ok(())
}

#[test]
fn attention_starts_by_xavier() -> Result<()> {
    let attention = MultiheadAttention::new(64, 4)?;
    // Of the packed matrix, as in PyTorch.
    let bound = f64::sqrt(6.0 / (64.0 + 192.0));
    let weight = attention.in_proj_weight.unwrap().tensor().detach();
    assert!(weight.to_vec::<f32>()?.iter().all(|x| f64::from(x.abs()) <= bound));
    expect_moments(&weight, bound * bound / 3.0, 1.8)?;
    expect_moments(&attention.out_proj.weight.tensor().detach(), 1.0 / 64.0 / 3.0, 1.8)?;
    assert_eq!(attention.in_proj_bias.unwrap().tensor().to_vec::<f32>()?, [0.0; 192]);
    assert_eq!(attention.out_proj.bias.as_ref().unwrap().tensor().to_vec::<f32>()?, [0.0; 64]);
    Ok(())
}

#[test]
fn embeddings_start_normally_distributed() -> Result<()> {
    let weight = Embedding::new(500, 200, DType::F32)?.weight.tensor().detach();
    expect_moments(&weight, 1.0, 3.0)
}

#[test]
fn dtypes_and_gradients_are_as_asked() -> Result<()> {
    let x = init::normal([100_000], 0.0, 0.1, DType::F64)?;
    assert_eq!((x.dtype(), x.requires_grad()), (DType::F64, false));
    expect_moments(&x, 0.01, 3.0)?;
    assert!(
        init::uniform([2], 0.0, 1.0, TensorOptions::from(DType::F32).requires_grad(true))?.requires_grad()
    );
    // The generator goes on.
    assert_ne!(
        init::uniform([8], 0.0, 1.0, DType::F32)?.to_vec::<f32>()?,
        init::uniform([8], 0.0, 1.0, DType::F32)?.to_vec::<f32>()?
    );
    Ok(())
}
