//! GGUF.

use super::{Case, check};
use crate::common::{Raw, array, fixture, key, string, tensor};
use rustorch_formats::gguf::{ErrorKind, File};

fn with(change: impl FnOnce(&mut Raw)) -> Vec<u8> {
    let mut raw = Raw::valid();
    change(&mut raw);
    raw.bytes()
}

fn with_key(kind: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    with(|raw| raw.keys.push(key(b"bad", kind, value)))
}

fn with_tensor(name: &[u8], dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    with(|raw| raw.tensors.push(tensor(name, dims, kind, offset)))
}

fn with_alignment(kind: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    with(|raw| raw.keys.push(key(b"general.alignment", kind, value)))
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let valid = Raw::valid().bytes();
    let cut = |len: usize| valid[..len].to_vec();
    let nested = |depth: usize| (1..depth).fold(array(0, 0, []), |inner, _| array(9, 1, inner));
    let long = vec![b'k'; 65_536];
    vec![
        ("empty", "Truncated", "has 0 bytes, and the header needs at least 4", vec![]),
        ("three bytes", "Truncated", "has 3 bytes", cut(3)),
        ("cut in the counts", "Truncated", "has 20 bytes, and the header needs at least 24", cut(20)),
        ("cut in the metadata", "Truncated", "has 49 bytes, and the metadata needs at least 50", cut(49)),
        ("more keys than bytes", "Truncated", "the metadata needs", with(|r| r.key_count = Some(1000))),
        ("more tensors than bytes", "Truncated", "the tensor table needs", with(|r| r.tensor_count = Some(1000))),
        ("a text", "BadMagic", "begins with \"Once\"", b"Once upon a time".to_vec()),
        ("an LFS pointer", "BadMagic", "Git LFS", b"version https://git-lfs.github.com/spec/v1".to_vec()),
        ("unprintable", "BadMagic", "\\x80\\x00", b"\x80\x00\x01\x02\x03\x04\x05\x06".to_vec()),
        ("before GGUF", "BadMagic", "older than GGUF", b"tjgg\x03\x00\x00\x00".to_vec()),
        ("version 3, swapped", "BigEndian", "big-endian", with(|r| r.version = 3u32.swap_bytes())),
        ("version 0", "UnsupportedVersion", "version 0 is not supported", with(|r| r.version = 0)),
        ("version 1", "UnsupportedVersion", "convert the model again", with(|r| r.version = 1)),
        ("version 4", "UnsupportedVersion", "versions 2 and 3", with(|r| r.version = 4)),
        ("2^64-1 keys", "TooManyKeys", "18446744073709551615 metadata entries", with(|r| r.key_count = Some(u64::MAX))),
        ("65537 keys", "TooManyKeys", "the limit is 65536", with(|r| r.key_count = Some(65_537))),
        ("2^64-1 tensors", "TooManyTensors", "18446744073709551615 tensors", with(|r| r.tensor_count = Some(u64::MAX))),
        ("2^18+1 tensors", "TooManyTensors", "262144", with(|r| r.tensor_count = Some((1 << 18) + 1))),
        ("a key of 64 KiB", "KeyTooLong", "65536 bytes long", with(|r| r.keys.push(key(&long, 0, [1])))),
        ("a key of 2^64-1", "KeyTooLong", "18446744073709551615", with(|r| r.keys.push(vec![0xFF; 13]))),
        ("a key of Latin-1", "KeyNotUtf8", "caf\u{fffd}", with(|r| r.keys.push(key(b"caf\xe9", 0, [1])))),
        ("a key twice", "DuplicateKey", "`n` occurs twice", with(|r| r.keys.push(key(b"n", 0, [1])))),
        ("type 13", "UnknownValueType", "`bad` has a value of unknown type 13", with_key(13, [0; 8])),
        ("elements of type 99", "UnknownValueType", "unknown type 99", with_key(9, array(99, 1, [0; 8]))),
        ("a boolean of 2", "BadBool", "`bad` has a boolean of value 2", with_key(7, [2])),
        ("a boolean of 255 in an array", "BadBool", "value 255", with_key(9, array(7, 2, [0, 255]))),
        ("a string past the end", "StringTooLong", "`bad` has a string of 100000 bytes", with_key(8, 100_000u64.to_le_bytes())),
        ("a string of 2^64-1", "StringTooLong", "18446744073709551615 bytes", with_key(8, [0xFF; 8])),
        ("a string in an array past the end", "StringTooLong", "99999", with_key(9, array(8, 2, [string(b"a"), 99_999u64.to_le_bytes().to_vec()].concat()))),
        ("an array past the end", "ArrayTooLong", "array of 100000 elements", with_key(9, array(0, 100_000, [0; 8]))),
        ("an array whose size overflows", "ArrayTooLong", "`bad` has an array of 9223372036854775807", with_key(9, array(12, u64::MAX >> 1, [0; 8]))),
        ("an array of 2^64-1 strings", "ArrayTooLong", "18446744073709551615", with_key(9, array(8, u64::MAX, [0; 8]))),
        ("an array of 2^61 arrays", "ArrayTooLong", "2305843009213693952", with_key(9, array(9, 1 << 61, [0; 8]))),
        ("five levels of arrays", "ArrayTooDeep", "deeper than 4", with_key(9, nested(5))),
        ("alignment 0", "BadAlignment", "is 0", with_alignment(4, 0u32.to_le_bytes())),
        ("alignment 48", "BadAlignment", "is 48", with_alignment(4, 48u32.to_le_bytes())),
        ("alignment 2^32", "BadAlignment", "4294967296", with_alignment(10, (1u64 << 32).to_le_bytes())),
        ("alignment \"32\"", "WrongType", "`general.alignment` has the type string", with_alignment(8, string(b"32"))),
        ("alignment -32", "OutOfRange", "-32", with_alignment(5, (-32i32).to_le_bytes())),
        ("a name of 64 KiB", "NameTooLong", "tensor 2 is 65536", with_tensor(&long, &[4], 0, 64)),
        ("a name of Latin-1", "NameNotUtf8", "caf\u{fffd}", with_tensor(b"caf\xe9", &[4], 0, 64)),
        ("a tensor twice", "DuplicateTensor", "`a` occurs twice", with_tensor(b"a", &[4], 0, 64)),
        ("five dimensions", "TooManyDims", "`bad` has 5", with_tensor(b"bad", &[1; 5], 0, 64)),
        ("2^32-1 dimensions", "TooManyDims", "4294967295", with(|r| r.tensors.push([string(b"bad"), vec![0xFF; 40]].concat()))),
        ("a dimension of zero", "ZeroDim", "`bad` of shape [3, 0, 2]", with_tensor(b"bad", &[2, 0, 3], 0, 64)),
        ("2^64 elements", "TensorTooLarge", "[4294967296, 4294967296]", with_tensor(b"bad", &[1 << 32, 1 << 32], 24, 64)),
        ("2^63 bytes", "TensorTooLarge", "`bad`", with_tensor(b"bad", &[1 << 63], 24, 64)),
        ("2^62 values of four bytes", "TensorTooLarge", "`bad`", with_tensor(b"bad", &[1 << 62], 0, 64)),
        ("type 4, which was removed", "UnknownTensorType", "`bad` has the ggml type 4", with_tensor(b"bad", &[32], 4, 64)),
        ("type 2^32-1", "UnknownTensorType", "4294967295", with_tensor(b"bad", &[32], u32::MAX, 64)),
        ("half a block", "PartialBlock", "rows of 128 values, not a multiple of the 256 values in a block of Q4_K", with_tensor(b"bad", &[128, 2], 12, 64)),
        ("a block without dimensions", "PartialBlock", "rows of 1 values", with_tensor(b"bad", &[], 8, 64)),
        ("an odd offset", "MisalignedOffset", "`bad` is at offset 65", with_tensor(b"bad", &[1], 24, 65)),
        ("an offset of half the alignment", "MisalignedOffset", "alignment 32", with_tensor(b"bad", &[1], 24, 48)),
        ("an offset near 2^64", "OffsetOverflow", "`bad`", with_tensor(b"bad", &[1], 24, u64::MAX - 31)),
        ("an offset past the end", "TensorOutOfFile", "tensor `bad` ends at byte", with_tensor(b"bad", &[1], 24, 1 << 40)),
        ("data cut", "TensorOutOfFile", "tensor `b` ends at byte", cut(valid.len() - 1)),
        ("no data", "TensorOutOfFile", "tensor `b` ends at byte", with(|r| r.data.clear())),
        ("one tensor twice in the data", "OverlappingTensors", "`a` and `bad` overlap", with_tensor(b"bad", &[1], 24, 0)),
        ("a tensor that reaches into the next", "OverlappingTensors", "`bad` and `b` overlap", with(|r| { r.tensors[0] = tensor(b"bad", &[9], 0, 0) })),
        ("a part of several", "SplitInMemory", "one of 3 parts", with(|r| { r.keys.push(key(b"split.count", 2, [3, 0])); r.keys.push(key(b"split.no", 2, [1, 0])) })),
        ("a part without a number", "MissingKey", "`split.no` is missing", with(|r| r.keys.push(key(b"split.count", 2, [3, 0])))),
    ]
}

