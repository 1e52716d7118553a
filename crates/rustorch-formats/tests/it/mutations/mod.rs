//! Random damage never panics, and what is still read can be used.

mod gguf;
mod tensors;

use proptest::prelude::*;

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

/// Any damage.
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
