//! How modules print: as `repr` of PyTorch's.
//!
//! The fixture was made by `tools/oracle/torch_repr.py` with PyTorch 2.

use crate::modules::build::build;
use crate::modules::fixture::{Case, Fixture};
use rustorch_nn::functional::GeluApproximation;
use rustorch_nn::*;
use rustorch_tensor::{DType, Result, Tensor};
use std::collections::BTreeMap;
use std::rc::Rc;

/// An activation or a loss: one with arguments, or the default.
fn activation_or_loss(case: &Case) -> Result<Option<Rc<dyn Module>>> {
    let given = |i: usize| case.args.get(i).and_then(serde_json::Value::as_f64);
    macro_rules! default {
        ($($module:ident)*; $($rest:tt)*) => {
            match case.module.as_str() {
                $(stringify!($module) => Rc::new($module::default()) as Rc<dyn Module>,)*
                $($rest)*
            }
        };
    }
    let dim = || case.args[0].as_i64().unwrap() as isize;
    macro_rules! with {
        ($module:ident { $($field:ident: $i:literal),* }) => {
            Rc::new($module { $($field: given($i).unwrap_or($module::default().$field)),* })
        };
    }
    Ok(Some(default! {
        ReLU ReLU6 SELU SiLU Mish Hardswish Hardsigmoid Sigmoid Tanh Tanhshrink Softsign LogSigmoid Softmax2d
        L1Loss MSELoss SmoothL1Loss HuberLoss CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss KLDivLoss
        PoissonNLLLoss GaussianNLLLoss CTCLoss MarginRankingLoss HingeEmbeddingLoss CosineEmbeddingLoss
        TripletMarginLoss MultiMarginLoss MultiLabelMarginLoss SoftMarginLoss MultiLabelSoftMarginLoss;
        "LeakyReLU" => with!(LeakyReLU { negative_slope: 0 }),
        "ELU" => with!(ELU { alpha: 0 }),
        "CELU" => with!(CELU { alpha: 0 }),
        "Hardtanh" => with!(Hardtanh { min_val: 0, max_val: 1 }),
        "Hardshrink" => with!(Hardshrink { lambd: 0 }),
        "Softshrink" => with!(Softshrink { lambd: 0 }),
        "Softplus" => with!(Softplus { beta: 0, threshold: 1 }),
        "Threshold" => Rc::new(Threshold { threshold: given(0).unwrap(), value: given(1).unwrap() }),
        "GELU" => Rc::new(GELU {
            approximate: if case.args.is_empty() { GeluApproximation::None } else { GeluApproximation::Tanh },
        }),
        "RReLU" => Rc::new(match given(0).zip(given(1)) {
            Some((lower, upper)) => RReLU::new(lower, upper)?,
            None => RReLU::default(),
        }),
        "PReLU" => Rc::new(PReLU::new(given(0).unwrap_or(1.0) as usize, 0.25, DType::F32)?),
        "Softmax" => Rc::new(Softmax { dim: dim() }),
        "Softmin" => Rc::new(Softmin { dim: dim() }),
        "LogSoftmax" => Rc::new(LogSoftmax { dim: dim() }),
        "GLU" => Rc::new(if case.args.is_empty() { GLU::default() } else { GLU { dim: dim() } }),
        _ => return Ok(None),
    }))
}

#[test]
fn layers_print_as_pytorch_s() -> Result<()> {
    let mut wrong = Vec::new();
    let mut count = 0;
    for case in Fixture::read("display").cases().filter(|case| !case.is_model) {
        let ours = match activation_or_loss(&case)? {
            Some(module) => module.to_string(),
            None => build(&case, DType::F32)?.module.to_string(),
        };
        let theirs = case.repr.as_ref().unwrap();
        count += 1;
        if ours != *theirs {
            wrong.push(format!("{}:\n{ours}\nbut PyTorch's\n{theirs}", case.label));
        }
    }
    println!("{count} layers");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 290);
    Ok(())
}

#[derive(Module)]
struct Block {
    norm: LayerNorm,
    body: Sequential,
}

#[derive(Module)]
struct Net {
    embedding: Embedding,
    blocks: Vec<Block>,
    mixed: Vec<Box<dyn Layer>>,
    heads: BTreeMap<String, Box<dyn Module>>,
}

