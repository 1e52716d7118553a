//! The tensors of a module by name.

use super::{Member, Module, walk};
use crate::{Buffer, Parameter};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Error, Result, Tensor};

/// Parameters and persistent buffers by PyTorch's names, in the order of fields. The tensors share the module's memory; copy them to keep
/// what they are now.
///
/// ```
/// use rustorch_nn::{Linear, Module};
/// let (trained, fresh) = (Linear::new(3, 2)?, Linear::new(3, 2)?);
/// fresh.load_state_dict(&trained.state_dict())?;
/// let bias = |linear: &Linear| linear.state_dict().get("bias").unwrap().to_vec::<f32>();
/// assert_eq!(bias(&fresh)?, bias(&trained)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct StateDict(Vec<(String, Tensor)>);

/// Where an entry goes.
enum Place {
    Parameter(Parameter),
    Buffer(Buffer),
}

impl Place {
    fn tensor(&self) -> Tensor {
        match self {
            Place::Parameter(parameter) => parameter.tensor(),
            Place::Buffer(buffer) => buffer.tensor(),
        }
    }
}

/// All places, each by all its paths: one that two modules share has two.
fn places<M: Module + ?Sized>(module: &M) -> Vec<(String, Place)> {
    let mut places = Vec::new();
    walk::members(module, &mut |path, member| match member {
        Member::Parameter(parameter) => places.push((path.to_owned(), Place::Parameter(parameter.clone()))),
        Member::Buffer(buffer) if buffer.is_persistent() => {
            places.push((path.to_owned(), Place::Buffer(buffer.clone())));
        }
        _ => {}
    });
    places
}

impl StateDict {
    pub(super) fn of<M: Module + ?Sized>(module: &M) -> StateDict {
        places(module).into_iter().map(|(name, place)| (name, place.tensor().detach())).collect()
    }

    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.iter().find(|(have, _)| have == name).map(|(_, tensor)| tensor)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// The entries under other names.
    pub fn renamed(self, rename: impl Fn(&str) -> String) -> StateDict {
        self.0.into_iter().map(|(name, tensor)| (rename(&name), tensor)).collect()
    }

    /// Copies the tensors into the parameters and buffers of their names, converted to their dtypes and devices. Without `strict`, names
    /// that only one side has are passed over.
    ///
    /// # Errors
    /// One that lists all missing, unexpected and wrongly shaped entries; nothing is changed then.
    pub fn load<M: Module + ?Sized>(&self, module: &M, strict: bool) -> Result<()> {
        let places = places(module);
        let mut wrong = Vec::new();
        let mut loads = Vec::new();
        for (name, place) in &places {
            let to = place.tensor();
            match self.get(name) {
                None if strict => wrong.push(format!("`{name}` {}{} is missing", to.dtype(), to.shape())),
                None => {}
                Some(from) if from.shape() != to.shape() => {
                    wrong.push(format!(
                        "`{name}` has shape {}, the module's has {}",
                        from.shape(),
                        to.shape()
                    ));
                }
                Some(from) => loads.push((from, to)),
            }
        }
        let unexpected =
            self.0.iter().filter(|(name, _)| strict && !places.iter().any(|(have, _)| have == name));
        for (name, _) in unexpected {
            let nearest = places.iter().min_by_key(|(have, _)| distance(have, name));
            let hint =
                nearest.map_or_else(String::new, |(have, _)| format!(", the nearest name is `{have}`"));
            wrong.push(format!("`{name}` is unexpected{hint}"));
        }
        if !wrong.is_empty() {
            let message = format!("{} does not take this state: {}", module.type_name(), wrong.join("; "));
            return Err(Error::argument("load_state_dict", message));
        }
        no_grad(|| {
            loads.into_iter().try_for_each(|(from, to)| to.detach().copy_(&from.to_dtype(to.dtype())?))
        })
    }
}

impl FromIterator<(String, Tensor)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(entries: I) -> StateDict {
        StateDict(entries.into_iter().collect())
    }
}

impl IntoIterator for StateDict {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// How many characters have to be inserted, removed or replaced (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
