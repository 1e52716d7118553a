//! Reading graphs.

use super::{
    Error, ErrorKind, GRAPH_KEY, Result, VERSION, VERSION_KEY, constant_name, state_name, stored, tensors,
};
use crate::SharedBytes;
use crate::safetensors;
use rustorch_core::Graph;
use std::path::Path;

/// An open graph: it verifies, and its tensors are as long as it says.
#[derive(Debug)]
pub struct File {
    graph: Graph,
    constants: Vec<SharedBytes>,
    states: Vec<SharedBytes>,
}

impl File {
    /// Reads the file at `path` into memory.
    ///
    /// # Errors
    /// The first of the malformations of [`ErrorKind`] that is met.
    pub fn open(path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        File::parse(safetensors::File::open(path), Some(path))
    }

    /// Opens the file at `path` by mapping it into memory, of which the operating system reads pages at their first use.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Safety
    /// As long as this or any bytes of it live, nobody overwrites the file in place or truncates it; see
    /// [`safetensors::File::open_mapped`].
    pub unsafe fn open_mapped(path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        // SAFETY: that nobody changes the file is this function's contract.
        File::parse(unsafe { safetensors::File::open_mapped(path) }, Some(path))
    }

    /// Reads a file that is in memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: impl Into<SharedBytes>) -> Result<File> {
        File::parse(safetensors::File::from_bytes(bytes), None)
    }

    fn parse(file: Result<safetensors::File, safetensors::Error>, path: Option<&Path>) -> Result<File> {
        let file = file.map_err(|error| {
            let path = error.path().map(Path::to_path_buf);
            Error::at(path.as_deref(), ErrorKind::Safetensors(error.into_kind()))
        })?;
        File::from_safetensors(&file).map_err(|kind| Error::at(path, kind))
    }

    fn from_safetensors(file: &safetensors::File) -> Result<File, ErrorKind> {
        let metadata = file.metadata();
        let (json, version) = match (metadata.get(GRAPH_KEY), metadata.get(VERSION_KEY)) {
            (Some(json), Some(version)) => (json, version),
            (Some(_), None) => return Err(ErrorKind::Version { found: "(none)".to_owned() }),
            (None, _) => return Err(ErrorKind::NoGraph),
        };
        if *version != VERSION.to_string() {
            // What a stranger wrote there may be long.
            let found = version.chars().take(32).collect();
            return Err(ErrorKind::Version { found });
        }
        let graph: Graph =
            serde_json::from_str(json).map_err(|error| ErrorKind::Json { message: error.to_string() })?;
        graph.verify().map_err(ErrorKind::Invalid)?;
        let mut count = 0;
        for (name, id) in tensors(&graph) {
            let value = &graph.values[id.index()];
            let Some(tensor) = file.find_tensor(&name) else {
                return Err(ErrorKind::MissingTensor { name });
            };
            let (expected_dtype, expected_shape) = stored(value);
            if (tensor.dtype(), tensor.shape()) != (expected_dtype, &expected_shape[..]) {
                return Err(ErrorKind::OtherTensor {
                    name,
                    value: format!("{id} of {}{}", value.dtype, value.shape),
                    dtype: tensor.dtype(),
                    shape: tensor.shape().to_vec(),
                    expected_dtype,
                    expected_shape,
                });
            }
            count += 1;
        }
        let bytes = |name: String| file.find_tensor(&name).map(|tensor| tensor.shared_bytes());
        let constants: Vec<_> =
            (0..graph.constants().len()).filter_map(|i| bytes(constant_name(i))).collect();
        let states: Vec<_> = (0..graph.states.len()).filter_map(|i| bytes(state_name(i))).collect();
        if file.tensors().len() != count {
            let known: std::collections::HashSet<String> = tensors(&graph).map(|(name, _)| name).collect();
            let unknown = file.tensors().find(|tensor| !known.contains(tensor.name()));
            let name = unknown.map(|tensor| tensor.name().to_owned()).unwrap_or_default();
            return Err(ErrorKind::UnknownTensor { name });
        }
        Ok(File { graph, constants, states })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The graph, taken out of the file.
    pub fn into_graph(self) -> Graph {
        self.graph
    }

    /// The bytes of the constants, in the order of the graph's: little-endian scalars, or blocks.
    pub fn constants(&self) -> &[SharedBytes] {
        &self.constants
    }

    /// The bytes of the states when the graph was saved.
    pub fn states(&self) -> &[SharedBytes] {
        &self.states
    }
}
