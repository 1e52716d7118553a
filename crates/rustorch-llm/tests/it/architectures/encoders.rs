//! Hidden states of encoders, embedders and rerankers, and what pooling makes of them, are llama.cpp's.
//!
//! Expected: `fixtures/encoders.jsonl`, written by `tools/oracle/llama_archs.py`.

use super::TOLERANCE;
use super::agreement::encoder_errors;
use super::fixture::EncoderFixture;
use rustorch_core::{DType, Numerics};

#[test]
fn hidden_states_and_pooled_vectors_equal_llama_cpps() {
    let mut wrong = Vec::new();
    for fixture in EncoderFixture::all() {
        let name = &fixture.header.name;
        let mut model = fixture.header.open(|_, _| DType::F32).unwrap_or_else(|message| panic!("{message}"));
        model.set_numerics(Numerics::F32);
        let [a, b] = encoder_errors(&model, &fixture).unwrap_or_else(|message| panic!("{name}: {message}"));
        println!("{name}: errors {a:.1e} and {b:.1e}");
        if [a, b].iter().any(|&error| error.is_nan() || error > TOLERANCE) {
            wrong.push(format!("{name}: errors of {a:.1e} of hidden states and {b:.1e} of what is pooled"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_encoder_has_no_logits() {
    let fixtures = EncoderFixture::all();
    let bert = fixtures.iter().find(|fixture| fixture.header.name == "bert").unwrap();
    let model = bert.header.open(|_, _| DType::F32).unwrap();
    let mut cache = model.model().new_cache(8).unwrap();
    let message = model.model().forward(&[1, 2], &mut cache, true).unwrap_err().to_string();
    assert!(message.contains("encoder"), "{message}");
    assert!(model.model().hidden_states(&[]).is_err());
}
