//! First values: PyTorch's distributions, whose bounds and moments follow from its documentation.

use crate::common::is_alone;
use rustorch_nn::init::{self, FanMode, Nonlinearity, calculate_gain};
use rustorch_nn::{
    Bilinear, Conv2d, Conv2dOptions, ConvTranspose1d, Embedding, EmbeddingBag, EmbeddingOptions, GRUCell,
    LSTM, Linear, Module, MultiheadAttention, RNN,
};
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::{DType, Device, Result, Tensor, TensorOptions, manual_seed, with_device};
use rustorch_testkit::FakeDevice;
use std::sync::Arc;

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

/// Whether this is a process for one test of this module alone, with a fixed seed: moments are either right or wrong.
fn is_seeded(test: &str) -> bool {
    let is_alone = is_alone(&format!("init::{test}"));
    if is_alone {
        manual_seed(0);
    }
    is_alone
}

#[test]
fn linear_layers_start_within_their_bounds() -> Result<()> {
    if !is_seeded("linear_layers_start_within_their_bounds") {
        return Ok(());
    }
    let linear = Linear::new(400, 250)?;
    let bound = 1.0 / 400f64.sqrt();
    let weight = linear.weight.tensor().detach();
    let values: Vec<f32> = weight.to_vec()?;
    assert!(values.iter().all(|x| f64::from(x.abs()) <= bound));
    expect_moments(&weight, bound * bound / 3.0, 1.8)
}

#[test]
fn convolutions_start_within_their_bounds() -> Result<()> {
    if !is_seeded("convolutions_start_within_their_bounds") {
        return Ok(());
    }
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
    if !is_seeded("recurrent_networks_start_within_their_bounds") {
        return Ok(());
    }
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
    if !is_seeded("attention_starts_by_xavier") {
        return Ok(());
    }
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
    if !is_seeded("embeddings_start_normally_distributed") {
        return Ok(());
    }
    let weight = Embedding::new(500, 200, DType::F32)?.weight.tensor().detach();
    expect_moments(&weight, 1.0, 3.0)
}

