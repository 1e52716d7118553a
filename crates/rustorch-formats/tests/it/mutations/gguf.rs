//! GGUF.

use super::damage;
use crate::common::{Raw, array, exercise, fixture, key, string, tensor};
use proptest::prelude::*;
use rustorch_formats::gguf::{Array, File, Value, Writer};

/// A small file with something of everything, so that damage hits structure more often than data.
fn small() -> Vec<u8> {
    let mut raw = Raw::valid();
    raw.keys.push(key(b"s", 9, array(8, 3, [string(b"x"), string(b""), string(b"yz")].concat())));
    raw.keys.push(key(b"v", 9, array(9, 2, [array(0, 2, [1, 2]), array(7, 1, [1])].concat())));
    raw.keys.push(key(b"general.alignment", 4, 32u32.to_le_bytes()));
    raw.tensors.push(tensor(b"q", &[32, 1], 2, 64));
    raw.data.resize(64 + 18, 0);
    raw.bytes()
}

fn read(bytes: Vec<u8>) {
    match File::from_bytes(bytes) {
        Ok(file) => exercise(&file),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Arrays that the writer takes, nested and empty ones too.
fn arrays() -> impl Strategy<Value = Array> {
    let flat = prop_oneof![
        prop::collection::vec(any::<i16>(), 0..5).prop_map(Array::I16),
        prop::collection::vec(any::<u64>(), 0..5).prop_map(Array::U64),
        prop::collection::vec(any::<bool>(), 0..5).prop_map(Array::Bool),
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..5)
            .prop_map(|strings| Array::Str(strings.iter().collect())),
    ];
    flat.prop_recursive(3, 16, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Array::Array))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_do_not_panic(acts in prop::collection::vec(damage(), 1..5)) {
        let mut bytes = small();
        acts.iter().for_each(|act| act.apply(&mut bytes));
        read(bytes);
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), version in 2u8..4) {
        read([b"GGUF", &[version, 0, 0, 0][..], &bytes].concat());
        read(bytes);
    }

    #[test]
    fn metadata_comes_back(entries in prop::collection::btree_map(".{0,12}", arrays(), 0..6)) {
        let mut writer = Writer::new();
        for (key, array) in &entries {
            writer.metadata(key, array.clone()).unwrap();
        }
        let file = File::from_bytes(writer.to_bytes().unwrap()).unwrap();
        prop_assert_eq!(file.metadata().len(), entries.len());
        for (key, array) in entries {
            prop_assert_eq!(file.metadata().value(&key), Some(&Value::Array(array)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_of_gguf_py_do_not_panic(acts in prop::collection::vec(damage(), 1..5)) {
        let mut bytes = std::fs::read(fixture("gguf_py.gguf")).unwrap();
        acts.iter().for_each(|act| act.apply(&mut bytes));
        read(bytes);
    }
}

/// Damage must reach both outcomes, or the above would show little.
#[test]
fn some_damaged_files_are_read_and_some_are_refused() {
    let (mut read, mut refused) = (0, 0);
    let bytes = small();
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        match File::from_bytes(bytes) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(read > 50 && refused > 50, "{read} read, {refused} refused");
}
