//! Tensors in files. The fixtures are those of rustorch-formats; tools/oracle/torch_files.py, numpy_files.py and
//! safetensors_files.py made them.

use rustorch::files::{
    Error, SafetensorsOptions, SharedTensors, Value, load_npy, load_npy_mapped, load_npz, load_safetensors,
    load_safetensors_mapped, load_torch, load_torch_mapped, save_npy, save_npz, save_npz_compressed,
    save_safetensors, save_safetensors_with, save_torch,
};
use rustorch::{DType, Tensor, torch};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../rustorch-formats/tests/data").join(name)
}

/// Dtype, shape and bytes of a tensor.
fn contents(tensor: &Tensor) -> (DType, Vec<usize>, Vec<u8>) {
    (tensor.dtype(), tensor.dims().to_vec(), tensor.to_bytes().unwrap())
}

/// The tensors of a dict and of lists in it, in order.
fn tensors<T: Clone>(value: &torch::Value<T>) -> Vec<T> {
    let mut all = Vec::new();
    value
        .try_map(&mut |tensor| {
            all.push(tensor.clone());
            Ok::<_, Error>(())
        })
        .unwrap();
    all
}

#[test]
fn pytorch_files_give_the_same_values_as_their_bytes() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["tensors.pt", "views.pt", "checkpoint.pt", "protocol4.pt", "deflated.pt"] {
        let path = fixture("torch").join(name);
        let raw = torch::File::open(&path).unwrap();
        let expected: Vec<_> = tensors(raw.value())
            .iter()
            .map(|view| {
                (
                    (view.dtype(), view.shape().to_vec(), view.to_bytes().unwrap().into_owned()),
                    view.requires_grad(),
                )
            })
            .collect();
        let again = dir.path().join(name);
        save_torch(&again, &load_torch(&path).unwrap()).unwrap();
        // SAFETY: nobody writes to fixtures.
        let mapped = unsafe { load_torch_mapped(&path) }.unwrap();
        for value in [load_torch(&path).unwrap(), mapped, load_torch(&again).unwrap()] {
            let found: Vec<_> = tensors(&value).iter().map(|t| (contents(t), t.requires_grad())).collect();
            assert!(found == expected, "{name}");
            let scalars = |value: &torch::Value<_>| format!("{value:?}");
            let strip = |value: &Value| scalars(&value.try_map(&mut |_| Ok::<_, Error>(())).unwrap());
            assert_eq!(strip(&value), scalars(&raw.value().try_map(&mut |_| Ok::<_, Error>(())).unwrap()));
        }
    }
}

#[test]
fn views_of_one_storage_share_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("views.pt");
    let value = load_torch(fixture("torch/views.pt")).unwrap();
    save_torch(&path, &value).unwrap();
    for value in [value, load_torch(path).unwrap()] {
        let tensor = |name: &str| value.get(name).unwrap().as_tensor().unwrap();
        for name in ["same", "transposed", "row", "column", "steps", "expanded", "permuted"] {
            assert!(tensor("base").shares_memory(tensor(name)), "{name}");
        }
        assert!(!tensor("base").shares_memory(tensor("apart")));
        tensor("row").copy_(&Tensor::full(6, 7.0, DType::F32).unwrap()).unwrap();
        let row = tensor("base").select(0, 1).unwrap();
        assert_eq!(row.to_vec::<f32>().unwrap(), [7.0; 6]);
        assert_eq!(tensor("column").to_vec::<f32>().unwrap()[1], 7.0);
    }
}

#[test]
fn views_that_are_not_usual_are_copied() {
    let storage = torch::Storage::new((0..10u8).collect::<Vec<_>>());
    let view = |shape: &[usize], strides: &[usize], offset| {
        torch::Value::Tensor(
            torch::TensorView::new(storage.clone(), DType::U8, shape, strides, offset).unwrap(),
        )
    };
    let views = [
        (view(&[3, 3], &[1, 1], 2), vec![2, 3, 4, 3, 4, 5, 4, 5, 6]),
        (view(&[2, 3], &[7, 1], 0), vec![0, 1, 2, 7, 8, 9]),
        (view(&[3], &[4], 1), vec![1, 5, 9]),
        (view(&[2, 2, 2], &[1, 0, 5], 3), vec![3, 8, 3, 8, 4, 9, 4, 9]),
        (view(&[1, 1], &[3, 9], 6), vec![6]),
        (view(&[], &[], 9), vec![9]),
    ];
    let (values, expected): (Vec<_>, Vec<Vec<u8>>) = views.into_iter().unzip();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("views.pt");
    torch::Writer::new(&torch::Value::List(values)).write_file(&path).unwrap();
    let loaded: Vec<_> =
        tensors(&load_torch(path).unwrap()).iter().map(|t| t.to_vec::<u8>().unwrap()).collect();
    assert_eq!(loaded, expected);
}

