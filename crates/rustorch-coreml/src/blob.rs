//! `weight.bin`: a header, and for each value 64 bytes of metadata and its data, each at a multiple of 64.

use crate::blocks::{BlockForm, Part, Parts};
use crate::float::{self, FloatDtype};
use crate::{Error, Result};
use rustorch_core::DType;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

const ALIGN: u64 = 64;
const SENTINEL: u32 = 0xDEAD_BEEF;
/// How many values are converted at once: a multiple of the length of every block type.
const CHUNK: usize = 1 << 16;

/// The bytes of elements of a graph's constants, in native byte order: those in a range of the constant with an index, in the order of its
/// memory. Ranges begin and end between blocks. The bytes are the same whenever they are asked for.
pub type Constants<'a> = dyn Fn(usize, Range<usize>) -> io::Result<Vec<u8>> + 'a;

/// Which values stand in the file, and where. Their bytes are had when it is written, a chunk at a time.
#[derive(Debug, Default)]
pub(crate) struct Blob {
    entries: Vec<Entry>,
    end: u64,
    scales: Vec<Vec<f32>>,
}

/// Which values weights are multiplied by: a number in the blob's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scales(usize);

#[derive(Debug)]
struct Entry {
    data: BlobData,
    bytes: u64,
    /// Where its metadata is.
    offset: u64,
}

/// Where a value comes from.
#[derive(Debug)]
pub(crate) enum BlobData {
    /// Elements of a constant of the graph.
    Constant(Elements, Form),
    /// These bytes.
    Bytes(Vec<u8>, FloatDtype),
}

/// Elements of a constant of the graph, which has this dtype there, from one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Elements {
    pub(crate) index: usize,
    pub(crate) from: DType,
    pub(crate) start: usize,
    pub(crate) count: usize,
}

/// What elements are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Floats(FloatDtype),
    /// Equal slices, each multiplied by its value.
    Scaled(FloatDtype, Scales),
    Blocks(BlockForm, Part),
}

impl Form {
    fn bytes(self, count: usize) -> usize {
        match self {
            Form::Floats(dtype) | Form::Scaled(dtype, _) => count * dtype.bytes(),
            Form::Blocks(form, part) => form.bytes(part, count),
        }
    }

    /// The number of its dtype.
    fn blob(self) -> u32 {
        match self {
            Form::Floats(dtype) | Form::Scaled(dtype, _) => dtype.blob(),
            Form::Blocks(form, Part::Codes) => form.codes.blob(),
            Form::Blocks(form, Part::Scales | Part::Offsets) => form.float.blob(),
        }
    }
}

impl BlobData {
    fn bytes(&self) -> usize {
        match self {
            BlobData::Constant(elements, form) => form.bytes(elements.count),
            BlobData::Bytes(bytes, _) => bytes.len(),
        }
    }

    /// The number of its dtype.
    fn blob(&self) -> u32 {
        match self {
            BlobData::Constant(_, form) => form.blob(),
            BlobData::Bytes(_, dtype) => dtype.blob(),
        }
    }
}

