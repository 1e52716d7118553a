//! Writing a quantized model: some rows at a time, on every thread.

use super::{PlannedTensor, QUANTIZATION_VERSION, Quantization, QuantizeError, source};
use rustorch_core::DType;
use rustorch_formats::gguf::{Metadata, Writer};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;

/// About so many values are converted at a time by each thread.
const CHUNK: usize = 1 << 18;

impl Quantization<'_> {
    /// Writes the file, which replaces `path` only once everything is on the disk. `progress` is called with the number of tensors written and their total.
    ///
    /// # Errors
    /// If it cannot be written, or a tensor has values that no block can hold.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        progress: &dyn Fn(usize, usize),
    ) -> Result<(), QuantizeError> {
        Ok(self.writer(self.tensors(), progress)?.write_file(path)?)
    }

    /// As [`write`](Self::write), but in as many parts as the model has, with the same tensors each: `PREFIX-00001-of-0000N.gguf`. Gives their paths.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_parts(
        &self,
        prefix: impl AsRef<Path>,
        progress: &dyn Fn(usize, usize),
    ) -> Result<Vec<PathBuf>, QuantizeError> {
        let mut tensors = self.tensors().to_vec();
        tensors.sort_by_key(|tensor| tensor.source.part());
        let groups: Vec<usize> =
            tensors.chunk_by(|a, b| a.source.part() == b.source.part()).map(<[_]>::len).collect();
        Ok(self.writer(&tensors, progress)?.write_groups(prefix, &groups)?)
    }

    /// A writer of these, in this order.
    fn writer<'w>(
        &'w self,
        tensors: &[PlannedTensor<'w>],
        progress: &'w dyn Fn(usize, usize),
    ) -> Result<Writer<'w>, QuantizeError> {
        let mut writer = Writer::new();
        *writer.metadata_mut() = self.metadata()?;
        let threads =
            self.options.threads.or(thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
        let total = tensors.len();
        for (i, &tensor) in tensors.iter().enumerate() {
            writer.tensor_with(tensor.source.name(), tensor.source.shape(), tensor.dtype, move |out| {
                convert(&tensor, threads, out)?;
                progress(i + 1, total);
                Ok(())
            })?;
        }
        Ok(writer)
    }

    /// The file's metadata, with what it is now.
    fn metadata(&self) -> Result<Metadata, QuantizeError> {
        let mut metadata = Writer::copy_of(self.file).metadata_mut().clone();
        metadata.set("general.quantization_version", QUANTIZATION_VERSION)?;
        if !self.options.copy {
            metadata.set("general.file_type", self.options.mixture.file_type())?;
        }
        if let Some(importance) = self.options.importance.as_ref().filter(|matrix| !matrix.is_empty()) {
            importance.describe(&mut metadata)?;
        }
        Ok(metadata)
    }
}

/// Writes a tensor in its new dtype.
fn convert(tensor: &PlannedTensor<'_>, threads: usize, out: &mut dyn Write) -> io::Result<()> {
    let (from, to) = (tensor.source.dtype(), tensor.dtype);
    let bytes = tensor.source.bytes();
    if from == to {
        return out.write_all(bytes);
    }
    let shape = tensor.source.shape();
    let columns = shape.last().copied().unwrap_or(1);
    let rows_of_matrix = shape.iter().rev().nth(1).copied().unwrap_or(1);
    let (bytes_from, bytes_to) = (row_bytes(from, columns)?, row_bytes(to, columns)?);
    let rows_at_once = (CHUNK / columns).max(1);
    // Experts have importances of their own.
    for (matrix, bytes) in bytes.chunks(bytes_from * rows_of_matrix).enumerate() {
        let importance = tensor.importance.map(|all| &all[matrix * columns..][..columns]);
        let one = |bytes: &[u8]| -> io::Result<Vec<u8>> {
            let fail =
                |message: String| io::Error::other(format!("tensor `{}`: {message}", tensor.source.name()));
            let values = source::to_f32(from, bytes).ok_or_else(|| fail(format!("{from} has no values")))?;
            let mut converted = vec![0; bytes.len() / bytes_from * bytes_to];
            source::from_f32(to, &values, importance, &mut converted).map_err(fail)?;
            Ok(converted)
        };
        for batch in bytes.chunks(bytes_from * rows_at_once * threads) {
            let converted: Vec<io::Result<Vec<u8>>> = thread::scope(|scope| {
                let mut chunks = batch.chunks(bytes_from * rows_at_once);
                let own = chunks.next();
                let others: Vec<_> = chunks.map(|chunk| scope.spawn(move || one(chunk))).collect();
                let own = own.map(one);
                let others = others.into_iter().map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|_| Err(io::Error::other("a thread that quantizes panicked")))
                });
                own.into_iter().chain(others).collect()
            });
            for chunk in converted {
                out.write_all(&chunk?)?;
            }
        }
    }
    Ok(())
}

/// The bytes of a row.
fn row_bytes(dtype: DType, columns: usize) -> io::Result<usize> {
    let bytes = dtype.bytes_for(columns);
    bytes.ok_or_else(|| io::Error::other(format!("a row of {columns} values is not whole in {dtype}")))
}
