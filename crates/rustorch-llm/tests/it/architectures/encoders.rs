//! Hidden states of encoders, embedders and rerankers, and what pooling makes of them, are llama.cpp's.
//!
//! Expected: `fixtures/encoders.jsonl`, written by `tools/oracle/llama_archs.py`.

use super::fixture::Header;
use super::{TOLERANCE, error};
use crate::common;
use rustorch_core::{DType, Numerics};
use rustorch_llm::model::Pooling;
use serde::Deserialize;

/// A model without its weights, and what llama.cpp computes with it.
#[derive(Deserialize)]
pub(super) struct Fixture {
    #[serde(flatten)]
    pub(super) header: Header,
    pub(super) ids: Vec<u32>,
    /// A row for each id.
    hidden: String,
    /// A vector, or scores.
    pooled: String,
}

/// All lines.
pub(super) fn fixtures() -> Vec<Fixture> {
    let text = include_str!("../../fixtures/encoders.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn hidden_states_and_pooled_vectors_equal_llama_cpps() {
    let mut wrong = Vec::new();
    for fixture in fixtures() {
        let name = &fixture.header.name;
        let mut model = fixture.header.open(|_, _| DType::F32).unwrap_or_else(|message| panic!("{message}"));
        model.set_numerics(Numerics::F32);
        let model = model.model();
        let hidden = model.hidden_states(&fixture.ids).unwrap();
        let pooled = model.pool(&hidden, model.pooling()).unwrap();
        let hidden = model.pool(&hidden, Pooling::None).unwrap();
        let expected = common::floats(&fixture.hidden);
        let a = error(&hidden.to_vec::<f32>().unwrap(), &expected);
        let (found, expected) = (pooled.to_vec::<f32>().unwrap(), common::floats(&fixture.pooled));
        assert_eq!(found.len(), expected.len(), "{name}");
        // One score has no range.
        let b = match expected[..] {
            [score] => (found[0] - score).abs(),
            _ => error(&found, &expected),
        };
        println!("{name}: errors {a:.1e} and {b:.1e}");
        if [a, b].iter().any(|&error| error.is_nan() || error > TOLERANCE) {
            wrong.push(format!("{name}: errors of {a:.1e} of hidden states and {b:.1e} of what is pooled"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_encoder_has_no_logits() {
    let fixtures = fixtures();
    let bert = fixtures.iter().find(|fixture| fixture.header.name == "bert").unwrap();
    let model = bert.header.open(|_, _| DType::F32).unwrap();
    let mut cache = model.model().new_cache(8).unwrap();
    let message = model.model().forward(&[1, 2], &mut cache, true).unwrap_err().to_string();
    assert!(message.contains("encoder"), "{message}");
    assert!(model.model().hidden_states(&[]).is_err());
}
