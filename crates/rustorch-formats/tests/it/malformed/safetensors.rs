//! safetensors: headers and indexes.

use super::{Case, check};
use rustorch_formats::safetensors::{Error, ErrorKind, File};

/// A file of this header and data.
fn file(header: impl AsRef<[u8]>, data: usize) -> Vec<u8> {
    let header = header.as_ref();
    [&(header.len() as u64).to_le_bytes(), header, &vec![0; data]].concat()
}

/// An entry of the header.
fn entry(name: &str, dtype: &str, shape: &str, begin: usize, end: usize) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
}

/// A file of these entries.
fn entries(entries: &[String], data: usize) -> Vec<u8> {
    file(format!("{{{}}}", entries.join(",")), data)
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let valid = entries(&[entry("a", "F32", "[2]", 0, 8)], 8);
    let a = || entry("a", "F32", "[2]", 0, 8);
    let two = |second: String, data| entries(&[a(), second], data);
    let one = |dtype: &str, shape: &str, begin, end, data| entries(&[entry("bad", dtype, shape, begin, end)], data);
    vec![
        ("empty", "Truncated", "has 0 bytes, and the header needs 8", vec![]),
        ("seven bytes", "Truncated", "has 7 bytes, and the header needs 8", valid[..7].to_vec()),
        ("cut in the header", "Truncated", "has 30 bytes", valid[..30].to_vec()),
        ("a header of 2^64-1", "HeaderTooLong", "18446744073709551615 bytes long", vec![0xFF; 16]),
        ("a header of 100 MB and a byte", "HeaderTooLong", "100000001", [&100_000_001u64.to_le_bytes()[..], b"{}"].concat()),
        ("a GGUF file", "HeaderTooLong", "it is a GGUF file", b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0".to_vec()),
        ("a zip archive", "HeaderTooLong", "zip archive", b"PK\x03\x04\x14\0\0\0\0\0\0\0".to_vec()),
        ("an LFS pointer", "HeaderTooLong", "Git LFS", b"version https://git-lfs.github.com/spec/v1".to_vec()),
        ("an index", "HeaderTooLong", "looks like JSON", b"{\"metadata\": {}}".to_vec()),
        ("a header without anything", "BadHeaderStart", "begins with \"\"", file("", 0)),
        ("a header of spaces", "BadHeaderStart", "begins with \"    \"", file("        ", 0)),
        ("a list", "BadHeaderStart", "begins with \"[1]\"", file("[1]", 0)),
        ("Latin-1", "HeaderNotUtf8", "from byte 13 on", file(b"{\"caf\xe9\":1}", 0)),
        ("JSON cut", "Json", "EOF while parsing", file("{\"a\":", 0)),
        ("JSON and more", "Json", "trailing characters", file("{}x", 0)),
        ("a tensor that is a number", "Json", "\"a\": invalid type: integer", file("{\"a\":1}", 0)),
        ("a tensor without shape", "Json", "missing field `shape`", file(r#"{"a":{"dtype":"F32","data_offsets":[0,0]}}"#, 0)),
        ("a negative dimension", "Json", "integer `-1`", one("F32", "[-1]", 0, 0, 0)),
        ("a dimension of 2^64", "Json", "`1.8446744073709552e+19`, expected usize", one("F32", "[18446744073709551616]", 0, 0, 0)),
        ("no such dtype", "Json", "unknown variant `F31`", one("F31", "[]", 0, 4, 4)),
        ("metadata of numbers", "Json", "\"__metadata__\": invalid type: integer `1`", file(r#"{"__metadata__":{"n":1}}"#, 0)),
        ("100000 levels", "Json", "EOF while parsing a list", file(format!(r#"{{"a":{{"x":{}"#, "[".repeat(100_000)), 0)),
        ("metadata twice", "DuplicateKey", "`__metadata__` occurs twice", file(r#"{"__metadata__":{},"__metadata__":{}}"#, 0)),
        ("a key twice", "DuplicateKey", "`k` occurs twice", file(r#"{"__metadata__":{"k":"","k":""}}"#, 0)),
        ("a tensor twice", "DuplicateTensor", "`a` occurs twice", two(a(), 8)),
        ("65 dimensions", "TooManyDims", "`bad` has 65", one("F32", &format!("[{}1]", "1,".repeat(64)), 0, 4, 4)),
        ("a dtype of others", "UnknownDType", "`bad` has the dtype F8_E4M3", one("F8_E4M3", "[4]", 0, 4, 4)),
        ("2^64 values", "TensorTooLarge", "[4294967296, 4294967296]", one("U8", "[4294967296,4294967296]", 0, 0, 0)),
        ("2^64 values of an empty tensor", "TensorTooLarge", "4294967296, 0]", one("U8", "[4294967296,4294967296,0]", 0, 0, 0)),
        ("2^63 bytes", "TensorTooLarge", "[1152921504606846976]", one("F64", "[1152921504606846976]", 0, 0, 0)),
        ("an end before the beginning", "BadOffsets", "`bad` has the impossible data_offsets [8, 4]", one("U8", "[4]", 8, 4, 8)),
        ("too few bytes", "SizeMismatch", "`bad` takes 8 bytes by its shape and dtype, and 4 by", one("F32", "[2]", 0, 4, 4)),
        ("two tensors in one place", "OverlappingTensors", "`a` and `bad` overlap", two(entry("bad", "F32", "[2]", 0, 8), 8)),
        ("a tensor that reaches into the next", "OverlappingTensors", "`a` and `b` overlap", two(entry("b", "F32", "[2]", 4, 12), 12)),
        ("a gap", "Gap", "4 bytes before tensor `bad`", two(entry("bad", "F32", "[2]", 12, 20), 20)),
        ("data that begins late", "Gap", "8 bytes before tensor `bad`", one("F32", "[2]", 8, 16, 16)),
        ("data cut", "TensorOutOfFile", "tensor `a` ends at byte", valid[..valid.len() - 1].to_vec()),
        ("bytes at the end", "TrailingBytes", "3 bytes behind", entries(&[a()], 11)),
        ("bytes of no tensor", "TrailingBytes", "5 bytes behind", file("{}", 5)),
    ]
}

#[test]
fn each_malformation_has_its_error() {
    assert!(File::from_bytes(entries(&[entry("a", "F32", "[2]", 0, 8)], 8)).is_ok());
    let variants = check(cases(), File::from_bytes);
    assert_eq!(variants.len(), 16, "{variants:?}");
}

#[test]
fn every_truncation_is_an_error_that_says_so() {
    let bytes = std::fs::read(crate::common::fixture("safetensors/dtypes.safetensors")).unwrap();
    for len in 0..bytes.len() {
        let error = File::from_bytes(bytes[..len].to_vec()).unwrap_err();
        assert!(error.to_string().starts_with("file is truncated"), "{len}: {error}");
    }
}

/// Opens an index beside the files a.safetensors, with tensors `a` and `b`, and c.safetensors, with tensors `b` and `c`.
fn open_index(index: &[u8]) -> Error {
    let dir = tempfile::tempdir().unwrap();
    for (name, tensors) in [("a", ["a", "b"]), ("c", ["b", "c"])] {
        let tensors = [entry(tensors[0], "U8", "[1]", 0, 1), entry(tensors[1], "U8", "[1]", 1, 2)];
        std::fs::write(dir.path().join(name).with_extension("safetensors"), entries(&tensors, 2)).unwrap();
    }
    std::fs::create_dir(dir.path().join("folder.safetensors")).unwrap();
    std::fs::write(dir.path().join("bad.safetensors"), b"GGUF").unwrap();
    let path = dir.path().join("model.safetensors.index.json");
    std::fs::write(&path, index).unwrap();
    let error = File::open(&path).unwrap_err();
    assert!(error.path().unwrap().starts_with(dir.path()));
    error
}

#[test]
fn each_malformed_index_has_its_error() {
    let map = |entries: &str| format!(r#"{{"metadata":{{}},"weight_map":{{{entries}}}}}"#);
    let file = |name: &str| map(&format!(r#""a":"{name}""#));
    let many = (0..(1 << 16) + 1).map(|i| format!("\"{i}\":\"{i}\"")).collect::<Vec<_>>().join(",");
    #[rustfmt::skip]
    let cases = [
        ("Json", "EOF while parsing a value", String::new()),
        ("Json", "expected an object with a `weight_map`", "[]".into()),
        ("Json", "EOF while parsing an object", r#"{"weight_map":{"a":"a.safetensors""#.into()),
        ("Json", "trailing characters", map("") + "}"),
        ("Json", "duplicate field `weight_map`", r#"{"weight_map":{},"weight_map":{}}"#.into()),
        ("Json", "expected an object of strings", r#"{"weight_map":["a"]}"#.into()),
        ("Json", "expected a string", map(r#""a":1"#)),
        ("Json", "EOF while parsing a list", format!(r#"{{"metadata":{}"#, "[".repeat(100_000))),
        ("EmptyIndex", "no `weight_map`", "{}".into()),
        ("EmptyIndex", "or an empty one", map("")),
        ("DuplicateTensor", "`a` occurs twice", map(r#""a":"a.safetensors","a":"c.safetensors""#)),
        ("BadShardName", "\"../a.safetensors\"", file("../a.safetensors")),
        ("BadShardName", "\"/etc/passwd\"", file("/etc/passwd")),
        ("BadShardName", "\"..\"", file("..")),
        ("BadShardName", "\"\"", file("")),
        ("BadShardName", "\"C:a\"", file("C:a")),
        ("BadShardName", "\"..\\a\"", file("..\\\\a")),
        ("TooManyShards", "65536", map(&many)),
        ("MissingShards", "1 of 2 files of the sharded set are missing: b.safetensors", map(r#""a":"a.safetensors","b":"b.safetensors""#)),
        ("NotAFile", "folder.safetensors: not a regular file", file("folder.safetensors")),
        ("Truncated", "bad.safetensors: file is truncated: it has 4 bytes", file("bad.safetensors")),
        ("NotInShard", "tensor `c` is not in a.safetensors", map(r#""a":"a.safetensors","c":"a.safetensors""#)),
        ("NotInIndex", "a.safetensors has the tensor `b`", file("a.safetensors")),
        ("DuplicateTensor", "c.safetensors: tensor `b` occurs twice", map(r#""a":"a.safetensors","b":"a.safetensors","c":"c.safetensors""#)),
    ];
    for (expected, message, index) in cases {
        let error = open_index(index.as_bytes());
        assert_eq!(super::variant(error.kind()), expected, "{error}");
        assert!(error.to_string().contains(message), "\"{error}\" does not say \"{message}\"");
    }
    let error = File::open("absent/model.safetensors.index.json").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io(e) if e.kind() == std::io::ErrorKind::NotFound));
}
