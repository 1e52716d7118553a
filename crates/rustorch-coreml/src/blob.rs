//! `weight.bin`: a header, and for each value 64 bytes of metadata and its data, each at a multiple of 64.

use crate::{Error, Result};
use std::io::{self, Write};
use std::path::Path;

const ALIGN: u64 = 64;
const SENTINEL: u32 = 0xDEAD_BEEF;
/// The only dtype written so far.
const FLOAT32: u32 = 2;

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
    bytes: u64,
    /// Where its metadata is.
    offset: u64,
}

/// Where the bytes of a value come from: little-endian `f32`.
#[derive(Debug)]
pub(crate) enum BlobData {
    /// Those of a constant of the graph, from a byte on.
    Constant { index: usize, start: u64 },
    /// These.
    Bytes(Vec<u8>),
}

impl Blob {
    /// Adds a value, and returns the offset by which a program names it.
    pub(crate) fn push(&mut self, data: BlobData, bytes: u64) -> u64 {
        let offset = aligned(self.end.max(ALIGN));
        self.end = offset + ALIGN + bytes;
        self.entries.push(Entry { data, bytes, offset });
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
            metadata[4..8].copy_from_slice(&FLOAT32.to_le_bytes());
            metadata[8..16].copy_from_slice(&entry.bytes.to_le_bytes());
            metadata[16..24].copy_from_slice(&(entry.offset + ALIGN).to_le_bytes());
            out.write_all(&metadata).map_err(io)?;
            match &entry.data {
                BlobData::Bytes(bytes) => out.write_all(bytes).map_err(io)?,
                &BlobData::Constant { index, start } => {
                    let bytes = constants(index).map_err(|source| Error::Constant { index, source })?;
                    let end = start + entry.bytes;
                    let Some(part) = bytes.get(start as usize..end as usize) else {
                        return Err(wrong_size(index, bytes.len(), end));
                    };
                    out.write_all(part).map_err(io)?;
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
