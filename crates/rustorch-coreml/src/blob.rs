//! `weight.bin`: a header, and for each value 64 bytes of metadata and its data, each at a multiple of 64.

use crate::float::{self, FloatDtype};
use crate::{Error, Result};
use rustorch_core::DType;
use std::io::{self, Write};
use std::path::Path;

const ALIGN: u64 = 64;
const SENTINEL: u32 = 0xDEAD_BEEF;
/// How many values are converted at once: a multiple of the length of every block type.
const CHUNK: usize = 1 << 14;

/// The bytes of a graph's constants, by their index: the same bytes whenever they are asked for.
pub type Constants<'a> = dyn Fn(usize) -> io::Result<Vec<u8>> + 'a;

/// Which values stand in the file, and where. Their bytes are had when it is written, one value at a time.
#[derive(Debug, Default)]
pub(crate) struct Blob {
    entries: Vec<Entry>,
    end: u64,
}

#[derive(Debug)]
struct Entry {
    data: BlobData,
    dtype: FloatDtype,
    bytes: u64,
    /// Where its metadata is.
    offset: u64,
}

/// Where a value comes from.
#[derive(Debug)]
pub(crate) enum BlobData {
    /// Elements of a constant of the graph, which has this dtype there, from one on.
    Constant { index: usize, from: DType, start: usize, count: usize },
    /// These bytes.
    Bytes(Vec<u8>),
}

impl Blob {
    /// Adds a value, and returns the offset by which a program names it.
    pub(crate) fn push(&mut self, data: BlobData, dtype: FloatDtype) -> u64 {
        let bytes = match &data {
            BlobData::Constant { count, .. } => (count * dtype.bytes()) as u64,
            BlobData::Bytes(bytes) => bytes.len() as u64,
        };
        let offset = aligned(self.end.max(ALIGN));
        self.end = offset + ALIGN + bytes;
        self.entries.push(Entry { data, dtype, bytes, offset });
        offset
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the file.
    pub(crate) fn write(&self, constants: &Constants<'_>, path: &Path, out: &mut dyn Write) -> Result<()> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let mut header = [0; ALIGN as usize];
        header[..4].copy_from_slice(&(self.entries.len() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&2u32.to_le_bytes());
        out.write_all(&header).map_err(io)?;
        let mut at = ALIGN;
        for entry in &self.entries {
            let padding = (entry.offset - at) as usize;
            out.write_all(&[0; ALIGN as usize][..padding]).map_err(io)?;
            let mut metadata = [0; ALIGN as usize];
            metadata[..4].copy_from_slice(&SENTINEL.to_le_bytes());
            metadata[4..8].copy_from_slice(&entry.dtype.blob().to_le_bytes());
            metadata[8..16].copy_from_slice(&entry.bytes.to_le_bytes());
            metadata[16..24].copy_from_slice(&(entry.offset + ALIGN).to_le_bytes());
            out.write_all(&metadata).map_err(io)?;
            match &entry.data {
                BlobData::Bytes(bytes) => out.write_all(bytes).map_err(io)?,
                &BlobData::Constant { index, from, start, count } => {
                    let bytes = constants(index).map_err(|source| Error::Constant { index, source })?;
                    let end = rustorch_core::packed_bytes(from, start + count);
                    let begin = rustorch_core::packed_bytes(from, start);
                    let Some(part) = bytes.get(begin..end) else {
                        return Err(wrong_size(index, bytes.len(), end as u64));
                    };
                    for chunk in part.chunks(rustorch_core::packed_bytes(from, CHUNK)) {
                        let values = float::decode(from, chunk)
                            .map_err(|reason| Error::Constant { index, source: io::Error::other(reason) })?;
                        out.write_all(&entry.dtype.encode(&values)).map_err(io)?;
                    }
                }
            }
            at = entry.offset + ALIGN + entry.bytes;
        }
        Ok(())
    }
}

/// The bytes of a constant, which have to be as many as its dtype and shape say.
pub(crate) fn constant(constants: &Constants<'_>, index: usize, bytes: u64) -> Result<Vec<u8>> {
    let had = constants(index).map_err(|source| Error::Constant { index, source })?;
    if had.len() as u64 == bytes { Ok(had) } else { Err(wrong_size(index, had.len(), bytes)) }
}

fn wrong_size(index: usize, had: usize, needed: u64) -> Error {
    let message = format!("has {had} bytes, the graph reads {needed}");
    Error::Constant { index, source: io::Error::new(io::ErrorKind::InvalidData, message) }
}

fn aligned(n: u64) -> u64 {
    n.div_ceil(ALIGN) * ALIGN
}