#[test]
fn each_malformation_has_its_error() {
    assert!(File::from_bytes(Raw::valid().bytes()).is_ok());
    let seen = check(cases(), File::from_bytes);
    assert_eq!(seen.len(), 31, "{seen:?}");
}

#[test]
fn every_truncation_is_an_error_that_says_so() {
    let bytes = std::fs::read(fixture("gguf_py.gguf")).unwrap();
    // The file ends in padding.
    let data_end =
        File::from_bytes(bytes.clone()).unwrap().tensors().map(|t| t.offset() + t.nbytes()).max().unwrap();
    for len in 0..data_end {
        let error = File::from_bytes(bytes[..len].to_vec()).unwrap_err();
        match error.kind() {
            ErrorKind::Truncated { expected, actual, .. }
            | ErrorKind::TensorOutOfFile { expected, actual, .. } => {
                assert!(*actual == len as u64 && *expected > len as u64, "{len}: {error}");
            }
            ErrorKind::StringTooLong { .. } | ErrorKind::ArrayTooLong { .. } => {
                assert!(error.to_string().contains("truncated"), "{len}: {error}");
            }
            _ => panic!("{len}: {error}"),
        }
    }
    for len in data_end..bytes.len() {
        assert!(File::from_bytes(bytes[..len].to_vec()).is_ok());
    }
}

