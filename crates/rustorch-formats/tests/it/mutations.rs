//! Random damage never panics, and what is still read can be used.

use crate::common::{Raw, array, exercise, fixture, key, string, tensor};
use proptest::prelude::*;
use rustorch_formats::gguf::{Array, File, Value, Writer};

/// One act of damage.
#[derive(Clone, Debug)]
enum Damage {
    Set(prop::sample::Index, u8),
    /// Eight bytes at once: counts, lengths, offsets.
    Number(prop::sample::Index, u64),
    Remove(prop::sample::Index, usize),
    Insert(prop::sample::Index, Vec<u8>),
    Cut(prop::sample::Index),
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let len = bytes.len();
        if len == 0 {
            return;
        }
        match self {
            Damage::Set(at, value) => bytes[at.index(len)] = *value,
            Damage::Number(at, value) => {
                for (byte, value) in bytes[at.index(len)..].iter_mut().zip(value.to_le_bytes()) {
                    *byte = value;
                }
            }
            Damage::Remove(at, n) => {
                let at = at.index(len);
                bytes.drain(at..len.min(at + n));
            }
            Damage::Insert(at, new) => {
                let at = at.index(len);
                bytes.splice(at..at, new.iter().copied());
            }
            Damage::Cut(at) => bytes.truncate(at.index(len)),
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    let number = prop_oneof![
        0u64..64,
        (0u32..64, 0u64..3).prop_map(|(bits, less)| (1u64 << bits).wrapping_sub(less)),
        any::<u64>(),
    ];
    prop_oneof![
        4 => (index(), any::<u8>()).prop_map(|(at, value)| Damage::Set(at, value)),
        4 => (index(), 0u8..14).prop_map(|(at, value)| Damage::Set(at, value)),
        4 => (index(), number).prop_map(|(at, value)| Damage::Number(at, value)),
        1 => (index(), 1usize..32).prop_map(|(at, n)| Damage::Remove(at, n)),
        1 => (index(), prop::collection::vec(any::<u8>(), 1..32)).prop_map(|(at, new)| Damage::Insert(at, new)),
        1 => index().prop_map(Damage::Cut),
    ]
}

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
