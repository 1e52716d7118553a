//! Greedy continuations equal llama.cpp's on every model of the shared test data.
//!
//! Expected: `NAME.greedy64.txt` beside each file, what `llama-simple -m NAME.gguf -n 64 "Once upon a time"` printed:
//! the prompt and 64 tokens, control tokens shown.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use crate::common;
use rustorch_llm::generate::{GenerationOptions, Session, SessionOptions};
use rustorch_llm::sampling::{Sampler, SamplerConfig};
use rustorch_llm::tokenizer::{DecodeOptions, EncodeOptions};
use rustorch_testkit::conformance::Extent;
use std::ops::ControlFlow;
use std::sync::Arc;

const PROMPT: &str = "Once upon a time";

/// Of one model in four, or with `RUSTORCH_CONFORMANCE=all` of each.
#[test]
fn continuations_equal_those_of_llama_cpp() {
    let Some(folder) = common::shared("models") else { return };
    let mut wrong = Vec::new();
    for path in common::models(&folder).into_iter().step_by(Extent::share(4)) {
        let expected = std::fs::read_to_string(path.with_extension("greedy64.txt")).unwrap();
        let model = common::open(&path);
        let tokenizer = model.tokenizer().unwrap();
        let prompt = tokenizer.encode(PROMPT, EncodeOptions { add_special: true, parse_special: true });
        let mut session = Session::new(Arc::clone(&model), SessionOptions::for_model(&model)).unwrap();
        let options = GenerationOptions { max_tokens: Some(64), show_special: true, ..Default::default() };
        let mut sampler = Sampler::new(SamplerConfig::greedy()).unwrap();
        let done =
            session.generate(&prompt, &mut sampler, &options, &mut |_| ControlFlow::Continue(())).unwrap();

        let all: Vec<u32> = prompt.iter().chain(&done.tokens).copied().collect();
        let shown = DecodeOptions { special: true, strip_space_prefix: false, ..DecodeOptions::default() };
        let text = tokenizer.decode(&all, shown);
        if text.trim_end_matches('\n') != expected.trim_end_matches('\n') {
            // Read the tokens again to see where two logits nearly tie.
            let mut again = Session::new(Arc::clone(&model), SessionOptions::for_model(&model)).unwrap();
            let mut least = common::margin(again.feed(&prompt).unwrap());
            for &id in &done.tokens {
                least = least.min(common::margin(again.feed(&[id]).unwrap()));
            }
            wrong.push(format!(
                "{} (least margin {least}):\n  ours  {text:?}\n  llama {expected:?}",
                path.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
