//! Any bytes are read or refused, without a panic or an allocation out of proportion; and what was read is written and
//! read again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rustorch_formats::gguf::{File, MAGIC, Writer};

fuzz_target!(|data: &[u8]| {
    match File::from_bytes(data.to_vec()) {
        Ok(file) => {
            exercise(&file);
            let written = Writer::copy_of(&file).to_bytes().expect("what was read can be written");
            let again = File::from_bytes(written.clone()).expect("what was written can be read");
            same(&file, &again);
            let twice = Writer::copy_of(&again).to_bytes().expect("what was read can be written");
            assert!(written == twice, "a copy of a copy differs");
        }
        Err(error) => drop(error.to_string()),
    }
    // The same as a file in parts, each of which begins with the magic.
    let starts: Vec<_> =
        (0..data.len()).filter(|&at| data[at..].starts_with(&MAGIC)).chain([data.len()]).collect();
    if starts.len() > 2 {
        match File::from_parts(starts.windows(2).map(|ends| data[ends[0]..ends[1]].to_vec())) {
            Ok(file) => exercise(&file),
            Err(error) => drop(error.to_string()),
        }
    }
});

/// Uses everything that a file offers.
fn exercise(file: &File) {
    let metadata = file.metadata();
    for (key, value) in metadata.iter() {
        let _ = (value.to_string(), value.type_name());
        let _ = (metadata.get_u32(key), metadata.get_i64(key), metadata.get_f32(key), metadata.get_bool(key));
        let _ = (metadata.get_str(key), metadata.get::<Vec<u8>>(key), metadata.get::<&[f32]>(key));
        if let Ok(strings) = metadata.get_str_array(key) {
            let bytes: usize = strings.iter().map(<[u8]>::len).sum();
            assert!(bytes <= file.parts()[0].bytes().len());
            for i in 0..strings.len() {
                assert_eq!(strings.get(i), strings.iter().nth(i));
                if i > 100 {
                    break;
                }
            }
            assert_eq!(strings.get(strings.len()), None);
        }
    }
    for tensor in file.tensors() {
        assert_eq!(tensor.bytes().len(), tensor.nbytes());
        assert_eq!(tensor.dtype().bytes_for(tensor.numel()), Some(tensor.nbytes()));
        assert_eq!(*tensor.shared_bytes(), *tensor.bytes());
        assert_eq!(file.tensor(tensor.name()).expect("it is listed").offset(), tensor.offset());
    }
    let _ = file.summary().to_string();
}

/// Checks that two files hold the same tensors and as much metadata.
fn same(a: &File, b: &File) {
    assert!(a.metadata().iter().map(|(key, _)| key).eq(b.metadata().iter().map(|(key, _)| key)));
    assert_eq!(a.tensors().len(), b.tensors().len());
    for (a, b) in a.tensors().zip(b.tensors()) {
        assert_eq!((a.name(), a.shape(), a.dtype()), (b.name(), b.shape(), b.dtype()));
        assert!(a.bytes() == b.bytes());
    }
}
