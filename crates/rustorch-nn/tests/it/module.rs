//! Walks over members: gradients, modes, dtypes; shared parameters.

use rustorch_nn::optim::{SGD, SGDOptions};
use rustorch_nn::{
    AlphaDropout, BatchNorm2d, Dropout, Dropout1d, Dropout2d, Dropout3d, Embedding, Flatten, GRU, Hooked,
    Identity, Layer, LayerNorm, Linear, LinearOptions, Module, ModuleDict, ModuleList, MultiheadAttention,
    MultiheadAttentionCall, MultiheadAttentionOptions, Parameter, ParameterList, RNNOptions, Sequential,
    init, seq,
};
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::{
    DType, DefaultDTypeGuard, Device, DeviceGuard, Error, Result, Tensor, default_dtype, with_default_dtype,
    with_device,
};
use rustorch_testkit::FakeDevice;
use std::sync::Arc;

#[derive(Module)]
struct Tied {
    embedding: Embedding,
    head: Linear,
}

/// A head whose weight is the embedding's.
fn tied() -> Result<Tied> {
    let embedding = Embedding::new(5, 3, DType::F32)?;
    let head = Linear { weight: embedding.weight.clone(), bias: None };
    Ok(Tied { embedding, head })
}

#[test]
fn shared_parameters_are_found_once() -> Result<()> {
    let model = tied()?;
    let names: Vec<String> = model.named_parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!((names, model.num_parameters()), (vec!["embedding.weight".to_owned()], 15));
    // As in PyTorch, the state dict has both names.
    assert_eq!(model.state_dict().len(), 2);
    let ids = Tensor::new([1i64, 4])?;
    model.head.forward(&model.embedding.forward(&ids)?)?.sum_all()?.backward()?;
    // Of both uses: every row is a column's weight, rows 1 and 4 are looked up as well.
    let grad = model.embedding.weight.grad().unwrap().to_vec::<f32>()?;
    assert_eq!(grad.len(), 15);
    assert!(grad[3..6] != grad[0..3]);
    Ok(())
}

#[test]
fn parameters_without_gradient_are_named() -> Result<()> {
    let model = Sequential::new().push(Linear::new(2, 2)?).push(Dropout::new(0.0)?);
    let unused = Linear::new(2, 2)?;
    #[derive(Module)]
    struct Both {
        used: Sequential,
        unused: Linear,
    }
    let model = Both { used: model, unused };
    model.used.forward(&Tensor::ones([1, 2], DType::F32)?)?.sum_all()?.backward()?;
    assert_eq!(model.params_without_grad(), ["unused.weight", "unused.bias"]);
    model.zero_grad();
    assert_eq!(model.params_without_grad().len(), 4);
    Ok(())
}

/// Two layers in a sequence beside one.
#[derive(Module)]
struct Nested {
    body: Sequential,
    head: Linear,
}

fn nested() -> Result<Nested> {
    let body = Sequential::new().push(Linear::new(2, 2)?).push(Dropout::new(0.0)?);
    Ok(Nested { body, head: Linear::new(2, 1)? })
}

