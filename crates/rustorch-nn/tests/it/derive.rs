//! `#[derive(Module)]`: which fields are members, by which names, and what the compiler says of others.

use rustorch_nn::{Buffer, Dropout, Linear, Module, Parameter, Training};
use rustorch_tensor::{DType, Result, Tensor};
use std::collections::{BTreeMap, HashMap};

fn parameter(n: usize) -> Result<Parameter> {
    Parameter::new(Tensor::zeros([n], DType::F32)?)
}

fn names(module: &impl Module) -> Vec<String> {
    module.named_parameters().into_iter().map(|(name, _)| name).collect()
}

#[derive(Module)]
struct Everything {
    own: Parameter,
    maybe: Option<Parameter>,
    never: Option<Linear>,
    list: Vec<Linear>,
    boxed: Box<Linear>,
    dynamic: Box<dyn Module>,
    array: [Parameter; 2],
    pair: (Linear, Parameter),
    sorted: BTreeMap<String, Parameter>,
    hashed: HashMap<String, Parameter>,
    running: Buffer,
    training: Training,
    #[module(rename = "weight_hh_l1_reverse")]
    renamed: Parameter,
    r#type: Parameter,
    width: usize,
    name: String,
    #[module(skip)]
    _left_out: std::time::Duration,
}

#[test]
fn members_have_the_names_of_fields() -> Result<()> {
    let linear = || Linear::new(2, 3);
    let map = || -> Result<_> { Ok([("b".to_owned(), parameter(1)?), ("a".to_owned(), parameter(1)?)]) };
    let everything = Everything {
        own: parameter(1)?,
        maybe: Some(parameter(1)?),
        never: None,
        list: vec![linear()?, linear()?],
        boxed: Box::new(linear()?),
        dynamic: Box::new(linear()?),
        array: [parameter(1)?, parameter(1)?],
        pair: (linear()?, parameter(1)?),
        sorted: map()?.into(),
        hashed: map()?.into(),
        running: Buffer::new(&Tensor::zeros([3], DType::F32)?),
        training: Training::default(),
        renamed: parameter(1)?,
        r#type: parameter(1)?,
        width: 3,
        name: String::new(),
        _left_out: std::time::Duration::ZERO,
    };
    assert_eq!(
        names(&everything),
        [
            "own",
            "maybe",
            "list.0.weight",
            "list.0.bias",
            "list.1.weight",
            "list.1.bias",
            "boxed.weight",
            "boxed.bias",
            "dynamic.weight",
            "dynamic.bias",
            "array.0",
            "array.1",
            "pair.0.weight",
            "pair.0.bias",
            "pair.1",
            "sorted.a",
            "sorted.b",
            "hashed.a",
            "hashed.b",
            "weight_hh_l1_reverse",
            "type",
        ]
    );
    assert_eq!(everything.named_buffers()[0].0, "running");
    assert_eq!(everything.type_name(), "Everything");
    everything.eval();
    assert!(!everything.training.get());
    assert_eq!((everything.width, everything.name.len()), (3, 0));
    Ok(())
}

#[derive(Module)]
struct Pair(Linear, Parameter);

#[derive(Module)]
struct Unit;

#[derive(Module)]
enum Block {
    Dense(Linear),
    Dropped { layer: Linear, dropout: Dropout },
    None,
}

#[derive(Module)]
#[module(type_name = ["Narrow", "Wide"][W])]
struct Named<const W: usize>;

#[test]
fn a_type_may_have_another_name() {
    assert_eq!((Named::<0>.type_name(), Named::<1>.type_name()), ("Narrow", "Wide"));
}

/// The macro adds no bound; a module in a generic one has to be one.
#[derive(Module)]
struct Bounded<M: Module> {
    inner: M,
}

#[test]
fn tuple_structs_enums_and_generics() -> Result<()> {
    assert_eq!(names(&Pair(Linear::new(1, 1)?, parameter(1)?)), ["0.weight", "0.bias", "1"]);
    assert!(names(&Unit).is_empty());
    assert_eq!(names(&Block::Dense(Linear::new(1, 1)?)), ["0.weight", "0.bias"]);
    let dropped = Block::Dropped { layer: Linear::new(1, 1)?, dropout: Dropout::new(0.5)? };
    assert_eq!(names(&dropped), ["layer.weight", "layer.bias"]);
    assert!(names(&Block::None).is_empty());
    assert_eq!(names(&Bounded { inner: Linear::new(1, 1)? }), ["inner.weight", "inner.bias"]);
    Ok(())
}
