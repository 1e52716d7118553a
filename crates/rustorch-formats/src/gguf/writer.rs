//! Writing files.

use super::encode::{self, Entry};
use super::parse::{self, ALIGNMENT_KEY};
use super::split;
use super::{
    Error, ErrorKind, File, MAX_KEY_LEN, MAX_METADATA, MAX_TENSORS, Metadata, Result, Value, part_file_name,
};
use crate::atomic::AtomicFile;
use rustorch_core::DType;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes GGUF files: version 3, little-endian.
///
/// Metadata and tensors are written in the order in which they were added.
#[derive(Debug, Default)]
pub struct Writer<'a> {
    metadata: Metadata,
    tensors: Vec<Tensor<'a>>,
    names: HashSet<String>,
}

struct Tensor<'a> {
    name: String,
    /// Outermost dimension first.
    shape: Vec<usize>,
    dtype: DType,
    bytes: usize,
    data: Data<'a>,
}

enum Data<'a> {
    Bytes(Cow<'a, [u8]>),
    Produced(Box<Producer<'a>>),
}

type Producer<'a> = dyn Fn(&mut dyn Write) -> io::Result<()> + 'a;

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.name, self.shape, self.dtype)
    }
}

impl<'a> Writer<'a> {
    /// A writer of a file that has nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A writer of all that `file` has; of a split file, in one.
    pub fn copy_of(file: &'a File) -> Self {
        let mut metadata = file.metadata().clone();
        if file.parts().len() > 1 {
            for key in [split::NO_KEY, split::COUNT_KEY, split::TENSORS_KEY] {
                metadata.remove(key);
            }
        }
        let tensors: Vec<_> = file
            .tensors()
            .map(|tensor| Tensor {
                name: tensor.name().to_owned(),
                shape: tensor.shape().to_vec(),
                dtype: tensor.dtype(),
                bytes: tensor.nbytes(),
                data: Data::Bytes(Cow::Borrowed(tensor.bytes())),
            })
            .collect();
        let names = tensors.iter().map(|tensor| tensor.name.clone()).collect();
        Self { metadata, tensors, names }
    }

    /// Adds a metadata entry.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateKey`], [`ErrorKind::KeyTooLong`].
    pub fn metadata(&mut self, key: &str, value: impl Into<Value>) -> Result<()> {
        self.metadata.insert(key, value)
    }

    /// The metadata, to change or remove entries.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// Aligns tensor data to `bytes`, a power of two, by the entry `general.alignment`; 32 otherwise.
    ///
    /// # Errors
    /// [`ErrorKind::BadAlignment`] where it is no power of two.
    pub fn alignment(&mut self, bytes: u32) -> Result<()> {
        if !bytes.is_power_of_two() {
            return Err(ErrorKind::BadAlignment { alignment: bytes.into() }.into());
        }
        self.metadata.set(ALIGNMENT_KEY, bytes)
    }

    /// Adds a tensor: `shape` outermost dimension first, `data` row by row as little-endian scalars or blocks.
    ///
    /// llama.cpp reads names of at most 63 bytes.
    ///
    /// # Errors
    /// Where the name is taken or too long, the shape is not one that files can have, GGUF has no such dtype, rows do
    /// not fill whole blocks, or `data` is not as long as shape and dtype say ([`ErrorKind::DataLength`]).
    pub fn tensor(
        &mut self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        data: impl Into<Cow<'a, [u8]>>,
    ) -> Result<()> {
        let data = data.into();
        let bytes = self.check(name, shape, dtype)?;
        if data.len() != bytes {
            let (expected, actual) = (bytes as u64, data.len() as u64);
            return Err(ErrorKind::DataLength { tensor: name.to_owned(), expected, actual }.into());
        }
        self.push(name, shape, dtype, bytes, Data::Bytes(data));
        Ok(())
    }

    /// Adds a tensor whose data `produce` writes when the file is written, so that it need not be held until then.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), but that the length of the data is checked when it is written.
    pub fn tensor_with(
        &mut self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        produce: impl Fn(&mut dyn Write) -> io::Result<()> + 'a,
    ) -> Result<()> {
        let bytes = self.check(name, shape, dtype)?;
        self.push(name, shape, dtype, bytes, Data::Produced(Box::new(produce)));
        Ok(())
    }

    fn push(&mut self, name: &str, shape: &[usize], dtype: DType, bytes: usize, data: Data<'a>) {
        self.names.insert(name.to_owned());
        self.tensors.push(Tensor { name: name.to_owned(), shape: shape.to_vec(), dtype, bytes, data });
    }