#[test]
fn dtypes_and_gradients_are_as_asked() -> Result<()> {
    if !is_seeded("dtypes_and_gradients_are_as_asked") {
        return Ok(());
    }
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

#[test]
fn bilinear_and_recurrent_layers_start_within_their_bounds() -> Result<()> {
    if !is_seeded("bilinear_and_recurrent_layers_start_within_their_bounds") {
        return Ok(());
    }
    let (bilinear, rnn, cell) = (Bilinear::new(64, 40, 50)?, RNN::new(300, 256)?, GRUCell::new(400, 100)?);
    let of = |module: &dyn Module| module.parameters()[0].tensor().detach();
    for (weight, bound) in [(of(&bilinear), 0.125), (of(&rnn), 0.0625), (of(&cell), 0.1)] {
        assert!(weight.to_vec::<f32>()?.iter().all(|x| f64::from(x.abs()) <= bound + 1e-8));
        expect_moments(&weight, bound * bound / 3.0, 1.8)?;
    }
    Ok(())
}

#[test]
fn tables_start_normally_distributed_but_for_padding() -> Result<()> {
    if !is_seeded("tables_start_normally_distributed_but_for_padding") {
        return Ok(());
    }
    expect_moments(&EmbeddingBag::new(500, 200)?.weight.tensor().detach(), 1.0, 3.0)?;
    let padded = Embedding::with(3, 2, EmbeddingOptions::default().padding_idx(1))?.weight.tensor();
    let is_zero: Vec<bool> = padded.to_vec::<f32>()?.iter().map(|x| *x == 0.0).collect();
    assert_eq!(is_zero, [false, false, true, true, false, false]);
    Ok(())
}

/// The bound of a uniform distribution, or the variance of a normal one.
enum Expected {
    Bound(f64),
    Variance(f64),
}

#[test]
fn xavier_and_kaiming_have_their_widths() -> Result<()> {
    if !is_seeded("xavier_and_kaiming_have_their_widths") {
        return Ok(());
    }
    // 30 · 12 inputs of an output, 300 · 12 outputs of an input.
    let (fan_in, fan_out) = (360.0, 3600.0);
    type Init = fn(&Tensor) -> Result<()>;
    let cases: [(Init, Expected); 6] = [
        (|x| init::xavier_uniform_(x, 1.0), Expected::Bound(f64::sqrt(6.0 / (fan_in + fan_out)))),
        (|x| init::xavier_uniform_(x, 2.0), Expected::Bound(2.0 * f64::sqrt(6.0 / (fan_in + fan_out)))),
        (|x| init::xavier_normal_(x, 3.0), Expected::Variance(9.0 * 2.0 / (fan_in + fan_out))),
        // PyTorch's default of layers: a = √5 is 1/√fan_in.
        (
            |x| init::kaiming_uniform_(x, FanMode::FanIn, Nonlinearity::LeakyRelu(f64::sqrt(5.0))),
            Expected::Bound(1.0 / f64::sqrt(fan_in)),
        ),
        (
            |x| init::kaiming_uniform_(x, FanMode::FanOut, Nonlinearity::Tanh),
            Expected::Bound(5.0 / 3.0 * f64::sqrt(3.0 / fan_out)),
        ),
        (
            |x| init::kaiming_normal_(x, FanMode::FanOut, Nonlinearity::Relu),
            Expected::Variance(2.0 / fan_out),
        ),
    ];
    for (init, expected) in cases {
        let x = Tensor::zeros([300, 30, 3, 4], DType::F64)?;
        init(&x)?;
        match expected {
            Expected::Bound(bound) => {
                let largest = x.to_vec::<f64>()?.iter().fold(0.0, |s: f64, x| s.max(x.abs()));
                assert!(largest <= bound + 1e-15 && largest > 0.999 * bound, "{largest} of {bound}");
                expect_moments(&x, bound * bound / 3.0, 1.8)?;
            }
            Expected::Variance(variance) => expect_moments(&x, variance, 3.0)?,
        }
    }
    Ok(())
}

/// `[torch.nn.init.calculate_gain(n) for n in ("linear", "sigmoid", "tanh", "relu", "selu")]` and `calculate_gain("leaky_relu", 0.2)`.
#[test]
fn gains_are_pytorch_s() {
    let kinds = [
        Nonlinearity::Linear,
        Nonlinearity::Sigmoid,
        Nonlinearity::Tanh,
        Nonlinearity::Relu,
        Nonlinearity::Selu,
    ];
    let expected = [1.0, 1.0, 1.6666666666666667, std::f64::consts::SQRT_2, 0.75];
    assert_eq!(kinds.map(calculate_gain), expected);
    assert_eq!(calculate_gain(Nonlinearity::LeakyRelu(0.2)), 1.3867504905630728);
}

/// With Φ and φ the normal distribution's functions, of [a, b] around 0:
/// Z = Φ(b) − Φ(a), mean = (φ(a) − φ(b)) / Z, variance = 1 + (a·φ(a) − b·φ(b)) / Z − mean².
#[test]
fn truncated_normal_numbers_stay_between_their_ends() -> Result<()> {
    if !is_seeded("truncated_normal_numbers_stay_between_their_ends") {
        return Ok(());
    }
    for (low, high, mean, variance) in
        [(-1.0, 2.0, 0.22963717909132897, 0.5197625392115338), (-0.5, 0.5, 0.0, 0.08058915460081162)]
    {
        for dtype in [DType::F32, DType::F64] {
            let x = Tensor::zeros([100_000], dtype)?;
            // Standard deviation 3 around 10.
            init::trunc_normal_(&x, 10.0, 3.0, 10.0 + 3.0 * low, 10.0 + 3.0 * high)?;
            let x = x.to_dtype(DType::F64)?.sub(10.0)?.div(3.0)?;
            assert!(x.to_vec::<f64>()?.iter().all(|x| (low - 1e-6..=high + 1e-6).contains(x)));
            let (have_mean, have) = moments(&x)?;
            let deviation = f64::sqrt(variance / 1e5);
            assert!((have_mean - mean).abs() < 4.0 * deviation, "mean {have_mean}");
            // The kurtosis of a truncated normal distribution is below 3.
            assert!((have - variance).abs() < 4.0 * variance * f64::sqrt(2.0 / 1e5), "variance {have}");
        }
    }
    Ok(())
}

#[test]
fn identities_are_pytorch_s() -> Result<()> {
    let x = Tensor::ones([2, 3], DType::F32)?;
    init::eye_(&x)?;
    assert_eq!(x.to_vec::<f32>()?, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    // w = torch.zeros(shape); torch.nn.init.dirac_(w, groups); w.flatten().nonzero().flatten().tolist()
    for (shape, groups, ones) in [(&[4, 3, 2, 3][..], 2, &[4, 28, 40, 64][..]), (&[2, 3, 4], 1, &[2, 18])] {
        let x = Tensor::ones(shape, DType::BF16)?;
        init::dirac_(&x, groups)?;
        let values: Vec<f32> = x.to_dtype(DType::F32)?.to_vec()?;
        let have: Vec<usize> = (0..values.len()).filter(|&i| values[i] != 0.0).collect();
        assert_eq!(have, ones);
        assert!(ones.iter().all(|&i| values[i] == 1.0));
    }
    Ok(())
}

#[test]
fn orthogonal_matrices_are() -> Result<()> {
    for (shape, rows, columns) in [(&[5, 3][..], 5, 3), (&[3, 5], 3, 5), (&[4, 2, 3], 4, 6), (&[4, 4], 4, 4)]
    {
        let x = Tensor::zeros(shape, DType::F64)?;
        init::orthogonal_(&x, 2.0)?;
        let x = x.reshape([rows, columns])?;
        let (gram, n) =
            if rows > columns { (x.t()?.matmul(&x)?, columns) } else { (x.matmul(&x.t()?)?, rows) };
        assert!(gram.allclose(&Tensor::eye(n, n, DType::F64)?.mul(4.0)?, 1e-12, 1e-12, false)?);
    }
    // Uniform among the rotations: either sign of the first element.
    let signs = (0..64).map(|_| {
        let x = Tensor::zeros([2, 2], DType::F16)?;
        init::orthogonal_(&x, 1.0)?;
        Ok(x.to_dtype(DType::F32)?.to_vec::<f32>()?[0] > 0.0)
    });
    let signs = signs.collect::<Result<Vec<bool>>>()?;
    assert!(signs.contains(&true) && signs.contains(&false));
    Ok(())
}

#[test]
fn sparse_matrices_have_as_many_zeros_in_each_column() -> Result<()> {
    if !is_seeded("sparse_matrices_have_as_many_zeros_in_each_column") {
        return Ok(());
    }
    let x = Tensor::ones([1001, 100], DType::F32)?;
    init::sparse_(&x, 0.25, 0.5)?;
    let zeros = x.eq(0.0)?.to_dtype(DType::I64)?.sum(0, false)?;
    // 1001 · 0.25, rounded up.
    assert_eq!(zeros.to_vec::<i64>()?, [251; 100]);
    let others: Vec<f32> = x.to_vec::<f32>()?.into_iter().filter(|x| *x != 0.0).collect();
    expect_moments(&Tensor::from_slice(&others, others.len())?, 0.25, 3.0)?;
    // Rows are as likely as others: 25 zeros in each on average, with a standard deviation of 4.3.
    let rows: Vec<i64> = x.eq(0.0)?.to_dtype(DType::I64)?.sum(1, false)?.to_vec()?;
    assert!(rows.iter().all(|n| (1..60).contains(n)));
    Ok(())
}

#[test]
fn writing_needs_no_graph() -> Result<()> {
    let linear = Linear::new(3, 2)?;
    let weight = linear.weight.tensor();
    init::constant_(&weight, 0.5)?;
    assert_eq!(weight.to_vec::<f32>()?, [0.5; 6]);
    init::ones_(&weight)?;
    init::zeros_(&linear.bias.as_ref().unwrap().tensor())?;
    init::uniform_(&weight, 2.0, 3.0)?;
    assert!(weight.is_leaf() && weight.requires_grad());
    assert!(linear.weight.tensor().to_vec::<f32>()?.iter().all(|x| (2.0..=3.0).contains(x)));
    Ok(())
}

#[test]
fn wrong_shapes_and_arguments_are_errors() -> Result<()> {
    let vector = Tensor::zeros([3], DType::F32)?;
    let matrix = Tensor::zeros([3, 3, 3], DType::F32)?;
    let errors = [
        (init::xavier_uniform_(&vector, 1.0), "xavier_uniform_"),
        (init::kaiming_normal_(&vector, FanMode::FanIn, Nonlinearity::Relu), "kaiming_normal_"),
        (init::eye_(&matrix), "eye_"),
        (init::dirac_(&vector, 1), "dirac_"),
        (init::dirac_(&matrix, 2), "multiple of groups 2"),
        (init::orthogonal_(&vector, 1.0), "orthogonal_"),
        (init::sparse_(&matrix, 0.5, 1.0), "sparse_"),
        (init::sparse_(&Tensor::zeros([2, 2], DType::F32)?, 1.5, 1.0), "1.5"),
        (init::trunc_normal_(&vector, 0.0, 1.0, 2.0, 1.0), "low < high"),
        (init::normal_(&Tensor::zeros([2], DType::I64)?, 0.0, 1.0), "i64"),
    ];
    for (result, part) in errors {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    Ok(())
}

/// What layers and functions draw of one seed.
fn drawn() -> Result<Vec<u64>> {
    manual_seed(20);
    let (linear, lstm) = (Linear::new(70, 600)?, LSTM::new(30, 20)?);
    let attention = MultiheadAttention::new(32, 4)?;
    let modules: [&dyn Module; 3] = [&linear, &lstm, &attention];
    let mut tensors: Vec<Tensor> =
        modules.iter().flat_map(|module| module.parameters()).map(|p| p.tensor()).collect();
    type Init = fn(&Tensor) -> Result<()>;
    let inits: [Init; 4] = [
        |x| init::trunc_normal_(x, 0.0, 1.0, -2.0, 2.0),
        |x| init::orthogonal_(x, 1.0),
        |x| init::sparse_(x, 0.3, 1.0),
        |x| init::kaiming_normal_(x, FanMode::FanIn, Nonlinearity::Relu),
    ];
    for init in inits {
        let x = Tensor::zeros([90, 80], DType::F32)?;
        init(&x)?;
        tensors.push(x);
    }
    let mut bits = Vec::new();
    for tensor in tensors {
        bits.extend(tensor.detach().to_vec::<f32>()?.into_iter().map(|x| u64::from(x.to_bits())));
    }
    Ok(bits)
}

#[test]
fn a_seed_gives_the_same_bits_on_every_device_and_number_of_threads() -> Result<()> {
    if !is_alone("init::a_seed_gives_the_same_bits_on_every_device_and_number_of_threads") {
        return Ok(());
    }
    let gpu = Device::vulkan(0);
    let executor = |threads| {
        let fake = Arc::new(FakeDevice::new(gpu, Arc::new(rustorch_cpu::CpuBackend::new(1))));
        HybridExecutor::builder().threads(threads).backend(fake).build()
    };
    let expected = executor(1)?.scope(drawn)?;
    assert!(expected.len() > 100_000 / 2);
    for threads in [1, 2, 5] {
        let executor = executor(threads)?;
        assert!(executor.scope(drawn)? == expected, "{threads} threads");
        let there = executor.scope(|| {
            with_device(gpu, || {
                assert_eq!(Linear::new(1, 1)?.weight.tensor().device(), gpu);
                drawn()
            })
        });
        assert!(there?? == expected, "{threads} threads, on {gpu}");
    }
    Ok(())
}
