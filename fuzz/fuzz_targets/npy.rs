//! Any bytes are read as a `.npy` file and as an `.npz` archive or refused, without a panic or an allocation out of proportion; and
//! what was read is written and read again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rustorch_formats::numpy::{Array, Npz, NpzWriter};

fuzz_target!(|data: &[u8]| {
    match Array::from_bytes(data.to_vec()) {
        Ok(array) => exercise(&array),
        Err(error) => drop(error.to_string()),
    }
    match Npz::from_bytes(data.to_vec()) {
        Ok(file) => archive(&file),
        Err(error) => drop(error.to_string()),
    }
});

fn exercise(array: &Array) {
    let numel: usize = array.shape().iter().product();
    assert_eq!(array.dtype().bytes_for(numel), Some(array.bytes().len()));
    assert_eq!(array.strides().len(), array.shape().len());
    let again = Array::from_bytes(array.to_bytes().expect("what was read can be written"));
    same(array, &again.expect("what was written can be read"));
}

fn archive(file: &Npz) {
    let mut arrays = Vec::new();
    for name in file.names() {
        match file.array(name) {
            Ok(array) => {
                exercise(&array);
                arrays.push((name, array));
            }
            Err(error) => drop(error.to_string()),
        }
    }
    let mut writer = NpzWriter::new();
    for (name, array) in &arrays {
        writer.array(name, array).expect("names differ");
    }
    // A name may be too long by the suffix that it gets.
    let Ok(bytes) = writer.to_bytes() else { return };
    let again = Npz::from_bytes(bytes).expect("what was written can be read");
    for (name, array) in &arrays {
        same(array, &again.array(name).expect("it was written"));
    }
}

fn same(a: &Array, b: &Array) {
    assert_eq!((a.dtype(), a.shape(), a.strides()), (b.dtype(), b.shape(), b.strides()));
    assert!(a.bytes() == b.bytes());
}
