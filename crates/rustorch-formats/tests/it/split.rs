//! Files in parts.

use crate::common::{describe, exercise, fixture, floats};
use rustorch_core::DType;
use rustorch_formats::gguf::{Error, ErrorKind, File, Value, Writer, parse_part_file_name, part_file_name};
use std::fs;
use std::path::{Path, PathBuf};

const PARTS: u32 = 3;

fn part(dir: &Path, no: u32) -> PathBuf {
    dir.join(part_file_name("gguf_py_split", no, PARTS))
}

/// The parts that gguf-py wrote, where they can be harmed.
fn copy() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for no in 0..PARTS {
        let from = part(&fixture(""), no);
        fs::copy(&from, part(dir.path(), no)).unwrap();
    }
    dir
}

fn fails(dir: &Path, no: u32) -> Error {
    File::open(part(dir, no)).unwrap_err()
}

/// Overwrites the one place in part `no` that has the bytes `from`.
fn patch(dir: &Path, no: u32, from: &[u8], to: &[u8]) {
    let path = part(dir, no);
    let mut bytes = fs::read(&path).unwrap();
    let at: Vec<_> = (0..bytes.len()).filter(|&i| bytes[i..].starts_with(from)).collect();
    assert_eq!((at.len(), from.len()), (1, to.len()));
    bytes[at[0]..at[0] + to.len()].copy_from_slice(to);
    fs::write(path, bytes).unwrap();
}

/// A metadata entry of 16 bits as it is in a file, without the length of its key.
fn entry(key: &str, value: u16) -> Vec<u8> {
    [key.as_bytes(), &2u32.to_le_bytes(), &value.to_le_bytes()].concat()
}

#[test]
fn any_part_opens_all() {
    for no in 0..PARTS {
        let file = File::open(part(&fixture(""), no)).unwrap();
        assert_eq!(file.parts().len(), 3);
        assert!(
            file.tensors()
                .map(|t| (t.name().to_owned(), t.part()))
                .eq((0..5).map(|i| (format!("t.{i}"), i / 2)))
        );
        for i in 0..5 {
            assert_eq!(floats(&file, &format!("t.{i}")), vec![i as f32; 2 * (i + 1)]);
            assert_eq!(file.tensor(&format!("t.{i}")).unwrap().shape(), [i + 1, 2]);
        }
        assert_eq!(file.metadata().get_str("general.name").unwrap(), "split fixture");
        exercise(&file);
    }
}

#[test]
fn parts_in_memory() {
    let bytes = |no| fs::read(part(&fixture(""), no)).unwrap();
    let file = File::from_parts([0, 1, 2].map(bytes)).unwrap();
    assert_eq!(floats(&file, "t.4"), [4.0; 10]);

    let kind = |order: &[u32]| File::from_parts(order.iter().map(|&no| bytes(no))).unwrap_err().into_kind();
    assert!(matches!(kind(&[0, 1]), ErrorKind::SplitPartsGiven { given: 2, count: 3 }));
    assert!(matches!(kind(&[]), ErrorKind::SplitPartsGiven { given: 0, .. }));
    assert!(matches!(kind(&[0, 2, 1]), ErrorKind::SplitNumber { found: 2, expected: 1 }));
    assert!(matches!(kind(&[0, 1, 2, 2]), ErrorKind::SplitNumber { found: 2, expected: 3 }));
    let whole = fs::read(fixture("gguf_py.gguf")).unwrap();
    let error = File::from_parts([bytes(0), whole.clone(), bytes(2)]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::SplitCount { no: 1, found: 1, expected: 3 }), "{error}");
    let error = File::from_parts([whole.clone(), whole]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::SplitPartsGiven { given: 2, count: 1 }), "{error}");
    assert!(matches!(File::from_bytes(bytes(1)).unwrap_err().kind(), ErrorKind::SplitInMemory { count: 3 }));
}

#[test]
fn missing_parts_are_named() {
    let dir = copy();
    fs::remove_file(part(dir.path(), 1)).unwrap();
    let error = fails(dir.path(), 0);
    assert!(matches!(error.kind(), ErrorKind::MissingParts { missing, count: 3 } if missing.len() == 1));
    assert!(
        error.to_string().contains("1 of 3 parts are missing: gguf_py_split-00002-of-00003.gguf"),
        "{error}"
    );
}

#[test]
fn a_renamed_part_is_refused() {
    let dir = copy();
    let lone = dir.path().join("model.gguf");
    fs::copy(part(dir.path(), 0), &lone).unwrap();
    let error = File::open(&lone).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::SplitName { no: 0, count: 3 }), "{error}");
    assert!(error.to_string().contains("-00001-of-00003.gguf"), "{error}");

    let other = dir.path().join("gguf_py_split-00001-of-00004.gguf");
    fs::copy(part(dir.path(), 0), &other).unwrap();
    assert!(matches!(File::open(&other).unwrap_err().kind(), ErrorKind::SplitName { no: 0, count: 3 }));
}

