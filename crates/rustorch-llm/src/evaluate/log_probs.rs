//! Files of log probabilities, as `llama-perplexity --kl-divergence-base` writes and reads them.
//!
//! `_logits_`, then as little-endian `i32` the length of chunks, the size of the vocabulary, the number of chunks, and the tokens of all chunks.
//! Then for each scored token of each chunk a scale and a least value in `f32` and codes of the vocabulary in `u16`, one more where the vocabulary is
//! odd: the log probability of a token is `scale · code + least`.

use super::{Chunks, EvaluateError};
use crate::LanguageModel;
use rustorch_formats::AtomicFile;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"_logits_";
/// Log probabilities further below the largest are not told apart.
const SPAN: f32 = 16.0;

/// The bytes of a row.
fn row_bytes(vocabulary: usize) -> usize {
    8 + 4 * vocabulary.div_ceil(2)
}

/// Writes log probabilities to a file, which appears under its name once it is whole.
pub struct LogProbsWriter {
    path: PathBuf,
    out: BufWriter<AtomicFile>,
    vocabulary: usize,
    row: Vec<u8>,
}

impl LogProbsWriter {
    /// Begins a file about these chunks.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(
        path: impl AsRef<Path>,
        model: &LanguageModel,
        chunks: &Chunks,
    ) -> Result<LogProbsWriter, EvaluateError> {
        let path = path.as_ref().to_owned();
        let vocabulary = model.model().config().vocabulary;
        let begin = || {
            let mut out = BufWriter::new(AtomicFile::create(&path)?);
            out.write_all(MAGIC)?;
            for size in [chunks.context(), vocabulary, chunks.len()] {
                let size = i32::try_from(size).map_err(io::Error::other)?;
                out.write_all(&size.to_le_bytes())?;
            }
            for token in chunks.tokens() {
                out.write_all(&token.to_le_bytes())?;
            }
            Ok(out)
        };
        let out = begin().map_err(|source| EvaluateError::Io { path: path.clone(), source })?;
        Ok(LogProbsWriter { path, out, vocabulary, row: Vec::new() })
    }

    /// Appends rows of the vocabulary's log probabilities.
    pub(super) fn write(&mut self, log_probs: &[f32]) -> Result<(), EvaluateError> {
        for row in log_probs.chunks_exact(self.vocabulary) {
            self.row.clear();
            encode(row, &mut self.row);
            self.row.resize(row_bytes(self.vocabulary), 0);
            self.out.write_all(&self.row).map_err(|source| self.fail(source))?;
        }
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> Result<(), EvaluateError> {
        let path = self.path;
        let done = self.out.into_inner().map_err(io::IntoInnerError::into_error);
        done.and_then(AtomicFile::commit).map_err(|source| EvaluateError::Io { path, source })
    }

    fn fail(&self, source: io::Error) -> EvaluateError {
        EvaluateError::Io { path: self.path.clone(), source }
    }
}

/// Scale, least value and codes of a row.
fn encode(row: &[f32], out: &mut Vec<u8>) {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let least = row.iter().copied().fold(f32::INFINITY, f32::min).max(largest - SPAN);
    let scale = (largest - least) / f32::from(u16::MAX);
    out.extend(scale.to_le_bytes());
    out.extend(least.to_le_bytes());
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    // Casts saturate.
    out.extend(row.iter().flat_map(|x| ((inverse * (x - least)).round_ties_even() as u16).to_le_bytes()));
}

/// Reads log probabilities from a file.
pub struct LogProbsReader {
    path: PathBuf,
    input: BufReader<File>,
    chunks: Chunks,
    vocabulary: usize,
    row: Vec<u8>,
}

impl LogProbsReader {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read, or does not hold what its sizes say.
    pub fn open(path: impl AsRef<Path>) -> Result<LogProbsReader, EvaluateError> {
        let path = path.as_ref().to_owned();
        let io = |source| EvaluateError::Io { path: path.clone(), source };
        let malformed = |message: &str| EvaluateError::Format { path: path.clone(), message: message.into() };
        let file = File::open(&path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let mut input = BufReader::new(file);
        let mut head = [0; 20];
        let is_head = input.read_exact(&mut head).is_ok() && head.starts_with(MAGIC);
        if !is_head {
            return Err(malformed("is no file of log probabilities, as --kl-divergence-base writes it"));
        }
        let size =
            |at: usize| u64::from(u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        let (context, vocabulary, count) = (size(8), size(12), size(16));
        let rows = context.saturating_sub(1 + context / 2);
        let row = 8 + 4 * vocabulary.div_ceil(2);
        // Before anything of these sizes is allocated.
        let expected = rows
            .checked_mul(row)
            .and_then(|bytes| bytes.checked_add(4 * context))
            .and_then(|bytes| bytes.checked_mul(count))
            .and_then(|bytes| bytes.checked_add(20));
        if expected != Some(length) {
            return Err(malformed(&format!(
                "has {length} bytes, not what {count} chunks of {context} tokens over a vocabulary of {vocabulary} take"
            )));
        }
        let mut tokens = vec![0; (4 * context * count) as usize];
        input.read_exact(&mut tokens).map_err(io)?;
        let tokens = tokens.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let chunks = Chunks::new(tokens, context as usize, None)?;
        Ok(LogProbsReader { path, input, chunks, vocabulary: vocabulary as usize, row: Vec::new() })
    }

    /// The tokens that the log probabilities are of.
    pub fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    /// The size of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The log probabilities of the next scored tokens, `[rows, vocabulary]`.
    pub(super) fn read(&mut self, rows: usize) -> Result<Vec<f32>, EvaluateError> {
        let mut log_probs = Vec::with_capacity(rows * self.vocabulary);
        self.row.resize(row_bytes(self.vocabulary), 0);
        for _ in 0..rows {
            let read = self.input.read_exact(&mut self.row);
            read.map_err(|source| EvaluateError::Io { path: self.path.clone(), source })?;
            let float = |at: usize| {
                f32::from_le_bytes([self.row[at], self.row[at + 1], self.row[at + 2], self.row[at + 3]])
            };
            let (scale, least) = (float(0), float(4));
            if !scale.is_finite() || !least.is_finite() {
                let message = format!("a scale of {scale} from {least} is no range of log probabilities");
                return Err(EvaluateError::Format { path: self.path.clone(), message });
            }
            let codes = self.row[8..].chunks_exact(2).take(self.vocabulary);
            log_probs.extend(codes.map(|b| scale * f32::from(u16::from_le_bytes([b[0], b[1]])) + least));
        }
        Ok(log_probs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_span_what_counts() {
        let mut bytes = Vec::new();
        encode(&[-1.0, -5.0, -40.0], &mut bytes);
        let float = |at: usize| f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let code = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
        assert_eq!((float(4), code(8), code(12)), (-17.0, u16::MAX, 0));
        assert!((float(0) * f32::from(code(10)) + float(4) + 5.0).abs() < 2e-4);
        bytes.clear();
        encode(&[-2.0, -2.0], &mut bytes);
        assert_eq!(bytes[..4], [0; 4]);
        assert_eq!(bytes[8..], [0; 4]);
    }
}