    /// Checks that a tensor can be added and gives its size in bytes.
    fn check(&self, name: &str, shape: &[usize], dtype: DType) -> Result<usize> {
        if self.names.contains(name) {
            return Err(ErrorKind::DuplicateTensor { name: name.to_owned() }.into());
        }
        if name.len() > MAX_KEY_LEN {
            return Err(ErrorKind::NameTooLong { index: self.tensors.len(), len: name.len() as u64 }.into());
        }
        if dtype.ggml_id().is_none() {
            return Err(ErrorKind::UnsupportedDType { tensor: name.to_owned(), dtype }.into());
        }
        let shape: Vec<u64> = shape.iter().map(|&dim| dim as u64).collect();
        Ok(parse::size(name, &shape, dtype)?.1)
    }

    /// Writes the file to `out`.
    ///
    /// # Errors
    /// Where writing fails, a producer does not give as many bytes as its tensor needs, or the metadata could not be
    /// read back (arrays nested too deep, too many entries, a bad `general.alignment`).
    pub fn write_to(&self, mut out: impl Write) -> Result<()> {
        Ok(write(&mut out, &self.metadata, &self.tensors)?)
    }

    /// The file as bytes.
    ///
    /// # Errors
    /// As [`write_to`](Self::write_to).
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.write_to(&mut out)?;
        Ok(out)
    }

    /// Writes the file to `path`, which it replaces only once everything is on the disk.
    ///
    /// Whoever has the old file mapped keeps it. A symbolic link is replaced, not followed.
    ///
    /// # Errors
    /// As [`write_to`](Self::write_to), with the path; the old file is then left as it was.
    pub fn write_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let at = |kind| Error::at(Some(path), kind);
        let mut file = AtomicFile::create(path).map_err(|e| at(e.into()))?;
        write(&mut BufWriter::new(&mut file), &self.metadata, &self.tensors).map_err(at)?;
        file.commit().map_err(|e| at(e.into()))
    }

    /// Writes the file in parts `PREFIX-00001-of-0000N.gguf`, each with tensors of at most `max_bytes` unless a single
    /// one is larger, and gives their paths. An extension `.gguf` of `prefix` is taken off.
    ///
    /// The parts get their names when all of them are on the disk.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file), and [`ErrorKind::TooManyParts`].
    pub fn write_split(&self, prefix: impl AsRef<Path>, max_bytes: u64) -> Result<Vec<PathBuf>> {
        self.write_groups(prefix, &self.groups(max_bytes))
    }

    /// As [`write_split`](Self::write_split), with so many tensors in each part, in the order in which they were added; those left over make another part.
    ///
    /// # Errors
    /// As [`write_split`](Self::write_split).
    pub fn write_groups(&self, prefix: impl AsRef<Path>, lengths: &[usize]) -> Result<Vec<PathBuf>> {
        let prefix = prefix.as_ref();
        let Some(name) = prefix.file_name().and_then(|name| name.to_str()) else {
            let error =
                io::Error::new(io::ErrorKind::InvalidInput, "the path does not end in a file name of UTF-8");
            return Err(Error::at(Some(prefix), error.into()));
        };
        let name = name.strip_suffix(".gguf").unwrap_or(name);
        let mut rest = self.tensors.as_slice();
        let mut groups = Vec::new();
        for &length in lengths {
            let group;
            (group, rest) = rest.split_at(length.min(rest.len()));
            groups.push(group);
        }
        if !rest.is_empty() || groups.is_empty() {
            groups.push(rest);
        }
        let count = u16::try_from(groups.len())
            .map_err(|_| Error::at(Some(prefix), ErrorKind::TooManyParts { parts: groups.len() }))?;

        let (mut files, mut paths) = (Vec::new(), Vec::new());
        for (no, tensors) in (0..count).zip(groups) {
            let path = prefix.with_file_name(part_file_name(name, no.into(), count.into()));
            let at = |kind| Error::at(Some(&path), kind);
            let mut metadata = Metadata::new();
            if no == 0 {
                metadata = self.metadata.clone();
            } else if let Some(alignment) = self.metadata.value(ALIGNMENT_KEY) {
                metadata.set(ALIGNMENT_KEY, alignment.clone())?;
            }
            metadata.set(split::NO_KEY, no)?;
            metadata.set(split::COUNT_KEY, count)?;
            // The type by which llama.cpp reads it; there are fewer than 2^18 tensors, or writing fails.
            metadata.set(split::TENSORS_KEY, self.tensors.len() as i32)?;
            let mut file = AtomicFile::create(&path).map_err(|e| at(e.into()))?;
            write(&mut BufWriter::new(&mut file), &metadata, tensors).map_err(at)?;
            files.push(file);
            paths.push(path);
        }
        for (file, path) in files.into_iter().zip(&paths) {
            file.commit().map_err(|e| Error::at(Some(path), e.into()))?;
        }
        Ok(paths)
    }

    /// The lengths of runs of tensors of at most `max_bytes`, or of a single tensor; at least one run.
    fn groups(&self, max_bytes: u64) -> Vec<usize> {
        let (mut groups, mut first, mut sum) = (Vec::new(), 0, 0u64);
        for (i, tensor) in self.tensors.iter().enumerate() {
            let bytes = tensor.bytes as u64;
            if i > first && sum.saturating_add(bytes) > max_bytes {
                groups.push(i - first);
                (first, sum) = (i, 0);
            }
            sum = sum.saturating_add(bytes);
        }
        groups.push(self.tensors.len() - first);
        groups
    }
}

