//! Importance matrices: how much an error in each column of a weight changes what the model computes.

use crate::imatrix::{ActivationStatistics, ImatrixError};
use std::collections::HashMap;
use std::path::Path;

/// The mean squares of the activations that each weight is multiplied with, by the weight's name: one for each column, and of experts for each column of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportanceMatrix {
    entries: HashMap<String, Vec<f32>>,
}

impl ImportanceMatrix {
    /// Reads a file of `llama-imatrix`, in its GGUF format or in the one that it had before.
    ///
    /// # Errors
    /// As [`ActivationStatistics::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<ImportanceMatrix, ImatrixError> {
        Ok(ImportanceMatrix::from(&ActivationStatistics::open(path)?))
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

impl From<&ActivationStatistics> for ImportanceMatrix {
    fn from(statistics: &ActivationStatistics) -> Self {
        let entries = statistics.iter().map(|(name, sums)| (name.to_owned(), sums.means()));
        ImportanceMatrix { entries: entries.collect() }
    }
}
