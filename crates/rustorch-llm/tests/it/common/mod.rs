//! What the tests on real files share.

// Each test file is a program of its own and uses only part of this.
#![allow(dead_code, unused_imports)]

mod values;

pub(crate) use values::{argmax, base64, floats, fnv1a};

use rustorch_formats::gguf::File;
use rustorch_llm::LanguageModel;
use rustorch_llm::tokenizer::{Tokenizer, Vocab};
use rustorch_testkit::{Requirement, skip};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file or folder of the shared test data, which is beside the repository; `None`, with a message, where it is not.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if path.exists() {
        return Some(path);
    }
    skip(Requirement::Shared, format!("{} does not exist", path.display()));
    None
}

/// The files of a folder that end in `.gguf`, sorted.
pub(crate) fn models(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "gguf"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no models in {}", folder.display());
    files
}

pub(crate) fn open(path: &Path) -> Arc<LanguageModel> {
    // SAFETY: nobody changes fixtures. Some are large, and each is opened by many tests.
    let model = unsafe { LanguageModel::open_mapped(path) };
    Arc::new(model.unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

/// The tokenizer of one of llama.cpp's test vocabularies.
pub(crate) fn tokenizer(name: &str) -> Option<Tokenizer> {
    let file = File::open(shared(&format!("vocab/ggml-vocab-{name}.gguf"))?).unwrap();
    Some(Tokenizer::new(Vocab::from_gguf(file.metadata()).unwrap()).unwrap())
}

/// The model that the program carries.
pub(crate) fn carried() -> Arc<LanguageModel> {
    open(&carried_path())
}

/// The same, to be changed.
pub(crate) fn carried_model() -> LanguageModel {
    LanguageModel::open(carried_path()).unwrap()
}

/// The file of that model.
pub(crate) fn carried_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../rustorch-cli/assets/shakespeare.gguf")
}

/// The difference between the largest and the second.
pub(crate) fn margin(logits: &[f32]) -> f32 {
    let best = argmax(logits) as usize;
    let second =
        logits.iter().enumerate().filter(|&(i, _)| i != best).map(|(_, &x)| x).fold(f32::MIN, f32::max);
    logits[best] - second
}

/// The same in hexadecimal digits.
pub(crate) fn fnv(bytes: impl IntoIterator<Item = u8>) -> String {
    format!("{:016x}", fnv1a(bytes))
}

/// Number and hash of ids, texts separated by 0xFFFFFFFF, as the tokenizers' oracles keep them.
pub(crate) fn tokenizer_digest(lists: &[Vec<u32>]) -> serde_json::Value {
    let bytes = lists.iter().flat_map(|ids| ids.iter().copied().chain([u32::MAX])).flat_map(u32::to_le_bytes);
    serde_json::json!({ "count": lists.iter().map(Vec::len).sum::<usize>(), "fnv": fnv(bytes) })
}

/// The difficult texts of the tokenizers' oracles.
pub(crate) fn tokenizer_corpus() -> Vec<String> {
    serde_json::from_str(include_str!("../../fixtures/tokenizer/corpus.json")).unwrap()
}
