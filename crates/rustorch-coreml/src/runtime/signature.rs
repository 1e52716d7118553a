//! What a program is given and returns.

use crate::proto as pb;
use rustorch_core::DType;
use serde::{Deserialize, Serialize};

/// The inputs, outputs and states of a function, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Which function of the program it is; none of one that has no other.
    #[serde(default)]
    pub function: Option<String>,
    /// What it is given.
    pub inputs: Vec<Feature>,
    /// What it returns.
    pub outputs: Vec<Feature>,
    /// What it finds as the prediction before left it.
    #[serde(default)]
    pub states: Vec<Feature>,
}

/// An input or output of a program: a contiguous array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// By which the runtime knows it.
    pub name: String,
    /// `F16`, `F32` or `I32`.
    #[serde(with = "dtype_name")]
    pub dtype: DType,
    /// One dimension at least.
    pub dims: Vec<usize>,
    /// Of an input of integers that the program was made for values of from 0 to below this, as its package says
    /// ([`CoreMlOptions::below`](crate::CoreMlOptions::below)).
    #[serde(default)]
    pub below: Option<u32>,
}

impl Feature {
    /// How many elements it has.
    pub fn numel(&self) -> usize {
        self.dims.iter().product()
    }

    /// How many bytes it takes.
    pub fn bytes(&self) -> usize {
        self.numel() * self.dtype.block_bytes()
    }

    /// That of an array, or a state of one.
    ///
    /// # Errors
    /// If it is something else: what, in words.
    pub(crate) fn of(description: &pb::FeatureDescription) -> Result<Feature, String> {
        let name = &description.name;
        let other = || format!("{name:?} is no array");
        let ty = description.ty.as_ref().ok_or_else(other)?;
        let array = ty.multi_array.as_ref().or(ty.state.as_ref().and_then(|state| state.array.as_ref()));
        let array = array.ok_or_else(other)?;
        let dtype = match array.data_type {
            pb::ARRAY_F16 => DType::F16,
            pb::ARRAY_F32 => DType::F32,
            pb::ARRAY_I32 => DType::I32,
            unknown => {
                return Err(format!("{name:?} is an array of the dtype {unknown}, not f16, f32 or i32"));
            }
        };
        // Dimensions that are no sizes are those of somebody else's damaged package.
        let dims = array.shape.iter().map(|&dim| usize::try_from(dim).unwrap_or(0)).collect();
        Ok(Feature { name: name.clone(), dtype, dims, below: None })
    }
}

impl Signature {
    /// That of a model's first function, which was emitted, so that it has arrays alone.
    pub(crate) fn of(model: &pb::Model) -> Signature {
        let Some(description) = &model.description else { return Signature::default() };
        let first = description.functions.first();
        let (inputs, outputs, states) = match first {
            Some(function) => (&function.input, &function.output, &function.state),
            None => (&description.input, &description.output, &description.state),
        };
        let features = |list: &[pb::FeatureDescription]| {
            list.iter().filter_map(|feature| Feature::of(feature).ok()).collect()
        };
        Signature {
            function: first.map(|function| function.name.clone()),
            inputs: features(inputs),
            outputs: features(outputs),
            states: features(states),
        }
    }
}

/// Dtypes by name.
mod dtype_name {
    use rustorch_core::DType;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(dtype: &DType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match dtype {
            DType::F16 => "f16",
            DType::F32 => "f32",
            _ => "i32",
        })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DType, D::Error> {
        match &*String::deserialize(from)? {
            "f16" => Ok(DType::F16),
            "f32" => Ok(DType::F32),
            "i32" => Ok(DType::I32),
            other => Err(D::Error::custom(format!("{other} is no dtype of a feature"))),
        }
    }
}
