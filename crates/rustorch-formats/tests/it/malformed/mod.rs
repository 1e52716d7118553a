//! Every malformation has its own error, which names what is wrong, and takes no memory out of proportion to the file.

mod gguf;
mod graph;
mod numpy;
mod safetensors;
mod torch;

use rustorch_formats::{Error, SharedBytes};
use rustorch_testkit::allocations::peak_bytes;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// What is wrong, the variant of the error, a part of its message, the bytes.
type Case = (&'static str, &'static str, &'static str, Vec<u8>);

/// The name of the variant.
fn variant(kind: &impl Debug) -> String {
    format!("{kind:?}").split([' ', '(', '{']).next().unwrap().to_owned()
}

/// Checks that `read` refuses each case with its error, and gives the variants that occurred.
fn check<T, K: Debug + std::error::Error>(
    cases: Vec<Case>,
    read: impl Fn(SharedBytes) -> Result<T, Error<K>>,
) -> BTreeSet<&'static str> {
    let (mut variants, mut messages) = (BTreeSet::new(), BTreeSet::new());
    for (what, expected, message, bytes) in cases {
        let len = bytes.len();
        let (result, peak) = peak_bytes(|| read(bytes.into()));
        let error = match result {
            Ok(_) => panic!("{what}: accepted"),
            Err(error) => error,
        };
        assert_eq!(variant(error.kind()), expected, "{what}: {error}");
        assert!(error.to_string().contains(message), "{what}: \"{error}\" does not say \"{message}\"");
        assert!(error.path().is_none(), "{what}");
        assert!(
            messages.insert(error.to_string()),
            "{what}: another malformation has the error \"{error}\", too"
        );
        assert!(peak <= len + (1 << 20), "{what}: {peak} bytes for a file of {len}");
        variants.insert(expected);
    }
    variants
}