impl Blob {
    /// Adds a value, and returns the offset by which a program names it.
    pub(crate) fn push(&mut self, data: BlobData) -> u64 {
        let bytes = data.bytes() as u64;
        let offset = aligned(self.end.max(ALIGN));
        self.end = offset + ALIGN + bytes;
        self.entries.push(Entry { data, bytes, offset });
        offset
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Values to multiply weights by.
    pub(crate) fn scales(&mut self, values: Vec<f32>) -> Scales {
        let equal = |have: &Vec<f32>| have.iter().map(|x| x.to_bits()).eq(values.iter().map(|x| x.to_bits()));
        let place = self.scales.iter().position(equal).unwrap_or_else(|| {
            self.scales.push(values);
            self.scales.len() - 1
        });
        Scales(place)
    }

    /// Floats of a constant from an element on, as they are written.
    fn floats(
        &self,
        dtype: FloatDtype,
        scales: Option<Scales>,
        elements: &Elements,
        first: usize,
        bytes: &[u8],
    ) -> Result<Vec<u8>, String> {
        let mut values = float::decode(elements.from, bytes)?;
        if let Some(Scales(place)) = scales {
            let each = elements.count / self.scales[place].len();
            for (i, value) in values.iter_mut().enumerate() {
                *value *= self.scales[place][(first - elements.start + i) / each];
            }
        }
        Ok(dtype.encode(&values))
    }

    /// How large the file is.
    pub(crate) fn bytes(&self) -> u64 {
        self.end
    }

    /// Writes elements of a constant, a chunk at a time. Of blocks, the scales and offsets are computed with the codes, and kept until they are written.
    fn write_elements(
        &self,
        elements: &Elements,
        form: Form,
        constants: &Constants<'_>,
        beside: &mut Option<(Elements, BlockForm, Parts)>,
        write: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let failed = |reason| Error::Constant { index: elements.index, source: io::Error::other(reason) };
        if let (Form::Blocks(form, part @ (Part::Scales | Part::Offsets)), Some((of, as_form, parts))) =
            (form, &*beside)
            && (of, as_form) == (elements, &form)
        {
            return write(parts.get(part));
        }
        let end = elements.start + elements.count;
        // Not two at a time.
        *beside = None;
        let mut parts = match form {
            Form::Blocks(form, _) => Parts::of(&form, elements.count),
            Form::Floats(_) | Form::Scaled(..) => Parts::default(),
        };
        for start in (elements.start..end).step_by(CHUNK) {
            let range = start..end.min(start + CHUNK);
            let bytes = constant(constants, elements.index, elements.from, range)?;
            match form {
                Form::Floats(dtype) => {
                    write(&self.floats(dtype, None, elements, start, &bytes).map_err(failed)?)?;
                }
                Form::Scaled(dtype, scales) => {
                    write(&self.floats(dtype, Some(scales), elements, start, &bytes).map_err(failed)?)?;
                }
                Form::Blocks(form, part) => {
                    form.encode(&bytes, &mut parts).map_err(failed)?;
                    if part == Part::Codes {
                        write(&parts.codes)?;
                    }
                    parts.codes.clear();
                }
            }
        }
        if let Form::Blocks(form, part) = form {
            if part != Part::Codes {
                write(parts.get(part))?;
            }
            *beside = Some((*elements, form, parts));
        }
        Ok(())
    }

    /// Writes the file.
    pub(crate) fn write(&self, constants: &Constants<'_>, path: &Path, out: &mut dyn Write) -> Result<()> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let mut header = [0; ALIGN as usize];
        header[..4].copy_from_slice(&(self.entries.len() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&2u32.to_le_bytes());
        out.write_all(&header).map_err(io)?;
        let mut at = ALIGN;
        // Codes, scales and offsets of a weight follow each other.
        let mut beside = None;
        for entry in &self.entries {
            let padding = (entry.offset - at) as usize;
            out.write_all(&[0; ALIGN as usize][..padding]).map_err(io)?;
            let mut metadata = [0; ALIGN as usize];
            metadata[..4].copy_from_slice(&SENTINEL.to_le_bytes());
            metadata[4..8].copy_from_slice(&entry.data.blob().to_le_bytes());
            metadata[8..16].copy_from_slice(&entry.bytes.to_le_bytes());
            metadata[16..24].copy_from_slice(&(entry.offset + ALIGN).to_le_bytes());
            out.write_all(&metadata).map_err(io)?;
            match &entry.data {
                BlobData::Bytes(bytes, _) => out.write_all(bytes).map_err(io)?,
                BlobData::Constant(elements, form) => {
                    self.write_elements(elements, *form, constants, &mut beside, &mut |bytes| {
                        out.write_all(bytes).map_err(io)
                    })?;
                }
            }
            at = entry.offset + ALIGN + entry.bytes;
        }
        Ok(())
    }
}

/// The bytes of elements of a constant, which have to be as many as its dtype says.
pub(crate) fn constant(
    constants: &Constants<'_>,
    index: usize,
    dtype: DType,
    range: Range<usize>,
) -> Result<Vec<u8>> {
    let needed = rustorch_core::packed_bytes(dtype, range.len());
    let shown = format!("elements {} to {}", range.start, range.end);
    let had = constants(index, range).map_err(|source| Error::Constant { index, source })?;
    if had.len() == needed {
        return Ok(had);
    }
    let message = format!("{shown} have {} bytes, the graph reads {needed}", had.len());
    Err(Error::Constant { index, source: io::Error::new(io::ErrorKind::InvalidData, message) })
}

fn aligned(n: u64) -> u64 {
    n.div_ceil(ALIGN) * ALIGN
}
