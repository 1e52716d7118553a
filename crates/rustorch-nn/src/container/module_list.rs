//! A list of modules.

use super::AnyLayer;
use crate::module::display;
use crate::{ExtraRepr, IntoLayer, Member, Module};
use std::ops::{Deref, DerefMut};

/// A list of modules, as `torch.nn.ModuleList`: their names are their positions. It is used as a vector.
///
/// Its elements have one type, or are layers of any type if none is named. A field `Vec<Linear>` has the same names of parameters; a list is a
/// module of its own.
///
/// ```
/// use rustorch_nn::{Layer, Linear, Module, ModuleList};
/// use rustorch_tensor::{DType, Tensor};
/// let mut layers: ModuleList = ModuleList::new();
/// layers.push_layer(Linear::new(4, 4)?).push_layer(Tensor::tanh).push_layer(Linear::new(4, 1)?);
/// let mut x = Tensor::ones([2, 4], DType::F32)?;
/// for layer in layers.iter() {
///     x = layer.forward(&x)?;
/// }
/// assert_eq!(x.dims(), [2, 1]);
///
/// // Of one type: elements keep their fields.
/// let heads: ModuleList<Linear> = (0..3).map(|_| Linear::new(4, 2)).collect::<Result<_, _>>()?;
/// assert_eq!(heads[1].weight.tensor().dims(), [2, 4]);
/// assert_eq!(
///     heads.to_string(),
///     "ModuleList(
///   (0-2): 3 x Linear(in_features=4, out_features=2, bias=True)
/// )"
/// );
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModuleList<M = AnyLayer>(Vec<M>);

impl<M> ModuleList<M> {
    /// Without a module.
    pub fn new() -> ModuleList<M> {
        ModuleList(Vec::new())
    }

    /// The modules.
    pub fn into_vec(self) -> Vec<M> {
        self.0
    }
}

impl ModuleList {
    /// Adds a [`Layer`](crate::Layer) of any type, or a function, at the end.
    pub fn push_layer<K>(&mut self, layer: impl IntoLayer<K>) -> &mut ModuleList {
        self.0.push(layer.into_layer());
        self
    }
}

impl<M> Default for ModuleList<M> {
    fn default() -> ModuleList<M> {
        ModuleList::new()
    }
}

impl<M> Deref for ModuleList<M> {
    type Target = Vec<M>;

    fn deref(&self) -> &Vec<M> {
        &self.0
    }
}

impl<M> DerefMut for ModuleList<M> {
    fn deref_mut(&mut self) -> &mut Vec<M> {
        &mut self.0
    }
}

impl<M> From<Vec<M>> for ModuleList<M> {
    fn from(modules: Vec<M>) -> ModuleList<M> {
        ModuleList(modules)
    }
}

impl<M> FromIterator<M> for ModuleList<M> {
    fn from_iter<I: IntoIterator<Item = M>>(modules: I) -> ModuleList<M> {
        ModuleList(modules.into_iter().collect())
    }
}

impl<'a, M> IntoIterator for &'a ModuleList<M> {
    type Item = &'a M;
    type IntoIter = std::slice::Iter<'a, M>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<M> IntoIterator for ModuleList<M> {
    type Item = M;
    type IntoIter = std::vec::IntoIter<M>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<M: Module> Module for ModuleList<M> {
    fn type_name(&self) -> &'static str {
        "ModuleList"
    }

    fn visit_members<'a>(&'a self, visit: &mut dyn FnMut(&str, Member<'a>)) {
        for (i, module) in self.0.iter().enumerate() {
            visit(&i.to_string(), Member::Module(module));
        }
    }

    fn extra_repr(&self, extra: &mut ExtraRepr) {
        extra.fold_equal_children();
    }
}

display! { [M: Module] ModuleList<M> }
