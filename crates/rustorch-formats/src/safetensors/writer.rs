//! Writing files.

use super::header::{encode, size};
use super::{Error, ErrorKind, File, INDEX_SUFFIX, MAX_DIMS, METADATA_KEY, Result, dtype, index};
use crate::atomic::AtomicFile;
use rustorch_core::DType;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes safetensors files.
///
/// Tensors are written in the Python library's order, by dtype and name, so that the same tensors and metadata give the same
/// bytes as there (of metadata with several entries its order changes from file to file; here it is sorted).
#[derive(Debug, Default)]
pub struct Writer<'a> {
    metadata: BTreeMap<String, String>,
    tensors: Vec<Tensor<'a>>,
    names: HashSet<String>,
    /// Memory that was borrowed, by its address: its end, and the tensor.
    borrowed: BTreeMap<usize, (usize, usize)>,
}

struct Tensor<'a> {
    name: String,
    shape: Vec<usize>,
    dtype: DType,
    bytes: usize,
    data: Data<'a>,
}

enum Data<'a> {
    Bytes(Cow<'a, [u8]>),
    Produced(Box<Producer<'a>>),
}

type Producer<'a> = dyn Fn() -> io::Result<Vec<u8>> + 'a;

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

    /// A writer of all that `file` has; of a sharded set, in one.
    pub fn copy_of(file: &'a File) -> Self {
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
        Self { metadata: file.metadata().clone(), tensors, names, borrowed: BTreeMap::new() }
    }

    /// Adds a metadata entry.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateKey`] where there is one with this key.
    pub fn metadata(&mut self, key: &str, value: &str) -> Result<()> {
        if self.metadata.contains_key(key) {
            return Err(ErrorKind::DuplicateKey { key: key.to_owned() }.into());
        }
        self.metadata.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// Records in the metadata other names of tensors, as [`deduplicate`](super::deduplicate) finds them. Entries that are there
    /// are left as they are.
    pub fn aliases<'n>(&mut self, aliases: impl IntoIterator<Item = (&'n str, &'n str)>) {
        for (name, kept) in aliases {
            self.metadata.entry(name.to_owned()).or_insert_with(|| kept.to_owned());
        }
    }

    /// Adds a tensor; `data` are its scalars, little-endian and row by row.
    ///
    /// # Errors
    /// Where the name is taken or reserved, safetensors has no such dtype, `data` is not as long as shape and dtype say
    /// ([`ErrorKind::DataLength`]), or it is borrowed and overlaps with that of another tensor ([`ErrorKind::SharedMemory`]).
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
        if let Cow::Borrowed(data) = data
            && !data.is_empty()
        {
            let start = data.as_ptr().addr();
            let end = start + data.len();
            // The one that begins last before the end of this one, for those before it do not overlap with each other.
            if let Some((_, &(other_end, other))) = self.borrowed.range(..end).next_back()
                && other_end > start
            {
                let first = self.tensors[other].name.clone();
                return Err(ErrorKind::SharedMemory { first, second: name.to_owned() }.into());
            }
            self.borrowed.insert(start, (end, self.tensors.len()));
        }
        self.push(name, shape, dtype, bytes, Data::Bytes(data));
        Ok(())
    }

    /// Adds a tensor whose data `produce` gives when the file is written, so that it need not be held until then.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), but that the length of the data is checked when it is written.
    pub fn tensor_with(
        &mut self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        produce: impl Fn() -> io::Result<Vec<u8>> + 'a,
    ) -> Result<()> {
        let bytes = self.check(name, shape, dtype)?;
        self.push(name, shape, dtype, bytes, Data::Produced(Box::new(produce)));
        Ok(())
    }

    /// The bytes that a tensor takes.
    fn check(&self, name: &str, shape: &[usize], dtype: DType) -> Result<usize> {
        let tensor = || name.to_owned();
        if name == METADATA_KEY {
            return Err(ErrorKind::ReservedName.into());
        }
        if self.names.contains(name) {
            return Err(ErrorKind::DuplicateTensor { name: tensor() }.into());
        }
        if shape.len() > MAX_DIMS {
            return Err(ErrorKind::TooManyDims { tensor: tensor(), dims: shape.len() }.into());
        }
        if dtype::to_file(dtype).is_none() {
            return Err(ErrorKind::UnsupportedDType { tensor: tensor(), dtype }.into());
        }
        size(shape, dtype)
            .ok_or_else(|| ErrorKind::TensorTooLarge { tensor: tensor(), shape: shape.to_vec() }.into())
    }

    fn push(&mut self, name: &str, shape: &[usize], dtype: DType, bytes: usize, data: Data<'a>) {
        self.names.insert(name.to_owned());
        self.tensors.push(Tensor { name: name.to_owned(), shape: shape.to_vec(), dtype, bytes, data });
    }

    /// The file as bytes.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file).
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        write(&mut out, &self.metadata, self.tensors.iter().collect())?;
        Ok(out)
    }

    /// Writes the file, which replaces that at `path` when it is complete on the disk.
    ///
    /// # Errors
    /// If the disk refuses, data that a function gives has not the length that its tensor takes, or the header is longer than
    /// [`MAX_HEADER_LEN`](super::MAX_HEADER_LEN).
    pub fn write_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.file(path, self.tensors.iter().collect())?.commit().map_err(|e| Error::at(Some(path), e.into()))
    }

    /// Writes a sharded set `PREFIX-00001-of-0000N.safetensors` with its index `PREFIX.safetensors.index.json`, in the order in
    /// which tensors were added, each file with tensors of at most `max_bytes` unless a single one is larger. Gives the path to
    /// open: that of the index, or of the only file `PREFIX.safetensors` where one is enough. An extension `.safetensors` of
    /// `prefix` is taken off.
    ///
    /// The files get their names when all of them are on the disk.
    ///
    /// # Errors
    /// As [`write_file`](Self::write_file).
    pub fn write_sharded(&self, prefix: impl AsRef<Path>, max_bytes: u64) -> Result<PathBuf> {
        let prefix = prefix.as_ref();
        let Some(name) = prefix.file_name().and_then(|name| name.to_str()) else {
            let error =
                io::Error::new(io::ErrorKind::InvalidInput, "the path does not end in a file name of UTF-8");
            return Err(Error::at(Some(prefix), error.into()));
        };
        let name = name.strip_suffix(".safetensors").unwrap_or(name);
        let groups = self.groups(max_bytes);
        let whole = prefix.with_file_name(format!("{name}.safetensors"));
        if groups.len() <= 1 {
            self.write_file(&whole)?;
            return Ok(whole);
        }
        let (mut files, mut listed) = (Vec::new(), Vec::new());
        for (no, tensors) in groups.iter().enumerate() {
            let file_name = index::shard_file_name(name, no, groups.len());
            let path = prefix.with_file_name(&file_name);
            files.push((self.file(&path, tensors.clone())?, path));
            listed.push((file_name, tensors.iter().map(|tensor| &*tensor.name).collect()));
        }
        let path = prefix.with_file_name(format!("{name}.safetensors{INDEX_SUFFIX}"));
        let total = self.tensors.iter().fold(0u64, |sum, tensor| sum.saturating_add(tensor.bytes as u64));
        let mut file = AtomicFile::create(&path).map_err(|e| Error::at(Some(&path), e.into()))?;
        let text = index::encode(&listed, total);
        file.write_all(text.as_bytes()).map_err(|e| Error::at(Some(&path), e.into()))?;
        files.push((file, path.clone()));
        for (file, path) in files {
            file.commit().map_err(|e| Error::at(Some(&path), e.into()))?;
        }
        Ok(path)
    }

    /// A file of `tensors`, to be committed.
    fn file(&self, path: &Path, tensors: Vec<&Tensor<'a>>) -> Result<AtomicFile> {
        let at = |kind| Error::at(Some(path), kind);
        let mut file = AtomicFile::create(path).map_err(|e| at(e.into()))?;
        write(&mut BufWriter::new(&mut file), &self.metadata, tensors).map_err(at)?;
        Ok(file)
    }

    /// The tensors in runs of at most `max_bytes`, or of a single tensor.
    fn groups(&self, max_bytes: u64) -> Vec<Vec<&Tensor<'a>>> {
        let mut groups: Vec<Vec<&Tensor<'a>>> = Vec::new();
        let mut sum = 0u64;
        for tensor in &self.tensors {
            sum = sum.saturating_add(tensor.bytes as u64);
            match groups.last_mut() {
                Some(group) if sum <= max_bytes => group.push(tensor),
                _ => {
                    groups.push(vec![tensor]);
                    sum = tensor.bytes as u64;
                }
            }
        }
        groups
    }
}

fn write(
    out: &mut dyn Write,
    metadata: &BTreeMap<String, String>,
    mut tensors: Vec<&Tensor<'_>>,
) -> Result<(), ErrorKind> {
    // The strictest alignment first, so that every tensor is aligned.
    tensors.sort_by(|a, b| {
        dtype::to_file(b.dtype).cmp(&dtype::to_file(a.dtype)).then_with(|| a.name.cmp(&b.name))
    });
    let entries = tensors.iter().map(|tensor| (&*tensor.name, &*tensor.shape, tensor.dtype, tensor.bytes));
    out.write_all(&encode(metadata, entries)?)?;
    for tensor in tensors {
        match &tensor.data {
            Data::Bytes(bytes) => out.write_all(bytes)?,
            Data::Produced(produce) => {
                let bytes = produce()?;
                if bytes.len() != tensor.bytes {
                    let (expected, actual) = (tensor.bytes as u64, bytes.len() as u64);
                    return Err(ErrorKind::DataLength { tensor: tensor.name.clone(), expected, actual });
                }
                out.write_all(&bytes)?;
            }
        }
    }
    Ok(out.flush()?)
}
