//! Importance matrices: how much an error in each column of a weight changes what the model computes.

use super::QuantizeError;
use rustorch_formats::gguf::File;
use std::collections::HashMap;
use std::path::Path;

/// What names of tensors in an importance matrix end in: sums of squared activations, and how many rows they are sums of.
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

/// The mean squares of the activations that each weight is multiplied with, by the weight's name: one for each column, and of experts for each column of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportanceMatrix {
    entries: HashMap<String, Vec<f32>>,
}

impl ImportanceMatrix {
    /// Reads the GGUF file that `llama-imatrix` writes.
    ///
    /// # Errors
    /// If it cannot be read, is no importance matrix, or values in it are negative or not finite.
    pub fn open(path: impl AsRef<Path>) -> Result<ImportanceMatrix, QuantizeError> {
        let path = path.as_ref();
        let fail = |message: String| QuantizeError::Importance { path: path.display().to_string(), message };
        let file = File::open(path)?;
        let values = |name: &str| -> Result<Option<Vec<f32>>, QuantizeError> {
            let Some(tensor) = file.find_tensor(name) else { return Ok(None) };
            super::source::to_f32(tensor.dtype(), tensor.bytes())
                .map(Some)
                .ok_or_else(|| fail(format!("tensor `{name}` is {}", tensor.dtype())))
        };
        let mut entries = HashMap::new();
        for tensor in file.tensors() {
            let Some(name) = tensor.name().strip_suffix(SUMS) else { continue };
            let (Some(mut sums), Some(counts)) =
                (values(tensor.name())?, values(&format!("{name}{COUNTS}"))?)
            else {
                return Err(fail(format!("tensor `{name}{COUNTS}` is missing")));
            };
            if counts.is_empty() || !sums.len().is_multiple_of(counts.len()) {
                return Err(fail(format!("{} sums of `{name}` for {} counts", sums.len(), counts.len())));
            }
            let columns = sums.len() / counts.len();
            for (sums, count) in sums.chunks_exact_mut(columns).zip(counts) {
                // An expert that no token came to is quantized as if all columns were alike.
                sums.iter_mut().for_each(|sum| *sum = if count > 0.0 { *sum / count } else { 1.0 });
            }
            if let Some(wrong) = sums.iter().find(|value| !value.is_finite() || **value < 0.0) {
                return Err(fail(format!("`{name}` has the importance {wrong}")));
            }
            entries.insert(name.to_owned(), sums);
        }
        if entries.is_empty() {
            return Err(fail("holds no importances".into()));
        }
        Ok(ImportanceMatrix { entries })
    }

    /// Adds the importances of a weight's columns.
    pub fn insert(&mut self, tensor: impl Into<String>, importances: Vec<f32>) {
        self.entries.insert(tensor.into(), importances);
    }

    /// The importances of a weight's columns.
    pub fn get(&self, tensor: &str) -> Option<&[f32]> {
        self.entries.get(tensor).map(Vec::as_slice)
    }

    /// The number of weights that it knows.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
