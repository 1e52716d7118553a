//! Opening files.

use super::header::{self, TensorInfo};
use super::index::{self, Index};
use super::{Error, ErrorKind, INDEX_SUFFIX, Result};
use crate::SharedBytes;
use crate::load::{Load, contents, map, read_file};
use rustorch_core::DType;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open safetensors file, or a sharded set of them.
///
/// [`open`](Self::open) reads all of it into memory. [`open_mapped`](Self::open_mapped) reads headers only, and leaves data of
/// tensors to the operating system, which reads it at its first use and shares it between processes.
pub struct File {
    parts: Vec<Part>,
    metadata: BTreeMap<String, String>,
    tensors: Vec<TensorInfo>,
    index: HashMap<Arc<str>, usize>,
    path: Option<PathBuf>,
}

/// A file that is parsed and not yet joined with others.
struct Part {
    path: Option<PathBuf>,
    bytes: SharedBytes,
}

impl File {
    /// Reads the file at `path`, or, where its name ends in `.index.json`, all files of the sharded set of which it is the index.
    ///
    /// # Errors
    /// The first of the malformations of [`ErrorKind`] that is met, with the path of the file that has it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_by(path.as_ref(), read_file)
    }

    /// Opens the file at `path` by mapping it into memory, else as [`open`](Self::open) does. Replacing a file by renaming
    /// another over it, as [`Writer::write_file`](super::Writer::write_file) does, is safe.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Safety
    /// As long as this or any bytes or tensors of it live, nobody overwrites the file (or another of the set) in place or
    /// truncates it, be it another process. The mapping shows such a change in the midst of a computation: values that Rust's
    /// rules take for constant become others, and reading a page that is gone ends the process (`SIGBUS`).
    pub unsafe fn open_mapped(path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: that nobody changes the file is this function's contract.
        Self::open_by(path.as_ref(), |file, len| unsafe { map(file, len) })
    }

    /// Reads a file that is in memory, such as one embedded by `include_bytes!`.
    ///
    /// Takes `Vec<u8>`, `Arc<[u8]>`, `&'static [u8]` or a [`SharedBytes`]; nothing is copied.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: impl Into<SharedBytes>) -> Result<Self> {
        let mut file = Self::empty(None);
        file.add(None, bytes.into())?;
        Ok(file)
    }

    fn open_by(path: &Path, load: Load) -> Result<Self> {
        let mut file = Self::empty(Some(path));
        let is_index =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(INDEX_SUFFIX));
        if !is_index {
            file.add(Some(path), read(path, load)?)?;
            return Ok(file);
        }
        let fail = |kind| Error::at(Some(path), kind);
        let Index { files } = index::parse(&read(path, read_file)?).map_err(fail)?;
        let mut missing = files.keys().filter(|name| !path.with_file_name(name).exists()).cloned().peekable();
        if missing.peek().is_some() {
            return Err(fail(ErrorKind::MissingShards { missing: missing.collect(), count: files.len() }));
        }
        for (name, tensors) in files {
            let first = file.tensors.len();
            let path = path.with_file_name(&name);
            file.add(Some(&path), read(&path, load)?)?;
            let fail = |kind| Error::at(file.path.as_deref(), kind);
            let here = |tensor: &str| file.index.get(tensor).is_some_and(|&i| i >= first);
            if let Some(tensor) = tensors.iter().find(|tensor| !here(tensor)) {
                return Err(fail(ErrorKind::NotInShard { tensor: tensor.clone(), file: name }));
            }
            if file.tensors.len() - first > tensors.len() {
                let listed: std::collections::HashSet<_> = tensors.iter().map(String::as_str).collect();
                let extra = file.tensors[first..].iter().find(|info| !listed.contains(&*info.name));
                let tensor = extra.map(|info| info.name.to_string()).unwrap_or_default();
                return Err(fail(ErrorKind::NotInIndex { tensor, file: name }));
            }
        }
        Ok(file)
    }

    fn empty(path: Option<&Path>) -> Self {
        Self {
            parts: Vec::new(),
            metadata: BTreeMap::new(),
            tensors: Vec::new(),
            index: HashMap::new(),
            path: path.map(Path::to_path_buf),
        }
    }

    /// Adds the tensors of a file.
    fn add(&mut self, path: Option<&Path>, bytes: SharedBytes) -> Result<()> {
        let header = header::parse(&bytes).map_err(|kind| Error::at(path, kind))?;
        for mut info in header.tensors {
            info.part = self.parts.len();
            if self.index.insert(Arc::clone(&info.name), self.tensors.len()).is_some() {
                return Err(Error::at(path, ErrorKind::DuplicateTensor { name: info.name.to_string() }));
            }
            self.tensors.push(info);
        }
        for (key, value) in header.metadata {
            self.metadata.entry(key).or_insert(value);
        }
        self.parts.push(Part { path: path.map(Path::to_path_buf), bytes });
        Ok(())
    }

    /// The metadata; of a sharded set, that of all files, the first one's where they differ.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The tensors in the order of their data, those of all files one after the other.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorRef<'_>> + DoubleEndedIterator + Clone {
        self.tensors.iter().map(|info| TensorRef { info, file: &self.parts[info.part].bytes })
    }

    /// The tensor called `name`.
    ///
    /// # Errors
    /// [`ErrorKind::MissingTensor`] where there is none.
    pub fn tensor(&self, name: &str) -> Result<TensorRef<'_>> {
        self.find_tensor(name).ok_or_else(|| {
            Error::at(self.path.as_deref(), ErrorKind::MissingTensor { name: name.to_owned() })
        })
    }

    /// The tensor called `name`, if there is one.
    pub fn find_tensor(&self, name: &str) -> Option<TensorRef<'_>> {
        let info = &self.tensors[*self.index.get(name)?];
        Some(TensorRef { info, file: &self.parts[info.part].bytes })
    }

    /// Other names of tensors, each with the name under which the tensor is: what `save_model` of the Python library (and
    /// [`Writer::aliases`](super::Writer::aliases)) left in the metadata for tensors that share memory.
    pub fn aliases(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.metadata.iter().map(|(name, kept)| (&**name, &**kept));
        entries.filter(|(name, kept)| self.index.contains_key(*kept) && !self.index.contains_key(*name))
    }

    /// The paths of the files that this one consists of; none for bytes in memory.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().filter_map(|part| part.path.as_deref())
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tensors: Vec<_> = self.tensors().collect();
        f.debug_struct("File").field("path", &self.path).field("tensors", &tensors).finish_non_exhaustive()
    }
}

