//! Every key of the fixtures' metadata bites, and every knob of an architecture: another value changes what some model computes, or is refused.

use super::TOLERANCE;
use super::agreement::{CONTEXT, error};
use super::fixture::{EncoderFixture, Fixture, Header};
use super::knobs;
use rustorch_core::{DType, Numerics};
use rustorch_formats::gguf::File;
use rustorch_llm::arch::Architecture;
use rustorch_llm::model::Model;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

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

/// A fixture's header, the ids it is fed, and whether it is an encoder's.
struct Case {
    header: Header,
    ids: Vec<u32>,
    encoder: bool,
    /// What the model computes.
    right: OnceCell<Vec<f32>>,
}

impl Case {
    /// Those of all fixtures, small ones first.
    fn all() -> Vec<Case> {
        let case = |header, ids, encoder| Case { header, ids, encoder, right: OnceCell::new() };
        let decoders = Fixture::all().into_iter().map(|fixture| case(fixture.header, fixture.prompt, false));
        let encoders =
            EncoderFixture::all().into_iter().map(|fixture| case(fixture.header, fixture.ids, true));
        let mut all: Vec<Case> = decoders.chain(encoders).collect();
        all.sort_by_key(|case| case.header.names().count());
        all
    }

    fn right(&self) -> &[f32] {
        self.right.get_or_init(|| self.computed(self.open(&self.header).unwrap()).unwrap())
    }

    fn open(&self, header: &Header) -> Result<Model, String> {
        Model::load(&file(header), &mut |_, _| {}).map_err(|error| error.to_string())
    }

    /// What a model computes of the ids.
    fn computed(&self, mut model: Model) -> Result<Vec<f32>, String> {
        model.set_numerics(Numerics::F32);
        let values = || match self.encoder {
            false => {
                let mut cache = model.new_cache_of(DType::F32, CONTEXT)?;
                Ok(model.forward(&self.ids, &mut cache, false)?.to_vec()?)
            }
            true => {
                let hidden = model.hidden_states(&self.ids)?;
                Ok(model.pool(&hidden, model.pooling())?.to_vec()?)
            }
        };
        values().map_err(|error: rustorch_llm::Error| error.to_string())
    }

    /// Whether what is computed with something wrong differs, or nothing is.
    fn notices(&self, wrong: Result<Model, String>) -> bool {
        let right = self.right();
        match wrong.and_then(|model| self.computed(model)) {
            Ok(wrong) if wrong.len() == right.len() => {
                let error = error(&wrong, right);
                error.is_nan() || error > TOLERANCE
            }
            Ok(_) | Err(_) => true,
        }
    }
}

fn file(header: &Header) -> File {
    File::from_bytes(header.writer(|_, _| DType::F32).to_bytes().unwrap()).unwrap()
}

#[test]
fn every_key_of_metadata_changes_some_model() {
    let models = Case::all();
    let mut of_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, case) in models.iter().enumerate() {
        for key in case.header.keys() {
            of_key.entry(key.to_owned()).or_default().push(i);
        }
    }
    let mut idle = Vec::new();
    for (key, with) in &of_key {
        let bites =
            with.iter().any(|&i| models[i].notices(models[i].open(&models[i].header.with_another(key))));
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

/// Knobs that change nothing, and why.
const KNOBS_WITHOUT_EFFECT: [(&str, &str); 3] = [
    ("Architecture.recurrent: another period", "files say it"),
    ("Experts.by_metadata: false", "files of the others say nothing"),
    ("LatentAttention.rope.windowed: Same as Unscaled", "latent attention has no windows"),
];

#[test]
fn every_knob_of_an_architecture_changes_some_model() {
    let (mut bite, mut idle) = (BTreeSet::new(), BTreeSet::new());
    for case in Case::all() {
        let (file, right) = (file(&case.header), Architecture::find(case.header.architecture()).unwrap());
        for (knob, wrong) in knobs::wrong(right, &bite) {
            if bite.contains(&knob) {
                continue;
            }
            let model = Model::load_as(Box::leak(Box::new(wrong)), &file, &mut |_, _| {});
            let set =
                if case.notices(model.map_err(|error| error.to_string())) { &mut bite } else { &mut idle };
            set.insert(knob);
        }
    }
    println!("{} knobs", bite.len());
    let idle: Vec<&String> = idle.difference(&bite).collect();
    let expected: Vec<&str> = KNOBS_WITHOUT_EFFECT.iter().map(|(knob, _)| *knob).collect();
    assert_eq!(idle, expected);
}