fn write(out: &mut dyn Write, metadata: &Metadata, tensors: &[Tensor<'_>]) -> Result<(), ErrorKind> {
    if metadata.len() > MAX_METADATA {
        return Err(ErrorKind::TooManyKeys { count: metadata.len() as u64, max: MAX_METADATA as u64 });
    }
    if tensors.len() > MAX_TENSORS {
        return Err(ErrorKind::TooManyTensors { count: tensors.len() as u64, max: MAX_TENSORS as u64 });
    }
    let alignment = parse::alignment(metadata)?;
    let mut metadata = Cow::Borrowed(metadata);
    if metadata.value(ALIGNMENT_KEY).is_some_and(|value| !matches!(value, Value::U32(_))) {
        // Other readers insist on this type.
        metadata.to_mut().set(ALIGNMENT_KEY, alignment).map_err(Error::into_kind)?;
    }

    let mut entries = Vec::with_capacity(tensors.len());
    let mut offset = 0u64;
    for Tensor { name, shape, dtype, bytes, .. } in tensors {
        entries.push(Entry { name, shape, dtype: *dtype, offset });
        offset = offset
            .checked_add(*bytes as u64)
            .and_then(|end| end.checked_next_multiple_of(alignment.into()))
            .ok_or_else(|| ErrorKind::OffsetOverflow { tensor: name.clone(), offset })?;
    }
    let head = encode::head(&metadata, &entries)?;
    out.write_all(&head)?;
    if !tensors.is_empty() {
        pad(out, head.len(), alignment)?;
    }
    for tensor in tensors {
        match &tensor.data {
            Data::Bytes(bytes) => out.write_all(bytes)?,
            Data::Produced(produce) => produced(out, tensor, produce)?,
        }
        // Behind the last one too: llama.cpp reads it.
        pad(out, tensor.bytes, alignment)?;
    }
    Ok(out.flush()?)
}

/// Writes zeros behind `len` bytes up to a multiple of `alignment`.
fn pad(out: &mut dyn Write, len: usize, alignment: u32) -> io::Result<()> {
    let len = len as u64;
    let padding = len.next_multiple_of(alignment.into()) - len;
    io::copy(&mut io::Read::take(io::repeat(0), padding), out)?;
    Ok(())
}

/// Writes what `produce` gives, which must be as long as `tensor`.
fn produced(out: &mut dyn Write, tensor: &Tensor<'_>, produce: &Producer<'_>) -> Result<(), ErrorKind> {
    struct Counted<'o> {
        out: &'o mut dyn Write,
        count: u64,
        limit: u64,
    }

    impl Write for Counted<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.count.saturating_add(bytes.len() as u64) > self.limit {
                self.count = self.count.saturating_add(bytes.len() as u64);
                return Err(io::Error::other("more data than the tensor has"));
            }
            let n = self.out.write(bytes)?;
            self.count += n as u64;
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.out.flush()
        }
    }

    let expected = tensor.bytes as u64;
    let mut counted = Counted { out, count: 0, limit: expected };
    let result = produce(&mut counted);
    let actual = counted.count;
    if actual > expected || (actual < expected && result.is_ok()) {
        return Err(ErrorKind::DataLength { tensor: tensor.name.clone(), expected, actual });
    }
    Ok(result?)
}
