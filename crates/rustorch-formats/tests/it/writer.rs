//! What is written is read back, by us and (see `writer_sample.tsv`) by gguf-py.

use crate::common::{describe, fixture, shared_data};
use rustorch_core::{DType, QuantType};
use rustorch_formats::gguf::{Array, ErrorKind, File, MAX_KEY_LEN, StrArray, Value, Writer};
use std::fs;
use std::path::Path;

/// An entry of every type and a tensor of every dtype that files have.
fn sample() -> Writer<'static> {
    let mut w = Writer::new();
    w.metadata("general.architecture", "sample").unwrap();
    w.metadata("u8", u8::MAX).unwrap();
    w.metadata("i8", i8::MIN).unwrap();
    w.metadata("u16", u16::MAX).unwrap();
    w.metadata("i16", i16::MIN).unwrap();
    w.metadata("u32", u32::MAX).unwrap();
    w.metadata("i32", i32::MIN).unwrap();
    w.metadata("u64", u64::MAX).unwrap();
    w.metadata("i64", i64::MIN).unwrap();
    w.metadata("f32", 1e-6f32).unwrap();
    w.metadata("f64", -0.1f64).unwrap();
    w.metadata("true", true).unwrap();
    w.metadata("false", false).unwrap();
    w.metadata("string.empty", "").unwrap();
    w.metadata("string.bytes", Value::Str(b"\xf0\x9f\x90".into())).unwrap();
    w.metadata("klíč", "Příliš žluťoučký kůň").unwrap();
    w.metadata("a.u8", vec![1u8, 2]).unwrap();
    w.metadata("a.i8", vec![-1i8, 2]).unwrap();
    w.metadata("a.u16", vec![1u16, 2]).unwrap();
    w.metadata("a.i16", vec![-1i16, 2]).unwrap();
    w.metadata("a.u32", vec![1u32, 2]).unwrap();
    w.metadata("a.i32", vec![-1i32, 2]).unwrap();
    w.metadata("a.u64", vec![1u64, 2]).unwrap();
    w.metadata("a.i64", vec![-1i64, 2]).unwrap();
    w.metadata("a.f32", vec![f32::MIN_POSITIVE, f32::NEG_INFINITY]).unwrap();
    w.metadata("a.f64", vec![f64::MAX]).unwrap();
    w.metadata("a.bool", vec![true, false]).unwrap();
    w.metadata("a.string", (0..300).map(|i| "▁".repeat(i % 7)).collect::<StrArray>()).unwrap();
    w.metadata("a.empty", Vec::<f32>::new()).unwrap();
    w.metadata("a.no strings", &[][..] as &[&str]).unwrap();
    w.metadata("a.array", Array::Array(vec![Array::U8(vec![1]), Array::Array(vec![Array::F32(vec![])])]))
        .unwrap();
    w.alignment(128).unwrap();

    let bytes = |n: usize| (0..n).map(|i| (i * 37 + n) as u8).collect::<Vec<_>>();
    let dense =
        [DType::I8, DType::I16, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];
    for dtype in dense {
        let n = 15 * dtype.size().unwrap();
        w.tensor(dtype.name(), &[3, 5], dtype, bytes(n)).unwrap();
    }
    // Without Q8_1, which no file has: gguf-py holds its blocks for 40 bytes long, in ggml they have been 36 since its
    // scale and sum became halves. And without Q1_0 and Q2_0, which gguf-py 0.19 does not know.
    let unknown = [QuantType::Q8_1, QuantType::Q1_0, QuantType::Q2_0];
    for (i, &quant) in QuantType::ALL.iter().filter(|quant| !unknown.contains(quant)).enumerate() {
        let shape = &[1, 2, 1, 2 * quant.block_len()][i % 4..];
        let n = shape.iter().product::<usize>() / quant.block_len() * quant.block_bytes();
        w.tensor(quant.name(), shape, DType::Quant(quant), bytes(n)).unwrap();
    }
    w
}

/// gguf-py read the same bytes as is committed; and we as gguf-py.
#[test]
fn gguf_py_reads_what_is_written() {
    let written = sample().to_bytes().unwrap();
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("writer_sample.gguf"), &written).unwrap();
    let expected = fs::read_to_string(fixture("writer_sample.tsv")).unwrap();
    assert_eq!(describe(&File::from_bytes(written).unwrap()), expected, "see tools/oracle/gguf_describe.py");
}

#[test]
fn values_come_back_as_they_were() {
    let mut writer = sample();
    let file = File::from_bytes(writer.to_bytes().unwrap()).unwrap();
    assert_eq!(file.metadata(), writer.metadata_mut());
    assert_eq!(file.parts()[0].alignment(), 128);
    assert_eq!(file.tensor("IQ4_XS").unwrap().dtype(), DType::Quant(QuantType::IQ4_XS));
    assert!(file.tensors().all(|tensor| tensor.offset() % 128 == 0));
}

/// The fixture was written by gguf-py, the models by llama.cpp: written again by us they are the same to the byte.
#[test]
fn files_of_others_are_rewritten_to_the_byte() {
    let mut paths = vec![fixture("gguf_py.gguf")];
    if let Some(data) = shared_data() {
        for entry in ["models", "vocab", "archs"].iter().flat_map(|dir| fs::read_dir(data.join(dir)).unwrap())
        {
            paths.push(entry.unwrap().path());
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "gguf"));
        assert!(paths.len() > 38);
    }
    for path in paths {
        let file = File::open(&path).unwrap();
        let mut written = Writer::copy_of(&file).to_bytes().unwrap();
        let original: &[u8] = file.parts()[0].bytes();
        if file.tensors().len() == 0 {
            // Without tensors some pad the file, and some do not.
            assert!(original.len() - written.len() < 32, "{}", path.display());
            written.resize(original.len(), 0);
        }
        assert!(written == original, "{}", path.display());
    }
}

