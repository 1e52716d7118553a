//! What a program is given and returns.

use crate::proto as pb;
use rustorch_core::DType;
use serde::{Deserialize, Serialize};

/// The inputs and outputs of a program, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// What it is given.
    pub inputs: Vec<Feature>,
    /// What it returns.
    pub outputs: Vec<Feature>,
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
    pub(crate) fn of(description: &pb::FeatureDescription) -> Option<Feature> {
        let ty = description.ty.as_ref()?;
        let array = ty.multi_array.as_ref().or(ty.state.as_ref().and_then(|state| state.array.as_ref()))?;
        let dtype = match array.data_type {
            pb::ARRAY_F16 => DType::F16,
            pb::ARRAY_F32 => DType::F32,
            _ => DType::I32,
        };
        // Dimensions that are no sizes are those of somebody else's damaged package.
        let dims = array.shape.iter().map(|&dim| usize::try_from(dim).unwrap_or(0)).collect();
        Some(Feature { name: description.name.clone(), dtype, dims })
    }
}

impl Signature {
    /// That of a model's first function.
    pub(crate) fn of(model: &pb::Model) -> Signature {
        let Some(description) = &model.description else { return Signature::default() };
        let (inputs, outputs) = match description.functions.first() {
            Some(function) => (&function.input, &function.output),
            None => (&description.input, &description.output),
        };
        let features = |list: &[pb::FeatureDescription]| list.iter().filter_map(Feature::of).collect();
        Signature { inputs: features(inputs), outputs: features(outputs) }
    }

    /// That bytes are given for each input and output, as many as it takes.
    ///
    /// # Errors
    /// Which has others.
    pub fn check(&self, inputs: &[&[u8]], outputs: &[&mut [u8]]) -> Result<(), super::RuntimeError> {
        let refused = |message: String| Err(super::RuntimeError::Refused(message));
        if inputs.len() != self.inputs.len() || outputs.len() != self.outputs.len() {
            return refused(format!(
                "{} inputs and {} outputs are given, the program has {} and {}",
                inputs.len(),
                outputs.len(),
                self.inputs.len(),
                self.outputs.len()
            ));
        }
        let given = inputs.iter().map(|bytes| bytes.len()).chain(outputs.iter().map(|bytes| bytes.len()));
        for (feature, given) in self.inputs.iter().chain(&self.outputs).zip(given) {
            if feature.bytes() != given {
                return refused(format!("{} has {} bytes, {given} are given", feature.name, feature.bytes()));
            }
        }
        Ok(())
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
