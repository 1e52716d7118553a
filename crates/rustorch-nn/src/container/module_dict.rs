//! Modules by name.

use super::AnyLayer;
use crate::module::display;
use crate::{IntoLayer, Member, Module};
use rustorch_tensor::{Error, Result};

/// Modules by name, in the order in which they were added, as `torch.nn.ModuleDict`.
///
/// Its values have one type, or are layers of any type if none is named.
///
/// ```
/// use rustorch_nn::{Layer, Linear, Module, ModuleDict};
/// use rustorch_tensor::{DType, Tensor};
/// let mut heads: ModuleDict = ModuleDict::new();
/// heads.insert_layer("score", Linear::new(4, 1)?)?.insert_layer("gate", Tensor::sigmoid)?;
/// let x = Tensor::ones([2, 4], DType::F32)?;
/// assert_eq!(heads.get("score").unwrap().forward(&x)?.dims(), [2, 1]);
/// assert_eq!(heads.named_parameters()[0].0, "score.weight");
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModuleDict<M = AnyLayer>(Vec<(String, M)>);

impl<M> ModuleDict<M> {
    /// Without a module.
    pub fn new() -> ModuleDict<M> {
        ModuleDict(Vec::new())
    }

    /// Adds a module at the end, or puts it in the place of that of this name, which is returned.
    ///
    /// # Errors
    /// If the name is empty or has a dot, which separates names in a path.
    pub fn insert(&mut self, name: &str, module: M) -> Result<Option<M>> {
        if name.is_empty() || name.contains('.') {
            let message = format!("a module's name is not empty and has no dot, and is `{name}`");
            return Err(Error::argument("ModuleDict", message));
        }
        match self.get_mut(name) {
            Some(place) => Ok(Some(std::mem::replace(place, module))),
            None => {
                self.0.push((name.to_owned(), module));
                Ok(None)
            }
        }
    }

    /// Takes a module out.
    pub fn remove(&mut self, name: &str) -> Option<M> {
        let at = self.0.iter().position(|(have, _)| have == name)?;
        Some(self.0.remove(at).1)
    }

    /// The module of a name.
    pub fn get(&self, name: &str) -> Option<&M> {
        self.0.iter().find(|(have, _)| have == name).map(|(_, module)| module)
    }

    /// The module of a name.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut M> {
        self.0.iter_mut().find(|(have, _)| have == name).map(|(_, module)| module)
    }

    /// Names and modules in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &M)> {
        self.0.iter().map(|(name, module)| (name.as_str(), module))
    }

    /// The names in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// How many modules there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no module.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ModuleDict {
    /// As [`insert`](ModuleDict::insert), of a [`Layer`](crate::Layer) of any type, or a function.
    ///
    /// # Errors
    /// If the name is empty or has a dot, which separates names in a path.
    pub fn insert_layer<K>(&mut self, name: &str, layer: impl IntoLayer<K>) -> Result<&mut ModuleDict> {
        self.insert(name, layer.into_layer())?;
        Ok(self)
    }
}

impl<M> Default for ModuleDict<M> {
    fn default() -> ModuleDict<M> {
        ModuleDict::new()
    }
}

impl<M: Module> Module for ModuleDict<M> {
    fn type_name(&self) -> &'static str {
        "ModuleDict"
    }

    fn visit_members<'a>(&'a self, visit: &mut dyn FnMut(&str, Member<'a>)) {
        for (name, module) in &self.0 {
            visit(name, Member::Module(module));
        }
    }
}

display! { [M: Module] ModuleDict<M> }
