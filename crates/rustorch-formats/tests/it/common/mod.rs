//! What several tests need: where data is, what a file holds as text, files built byte by byte.

use rustorch_core::DType;
use rustorch_formats::gguf::{Array, File, Value, Writer};
use rustorch_testkit::{Requirement, skip};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A fixture of this crate.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The models and vocabularies beside the repository, where there are any.
pub(crate) fn shared_data() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if !path.exists() {
        skip(Requirement::Shared, format!("{} does not exist", path.display()));
        return None;
    }
    Some(path)
}

/// CRC-32 as in zip and zlib.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|i| {
        (0..8).fold(i as u32, |c, _| if c & 1 == 1 { (c >> 1) ^ 0xEDB8_8320 } else { c >> 1 })
    });
    !bytes.iter().fold(!0, |c, &byte| table[(c as u8 ^ byte) as usize] ^ (c >> 8))
}

/// What `tools/oracle/gguf_describe.py` prints of the same file.
pub(crate) fn describe(file: &File) -> String {
    let mut out = String::new();
    let (tensors, keys) = (file.tensors().len(), file.metadata().len());
    writeln!(out, "gguf\t{}\t{tensors}\t{keys}", file.parts()[0].version()).unwrap();
    for (key, value) in file.metadata().iter() {
        write!(out, "{key}\t{}\t", value.value_type()).unwrap();
        match value {
            Value::F32(v) => writeln!(out, "0x{:08x}", v.to_bits()),
            Value::F64(v) => writeln!(out, "0x{:016x}", v.to_bits()),
            Value::Bool(v) => writeln!(out, "{}", u8::from(*v)),
            Value::Str(v) => writeln!(out, "{}\t{:08x}", v.len(), crc32(v)),
            Value::Array(v) => {
                writeln!(out, "{}\t{}\t{:08x}", v.element_type(), v.len(), crc32(&elements(v)))
            }
            integer => writeln!(out, "{}", integer.as_integer().unwrap()),
        }
        .unwrap();
    }
    for tensor in file.tensors() {
        let shape: Vec<_> = tensor.shape().iter().map(usize::to_string).collect();
        let (name, dtype) = (tensor.name(), tensor.dtype().name().to_uppercase());
        let (offset, nbytes, crc) = (tensor.offset(), tensor.nbytes(), crc32(tensor.bytes()));
        writeln!(out, "@{name}\t{dtype}\t{}\t{offset}\t{nbytes}\t{crc:08x}", shape.join("x")).unwrap();
    }
    out
}

/// The elements of an array as they are in a file.
fn elements(array: &Array) -> Vec<u8> {
    match array {
        Array::U8(v) => v.clone(),
        Array::I8(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::U16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::I16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::U32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::I32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::U64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::I64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::F32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::F64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Array::Bool(v) => v.iter().map(|&x| u8::from(x)).collect(),
        Array::Str(v) => v.iter().flat_map(string).collect(),
        Array::Array(v) => v
            .iter()
            .flat_map(|inner| {
                let mut out = inner.element_type().id().to_le_bytes().to_vec();
                out.extend((inner.len() as u64).to_le_bytes());
                out.extend(elements(inner));
                out
            })
            .collect(),
    }
}

/// Uses everything that a file offers; what was read must be written and read again as it was.
pub(crate) fn exercise(file: &File) {
    let _ = format!("{file:?}\n{:?}\n{}", file.metadata(), file.summary());
    for (key, value) in file.metadata().iter() {
        assert_eq!(file.metadata().value(key).unwrap().to_string(), value.to_string());
    }
    for tensor in file.tensors() {
        let found = file.tensor(tensor.name()).unwrap();
        assert_eq!((found.offset(), found.bytes().len()), (tensor.offset(), tensor.nbytes()));
        assert_eq!(tensor.dtype().bytes_for(tensor.numel()), Some(tensor.nbytes()));
        assert_eq!(tensor.offset() % file.parts()[tensor.part()].alignment() as usize, 0);
        assert_eq!(&*tensor.shared_bytes(), tensor.bytes());
    }
    let written = Writer::copy_of(file).to_bytes().unwrap();
    let again = File::from_bytes(written.clone()).unwrap();
    let contents = |file: &File| {
        let tensors = file
            .tensors()
            .map(|t| format!("{} {:?} {} {:08x}\n", t.name(), t.shape(), t.dtype(), crc32(t.bytes())));
        tensors.collect::<String>()
    };
    assert_eq!(contents(file), contents(&again));
    assert!(Writer::copy_of(&again).to_bytes().unwrap() == written);
}

/// A file built byte by byte, so that any of its fields can be wrong.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
    /// In place of the true number of tensors.
    pub(crate) tensor_count: Option<u64>,
    /// In place of the true number of metadata entries.
    pub(crate) key_count: Option<u64>,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) tensors: Vec<Vec<u8>>,
    pub(crate) alignment: usize,
    pub(crate) data: Vec<u8>,
}

impl Raw {
    /// Two metadata entries; a 2×3 and a 4 tensor of `f32`, 0 to 9.
    pub(crate) fn valid() -> Self {
        let mut data: Vec<u8> = (0..6).flat_map(|x| (x as f32).to_le_bytes()).collect();
        data.resize(32, 0);
        data.extend((6..10).flat_map(|x| (x as f32).to_le_bytes()));
        Self {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            key_count: None,
            keys: vec![key(b"general.architecture", 8, string(b"test")), key(b"n", 4, 7u32.to_le_bytes())],
            tensors: vec![tensor(b"a", &[3, 2], 0, 0), tensor(b"b", &[4], 0, 32)],
            alignment: 32,
            data,
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.key_count.unwrap_or(self.keys.len() as u64).to_le_bytes());
        out.extend(self.keys.concat());
        out.extend(self.tensors.concat());
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend(&self.data);
        out
    }
}

/// A string behind its length.
pub(crate) fn string(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}

/// A metadata entry.
pub(crate) fn key(key: &[u8], kind: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    [&string(key), &kind.to_le_bytes()[..], value.as_ref()].concat()
}

/// The value of an array entry.
pub(crate) fn array(kind: u32, count: u64, elements: impl AsRef<[u8]>) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), elements.as_ref()].concat()
}

/// An entry of the tensor table, its dimensions innermost first.
pub(crate) fn tensor(name: &[u8], dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut out = string(name);
    out.extend((dims.len() as u32).to_le_bytes());
    out.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
    out.extend(kind.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}

/// The values of an `f32` tensor.
pub(crate) fn floats(file: &File, name: &str) -> Vec<f32> {
    let tensor = file.tensor(name).unwrap();
    assert_eq!(tensor.dtype(), DType::F32);
    tensor.bytes().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// Where tests leave files for the oracles' `--check`.
pub(crate) fn output(folder: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A tensor: name, dtype, shape, bytes.
pub(crate) type Listed = (String, String, Vec<usize>, Vec<u8>);

/// The tensors that an oracle lists, by name.
pub(crate) fn listed(path: &Path) -> Vec<Listed> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut all: Vec<_> = text
        .lines()
        .map(|line| {
            let columns: Vec<_> = line.split('\t').collect();
            let [name, dtype, shape, hex] = columns[..] else { panic!("{line}") };
            let shape =
                shape.split('x').filter(|dim| !dim.is_empty()).map(|dim| dim.parse().unwrap()).collect();
            let digits: Vec<_> = hex.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
            let bytes = digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect();
            (name.to_owned(), dtype.to_owned(), shape, bytes)
        })
        .collect();
    all.sort();
    all
}
