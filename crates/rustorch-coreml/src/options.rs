//! How graphs become programs.

use crate::proto::Metadata;
use rustorch_core::{Graph, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of constants of block types (`Q4_K`, ..).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuantWeights {
    /// They stay in blocks where Core ML has a form of them: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and Q2_K to Q6_K, with whole groups of 16 or 32 in
    /// the last dimension. Scales and offsets have the program's dtype. Such a program needs specification 9: macOS 15, iOS 18. Others
    /// are dequantized to the program's dtype.
    #[default]
    Blocks,
    /// They are dequantized to `f16`.
    F16,
}

/// What attention becomes. With a soft-cap it is always composed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AttentionForm {
    /// [`Fused`](Self::Fused) where it computes in `f32`, in a program that needs specification 9 for something else; else
    /// [`Composed`](Self::Composed).
    #[default]
    Auto,
    /// Matmuls and a softmax. Scores and softmax are `f32`, also in `f16` programs.
    Composed,
    /// Core ML's operation `scaled_dot_product_attention`, which needs specification 9: macOS 15, iOS 18. In `f16` programs, its scores and
    /// softmax are `f16`.
    Fused,
}

/// How a graph becomes a program.
///
/// ```
/// let options = rustorch_coreml::CoreMlOptions { allow_f16: true, ..Default::default() };
/// # assert!(options.inputs.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreMlOptions {
    /// Whether the floats of the graph become `f16`, which is what the Neural Engine computes in; else `f32` stays `f32`. Sums, norms, softmaxes and
    /// the angles of rotary embeddings are computed in `f32` either way, and `f32` inputs and outputs stay `f32` at the border. Constants that are
    /// finite and larger than the largest `f16` become that.
    pub allow_f16: bool,
    /// What becomes of constants of block types.
    pub quant_weights: QuantWeights,
    /// What attention becomes.
    pub attention: AttentionForm,
    /// Names of the inputs, in order: `input_0`, .. where there are none.
    pub inputs: Vec<String>,
    /// Names of the outputs, in order: `output_0`, .. where there are none.
    pub outputs: Vec<String>,
    /// One sentence about the model, which Xcode shows.
    pub description: String,
    /// What else a program that runs the model may want to know, by name.
    pub metadata: BTreeMap<String, String>,
    /// Of inputs of integers, by name: that values are from 0 to below this, such as the positions that a cache holds. A program raises no errors for
    /// others, and computes something else. So the package says it in its metadata, as `rustorch.below.NAME`, and
    /// [`Signature::check`](crate::runtime::Signature::check) refuses them before a prediction.
    pub below: BTreeMap<String, u32>,
}

/// Of which version the metadata is that this library writes and reads.
pub(crate) const METADATA_VERSION: u32 = 1;
/// Its key.
pub(crate) const METADATA_VERSION_KEY: &str = "rustorch.metadata";
/// Keys of bounds begin so, and end with an input's name.
pub(crate) const BELOW_KEY: &str = "rustorch.below.";

impl CoreMlOptions {
    pub(crate) fn input_name(&self, i: usize) -> String {
        self.inputs.get(i).cloned().unwrap_or_else(|| format!("input_{i}"))
    }

    pub(crate) fn output_name(&self, i: usize) -> String {
        self.outputs.get(i).cloned().unwrap_or_else(|| format!("output_{i}"))
    }

    /// That there are as many names as the graph takes, that a program can have them, and that no other value has them.
    pub(crate) fn check(&self, graph: &Graph) -> Result<(), String> {
        for (what, names, count) in
            [("inputs", &self.inputs, graph.inputs.len()), ("outputs", &self.outputs, graph.outputs.len())]
        {
            if !names.is_empty() && names.len() != count {
                return Err(format!("{} names of {what} are given, the graph has {count}", names.len()));
            }
        }
        let mut seen = BTreeSet::new();
        for name in self.inputs.iter().chain(&self.outputs) {
            if !CoreMlOptions::is_name(name) {
                return Err(format!(
                    "{name:?} is no name of a value: letters, digits and underscores, no digit first"
                ));
            }
            // Values within a program are named after their operation, with a number.
            if name.rsplit_once('_').is_some_and(|(_, end)| end.parse::<usize>().is_ok()) {
                return Err(format!(
                    "{name:?} may be the name of another value: let it not end in an underscore and a number"
                ));
            }
            if !seen.insert(name) {
                return Err(format!("{name:?} is given twice"));
            }
        }
        for (name, below) in &self.below {
            let is_that = |(i, id): &(usize, &ValueId)| {
                self.input_name(*i) == *name && graph.values[id.index()].dtype.is_int()
            };
            if !graph.inputs.iter().enumerate().any(|input| is_that(&input)) {
                return Err(format!(
                    "values of {name:?} are to be below {below}, and no input of integers is called so"
                ));
            }
            if *below == 0 {
                return Err(format!("values of {name:?} are to be below 0; they begin with 0"));
            }
        }
        Ok(())
    }

    /// Whether programs may call something so.
    pub(crate) fn is_name(name: &str) -> bool {
        let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
        name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
    }

    pub(crate) fn metadata(&self) -> Option<Metadata> {
        let mut user_defined = self.metadata.clone();
        for (name, below) in &self.below {
            user_defined.insert(format!("{BELOW_KEY}{name}"), below.to_string());
            user_defined.insert(METADATA_VERSION_KEY.to_owned(), METADATA_VERSION.to_string());
        }
        (!self.description.is_empty() || !user_defined.is_empty())
            .then(|| Metadata { short_description: self.description.clone(), user_defined })
    }
}
