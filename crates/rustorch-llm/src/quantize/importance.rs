//! Importance matrices: how much an error in each column of a weight changes what the model computes.

use crate::imatrix::{ActivationStatistics, ImatrixError};
use rustorch_formats::gguf::{self, Metadata};
use std::collections::HashMap;
use std::path::Path;

/// The mean squares of the activations that each weight is multiplied with, by the weight's name: one for each column, and of experts for each column of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportanceMatrix {
    entries: HashMap<String, Vec<f32>>,
    /// The path that it was read from.
    file: Option<String>,
    /// The first text that it is of.
    dataset: Option<String>,
    /// How many chunks of text it is of; 0 is unknown.
    chunks: usize,
}

impl ImportanceMatrix {
    /// Reads a file of `llama-imatrix`, in its GGUF format or in the one that it had before.
    ///
    /// # Errors
    /// As [`ActivationStatistics::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<ImportanceMatrix, ImatrixError> {
        let path = path.as_ref();
        let matrix = ImportanceMatrix::from(&ActivationStatistics::open(path)?);
        Ok(ImportanceMatrix { file: Some(path.display().to_string()), ..matrix })
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

    /// Sets the metadata keys by which `llama-quantize` says of a model what its importances are of.
    pub(super) fn describe(&self, metadata: &mut Metadata) -> Result<(), gguf::Error> {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        if let Some(file) = &self.file {
            metadata.set("quantize.imatrix.file", file.as_str())?;
        }
        if let Some(dataset) = &self.dataset {
            metadata.set("quantize.imatrix.dataset", dataset.as_str())?;
        }
        metadata.set("quantize.imatrix.entries_count", count(self.len()))?;
        if self.chunks > 0 {
            metadata.set("quantize.imatrix.chunks_count", count(self.chunks))?;
        }
        Ok(())
    }
}

impl From<&ActivationStatistics> for ImportanceMatrix {
    fn from(statistics: &ActivationStatistics) -> Self {
        let entries = statistics.iter().map(|(name, sums)| (name.to_owned(), sums.means()));
        ImportanceMatrix {
            entries: entries.collect(),
            file: None,
            dataset: statistics.datasets().first().cloned(),
            chunks: statistics.chunk_count(),
        }
    }
}