#[test]
fn what_is_unusual_but_sound_is_read() {
    let nested = (1..4).fold(array(0, 1, [5]), |inner, _| array(9, 1, inner));
    let file = File::from_bytes(with_key(9, nested)).unwrap();
    assert_eq!(
        file.metadata().value("bad").unwrap().to_string(),
        "array[1] [array[1] [array[1] [u8[1] [5]]]]"
    );

    let file = File::from_bytes(with_key(9, array(8, 0, []))).unwrap();
    assert!(file.metadata().get_str_array("bad").unwrap().is_empty());

    let not_utf8 = array(8, 2, [string(b"\xe2\x96"), string(b"\x81")].concat());
    let file = File::from_bytes(with_key(9, not_utf8)).unwrap();
    let tokens = file.metadata().get_str_array("bad").unwrap();
    assert_eq!((tokens.get(0), tokens.get_str(0)), (Some(&b"\xe2\x96"[..]), None));

    let file = File::from_bytes(with_key(8, string(b"\xff"))).unwrap();
    assert!(matches!(file.metadata().get_str("bad").unwrap_err().kind(), ErrorKind::NotUtf8 { .. }));
    assert_eq!(&**file.metadata().get_bytes("bad").unwrap(), b"\xff");

    // A scalar, behind a gap, in a file whose tensors are not in the order of their data.
    let file = File::from_bytes(with(|raw| {
        raw.tensors.swap(0, 1);
        raw.tensors.push(tensor(b"scalar", &[], 24, 128));
        raw.data.resize(129, 9);
    }))
    .unwrap();
    let scalar = file.tensor("scalar").unwrap();
    assert_eq!((scalar.shape(), scalar.numel(), scalar.bytes()), (&[][..], 1, &[9][..]));
}

#[test]
fn errors_of_open_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    let fails = || File::open(&path).unwrap_err();
    assert!(matches!(fails().kind(), ErrorKind::Io(e) if e.kind() == std::io::ErrorKind::NotFound));
    std::fs::write(&path, "").unwrap();
    assert!(matches!(fails().kind(), ErrorKind::Truncated { actual: 0, .. }));
    std::fs::write(&path, "GGML").unwrap();
    assert_eq!(fails().path(), Some(&*path));
    assert!(fails().to_string().starts_with(&format!("{}: not a GGUF file", path.display())));
    assert!(matches!(File::open(dir.path()).unwrap_err().kind(), ErrorKind::NotAFile));

    std::fs::write(&path, Raw::valid().bytes()).unwrap();
    let file = File::open(&path).unwrap();
    for error in [file.metadata().get_u32("absent").unwrap_err(), file.tensor("absent").unwrap_err()] {
        assert_eq!(error.path(), Some(&*path), "{error}");
    }
}