#[test]
fn a_duplicate_part_is_refused() {
    let dir = copy();
    fs::copy(part(dir.path(), 1), part(dir.path(), 2)).unwrap();
    for opened in 0..3 {
        let error = fails(dir.path(), opened);
        assert!(matches!(error.kind(), ErrorKind::SplitNumber { found: 1, expected: 2 }), "{error}");
        assert_eq!(error.path(), Some(&*part(dir.path(), 2)));
    }
}

#[test]
fn parts_that_disagree_are_refused() {
    let dir = copy();
    patch(dir.path(), 1, &entry("split.count", 3), &entry("split.count", 4));
    let error = fails(dir.path(), 0);
    assert!(matches!(error.kind(), ErrorKind::SplitCount { no: 1, found: 4, expected: 3 }), "{error}");

    let dir = copy();
    let tensors = |count: u8| [&b"split.tensors.count"[..], &[5, 0, 0, 0, count, 0, 0, 0]].concat();
    patch(dir.path(), 0, &tensors(5), &tensors(6));
    let error = fails(dir.path(), 2);
    assert!(matches!(error.kind(), ErrorKind::SplitTensorCount { expected: 6, actual: 5 }), "{error}");

    let dir = copy();
    patch(dir.path(), 1, b"t.2", b"t.0");
    let error = fails(dir.path(), 0);
    assert!(matches!(error.kind(), ErrorKind::DuplicateTensor { name } if name == "t.0"), "{error}");
    assert_eq!(error.path(), Some(&*part(dir.path(), 1)));

    let dir = copy();
    fs::write(part(dir.path(), 1), "").unwrap();
    let error = fails(dir.path(), 0);
    assert!(matches!(error.kind(), ErrorKind::Truncated { .. }), "{error}");
    assert_eq!(error.path(), Some(&*part(dir.path(), 1)));
}

#[test]
fn written_parts_open_as_the_whole_and_merge_into_it() {
    let whole = File::open(fixture("gguf_py.gguf")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let paths = Writer::copy_of(&whole).write_split(dir.path().join("m.gguf"), 256).unwrap();
    assert_eq!(paths.len(), 4);
    assert_eq!(paths[3], dir.path().join("m-00004-of-00004.gguf"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);

    let split = File::open(&paths[2]).unwrap();
    assert!(split.parts().iter().all(|part| part.alignment() == 64));
    let metadata = split.metadata();
    assert_eq!(metadata.value("split.no"), Some(&Value::U16(0)));
    assert_eq!(metadata.value("split.count"), Some(&Value::U16(4)));
    assert_eq!(metadata.value("split.tensors.count"), Some(&Value::I32(9)));
    for part in split.parts() {
        let bytes: usize = split
            .tensors()
            .filter(|t| split.parts()[t.part()].path() == part.path())
            .map(|t| t.nbytes())
            .sum();
        assert!(bytes <= 288);
    }
    let merged = File::from_bytes(Writer::copy_of(&split).to_bytes().unwrap()).unwrap();
    assert_eq!(describe(&merged), describe(&whole));
}

#[test]
fn one_part_is_a_whole_file() {
    let mut writer = Writer::new();
    writer.tensor("a", &[4], DType::I8, &[1u8, 2, 3, 4][..]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let paths = writer.write_split(dir.path().join("m"), 0).unwrap();
    assert_eq!(paths, [dir.path().join("m-00001-of-00001.gguf")]);
    assert_eq!(File::open(&paths[0]).unwrap().tensor("a").unwrap().bytes(), [1, 2, 3, 4]);
    assert_eq!(Writer::new().write_split(dir.path().join("empty"), 0).unwrap().len(), 1);
}

#[test]
fn parts_that_cannot_be_named_are_refused() {
    let mut writer = Writer::new();
    for i in 0..65_536 {
        writer.tensor(&i.to_string(), &[1], DType::I8, vec![0]).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let error = writer.write_split(dir.path().join("m"), 0).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooManyParts { parts: 65_536 }), "{error}");
    let error = writer.write_split("/", u64::MAX).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io(_)), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn names_of_parts() {
    assert_eq!(part_file_name("m", 0, 3), "m-00001-of-00003.gguf");
    assert_eq!(parse_part_file_name("a-b-00003-of-00003.gguf"), Some(("a-b", 2, 3)));
    for other in [
        "m-00004-of-00003.gguf",
        "m-00000-of-00003.gguf",
        "m-1-of-3.gguf",
        "m-00001-of-00003.bin",
        "m.gguf",
        "m-+0001-of-00003.gguf",
        "00001-of-00003.gguf",
    ] {
        assert_eq!(parse_part_file_name(other), None, "{other}");
    }
}
