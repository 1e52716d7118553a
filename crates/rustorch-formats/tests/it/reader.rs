//! What is read equals what gguf-py reads, whatever way a file is opened.

use crate::common::{Raw, crc32, describe, exercise, fixture, floats, key, shared_data};
use rustorch_core::{DType, QuantType};
use rustorch_formats::SharedBytes;
use rustorch_formats::gguf::{Array, DTypeSummary, File, Value};
use rustorch_testkit::{Requirement, skip};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

#[test]
fn the_fixture_of_gguf_py_reads_as_gguf_py_reads_it() {
    let path = fixture("gguf_py.gguf");
    let file = File::open(&path).unwrap();
    assert_eq!(describe(&file), std::fs::read_to_string(fixture("gguf_py.tsv")).unwrap());
    exercise(&file);

    let part = &file.parts()[0];
    assert_eq!((part.path(), part.version(), part.alignment()), (Some(&*path), 3, 64));
    assert!(!part.bytes().is_mapped());
}

#[test]
fn what_was_read_stays_when_the_file_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    std::fs::copy(fixture("gguf_py.gguf"), &path).unwrap();
    let read = File::open(&path).unwrap();
    {
        // SAFETY: nobody changes the file while this lives.
        let mapped = unsafe { File::open_mapped(&path).unwrap() };
        assert!(mapped.parts()[0].bytes().is_mapped());
        assert_eq!(describe(&mapped), describe(&read));
    }
    let tensors = describe(&read);
    let bytes = read.parts()[0].bytes();
    // As a mapping: aligned to a page, so that tensors need no copy.
    assert_eq!(bytes.as_ptr().addr() % 4096, 0);
    std::fs::write(&path, vec![0xA5; bytes.len()]).unwrap();
    assert_eq!(describe(&read), tensors);
    std::fs::write(&path, "").unwrap();
    assert_eq!(describe(&read), tensors);
    exercise(&read);
}

/// Large enough for several threads, with a last part that is shorter than the others.
#[test]
fn a_large_file_reads_as_it_maps() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.gguf");
    const VALUES: usize = (50 << 20) / 4 + 3;
    let mut raw = Raw::valid();
    raw.tensors = vec![crate::common::tensor(b"a", &[VALUES as u64], 0, 0)];
    raw.data = (0..VALUES as u32).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    std::fs::write(&path, raw.bytes()).unwrap();
    let read = File::open(&path).unwrap();
    // SAFETY: nobody changes the file while this lives.
    let mapped = unsafe { File::open_mapped(&path).unwrap() };
    assert!(!read.parts()[0].bytes().is_mapped() && mapped.parts()[0].bytes().is_mapped());
    assert!(**read.parts()[0].bytes() == **mapped.parts()[0].bytes());
}

