//! A list of parameters.

use crate::module::display;
use crate::{ExtraRepr, Member, Module, Parameter};
use rustorch_tensor::{DType, Device, Result, Tensor};
use std::ops::{Deref, DerefMut};

/// A list of parameters, as `torch.nn.ParameterList`: their names are their positions. It is used as a vector.
///
/// ```
/// use rustorch_nn::{Module, ParameterList};
/// use rustorch_tensor::{DType, Tensor};
/// let scales = ParameterList::new([Tensor::ones([2], DType::F32)?, Tensor::ones([3], DType::F32)?])?;
/// assert_eq!(scales[1].tensor().dims(), [3]);
/// assert_eq!(scales.num_parameters(), 5);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ParameterList(Vec<Parameter>);

impl ParameterList {
    /// Parameters that share the memory of tensors.
    ///
    /// # Errors
    /// If a dtype is none of floats or complex numbers.
    pub fn new(tensors: impl IntoIterator<Item = Tensor>) -> Result<ParameterList> {
        tensors.into_iter().map(Parameter::new).collect()
    }
}

impl Deref for ParameterList {
    type Target = Vec<Parameter>;

    fn deref(&self) -> &Vec<Parameter> {
        &self.0
    }
}

impl DerefMut for ParameterList {
    fn deref_mut(&mut self) -> &mut Vec<Parameter> {
        &mut self.0
    }
}

impl FromIterator<Parameter> for ParameterList {
    fn from_iter<I: IntoIterator<Item = Parameter>>(parameters: I) -> ParameterList {
        ParameterList(parameters.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a ParameterList {
    type Item = &'a Parameter;
    type IntoIter = std::slice::Iter<'a, Parameter>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// PyTorch's name of a dtype.
fn torch_name(dtype: DType) -> String {
    let name = match dtype {
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::C64 => "complex64",
        DType::C128 => "complex128",
        // Parameters are of floats or complex numbers.
        other => other.name(),
    };
    format!("torch.{name}")
}

impl Module for ParameterList {
    fn type_name(&self) -> &'static str {
        "ParameterList"
    }

    fn visit_members<'a>(&'a self, visit: &mut dyn FnMut(&str, Member<'a>)) {
        for (i, parameter) in self.0.iter().enumerate() {
            visit(&i.to_string(), Member::Parameter(parameter));
        }
    }

    fn extra_repr(&self, extra: &mut ExtraRepr) {
        let line = |(i, parameter): (usize, &Parameter)| {
            let x = parameter.tensor();
            let sizes: Vec<String> = x.dims().iter().map(usize::to_string).collect();
            let dtype = torch_name(x.dtype());
            let device = if x.device() == Device::CPU { String::new() } else { format!(" ({})", x.device()) };
            format!("  ({i}): Parameter containing: [{dtype} of size {}{device}]", sizes.join("x"))
        };
        let lines: Vec<String> = self.0.iter().enumerate().map(line).collect();
        if !lines.is_empty() {
            extra.text(lines.join("\n"));
        }
    }
}

display! { [] ParameterList }
