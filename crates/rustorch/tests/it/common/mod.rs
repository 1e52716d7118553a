//! What tests of language models on devices share.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

#[path = "../../../../rustorch-cuda/tests/it/common/fakes.rs"]
pub mod fakes;

#[path = "../../../../rustorch-llm/tests/it/common/mod.rs"]
pub mod oracle;

pub(crate) use oracle::{argmax, floats, fnv1a};

use rustorch::core::{Device, DeviceType, Numerics};
use rustorch::devices;
use rustorch::llm::LanguageModel;
use rustorch::llm::generate::{GenerationOptions, Session, SessionOptions};
use rustorch::llm::model::{Offload, Offloaded};
use rustorch::llm::sampling::{Sampler, SamplerConfig};
use rustorch::llm::tokenizer::{DecodeOptions, EncodeOptions};
use rustorch::runtime::HybridExecutor;
use rustorch_testkit::{Requirement, in_child, skip};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PROMPT: &str = "Once upon a time";

/// The models of the shared test data; none, with a message, where they are not.
pub fn folder() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/models");
    if path.exists() {
        return Some(path);
    }
    skip(Requirement::Shared, format!("{} does not exist", path.display()));
    None
}

/// An executor for a device that runs operations where their data is; none, with a message, where it is not.
pub fn executor(name: &str) -> Option<(Device, HybridExecutor)> {
    let wanted: DeviceType = name.parse().unwrap();
    let DeviceType::Only(device) = wanted else { unreachable!("names of devices") };
    // Of its own, so that software devices have a place in the fallback order.
    match devices::backend(device) {
        Ok(backend) => Some((device, HybridExecutor::builder().backend(backend).build().unwrap())),
        Err(error) => {
            skip(name.parse().unwrap(), error);
            None
        }
    }
}

/// Runs the body of a test in a process of its own: PoCL compiles one kernel at a time in a process.
pub fn apart(name: &str, body: fn()) {
    if let Some(said) = in_child(name, |_| {}, body) {
        println!("{said}");
    }
}

/// The model that the program carries.
pub fn carried() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../rustorch-cli/assets/shakespeare.gguf")
}

/// A session with a model, some of which is on a device.
pub fn session(path: &Path, offload: Option<&Offload>) -> (Session, Offloaded) {
    session_with(path, offload, Numerics::Ggml)
}

/// A session with a model of these numerics, some of which is on a device.
pub fn session_with(path: &Path, offload: Option<&Offload>, numerics: Numerics) -> (Session, Offloaded) {
    let mut model = LanguageModel::open(path).unwrap();
    model.set_numerics(numerics);
    let moved = offload.map(|offload| model.offload(offload).unwrap()).unwrap_or_default();
    let model = Arc::new(model);
    let options = SessionOptions { context: 128, ..SessionOptions::for_model(&model) };
    (Session::new(model, options).unwrap(), moved)
}

/// What the model writes after the prompt, prompt included, the likeliest tokens; `each` is called with every token.
pub fn text(session: &mut Session, tokens: usize, each: &mut dyn FnMut(usize)) -> String {
    let model = Arc::clone(session.model());
    let tokenizer = model.tokenizer().unwrap();
    let prompt = tokenizer.encode(PROMPT, EncodeOptions { add_special: true, parse_special: true });
    let options = GenerationOptions { max_tokens: Some(tokens), show_special: true, ..Default::default() };
    let mut sampler = Sampler::new(SamplerConfig::greedy()).unwrap();
    let mut count = 0;
    let done = session
        .generate(&prompt, &mut sampler, &options, &mut |_| {
            each(count);
            count += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    let all: Vec<u32> = prompt.iter().chain(&done.tokens).copied().collect();
    let shown = DecodeOptions { special: true, strip_space_prefix: false, ..DecodeOptions::default() };
    tokenizer.decode(&all, shown)
}