#[test]
fn modules_in_modules_are_found_by_path() -> Result<()> {
    let model = nested()?;
    let names = |modules: Vec<(String, &dyn Module)>| {
        modules
            .into_iter()
            .map(|(path, module)| format!("{path}: {}", module.type_name()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(model.named_children()), ["body: Sequential", "head: Linear"]);
    let all = [": Nested", "body: Sequential", "body.0: Linear", "body.1: Dropout", "head: Linear"];
    assert_eq!(names(model.named_modules()), all);
    let mut applied = Vec::new();
    model.apply(&mut |path, _| {
        applied.push(path.to_owned());
        Ok(())
    })?;
    // In PyTorch's order: every module after those in it.
    assert_eq!(applied, ["body.0", "body.1", "body", "head", ""]);
    let mut calls = 0;
    let failed = model.apply(&mut |_, _| {
        calls += 1;
        Tensor::new([1.0f32, 2.0])?.reshape([3]).map(|_| ())
    });
    assert!(failed.is_err());
    assert_eq!(calls, 1);
    Ok(())
}

#[test]
fn frozen_parameters_stay_as_they_are() -> Result<()> {
    let model = nested()?;
    let loss = || model.head.forward(&model.body.forward(&Tensor::ones([1, 2], DType::F32)?)?)?.sum_all();
    let values = || -> Result<Vec<Vec<f32>>> {
        model.parameters().iter().map(|parameter| parameter.tensor().detach().to_vec()).collect()
    };
    loss()?.backward()?;
    assert_eq!(model.requires_grad_(false, &|path| path.starts_with("body."))?, 2);
    // The gradients that they had are forgotten.
    assert!(model.parameters()[0].grad().is_none() && model.parameters()[2].grad().is_some());
    let before = values()?;
    let optimizer = SGD::new(&model, SGDOptions { lr: 0.1, ..SGDOptions::default() })?;
    model.zero_grad();
    loss()?.backward()?;
    assert_eq!(model.params_without_grad(), [""; 0]);
    optimizer.step()?;
    let after = values()?;
    assert_eq!(before[..2], after[..2]);
    assert!(before[2] != after[2] && before[3] != after[3]);
    assert_eq!(model.requires_grad_(true, &|_| true)?, 4);
    loss()?.backward()?;
    assert!(model.parameters().iter().all(|parameter| parameter.grad().is_some()));
    Ok(())
}

#[test]
fn modes_reach_modules_in_modules() -> Result<()> {
    let model = Sequential::new().push(Sequential::new().push(Dropout::new(0.9)?));
    let x = Tensor::ones([64], DType::F32)?;
    let zeros = |y: Tensor| -> Result<usize> { Ok(y.to_vec::<f32>()?.iter().filter(|y| **y == 0.0).count()) };
    assert!(zeros(model.forward(&x)?)? > 20);
    model.eval();
    assert_eq!(zeros(model.forward(&x)?)?, 0);
    model.train();
    assert!(zeros(model.forward(&x)?)? > 20);
    Ok(())
}

#[test]
fn states_are_dropped_between_layers_while_training() -> Result<()> {
    let gru = GRU::with(2, 3, RNNOptions::default().num_layers(2).dropout(1.0).bias(false))?;
    let x = Tensor::ones([4, 1, 2], DType::F32)?;
    let (y, h) = gru.forward(&x, None)?;
    // The second layer gets zeros, and without biases stays at zero; the first one does not.
    assert_eq!(y.to_vec::<f32>()?, [0.0; 12]);
    assert!(h.select(0, 0)?.to_vec::<f32>()?.iter().all(|h| *h != 0.0));
    gru.eval();
    assert!(gru.forward(&x, None)?.0.to_vec::<f32>()?.iter().all(|y| *y != 0.0));
    Ok(())
}

#[test]
fn weights_of_attention_are_dropped_while_training() -> Result<()> {
    let attention = MultiheadAttention::with(4, 2, MultiheadAttentionOptions::default().dropout(1.0))?;
    let x = Tensor::randn([3, 2, 4], DType::F32)?;
    let call = MultiheadAttentionCall { need_weights: false, ..Default::default() };
    let (y, weights) = attention.forward(&x, &x, &x)?;
    let (fused, none) = attention.forward_with(&x, &x, &x, &call)?;
    // Of no values there is the bias of the output projection, zeros at first.
    assert_eq!((y.to_vec::<f32>()?, fused.to_vec::<f32>()?), (vec![0.0; 24], vec![0.0; 24]));
    assert_eq!(weights.to_vec::<f32>()?, [0.0; 18]);
    assert!(none.is_none());
    attention.eval();
    let (y, _) = attention.forward(&x, &x, &x)?;
    assert!(y.to_vec::<f32>()?.iter().all(|y| *y != 0.0));
    assert!(y.allclose(&attention.forward_with(&x, &x, &x, &call)?.0, 1e-5, 1e-6, false)?);
    Ok(())
}

#[test]
fn channels_are_dropped_as_a_whole() -> Result<()> {
    // Of [n, c, l], which is also what three dimensions are to Dropout2d; without n, of [c, d, h, w].
    let layers: [(Box<dyn Layer>, &[usize], usize); 3] = [
        (Box::new(Dropout1d::new(0.25)?), &[40, 25, 3], 3),
        (Box::new(Dropout2d::new(0.25)?), &[40, 25, 3], 3),
        (Box::new(Dropout3d::new(0.25)?), &[1000, 1, 3, 2], 6),
    ];
    for (layer, dims, channel) in layers {
        let x = Tensor::ones(dims, DType::F32)?;
        let y = layer.forward(&x)?.to_vec::<f32>()?;
        let (dropped, kept): (Vec<_>, Vec<_>) = y.chunks(channel).partition(|y| y[0] == 0.0);
        assert!(dropped.iter().flat_map(|y| y.iter()).all(|y| *y == 0.0));
        assert!(kept.iter().flat_map(|y| y.iter()).all(|y| *y == 1.0 / 0.75));
        // Within 4 standard deviations of 250.
        assert!((195..=305).contains(&dropped.len()), "{} {}", layer.type_name(), dropped.len());
        layer.eval();
        assert_eq!(layer.forward(&x)?.to_vec::<f32>()?, x.to_vec::<f32>()?);
    }
    Ok(())
}

#[test]
fn alpha_dropout_takes_two_values_for_one() -> Result<()> {
    let (dropout, x) = (AlphaDropout::new(0.5)?, Tensor::full([1000], 2.0, DType::F64)?);
    x.requires_grad_(true)?;
    let y = dropout.forward(&x)?;
    y.sum_all()?.backward()?;
    // a = 1/√((α²p + 1)(1 − p)) with SELU's α: kept elements are a·x + α·a·p, others −α·a·(1 − p).
    let alpha: f64 = 1.0507009873554805 * 1.6732632423543772;
    let a = 1.0 / ((alpha * alpha * 0.5 + 1.0) * 0.5).sqrt();
    let near = |y: f64, want: f64| (y - want).abs() < 1e-12;
    for (y, slope) in y.detach().to_vec::<f64>()?.into_iter().zip(x.grad().unwrap().to_vec::<f64>()?) {
        let is_kept = near(y, a * 2.0 + alpha * a * 0.5) && near(slope, a);
        assert!(is_kept || near(y, -alpha * a * 0.5) && slope == 0.0, "{y} {slope}");
    }
    assert_eq!(AlphaDropout::new(1.0)?.forward(&x)?.to_vec::<f64>()?, [0.0; 1000]);
    Ok(())
}

#[test]
fn another_dtype_keeps_parameters_and_gradients() -> Result<()> {
    let linear = Linear::new(2, 1)?;
    let held: Vec<Parameter> = linear.parameters();
    linear.forward(&Tensor::new([[1.0f32, 2.0]])?)?.sum_all()?.backward()?;
    linear.to_dtype(DType::F64)?;
    assert_eq!(held[0].tensor().dtype(), DType::F64);
    assert!(held[0].tensor().requires_grad());
    assert_eq!(held[0].grad().unwrap().to_vec::<f64>()?, [1.0, 2.0]);
    assert_eq!(linear.forward(&Tensor::new([[1.0f64, 2.0]])?)?.dtype(), DType::F64);
    let error = linear.to_dtype(DType::I32).unwrap_err().to_string();
    assert!(error.contains("floats"), "{error}");
    Ok(())
}

#[test]
fn wrong_widths_are_named() -> Result<()> {
    let linear = Linear::with(4, 2, LinearOptions::default().bias(false))?;
    assert!(linear.bias.is_none());
    let error = linear.forward(&Tensor::ones([3, 5], DType::F32)?).unwrap_err().to_string();
    assert!(error.contains("Linear") && error.contains("4 features"), "{error}");
    assert!(Dropout::new(1.5).unwrap_err().to_string().contains("1.5"));
    let norm = LayerNorm::new([3], 1e-5, DType::F32)?;
    assert!(norm.forward(&Tensor::ones([2, 4], DType::F32)?).is_err());
    Ok(())
}

/// Dtype and device of a layer's weight and of what a norm keeps.
fn kinds() -> Result<[(DType, Device); 2]> {
    let norm = BatchNorm2d::new(3)?.running_var.unwrap().tensor();
    Ok([Linear::new(2, 2)?.weight.tensor(), norm].map(|x| (x.dtype(), x.device())))
}

#[test]
fn layers_have_the_default_dtype_of_their_thread() -> Result<()> {
    let of = |dtype| [(dtype, Device::CPU); 2];
    assert_eq!(kinds()?, of(DType::F32));
    with_default_dtype(DType::F64, || -> Result<()> {
        assert_eq!(kinds()?, of(DType::F64));
        // Nested, and of this thread alone.
        with_default_dtype(DType::BF16, || assert_eq!(default_dtype(), DType::BF16))?;
        assert_eq!(std::thread::scope(|scope| scope.spawn(default_dtype).join().unwrap()), DType::F32);
        assert_eq!(kinds()?, of(DType::F64));
        // What is said goes before.
        let linear = Linear::with(2, 2, LinearOptions::default().tensor(DType::F32))?;
        assert_eq!(linear.weight.tensor().dtype(), DType::F32);
        Ok(())
    })??;
    let panicked = std::panic::catch_unwind(|| with_default_dtype(DType::F64, || panic!("on purpose")));
    assert!(panicked.is_err());
    assert_eq!(kinds()?, of(DType::F32));
    // Guards end in any order.
    let (outer, inner) = (DefaultDTypeGuard::new(DType::F64)?, DefaultDTypeGuard::new(DType::F16)?);
    drop(outer);
    assert_eq!(default_dtype(), DType::F16);
    drop(inner);
    assert_eq!(default_dtype(), DType::F32);
    let message = with_default_dtype(DType::I64, || ()).unwrap_err().to_string();
    assert!(message.contains("default_dtype") && message.contains("i64"), "{message}");
    Ok(())
}

#[test]
fn layers_are_made_on_the_default_device_of_their_thread() -> Result<()> {
    let gpu = Device::vulkan(0);
    let fake = FakeDevice::new(gpu, Arc::new(rustorch_cpu::CpuBackend::new(1)));
    let executor = HybridExecutor::builder().threads(1).backend(Arc::new(fake)).build()?;
    executor.scope(|| {
        let guard = DeviceGuard::new(gpu)?;
        assert_eq!(kinds()?, [(DType::F32, gpu); 2]);
        with_device(Device::CPU, || assert_eq!(kinds().unwrap(), [(DType::F32, Device::CPU); 2]))?;
        let both = with_default_dtype(DType::F64, kinds)??;
        assert_eq!(both, [(DType::F64, gpu); 2]);
        drop(guard);
        assert_eq!(kinds()?, [(DType::F32, Device::CPU); 2]);
        Ok(())
    })
}

#[test]
fn lists_and_maps_name_their_modules() -> Result<()> {
    #[derive(Module)]
    struct Net {
        layers: ModuleList<Linear>,
        heads: ModuleDict,
        scales: ParameterList,
    }
    let mut heads: ModuleDict = ModuleDict::new();
    heads.insert_layer("b", Linear::new(2, 1)?)?.insert_layer("a", Tensor::relu)?;
    for wrong in ["", "a.b"] {
        let message = heads.insert_layer(wrong, Tensor::relu).err().unwrap().to_string();
        assert!(message.contains("ModuleDict") && message.contains(wrong), "{message}");
    }
    let mut net = Net {
        layers: vec![Linear::new(1, 1)?, Linear::new(1, 1)?].into(),
        heads,
        scales: ParameterList::new([Tensor::ones([3], DType::F32)?])?,
    };
    let names =
        |net: &Net| -> Vec<String> { net.named_parameters().into_iter().map(|(name, _)| name).collect() };
    let expected = [
        "layers.0.weight",
        "layers.0.bias",
        "layers.1.weight",
        "layers.1.bias",
        "heads.b.weight",
        "heads.b.bias",
        "scales.0",
    ];
    assert_eq!(names(&net), expected);
    assert_eq!(net.heads.keys().collect::<Vec<_>>(), ["b", "a"]);
    // A name keeps its place; positions close up.
    net.heads.insert_layer("b", Dropout::new(0.5)?)?;
    net.layers.remove(0);
    net.scales.push(Parameter::new(Tensor::ones([1], DType::F64)?)?);
    assert_eq!(names(&net), ["layers.0.weight", "layers.0.bias", "scales.0", "scales.1"]);
    assert_eq!(net.heads.keys().collect::<Vec<_>>(), ["b", "a"]);
    assert!(net.heads.remove("b").is_some() && net.heads.get("b").is_none() && net.heads.len() == 1);
    let modules: Vec<String> = net.named_modules().into_iter().map(|(name, _)| name).collect();
    assert_eq!(modules, ["", "layers", "layers.0", "heads", "heads.a", "scales"]);
    Ok(())
}

#[test]
fn seq_takes_layers_and_functions() -> Result<()> {
    let double = |x: &Tensor| x.mul(2.0);
    let model = seq![Flatten::default(), Box::new(Identity), double, seq![Tensor::neg], Linear::new(4, 1)?,];
    assert_eq!(model.iter().map(Module::type_name).collect::<Vec<_>>()[..2], ["Flatten", "Identity"]);
    assert_eq!((model.len(), model.named_parameters()[0].0.as_str()), (5, "4.weight"));
    let y = seq![double, Tensor::neg].forward(&Tensor::ones([2], DType::F32)?)?;
    assert_eq!(y.to_vec::<f32>()?, [-2.0; 2]);
    assert!(seq![].is_empty());
    Ok(())
}

#[test]
fn hooks_see_and_change_arguments_and_results() -> Result<()> {
    let hooked = Hooked::new(Linear::new(2, 2)?);
    init::eye_(&hooked.weight.tensor())?;
    init::zeros_(&hooked.bias.as_ref().unwrap().tensor())?;
    let x = Tensor::new([[1.0f32, 2.0]])?;
    let values = || -> Result<Vec<f32>> { hooked.forward(&x)?.to_vec() };
    // They run in the order in which they came.
    let double = hooked.register_forward_pre_hook(|_, x| x.mul(2.0).map(Some));
    let add = hooked.register_forward_pre_hook(|_, x| x.add(1.0).map(Some));
    assert_eq!(values()?, [3.0, 5.0]);
    let checked = hooked.register_forward_hook(|layer, x, y| {
        assert_eq!((layer.type_name(), x.to_vec::<f32>()?), ("Linear", y.to_vec::<f32>()?));
        Ok(None)
    });
    let negated = hooked.register_forward_hook(|_, _, y| y.neg().map(Some));
    assert_eq!(values()?, [-3.0, -5.0]);
    // What a hook does is a part of the graph.
    hooked.forward(&x)?.sum_all()?.backward()?;
    assert_eq!(hooked.weight.grad().unwrap().to_vec::<f32>()?, [-3.0, -5.0, -3.0, -5.0]);
    double.remove();
    checked.remove();
    assert_eq!(values()?, [-2.0, -3.0]);
    // A handle that is dropped leaves its hook where it is, as in PyTorch.
    drop((add, negated));
    assert_eq!(values()?, [-2.0, -3.0]);
    let fails = hooked.register_forward_hook(|_, _, _| Err(Error::argument("hook", "on purpose")));
    assert!(hooked.forward(&x).unwrap_err().to_string().contains("on purpose"));
    fails.remove();
    assert_eq!((hooked.to_string(), hooked.num_parameters()), (hooked.into_inner().to_string(), 6));
    Ok(())
}