/// Values written down in `tools/oracle/gguf_fixtures.py`.
#[test]
fn the_fixture_of_gguf_py_has_the_values_that_were_written() {
    let file = File::open(fixture("gguf_py.gguf")).unwrap();
    let metadata = file.metadata();
    assert_eq!(metadata.get_u8("scalar.u8").unwrap(), u8::MAX);
    assert_eq!(metadata.get_i32("scalar.i8").unwrap(), -128);
    assert_eq!(metadata.get_u16("scalar.u16").unwrap(), u16::MAX);
    assert_eq!(metadata.get_i64("scalar.i16").unwrap(), -32768);
    assert_eq!(metadata.get_usize("scalar.u32").unwrap(), u32::MAX as usize);
    assert_eq!(metadata.get_i32("scalar.i32").unwrap(), i32::MIN);
    assert_eq!(metadata.get_u64("scalar.u64").unwrap(), u64::MAX);
    assert_eq!(metadata.get_i64("scalar.i64").unwrap(), i64::MIN);
    assert_eq!(metadata.get_f32("scalar.f32").unwrap(), 1e-5);
    assert_eq!(metadata.get_f64("scalar.f64").unwrap(), 0.1);
    assert!(metadata.get_bool("scalar.true").unwrap());
    assert!(!metadata.get_bool("scalar.false").unwrap());
    assert_eq!(metadata.get_str("scalar.string").unwrap(), "žluťoučký kůň 🐎\n\t\"\\");

    assert_eq!(metadata.get::<&[u8]>("array.u8").unwrap(), [0, 1, 255]);
    assert_eq!(metadata.get::<&[i16]>("array.i16").unwrap(), [i16::MIN, i16::MAX]);
    assert_eq!(metadata.get::<&[u64]>("array.u64").unwrap(), [0, u64::MAX]);
    assert_eq!(metadata.get::<Vec<i64>>("array.i8").unwrap(), [-128, 127]);
    assert_eq!(metadata.get::<&[f32]>("array.f32").unwrap(), [1.5, -0.0, f32::INFINITY]);
    assert_eq!(metadata.get::<&[f64]>("array.f64").unwrap(), [0.1, 1e300]);
    assert_eq!(metadata.get::<&[bool]>("array.bool").unwrap(), [true, false, true]);
    let strings: [&[u8]; 5] = [b"", b"a", "é".as_bytes(), b"\xff\xfe", b"longer than the others"];
    assert!(metadata.get_str_array("array.string").unwrap().iter().eq(strings));
    let nested = Array::Array(vec![Array::I32(vec![1, 2, 3]), Array::Str(["x", "yz"].iter().collect())]);
    assert_eq!(metadata.get_array("array.array").unwrap(), &nested);

    let shape = |name| file.tensor(name).unwrap().shape().to_vec();
    assert_eq!(shape("one.f32"), [1]);
    assert_eq!(shape("matrix.f32"), [3, 5]);
    assert_eq!(shape("cube.f16"), [2, 3, 4]);
    assert_eq!(shape("four.i32"), [2, 1, 3, 2]);
    assert_eq!(shape("blocks.q4_k"), [2, 256]);
    assert_eq!(file.tensor("blocks.q8_0").unwrap().dtype(), DType::Quant(QuantType::Q8_0));
    assert_eq!(floats(&file, "one.f32"), [1.5]);
}

/// The whole of every file beside the repository: metadata, tensors and their data.
#[test]
fn models_and_vocabularies_read_as_gguf_py_reads_them() {
    let Some(data) = shared_data() else { return };
    let digests = std::fs::read_to_string(fixture("shared_digests.tsv")).unwrap();
    assert!(digests.lines().count() >= 38);
    for line in digests.lines() {
        let [name, tensors, keys, crc] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let file = File::open(data.join(name)).unwrap();
        assert_eq!(
            (file.tensors().len().to_string(), file.metadata().len().to_string()),
            (tensors.into(), keys.into())
        );
        let text = describe(&file);
        let hint = "compare with tools/oracle/gguf_describe.py";
        assert_eq!(format!("{:08x}", crc32(text.as_bytes())), crc, "{name}: {hint}:\n{text}");
    }
    // One of them in full, to see more than that something differs.
    let name = "stories260K-x4-Q4_K_M";
    let file = File::open(data.join(format!("models/{name}.gguf"))).unwrap();
    assert_eq!(describe(&file), std::fs::read_to_string(fixture(&format!("{name}.tsv"))).unwrap());
}

#[test]
fn version_2_is_read() {
    let mut bytes = std::fs::read(fixture("gguf_py.gguf")).unwrap();
    bytes[4] = 2;
    let file = File::from_bytes(bytes).unwrap();
    assert_eq!(file.parts()[0].version(), 2);
    let expected = std::fs::read_to_string(fixture("gguf_py.tsv")).unwrap().replacen("\t3\t", "\t2\t", 1);
    assert_eq!(describe(&file), expected);
}

#[test]
fn bytes_of_every_kind_are_read_in_place() {
    static EMBEDDED: &[u8; 2624] = include_bytes!("../data/gguf_py.gguf");
    let expected = std::fs::read_to_string(fixture("gguf_py.tsv")).unwrap();
    let file = File::from_bytes(EMBEDDED).unwrap();
    assert_eq!(describe(&file), expected);
    let tensor = file.tensor("one.f32").unwrap();
    assert!(std::ptr::eq(tensor.bytes().as_ptr(), &EMBEDDED[tensor.offset()]));

    for file in [
        File::from_bytes(&EMBEDDED[..]),
        File::from_bytes(EMBEDDED.to_vec()),
        File::from_bytes(Arc::<[u8]>::from(&EMBEDDED[..])),
        File::from_bytes(SharedBytes::from(EMBEDDED)),
    ] {
        assert_eq!(describe(&file.unwrap()), expected);
    }
}