#[test]
fn numpy_files_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let arrays = load_npz(fixture("numpy/dtypes.npz")).unwrap();
    assert_eq!(arrays.len(), 49);
    assert_eq!(arrays["fortran.i32"].dims(), [2, 3, 2]);
    let same = |other: &Path| {
        let other = load_npz(other).unwrap();
        assert!(arrays.keys().eq(other.keys()));
        for (name, array) in &arrays {
            assert_eq!(contents(array), contents(&other[name]), "{name}");
        }
    };
    same(&fixture("numpy/big_endian.npz"));
    for save in [save_npz, save_npz_compressed] {
        save(dir.path().join("x.npz"), &arrays).unwrap();
        same(&dir.path().join("x.npz"));
    }
    let path = dir.path().join("x.npy");
    save_npy(&path, &arrays["fortran.f32"]).unwrap();
    // SAFETY: nobody writes to the file.
    let mapped = unsafe { load_npy_mapped(&path) }.unwrap();
    for array in [load_npy(&path).unwrap(), mapped] {
        assert_eq!(contents(&array), contents(&arrays["fortran.f32"]));
    }
    let error = save_npy(&path, &Tensor::zeros(2, DType::BF16).unwrap()).unwrap_err();
    assert!(error.to_string().contains("NumPy has no dtype bf16"), "{error}");
}

#[test]
fn safetensors_files_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.safetensors");
    let model = load_safetensors(fixture("safetensors/dtypes.safetensors")).unwrap();
    save_safetensors(&path, &model).unwrap();
    // SAFETY: nobody writes to the file.
    let mapped = unsafe { load_safetensors_mapped(&path) }.unwrap();
    for other in [load_safetensors(&path).unwrap(), mapped] {
        assert!(model.keys().eq(other.keys()));
        for (name, tensor) in &model {
            assert_eq!(contents(tensor), contents(&other[name]), "{name}");
        }
    }
    let options = SafetensorsOptions { max_shard_bytes: Some(100), ..Default::default() };
    let index = save_safetensors_with(&path, &model, &options).unwrap();
    assert_eq!(load_safetensors(index).unwrap().len(), model.len());
    assert_eq!(load_safetensors(fixture("safetensors/model.safetensors.index.json")).unwrap().len(), 5);
}

#[test]
fn tensors_that_share_memory_are_refused_or_kept_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.safetensors");
    let whole = Tensor::arange(0, 6, 1).unwrap().to_dtype(DType::F32).unwrap().reshape([2, 3]).unwrap();
    let (row, transposed) = (whole.select(0, 1).unwrap(), whole.t().unwrap());
    let apart = whole.copy().unwrap();
    let message = |tensors: &[(&str, &Tensor)]| {
        save_safetensors(&path, tensors.iter().copied()).unwrap_err().to_string()
    };
    assert!(message(&[("w", &whole), ("r", &row)]).contains("tensors `r` and `w` share memory"));
    assert!(message(&[("w", &whole), ("t", &transposed)]).contains("tensors `t` and `w` share memory"));
    assert!(save_safetensors(&path, [("w", &whole), ("apart", &apart)]).is_ok());
    // Halves of one storage do not overlap.
    save_safetensors(&path, [("first", &whole.select(0, 0).unwrap()), ("second", &row)]).unwrap();

    let options = SafetensorsOptions { shared: SharedTensors::Alias, ..Default::default() };
    save_safetensors_with(&path, [("w", &whole), ("same", &whole), ("apart", &apart)], &options).unwrap();
    let file = rustorch::safetensors::File::open(&path).unwrap();
    assert_eq!(file.tensors().map(|t| t.name()).collect::<Vec<_>>(), ["apart", "same"]);
    assert_eq!(file.aliases().collect::<Vec<_>>(), [("w", "same")]);
    let loaded = load_safetensors(&path).unwrap();
    assert!(loaded["w"].shares_memory(&loaded["same"]) && !loaded["w"].shares_memory(&loaded["apart"]));
    let error = save_safetensors_with(&path, [("a", &row), ("b", &row)], &options).unwrap_err();
    assert!(
        error.to_string().contains("tensors `a`, `b` share memory and none of them covers all"),
        "{error}"
    );
}

#[test]
fn loaded_tensors_are_written_and_mapped_ones_are_not() {
    let path = fixture("safetensors/model.safetensors.index.json");
    let name = "layer.1.weight";
    let loaded = load_safetensors(&path).unwrap();
    loaded[name].fill_(1.0).unwrap();
    assert_eq!(loaded[name].to_vec::<f32>().unwrap(), [1.0; 8]);
    // SAFETY: nobody writes to fixtures.
    let mapped = unsafe { load_safetensors_mapped(&path) }.unwrap();
    assert!(mapped[name].fill_(1.0).is_err());
}

#[test]
fn errors_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("absent");
    for error in [
        load_torch(&path).unwrap_err(),
        load_npy(&path).unwrap_err(),
        load_npz(&path).unwrap_err(),
        load_safetensors(&path).unwrap_err(),
    ] {
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    }
    let quant = DType::from_name("Q4_K").unwrap();
    let weight = Tensor::from_bytes(&[0; 144], quant, [1, 256]).unwrap();
    let error = save_torch(&path, &Value::Tensor(weight)).unwrap_err();
    assert!(error.to_string().contains("PyTorch has no dtype Q4_K"), "{error}");
}
