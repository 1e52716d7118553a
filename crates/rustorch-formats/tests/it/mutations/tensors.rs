//! safetensors, NumPy, PyTorch.

use super::damage;
use crate::common::fixture;
use crate::zip::{RawZip, member};
use proptest::prelude::*;
use rustorch_formats::numpy::{Array, Npz, NpzWriter};
use rustorch_formats::{safetensors, torch};
use rustorch_testkit::allocations::peak_bytes;

/// Reads a safetensors file; one that is read is written again as it was read.
fn read_safetensors(bytes: Vec<u8>) -> bool {
    let Ok(file) = safetensors::File::from_bytes(bytes) else { return false };
    let written = safetensors::Writer::copy_of(&file).to_bytes().unwrap();
    let again = safetensors::File::from_bytes(written).unwrap();
    assert_eq!((file.metadata(), file.tensors().len()), (again.metadata(), again.tensors().len()));
    for tensor in file.tensors() {
        let other = again.tensor(tensor.name()).unwrap();
        assert_eq!((tensor.shape(), tensor.dtype()), (other.shape(), other.dtype()));
        assert!(tensor.bytes() == other.bytes());
    }
    true
}

fn read_array(array: &Array) {
    let again = Array::from_bytes(array.to_bytes().unwrap()).unwrap();
    assert_eq!(
        (array.shape(), array.strides(), array.dtype()),
        (again.shape(), again.strides(), again.dtype())
    );
    assert!(array.bytes() == again.bytes());
}

fn read_npz(bytes: Vec<u8>) -> bool {
    let Ok(file) = Npz::from_bytes(bytes) else { return false };
    let arrays: Vec<_> =
        file.names().filter_map(|name| file.array(name).ok().map(|array| (name, array))).collect();
    let mut writer = NpzWriter::compressed();
    for (name, array) in &arrays {
        read_array(array);
        writer.array(name, array).unwrap();
    }
    let again = Npz::from_bytes(writer.to_bytes().unwrap()).unwrap();
    assert_eq!(again.names().count(), arrays.len());
    true
}

fn read_torch(bytes: Vec<u8>) -> bool {
    let Ok(file) = torch::File::from_bytes(bytes) else { return false };
    // What is read and not written: views of one storage as two dtypes.
    if let Ok(bytes) = torch::Writer::new(file.value()).to_bytes() {
        let again = torch::File::from_bytes(bytes).unwrap();
        assert_eq!(format!("{:?}", file.value()), format!("{:?}", again.value()));
    }
    true
}

/// The pickle of the fixture with tensors.
fn pickle() -> Vec<u8> {
    let file = std::fs::read(fixture("torch/tensors.pt")).unwrap();
    let start = file.windows(3).position(|window| window == b"\x80\x02}").unwrap();
    let end = file.windows(5).position(|window| window == b"u.PK\x07").unwrap() + 2;
    file[start..end].to_vec()
}

/// An archive of a pickle, with the storages of that fixture.
fn with_pickle(pickle: &[u8]) -> Vec<u8> {
    let file = torch::File::open(fixture("torch/tensors.pt")).unwrap();
    let tensors = file.value().state_dict().unwrap();
    let storages = tensors.iter().map(|(_, tensor)| &tensor.storage().bytes()[..]);
    let mut members = vec![member("a/data.pkl", pickle)];
    members.extend(storages.enumerate().map(|(key, bytes)| member(format!("a/data/{key}"), bytes)));
    RawZip::new(members).bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_safetensors_do_not_panic(acts in prop::collection::vec(damage(), 1..5)) {
        let mut bytes = std::fs::read(fixture("safetensors/tied.safetensors")).unwrap();
        acts.iter().for_each(|act| act.apply(&mut bytes));
        read_safetensors(bytes);
    }

    #[test]
    fn damaged_arrays_do_not_panic(acts in prop::collection::vec(damage(), 1..5)) {
        let mut bytes = std::fs::read(fixture("numpy/fortran.npy")).unwrap();
        acts.iter().for_each(|act| act.apply(&mut bytes));
        if let Ok(array) = Array::from_bytes(bytes) {
            read_array(&array);
        }
    }

    #[test]
    fn damaged_archives_do_not_panic(acts in prop::collection::vec(damage(), 1..3), compressed in any::<bool>()) {
        let mut bytes = NpzWriter::new().to_bytes().unwrap();
        let array = Array::open(fixture("numpy/one.npy")).unwrap();
        let mut writer = if compressed { NpzWriter::compressed() } else { NpzWriter::new() };
        for name in ["a", "b"] {
            writer.array(name, &array).unwrap();
            bytes = writer.to_bytes().unwrap();
        }
        acts.iter().for_each(|act| act.apply(&mut bytes));
        let len = bytes.len();
        let (_, peak) = peak_bytes(|| read_npz(bytes));
        prop_assert!(peak < 10 * len + (1 << 20), "{peak} bytes for a file of {len}");
    }

    #[test]
    fn damaged_pickles_do_not_panic(acts in prop::collection::vec(damage(), 1..5)) {
        let mut bytes = pickle();
        acts.iter().for_each(|act| act.apply(&mut bytes));
        read_torch(with_pickle(&bytes));
    }

    #[test]
    fn damaged_checkpoints_do_not_panic(acts in prop::collection::vec(damage(), 1..3)) {
        let mut bytes = std::fs::read(fixture("torch/views.pt")).unwrap();
        acts.iter().for_each(|act| act.apply(&mut bytes));
        read_torch(bytes);
    }
}

/// Damage must reach both outcomes, or the above would show little.
#[test]
fn some_damaged_files_are_read_and_some_are_refused() {
    assert!(read_torch(with_pickle(&pickle())));
    for (name, read) in [
        ("safetensors/tied.safetensors", read_safetensors as fn(Vec<u8>) -> bool),
        ("numpy/one.npy", |bytes| Array::from_bytes(bytes).map(|array| read_array(&array)).is_ok()),
        ("torch/views.pt", read_torch),
    ] {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let flipped = |at: usize| {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            bytes
        };
        let count = (0..bytes.len()).filter(|&at| read(flipped(at))).count();
        assert!(count > 20 && bytes.len() - count > 20, "{name}: {count} of {} read", bytes.len());
    }
}
