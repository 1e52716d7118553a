//! IDX files. The bytes follow the format's description; those of `gzip` are Python's `gzip.compress`.

use rustorch_core::DType;
use rustorch_formats::idx::{Array, ErrorKind};

/// `gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]), mtime=0)` of Python 3.11.
const COMPRESSED: [u8; 31] = [
    31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 99, 96, 224, 96, 100, 96, 96, 96, 102, 231, 224, 4, 0, 173, 152, 10,
    186, 11, 0, 0, 0,
];

#[test]
fn numbers_of_every_type_are_read() {
    let read = |bytes: &[u8]| {
        let array = Array::from_bytes(bytes).unwrap();
        (array.dtype(), array.shape().to_vec(), array.bytes().to_vec())
    };
    assert_eq!(read(&[0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 2, 5, 6]), (DType::U8, vec![1, 2], vec![5, 6]));
    assert_eq!(read(&[0, 0, 9, 1, 0, 0, 0, 1, 255]), (DType::I8, vec![1], vec![255]));
    assert_eq!(read(&[0, 0, 0xb, 1, 0, 0, 0, 1, 1, 2]), (DType::I16, vec![1], vec![2, 1]));
    assert_eq!(read(&[0, 0, 0xc, 1, 0, 0, 0, 1, 1, 2, 3, 4]), (DType::I32, vec![1], vec![4, 3, 2, 1]));
    let one = [&[0, 0, 0xd, 1, 0, 0, 0, 1][..], &1f32.to_be_bytes()].concat();
    assert_eq!(read(&one), (DType::F32, vec![1], 1f32.to_le_bytes().to_vec()));
    let one = [&[0, 0, 0xe, 1, 0, 0, 0, 1][..], &1f64.to_be_bytes()].concat();
    assert_eq!(read(&one), (DType::F64, vec![1], 1f64.to_le_bytes().to_vec()));
    // No dimension is one number; a length of 0 is none.
    assert_eq!(read(&[0, 0, 8, 0, 4]), (DType::U8, vec![], vec![4]));
    assert_eq!(read(&[0, 0, 8, 1, 0, 0, 0, 0]), (DType::U8, vec![0], vec![]));
    assert_eq!(read(&COMPRESSED), (DType::U8, vec![3], vec![7, 8, 9]));
}

#[test]
fn malformed_files_are_errors() {
    let refused = |bytes: &[u8]| Array::from_bytes(bytes).unwrap_err().to_string();
    for (bytes, part) in [
        (&[][..], "not an IDX file: it begins with []"),
        (&[0, 0, 8], "not an IDX file"),
        (&[1, 0, 8, 1, 0, 0, 0, 1, 1], "not an IDX file: it begins with [01, 00, 08, 01]"),
        (&[0, 0, 0xa, 1, 0, 0, 0, 1, 1], "the type 0x0a is none"),
        (&[0, 0, 8, 1, 0, 0, 0], "4 bytes of numbers were expected, 3 are there"),
        (&[0, 0, 8, 1, 0, 0, 0, 3, 1, 2], "3 bytes of numbers were expected, 2 are there"),
        (&[0, 0, 8, 1, 0, 0, 0, 1, 1, 2], "bytes behind the last number"),
        // Terabytes are announced, and none is taken.
        (&[0, 0, 8, 2, 0, 255, 255, 255, 0, 255, 255, 255, 1], "1 are there"),
        (&[0, 0, 14, 2, 255, 255, 255, 255, 255, 255, 255, 255], "more numbers than can be addressed"),
        (&COMPRESSED[..20], ""),
    ] {
        let said = refused(bytes);
        assert!(said.contains(part), "{bytes:?}: {said}");
    }
    let error = Array::open("missing.idx").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io(_)) && error.to_string().starts_with("missing.idx: "));
}
