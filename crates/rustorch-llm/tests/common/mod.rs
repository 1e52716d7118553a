//! Shared by the tests of this crate: test data that is not part of the repository.

use rustorch_formats::gguf::File;
use rustorch_llm::tokenizer::{Tokenizer, Vocab};
use std::path::PathBuf;

/// A file of the shared test data, or `None` (with a message) where there is none.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")).join(path);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no {}", path.display());
    None
}

/// The tokenizer of one of llama.cpp's test vocabularies.
pub(crate) fn tokenizer(name: &str) -> Option<Tokenizer> {
    let file = File::open(shared(&format!("vocab/ggml-vocab-{name}.gguf"))?).unwrap();
    Some(Tokenizer::new(Vocab::from_gguf(file.metadata()).unwrap()).unwrap())
}