#[derive(Module)]
#[module(extra_repr = |_: &Scaled, extra: &mut ExtraRepr| { extra.value(&3); })]
struct Scaled {
    #[module(repr)]
    factor: f64,
    inner: Identity,
}

/// How PyTorch's model of this name prints.
fn theirs(name: &str) -> String {
    let fixture = Fixture::read("display");
    let case = fixture.cases().find(|case| case.is_model && case.module == name).unwrap();
    case.repr.unwrap()
}

#[test]
fn models_print_as_pytorch_s() -> Result<()> {
    let block = || -> Result<Block> {
        let body = Sequential::new().push(Linear::new(4, 8)?).push(GELU::default()).push(Linear::new(8, 4)?);
        Ok(Block { norm: LayerNorm::new(4, 1e-5, DType::F32)?, body })
    };
    let linear = |out| Linear::new(4, out).map(Box::new);
    let heads: [(String, Box<dyn Module>); 2] =
        [("a".to_owned(), linear(1)?), ("b".to_owned(), Box::new(Identity))];
    let net = Net {
        embedding: Embedding::new(10, 4, DType::F32)?,
        blocks: vec![block()?, block()?, block()?, block()?],
        mixed: vec![Box::new(ReLU), linear(2)?, linear(2)?, Box::new(ReLU)],
        heads: heads.into(),
    };
    assert_eq!(net.to_string(), theirs("Net"));
    // As a trait object, too.
    assert_eq!((Box::new(net) as Box<dyn Module>).to_string(), theirs("Net"));
    assert_eq!(Scaled { factor: 0.5, inner: Identity }.to_string(), theirs("Scaled"));
    Ok(())
}

#[test]
fn containers_print_as_pytorch_s() -> Result<()> {
    let expected: Vec<String> = Fixture::read("display")
        .cases()
        .filter(|case| case.is_model)
        .filter_map(|case| case.repr)
        .skip(2)
        .collect();
    let floats = ParameterList::new([Tensor::zeros([2, 3], DType::F32)?, Tensor::zeros((), DType::F64)?])?;
    let half = ParameterList::new([Tensor::zeros([1], DType::F16)?])?;
    let empty = ParameterList::default();
    let (list, dict): (ModuleList, ModuleDict) = Default::default();
    let ours: [&dyn std::fmt::Display; 6] = [&floats, &half, &Sequential::new(), &list, &dict, &empty];
    assert_eq!(ours.map(ToString::to_string), expected[..]);
    Ok(())
}

/// `Net` with lists and maps that are modules of their own.
#[derive(Module)]
#[module(type_name = "Net")]
struct NetOfContainers {
    embedding: Embedding,
    blocks: ModuleList<Block>,
    mixed: ModuleList,
    heads: ModuleDict,
}

#[test]
fn fields_of_containers_print_as_pytorch_s() -> Result<()> {
    let block = |_| -> Result<Block> {
        Ok(Block {
            norm: LayerNorm::new(4, 1e-5, DType::F32)?,
            body: seq![Linear::new(4, 8)?, GELU::default(), Linear::new(8, 4)?],
        })
    };
    let mut mixed = ModuleList::new();
    mixed.push_layer(ReLU).push_layer(Linear::new(4, 2)?).push_layer(Linear::new(4, 2)?).push_layer(ReLU);
    let mut heads = ModuleDict::new();
    heads.insert_layer("a", Linear::new(4, 1)?)?.insert_layer("b", Identity)?;
    let blocks = (0..4).map(block).collect::<Result<_>>()?;
    let net = NetOfContainers { embedding: Embedding::new(10, 4, DType::F32)?, blocks, mixed, heads };
    assert_eq!(net.to_string(), theirs("Net"));
    Ok(())
}

#[derive(Module)]
enum Either {
    Layer(Linear),
    Rate(#[module(repr = value)] f64, #[module(skip, repr)] Option<usize>),
}

#[test]
fn enums_print_their_variant() -> Result<()> {
    let layer = Either::Layer(Linear::new(2, 1)?);
    assert_eq!(layer.to_string(), "Either(\n  (0): Linear(in_features=2, out_features=1, bias=True)\n)");
    assert_eq!(Either::Rate(f64::INFINITY, None).to_string(), "Either(inf, 1=None)");
    Ok(())
}
