//! Layers one after another.

use crate::module::display;
use crate::{Layer, Member, Module};
use rustorch_tensor::{Result, Tensor};

/// Layers of which each gets the result of the one before, as `torch.nn.Sequential`: its members' names are their positions.
///
/// ```
/// use rustorch_nn::{Layer, Linear, Module, Sequential};
/// use rustorch_tensor::{DType, Tensor};
/// let model = Sequential::new().push(Linear::new(4, 8)?).push(Tensor::relu).push(Linear::new(8, 2)?);
/// assert_eq!(model.forward(&Tensor::ones([3, 4], DType::F32)?)?.dims(), [3, 2]);
/// let names: Vec<String> = model.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["0.weight", "0.bias", "2.weight", "2.bias"]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Default)]
pub struct Sequential(Vec<Box<dyn Layer + Send + Sync>>);

impl Sequential {
    /// Without a layer: its result is its argument.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// With one more layer at the end: a [`Layer`], or a function as [`Tensor::relu`].
    #[must_use]
    pub fn push<K>(mut self, layer: impl IntoLayer<K>) -> Sequential {
        self.0.push(layer.into_layer());
        self
    }

    /// The layers in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(dyn Layer + Send + Sync)> {
        self.0.iter().map(Box::as_ref)
    }

    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no layer.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Layers one after another, and functions of a tensor: a [`Sequential`].
///
/// ```
/// use rustorch_nn::{Layer, Linear, seq};
/// use rustorch_tensor::{DType, Tensor};
/// let model = seq![Linear::new(4, 8)?, Tensor::relu, Linear::new(8, 2)?];
/// assert_eq!(model.forward(&Tensor::ones([3, 4], DType::F32)?)?.dims(), [3, 2]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[macro_export]
macro_rules! seq {
    ($($layer:expr),* $(,)?) => {
        $crate::Sequential::new()$(.push($layer))*
    };
}

impl Module for Sequential {
    fn type_name(&self) -> &'static str {
        "Sequential"
    }

    fn visit_members<'a>(&'a self, visit: &mut dyn FnMut(&str, Member<'a>)) {
        for (i, layer) in self.0.iter().enumerate() {
            visit(&i.to_string(), Member::Module(layer.as_ref()));
        }
    }
}

impl Layer for Sequential {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.iter().try_fold(x.clone(), |x, layer| layer.forward(&x))
    }
}

/// A function as a layer without members.
pub struct Function<F>(F);

impl<F> Function<F> {
    /// A layer that calls the function.
    pub fn new(function: F) -> Function<F>
    where
        F: Fn(&Tensor) -> Result<Tensor>,
    {
        Function(function)
    }
}

impl<F> Module for Function<F> {
    fn type_name(&self) -> &'static str {
        "Function"
    }

    fn visit_members<'a>(&'a self, _: &mut dyn FnMut(&str, Member<'a>)) {}
}

impl<F: Fn(&Tensor) -> Result<Tensor>> Layer for Function<F> {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (self.0)(x)
    }
}

display! { [] Sequential, [F] Function<F> }

/// What [`Sequential::push`] takes: layers, and functions of a tensor. `K` tells the two apart and is never named.
pub trait IntoLayer<K> {
    /// The layer.
    fn into_layer(self) -> Box<dyn Layer + Send + Sync>;
}

/// [`IntoLayer`] of layers.
pub struct OfLayer(());
/// [`IntoLayer`] of functions.
pub struct OfFunction(());

impl<L: Layer + Send + Sync + 'static> IntoLayer<OfLayer> for L {
    fn into_layer(self) -> Box<dyn Layer + Send + Sync> {
        Box::new(self)
    }
}

impl<F: Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static> IntoLayer<OfFunction> for F {
    fn into_layer(self) -> Box<dyn Layer + Send + Sync> {
        Box::new(Function::new(self))
    }
}
