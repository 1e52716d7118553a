//! Hidden states of encoders, embedders and rerankers, and what pooling makes of them, are llama.cpp's.
//!
//! Expected: `fixtures/encoders.jsonl`, written by `tools/oracle/llama_archs.py`.

use super::agreement::{encoder_errors, pooled_error};
use super::fixture::EncoderFixture;
use super::{ROUNDED_TOLERANCE, TOLERANCE};
use crate::common::floats;
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
fn copies_in_other_types_give_llama_cpps_vectors() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for fixture in EncoderFixture::all() {
        for (kind, copy) in &fixture.copies {
            let name = format!("{} in {kind}", fixture.header.name);
            let model = fixture.header.copied(kind, &copy.kept).unwrap_or_else(|message| panic!("{message}"));
            let model = model.model();
            let hidden = model.hidden_states(&fixture.ids).unwrap();
            let pooled = model.pool(&hidden, model.pooling()).unwrap().to_vec::<f32>().unwrap();
            let error =
                pooled_error(&pooled, &floats(&copy.pooled)).unwrap_or_else(|m| panic!("{name}: {m}"));
            println!("{name}: error {error:.1e}");
            // What rounding does to llama.cpp's own vectors is no mistake.
            if error.is_nan() || error > ROUNDED_TOLERANCE.max(3.0 * copy.noise) {
                wrong.push(format!("{name}: an error of {error:.1e}"));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(count, 26);
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