fn read(path: &Path, load: Load) -> Result<SharedBytes> {
    let fail = |kind| Error::at(Some(path), kind);
    contents(path, load).map_err(|e| fail(e.into()))?.ok_or_else(|| fail(ErrorKind::NotAFile))
}

/// A tensor of a [`File`]: its name, shape, dtype and bytes.
#[derive(Clone, Copy)]
pub struct TensorRef<'a> {
    info: &'a TensorInfo,
    file: &'a SharedBytes,
}

impl<'a> TensorRef<'a> {
    /// The name.
    pub fn name(&self) -> &'a str {
        &self.info.name
    }

    /// The shape in row-major order, outermost dimension first.
    pub fn shape(&self) -> &'a [usize] {
        &self.info.shape
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.info.dtype
    }

    /// The number of values.
    pub fn numel(&self) -> usize {
        // Checked when the file was parsed.
        self.info.shape.iter().product()
    }

    /// The number of bytes.
    pub fn nbytes(&self) -> usize {
        self.info.range.len()
    }

    /// The data: little-endian scalars, row by row. No page of a mapping is read before its first use.
    pub fn bytes(&self) -> &'a [u8] {
        &self.file[self.info.range.clone()]
    }

    /// The data with a share in the mapping or buffer that holds it, so that it may outlive the file object.
    pub fn shared_bytes(&self) -> SharedBytes {
        self.file.slice(self.info.range.clone()).expect("ranges are checked when the file is parsed")
    }
}

impl fmt::Debug for TensorRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.name(), self.shape(), self.dtype())
    }
}