#[test]
fn files_are_replaced_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    let mut first = Writer::new();
    first.tensor("a", &[2], DType::I8, &[1u8, 2][..]).unwrap();
    first.write_file(&path).unwrap();
    // SAFETY: the file is replaced, not changed.
    let open = unsafe { File::open_mapped(&path).unwrap() };

    let mut failing = Writer::new();
    failing.tensor_with("a", &[2], DType::I8, |_| Err(std::io::Error::other("no more"))).unwrap();
    let error = failing.write_file(&path).unwrap_err();
    assert!(error.to_string().contains("no more") && error.path() == Some(&*path), "{error}");
    assert_eq!(File::open(&path).unwrap().tensor("a").unwrap().bytes(), [1, 2]);
    assert!(failing.write_split(&path, 0).is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

    let mut second = Writer::new();
    second.tensor_with("a", &[2], DType::I8, |out| out.write_all(&[3, 4])).unwrap();
    second.write_file(&path).unwrap();
    assert_eq!(File::open(&path).unwrap().tensor("a").unwrap().bytes(), [3, 4]);
    assert_eq!(open.tensor("a").unwrap().bytes(), [1, 2], "the mapping of the old file stays");
    assert!(Writer::new().write_file(dir.path().join("absent/model.gguf")).is_err());
}

#[test]
fn producers_must_give_what_was_promised() {
    let write = |n: usize| {
        let mut writer = Writer::new();
        writer
            .tensor_with("a", &[3], DType::I16, move |out| (0..n).try_for_each(|_| out.write_all(&[7])))
            .unwrap();
        writer.to_bytes()
    };
    assert_eq!(File::from_bytes(write(6).unwrap()).unwrap().tensor("a").unwrap().bytes(), [7; 6]);
    for n in [0, 5, 7, 8] {
        let error = write(n).unwrap_err();
        let actual = n.min(7) as u64;
        assert!(
            matches!(error.kind(), ErrorKind::DataLength { expected: 6, actual: a, .. } if *a == actual),
            "{n}: {error}"
        );
    }
}

#[test]
fn what_could_not_be_read_back_is_refused() {
    let add = |shape: &[usize], dtype, bytes: usize| {
        Writer::new().tensor("a", shape, dtype, vec![0; bytes]).unwrap_err().into_kind()
    };
    assert!(matches!(add(&[2], DType::F32, 7), ErrorKind::DataLength { expected: 8, actual: 7, .. }));
    assert!(matches!(add(&[2], DType::Bool, 2), ErrorKind::UnsupportedDType { dtype: DType::Bool, .. }));
    assert!(matches!(add(&[1; 5], DType::I8, 1), ErrorKind::TooManyDims { dims: 5, .. }));
    assert!(matches!(add(&[2, 0], DType::I8, 0), ErrorKind::ZeroDim { .. }));
    assert!(matches!(add(&[usize::MAX, 2], DType::I8, 0), ErrorKind::TensorTooLarge { .. }));
    let q8_0 = DType::Quant(QuantType::Q8_0);
    assert!(matches!(add(&[2, 16], q8_0, 34), ErrorKind::PartialBlock { row: 16, block: 32, .. }));

    let mut writer = Writer::new();
    let kind = |result: Result<(), rustorch_formats::gguf::Error>| result.unwrap_err().into_kind();
    writer.tensor("a", &[1], DType::I8, vec![0]).unwrap();
    assert!(matches!(kind(writer.tensor("a", &[1], DType::I8, vec![0])), ErrorKind::DuplicateTensor { .. }));
    let long = "n".repeat(MAX_KEY_LEN + 1);
    assert!(matches!(
        kind(writer.tensor(&long, &[1], DType::I8, vec![0])),
        ErrorKind::NameTooLong { index: 1, .. }
    ));
    assert!(matches!(kind(writer.metadata(&long, 1u8)), ErrorKind::KeyTooLong { .. }));
    writer.metadata("k", 1u8).unwrap();
    assert!(matches!(kind(writer.metadata("k", 2u8)), ErrorKind::DuplicateKey { .. }));
    for alignment in [0, 48] {
        assert!(matches!(kind(writer.alignment(alignment)), ErrorKind::BadAlignment { .. }));
    }
    writer.metadata("general.alignment", 48u32).unwrap();
    assert!(matches!(writer.to_bytes().unwrap_err().kind(), ErrorKind::BadAlignment { alignment: 48 }));

    let mut writer = Writer::new();
    let deep = (0..4).fold(Array::U8(vec![]), |inner, _| Array::Array(vec![inner]));
    writer.metadata("k", deep).unwrap();
    assert!(matches!(writer.to_bytes().unwrap_err().kind(), ErrorKind::ArrayTooDeep { .. }));
}

#[test]
fn the_alignment_is_written_in_the_type_that_others_read() {
    let mut writer = Writer::new();
    writer.metadata("general.alignment", 64i64).unwrap();
    writer.tensor("a", &[1], DType::I8, vec![5]).unwrap();
    let file = File::from_bytes(writer.to_bytes().unwrap()).unwrap();
    assert_eq!(file.metadata().value("general.alignment"), Some(&Value::U32(64)));
    assert_eq!((file.parts()[0].alignment(), file.tensor("a").unwrap().bytes()), (64, &[5][..]));
}
