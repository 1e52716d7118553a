//! Files of statistics: GGUF, as `llama-imatrix` has written them since 2025.

use super::{ActivationStatistics, ImatrixError, SquareSums, legacy};
use rustorch_core::DType;
use rustorch_formats::gguf::{File, Metadata, StrArray, Writer};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// What names of tensors end in.
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

const DATASETS: &str = "imatrix.datasets";
const CHUNK_COUNT: &str = "imatrix.chunk_count";
const CHUNK_SIZE: &str = "imatrix.chunk_size";

impl ActivationStatistics {
    /// Reads a file of `llama-imatrix`, in its GGUF format or in the one that it had before.
    ///
    /// Files of the old format keep no number of rows: means are right, and counts are in chunks of one row.
    ///
    /// # Errors
    /// If it cannot be read, holds no statistics, or values in it are negative or not finite.
    pub fn open(path: impl AsRef<Path>) -> Result<ActivationStatistics, ImatrixError> {
        let path = path.as_ref();
        let fail = |message: String| ImatrixError::Format { path: path.to_owned(), message };
        let statistics = match is_gguf(path)? {
            true => read(&File::open(path)?).map_err(fail)?,
            false => legacy::read(&std::fs::read(path).map_err(|e| fail(e.to_string()))?).map_err(fail)?,
        };
        if statistics.weights.is_empty() {
            return Err(fail("holds no activation statistics".into()));
        }
        for (name, SquareSums { sums, .. }) in &statistics.weights {
            if let Some(wrong) = sums.iter().find(|sum| !sum.is_finite() || **sum < 0.0) {
                return Err(fail(format!("`{name}` has {wrong} for a sum of squares")));
            }
        }
        Ok(statistics)
    }

    /// Writes a GGUF file, which replaces `path` only once everything is on the disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), ImatrixError> {
        let mut writer = Writer::new();
        writer.metadata("general.type", "imatrix")?;
        writer.metadata(DATASETS, self.datasets.clone())?;
        writer.metadata(CHUNK_COUNT, u32::try_from(self.chunk_count).unwrap_or(u32::MAX))?;
        writer.metadata(CHUNK_SIZE, u32::try_from(self.chunk_size).unwrap_or(u32::MAX))?;
        let bytes = |values: &mut dyn Iterator<Item = f32>| -> Vec<u8> {
            values.flat_map(f32::to_le_bytes).collect()
        };
        for (name, SquareSums { sums, counts }) in &self.weights {
            // Of a single matrix, its outer dimension is left out.
            let shape = |columns: usize| match counts.len() {
                1 => vec![columns],
                matrices => vec![matrices, columns],
            };
            let columns = sums.len() / counts.len().max(1);
            let sums = bytes(&mut sums.iter().map(|&sum| sum as f32));
            writer.tensor(&format!("{name}{SUMS}"), &shape(columns), DType::F32, sums)?;
            let of_rows = bytes(&mut counts.iter().map(|&count| count as f32));
            writer.tensor(&format!("{name}{COUNTS}"), &shape(1), DType::F32, of_rows)?;
        }
        Ok(writer.write_file(path)?)
    }
}

fn is_gguf(path: &Path) -> Result<bool, ImatrixError> {
    let mut magic = [0; 4];
    let read = std::fs::File::open(path).and_then(|file| file.take(4).read_exact(&mut magic));
    match read {
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            Err(ImatrixError::Format { path: path.to_owned(), message: error.to_string() })
        }
        read => Ok(read.is_ok() && magic == *b"GGUF"),
    }
}

fn read(file: &File) -> Result<ActivationStatistics, String> {
    let values = |name: &str| -> Result<Vec<f32>, String> {
        let tensor = file.find_tensor(name).ok_or_else(|| format!("tensor `{name}` is missing"))?;
        match tensor.dtype() {
            DType::F32 => Ok(floats(tensor.bytes())),
            dtype => Err(format!("tensor `{name}` is {dtype}, not f32")),
        }
    };
    let mut weights = BTreeMap::new();
    for tensor in file.tensors() {
        let Some(name) = tensor.name().strip_suffix(SUMS) else { continue };
        let (sums, counts) = (values(tensor.name())?, values(&format!("{name}{COUNTS}"))?);
        if counts.is_empty() || sums.is_empty() || !sums.len().is_multiple_of(counts.len()) {
            return Err(format!("{} sums of `{name}` for {} counts", sums.len(), counts.len()));
        }
        let sums = sums.into_iter().map(f64::from).collect();
        // Casts saturate.
        let counts = counts.into_iter().map(|count| count.round() as u64).collect();
        weights.insert(name.to_owned(), SquareSums { sums, counts });
    }
    let metadata = file.metadata();
    let count = |key: &str| metadata.find::<u32>(key).ok().flatten().unwrap_or(0) as usize;
    Ok(ActivationStatistics {
        weights,
        datasets: datasets(metadata),
        chunk_size: count(CHUNK_SIZE),
        chunk_count: count(CHUNK_COUNT),
    })
}

fn datasets(metadata: &Metadata) -> Vec<String> {
    let names = metadata.find::<&StrArray>(DATASETS).ok().flatten();
    names
        .into_iter()
        .flat_map(StrArray::iter)
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

/// Little-endian values.
pub(super) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
