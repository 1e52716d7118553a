//! safetensors: files of the Python library are read, and written again byte for byte; tools/oracle/safetensors_files.py made
//! them, and reads what these tests leave in target/tmp/safetensors.

use crate::common::{Listed, fixture, listed, output};
use rustorch_core::DType;
use rustorch_formats::safetensors::{ErrorKind, File, Region, Writer, deduplicate, find_shared};

fn path(name: &str) -> std::path::PathBuf {
    fixture("safetensors").join(name)
}

fn contents(file: &File) -> Vec<Listed> {
    let mut all: Vec<_> = file
        .tensors()
        .map(|t| (t.name().to_owned(), t.dtype().name().to_owned(), t.shape().to_vec(), t.bytes().to_vec()))
        .collect();
    all.sort();
    all
}

#[test]
fn reads_every_dtype_and_writes_the_same_bytes() {
    let bytes = std::fs::read(path("dtypes.safetensors")).unwrap();
    // SAFETY: nobody writes to fixtures.
    let mapped = unsafe { File::open_mapped(path("dtypes.safetensors")) }.unwrap();
    for file in [File::open(path("dtypes.safetensors")).unwrap(), mapped] {
        assert_eq!(contents(&file), listed(&path("dtypes.tsv")));
        assert_eq!(file.metadata().iter().collect::<Vec<_>>(), [(&"format".into(), &"pt".into())]);
        assert_eq!(file.tensor("empty.f32").unwrap().shape(), [2, 0, 3]);
        assert_eq!(file.tensor("scalar.bf16").unwrap().numel(), 1);
        assert_eq!(file.paths().count(), 1);
        assert!(
            matches!(file.tensor("x").unwrap_err().kind(), ErrorKind::MissingTensor { name } if name == "x")
        );
        assert!(Writer::copy_of(&file).to_bytes().unwrap() == bytes);
        Writer::copy_of(&file).write_file(output("safetensors").join("dtypes.safetensors")).unwrap();
    }
}

#[test]
fn the_crate_reads_what_is_written() {
    let mut writer = Writer::new();
    writer.metadata("k", "v").unwrap();
    writer.tensor("b", &[2, 1], DType::I16, vec![1, 0, 2, 0]).unwrap();
    writer.tensor_with("a", &[1], DType::F64, || Ok(1.0f64.to_le_bytes().to_vec())).unwrap();
    let bytes = writer.to_bytes().unwrap();
    let read = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let b = read.tensor("b").unwrap();
    assert_eq!((b.dtype(), b.shape(), b.data()), (safetensors::Dtype::I16, &[2, 1][..], &[1, 0, 2, 0][..]));
    assert_eq!(read.tensor("a").unwrap().data(), 1.0f64.to_le_bytes());
    assert_eq!(read.len(), 2);
}

#[test]
fn reads_sharded_sets_and_writes_the_same_files() {
    let index = path("model.safetensors.index.json");
    // SAFETY: nobody writes to fixtures.
    let mapped = unsafe { File::open_mapped(&index) }.unwrap();
    for file in [File::open(&index).unwrap(), mapped] {
        assert_eq!(contents(&file), listed(&path("model.tsv")));
        assert_eq!(file.metadata()["format"], "pt");
        assert_eq!(file.paths().count(), 3);
        let prefix = output("safetensors").join("model");
        let written = Writer::copy_of(&file).write_sharded(prefix, 128).unwrap();
        assert!(written.ends_with("model.safetensors.index.json"));
        for read in file.paths().chain([&*index]) {
            let ours = written.with_file_name(read.file_name().unwrap());
            assert_eq!(std::fs::read(ours).unwrap(), std::fs::read(read).unwrap(), "{}", read.display());
        }
    }
}

#[test]
fn a_set_of_one_file_has_no_index() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::new();
    writer.tensor("a", &[2], DType::U8, vec![1, 2]).unwrap();
    let path = writer.write_sharded(dir.path().join("m.safetensors"), 2).unwrap();
    assert_eq!(path, dir.path().join("m.safetensors"));
    writer.tensor("b", &[1], DType::U8, vec![3]).unwrap();
    writer.tensor("c", &[1], DType::U8, vec![4]).unwrap();
    let path = writer.write_sharded(dir.path().join("m.safetensors"), 2).unwrap();
    let file = File::open(&path).unwrap();
    assert_eq!((file.paths().count(), file.tensors().len()), (2, 3));
    assert_eq!(File::open(dir.path().join("m-00002-of-00002.safetensors")).unwrap().tensors().len(), 2);
    assert!(Writer::new().write_sharded(dir.path().join("none"), 1).unwrap().ends_with("none.safetensors"));
}

