//! Every key of the fixtures' metadata bites: another value changes what some model computes, or is refused.

use super::TOLERANCE;
use super::agreement::{error, logits, whole};
use super::fixture::{EncoderFixture, Fixture, Header};
use rustorch_core::{DType, Numerics};
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// Keys whose values change nothing, and why.
const WITHOUT_EFFECT: [(&str, &str); 14] = [
    ("activation_sparsity_scale", "llama.cpp has a constant"),
    ("classifier.output_labels", "names of scores"),
    ("dense_2_feat_in", "tensors have shapes"),
    ("dense_2_feat_out", "tensors have shapes"),
    ("dense_3_feat_in", "tensors have shapes"),
    ("dense_3_feat_out", "tensors have shapes"),
    ("expert_shared_count", "tensors have shapes"),
    ("expert_shared_feed_forward_length", "tensors have shapes"),
    ("interleave_moe_layer_step", "blocks with a router have experts"),
    ("leading_dense_block_count", "blocks with a router have experts"),
    ("moe_every_n_layers", "blocks with a router have experts"),
    ("n_deepstack_layers", "for images"),
    ("rope.dimension_sections", "a token of text has one position in all sections"),
    ("rope.scaling.yarn_attn_factor", "llama.cpp computes another one with YARN"),
];

/// What a model computes of its prompt, or why it does not load.
fn computed(header: &Header, ids: &[u32], encoder: bool) -> Result<Vec<f32>, String> {
    let mut model = header.open(|_, _| DType::F32)?;
    model.set_numerics(Numerics::F32);
    if !encoder {
        return Ok(logits(&model, DType::F32, ids, whole())?.pop().unwrap_or_default());
    }
    let model = model.model();
    let pooled = model.hidden_states(ids).and_then(|hidden| model.pool(&hidden, model.pooling()));
    pooled.and_then(|pooled| Ok(pooled.to_vec()?)).map_err(|error| error.to_string())
}

#[test]
fn every_key_of_metadata_changes_some_model() {
    let decoders = Fixture::all().into_iter().map(|fixture| (fixture.header, fixture.prompt, false));
    let encoders = EncoderFixture::all().into_iter().map(|fixture| (fixture.header, fixture.ids, true));
    let mut models: Vec<(Header, Vec<u32>, bool)> = decoders.chain(encoders).collect();
    // Small ones first.
    models.sort_by_key(|(header, ..)| header.names().count());
    let right: Vec<OnceCell<Vec<f32>>> = models.iter().map(|_| OnceCell::new()).collect();
    let mut of_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, (header, ..)) in models.iter().enumerate() {
        for key in header.keys() {
            of_key.entry(key.to_owned()).or_default().push(i);
        }
    }
    let mut idle = Vec::new();
    for (key, with) in &of_key {
        let bites = with.iter().any(|&i| {
            let (header, ids, encoder) = &models[i];
            let right = right[i].get_or_init(|| computed(header, ids, *encoder).unwrap());
            match computed(&header.with_another(key), ids, *encoder) {
                Ok(wrong) if wrong.len() == right.len() => {
                    let error = error(&wrong, right);
                    error.is_nan() || error > TOLERANCE
                }
                Ok(_) | Err(_) => true,
            }
        });
        let expected = !WITHOUT_EFFECT.iter().any(|(name, _)| name == key);
        if bites != expected {
            idle.push(format!("{key}: {}", if bites { "has an effect" } else { "has no effect" }));
        }
    }
    println!("{} keys", of_key.len());
    assert!(idle.is_empty(), "{}", idle.join("\n"));
}

/// What llama.cpp computes by a key, and no part here does, is an error that names the key.
#[test]
fn metadata_that_no_part_computes_with_is_refused() {
    for (name, key, value) in [
        ("deepseek2", "deepseek2.attention.temperature_scale", serde_json::json!(0.1)),
        ("llama4", "llama4.attention.sliding_window", serde_json::json!(0)),
    ] {
        let fixture =
            Fixture::all().into_iter().find(|fixture| fixture.header.architecture() == name).unwrap();
        let error = fixture.header.with(key, value).open(|_, _| DType::F32).err().unwrap();
        assert!(error.contains(key) && error.contains("not supported"), "{error}");
    }
}