#[test]
fn data_outlives_the_file_and_moves_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<File>();
    let file = File::open(fixture("gguf_py.gguf")).unwrap();
    let expected = file.tensor("matrix.f32").unwrap().bytes().to_vec();
    let shared = file.tensor("matrix.f32").unwrap().shared_bytes();
    let tokens = file.metadata().get_str_array("array.string").unwrap().clone();
    drop(file);
    let (a, b) = (shared.clone(), expected.clone());
    std::thread::spawn(move || assert_eq!(*a, b)).join().unwrap();
    assert_eq!(*shared, expected);
    assert_eq!(tokens.get(1), Some(&b"a"[..]));
}

#[test]
fn tensors_are_totalled_by_dtype() {
    let file = File::open(fixture("gguf_py.gguf")).unwrap();
    let summary = file.summary();
    // Rows of gguf_py.tsv.
    let bytes = 4 + 60 + 48 + 48 + 16 + 7 + 204 + 288 + 12;
    assert_eq!((summary.tensors, summary.bytes), (9, bytes));
    assert_eq!(summary.parameters, 1 + 15 + 24 + 12 + 2 + 7 + 192 + 512 + 6);
    let q4_k = DTypeSummary { dtype: DType::Quant(QuantType::Q4_K), tensors: 1, parameters: 512, bytes: 288 };
    assert_eq!(summary.by_dtype[0], q4_k);
    let f32s = DTypeSummary { dtype: DType::F32, tensors: 2, parameters: 16, bytes: 64 };
    assert!(summary.by_dtype.contains(&f32s));
    let text = summary.to_string();
    assert!(text.starts_with("9 tensors, 771 parameters, 687 B, 7.13 bits per parameter\n  Q4_K"), "{text}");
}

/// Opening a gigabyte reads its first pages only. (The file is sparse: it has no blocks on the disk behind it.)
#[test]
fn a_large_file_opens_without_reading_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.gguf");
    const VALUES: u64 = 1 << 28;
    let mut raw = Raw::valid();
    raw.tensors = vec![crate::common::tensor(b"a", &[1 << 14, VALUES >> 14], 0, 0)];
    raw.data.clear();
    let head = raw.bytes();
    std::fs::write(&path, &head).unwrap();
    let sparse = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    if let Err(error) = sparse.set_len(head.len() as u64 + 4 * VALUES) {
        return skip(Requirement::System, format!("no sparse file of 1 GiB here: {error}"));
    }
    let start = Instant::now();
    // SAFETY: nobody changes the file while this lives.
    let file = unsafe { File::open_mapped(&path).unwrap() };
    let tensor = file.tensor("a").unwrap();
    println!("opened 1 GiB in {:?}", start.elapsed());
    assert_eq!((tensor.shape(), tensor.nbytes()), (&[1 << 14, 1 << 14][..], 1 << 30));
    if let Some(kib) = resident_kib(&path) {
        println!("{kib} KiB resident");
        assert!(kib <= 1024, "{kib} KiB are resident");
    }
    assert_eq!(tensor.bytes().last(), Some(&0));
}

/// How much of the mapping of `path` is in memory, where the system tells.
fn resident_kib(path: &Path) -> Option<usize> {
    let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let mapping = maps.split_once(path.to_str()?)?.1;
    let rss = mapping.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    rss.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[test]
fn editing_a_value_of_any_integer_type_is_seen() {
    let mut raw = Raw::valid();
    raw.keys.push(key(b"big", 11, (-5i64).to_le_bytes()));
    let file = File::from_bytes(raw.bytes()).unwrap();
    assert_eq!(file.metadata().value("big"), Some(&Value::I64(-5)));
    assert_eq!(file.metadata().find::<i8>("big").unwrap(), Some(-5));
    assert!(file.metadata().iter().map(|(key, _)| key).eq(["general.architecture", "n", "big"]));
    assert_eq!(floats(&file, "a"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(file.tensor("a").unwrap().shape(), [2, 3]);
    assert_eq!(floats(&file, "b"), [6.0, 7.0, 8.0, 9.0]);
}
