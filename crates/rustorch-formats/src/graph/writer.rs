//! Writing graphs.

use super::{Error, ErrorKind, GRAPH_KEY, Result, VERSION, VERSION_KEY, stored, tensors};
use crate::safetensors;
use rustorch_core::Graph;
use std::io;
use std::path::Path;

/// Writes a graph with its tensors.
#[derive(Debug)]
pub struct Writer<'a>(safetensors::Writer<'a>);

impl<'a> Writer<'a> {
    /// A writer of a graph. `constant` and `state` give the bytes of the tensor of this index when it is written, so that they need not be
    /// held until then: as many as its value has.
    ///
    /// # Errors
    /// If the graph does not [verify](Graph::verify), or has a custom operation.
    pub fn new(
        graph: &Graph,
        constant: impl Fn(usize) -> io::Result<Vec<u8>> + 'a,
        state: impl Fn(usize) -> io::Result<Vec<u8>> + 'a,
    ) -> Result<Writer<'a>> {
        graph.verify().map_err(ErrorKind::Invalid)?;
        let json = serde_json::to_string(graph)
            .map_err(|error| ErrorKind::Unsupported { message: error.to_string() })?;
        let mut writer = safetensors::Writer::new();
        writer.metadata(VERSION_KEY, &VERSION.to_string()).map_err(refused)?;
        writer.metadata(GRAPH_KEY, &json).map_err(refused)?;
        let (constant, state) = (std::rc::Rc::new(constant), std::rc::Rc::new(state));
        let constants = graph.constants().len();
        for (i, (name, id)) in tensors(graph).enumerate() {
            let (dtype, shape) = stored(&graph.values[id.index()]);
            let (constant, state) = (constant.clone(), state.clone());
            let data = move || match i.checked_sub(constants) {
                None => constant(i),
                Some(i) => state(i),
            };
            writer.tensor_with(&name, &shape, dtype, data).map_err(refused)?;
        }
        Ok(Writer(writer))
    }

    /// The file as bytes.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file).
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.0.to_bytes().map_err(refused)
    }

    /// Writes the file, which replaces that at `path` when it is complete on the disk.
    ///
    /// # Errors
    /// If the disk refuses ([`ErrorKind::Write`] says what to do), a tensor has not as many bytes as its value, or the JSON is longer than
    /// a safetensors file may have.
    pub fn write_file(&self, path: impl AsRef<Path>) -> Result<()> {
        self.0.write_file(path).map_err(refused)
    }
}

fn refused(error: safetensors::Error) -> Error {
    let path = error.path().map(Path::to_path_buf);
    let kind = match error.into_kind() {
        safetensors::ErrorKind::Io(error) => ErrorKind::Write { error },
        kind => ErrorKind::Safetensors(kind),
    };
    Error::at(path.as_deref(), kind)
}