fn region(storage: usize, range: std::ops::Range<usize>, covers_storage: bool) -> Region {
    Region { storage, range, covers_storage }
}

#[test]
fn tied_tensors_are_kept_under_one_name() {
    let file = File::open(path("tied.safetensors")).unwrap();
    assert_eq!(contents(&file), listed(&path("tied.tsv")));
    assert_eq!(file.aliases().collect::<Vec<_>>(), [("lm_head.weight", "embed.weight")]);

    // The same model, as we save it.
    let weight = file.tensor("embed.weight").unwrap();
    let all = ["norm.weight", "norm.bias", "lm_head.weight", "embed.weight"];
    let storage = |name: &str| if name.starts_with("norm") { name.len() } else { 1 };
    let len = |name: &str| if name.starts_with("norm") { 12 } else { 48 };
    let aliases = deduplicate(all.map(|name| (name, region(storage(name), 0..len(name), true)))).unwrap();
    let mut writer = Writer::new();
    for name in all.iter().filter(|name| !aliases.contains_key(**name)) {
        let tensor = file.tensor(name).unwrap();
        writer.tensor(name, tensor.shape(), tensor.dtype(), tensor.bytes()).unwrap();
    }
    writer.aliases(aliases);
    assert!(writer.to_bytes().unwrap() == std::fs::read(path("tied.safetensors")).unwrap());
    writer.write_file(output("safetensors").join("tied.safetensors")).unwrap();

    // A plain save of both is refused.
    let mut writer = Writer::new();
    writer.tensor("embed.weight", weight.shape(), weight.dtype(), weight.bytes()).unwrap();
    let error = writer.tensor("lm_head.weight", weight.shape(), weight.dtype(), weight.bytes()).unwrap_err();
    assert!(
        error.to_string().contains("tensors `embed.weight` and `lm_head.weight` share memory"),
        "{error}"
    );
    writer.tensor("lm_head.weight", weight.shape(), weight.dtype(), weight.bytes().to_vec()).unwrap();
}

#[test]
fn which_tensors_share_memory() {
    let tensors = [
        ("whole", region(1, 0..100, true)),
        ("front", region(1, 0..10, false)),
        ("middle", region(1, 50..60, false)),
        ("elsewhere", region(2, 0..100, true)),
        ("left", region(3, 0..40, false)),
        ("right", region(3, 40..80, false)),
        ("nothing", region(1, 5..5, false)),
    ];
    assert_eq!(find_shared(tensors.clone()), [["front", "middle", "whole"]]);
    let kept: Vec<_> = deduplicate(tensors).unwrap().into_iter().collect();
    assert_eq!(kept, [("front", "whole"), ("middle", "whole")]);
    let error = deduplicate([("b", region(1, 4..8, false)), ("a", region(1, 0..5, false))]).unwrap_err();
    assert!(
        error.to_string().starts_with("tensors `a`, `b` share memory and none of them covers"),
        "{error}"
    );
}

#[test]
fn the_writer_says_what_it_cannot_write() {
    let mut writer = Writer::new();
    writer.tensor("a", &[1], DType::U8, vec![1]).unwrap();
    writer.metadata("k", "v").unwrap();
    let produced = |len| {
        let mut writer = Writer::new();
        writer.tensor_with("p", &[2], DType::U8, move || Ok(vec![0; len])).unwrap();
        writer.to_bytes().unwrap_err()
    };
    for (error, message) in [
        (writer.tensor("a", &[1], DType::U8, vec![1]).unwrap_err(), "tensor `a` occurs twice"),
        (
            writer.tensor("__metadata__", &[0], DType::U8, vec![]).unwrap_err(),
            "cannot be called `__metadata__`",
        ),
        (
            writer.tensor("b", &[2], DType::F32, vec![1]).unwrap_err(),
            "tensor `b` needs 8 bytes, 1 were given",
        ),
        (
            writer.tensor("b", &[0], DType::C128, vec![]).unwrap_err(),
            "dtype c128, which safetensors files cannot hold",
        ),
        (writer.tensor("b", &[usize::MAX, 2], DType::U8, vec![]).unwrap_err(), "larger than any memory"),
        (writer.tensor("b", &[1; 65], DType::U8, vec![1]).unwrap_err(), "has 65 dimensions"),
        (writer.metadata("k", "w").unwrap_err(), "metadata key `k` occurs twice"),
        (produced(1), "tensor `p` needs 2 bytes, 1 were given"),
        (produced(3), "tensor `p` needs 2 bytes, 3 were given"),
    ] {
        assert!(error.to_string().contains(message), "\"{error}\" does not say \"{message}\"");
    }
}
