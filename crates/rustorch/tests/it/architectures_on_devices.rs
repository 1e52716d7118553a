//! Small models of every architecture, whole or in part on devices of the machine, compute what llama.cpp computes with them.
//!
//! Expected: the fixtures of `rustorch-llm`, written by `tools/oracle/llama_archs.py`.

#[path = "../../../rustorch-llm/tests/it/architectures/agreement.rs"]
pub(crate) mod agreement;
#[path = "../../../rustorch-llm/tests/it/architectures/fixture.rs"]
#[allow(dead_code, reason = "devices need a part of it")]
pub(crate) mod fixture;
#[path = "../../../rustorch-llm/tests/it/architectures/weights.rs"]
#[allow(dead_code, reason = "devices need a part of it")]
mod weights;

use crate::common;
use agreement::{compare, encoder_errors, error, logits, whole};
use fixture::{EncoderFixture, Fixture};
use rustorch::core::{DType, Device, Numerics};
use rustorch::llm::LanguageModel;
use rustorch::llm::model::Offload;
use rustorch::runtime::Explanation;
use rustorch_testkit::conformance::Extent;
use std::collections::BTreeSet;

/// How far logits may be from llama.cpp's, in parts of their range.
const TOLERANCE: f32 = 1e-3;
/// The fixtures that are run by default: each kind of part is in one of them.
const SAMPLE: [&str; 6] = ["deepseek2", "gemma4", "gpt-oss", "mamba2", "qwen35moe", "bert-reranker"];

/// What the CPU computes of a model that is whole on a device: the embeddings, whose table stays, and what goes before the first block.
const EMBEDDINGS: [&str; 6] = ["add", "arange", "embedding", "fill", "layer_norm", "mul"];
/// And of Gemma 3n and 4, which have embeddings for each block (and 3n streams, which a matrix each makes of the embedding).
const EMBEDDINGS_OF_BLOCKS: [&str; 8] =
    ["concat", "div", "matmul", "mul_mat_id", "rms_norm", "sqrt", "square", "sum"];

/// A model of a fixture, with so many of its blocks on a device, and how many are.
fn offloaded(
    opened: Result<LanguageModel, String>,
    device: Device,
    is_whole: bool,
) -> Result<(LanguageModel, String), String> {
    let mut model = opened?;
    model.set_numerics(Numerics::F32);
    let blocks = if is_whole { None } else { Some(model.model().config().layers.len() / 2) };
    let moved = model.offload(&Offload { device, blocks, bytes: None }).map_err(|error| error.to_string())?;
    if moved.output != is_whole || blocks.is_some_and(|blocks| moved.blocks != blocks) {
        return Err(format!("{moved:?} went to the device"));
    }
    Ok((model, format!("{} blocks", moved.blocks)))
}

fn check_decoder(fixture: &Fixture, device: Device, is_whole: bool) -> Result<String, String> {
    let (model, what) = offloaded(fixture.model(), device, is_whole)?;
    let ids: Vec<u32> = fixture.prompt.iter().chain(&fixture.forced).copied().collect();
    let rows = logits(&model, DType::F32, &ids, whole())?;
    let [first, last] = fixture.logits();
    let errors = [(fixture.prompt.len() - 1, first), (rows.len() - 1, last)];
    let [a, b] = errors.map(|(row, expected)| error(&rows[row], &expected));
    within(a, b)?;
    let counted = compare(&model, DType::F32, fixture, &fixture.ids, TOLERANCE)?;
    // Id by id, as it is generated, after a prompt that is read in two parts.
    let step_by_step = [17, 3].into_iter().chain(std::iter::repeat(1));
    let stepped = logits(&model, DType::F32, &ids, step_by_step)?;
    within(error(&stepped[stepped.len() - 1], &rows[rows.len() - 1]), 0.0)?;
    Ok(format!("{what}, errors {a:.1e} and {b:.1e}, {counted} ids"))
}

fn check_encoder(fixture: &EncoderFixture, device: Device, is_whole: bool) -> Result<String, String> {
    let (model, what) = offloaded(fixture.header.open(|_, _| DType::F32), device, is_whole)?;
    let [a, b] = encoder_errors(&model, fixture)?;
    within(a, b)?;
    Ok(format!("{what}, errors {a:.1e} and {b:.1e}"))
}

fn within(a: f32, b: f32) -> Result<(), String> {
    match [a, b].iter().any(|error| error.is_nan() || *error > TOLERANCE) {
        true => Err(format!("errors of {a:.1e} and {b:.1e} of the range")),
        false => Ok(()),
    }
}

/// The operations that did not run on the device.
fn elsewhere(explanation: &Explanation, device: Device) -> BTreeSet<String> {
    let others = explanation.records().iter().filter(|record| record.device != Some(device));
    others.map(|record| record.op.to_string()).collect()
}

/// Whether an operation may run elsewhere though a model is whole on a device.
fn is_of_embeddings(model: &str, op: &str) -> bool {
    let has_more = ["gemma3n", "gemma4"].contains(&model);
    EMBEDDINGS.contains(&op) || has_more && EMBEDDINGS_OF_BLOCKS.contains(&op)
}

/// Runs a [`SAMPLE`] of the fixtures (those whose names contain `MODEL`, or with `RUSTORCH_CONFORMANCE=all` each one).
fn everything_on(name: &str) {
    let Some((device, executor)) = common::executor(name) else { return };
    let (only, extent) = (std::env::var("MODEL").ok(), Extent::from_env(Extent::Sample));
    let (decoders, encoders) = (Fixture::all(), EncoderFixture::all());
    let mut wrong = Vec::new();
    let mut count = 0;
    let mut run = |name: &str, check: &dyn Fn(bool) -> Result<String, String>| {
        let is_chosen = match &only {
            Some(only) => name.contains(only),
            None => extent != Extent::Sample || SAMPLE.contains(&name),
        };
        if !is_chosen {
            return;
        }
        count += 1;
        for is_whole in [true, false] {
            let (result, explanation) = executor.explain(|| check(is_whole));
            let mut elsewhere = elsewhere(&explanation, device);
            if is_whole {
                elsewhere.retain(|op| !is_of_embeddings(name, op));
            }
            match result {
                Ok(_) if is_whole && !elsewhere.is_empty() => {
                    wrong.push(format!("{name}: {elsewhere:?} ran elsewhere"));
                }
                Ok(note) => println!("{name}: {note}; elsewhere {elsewhere:?}"),
                Err(message) => wrong.push(format!("{name}, whole: {is_whole}: {message}")),
            }
        }
    };
    decoders.iter().for_each(|fixture| {
        run(&fixture.header.name, &|is_whole| check_decoder(fixture, device, is_whole));
    });
    encoders.iter().for_each(|fixture| {
        run(&fixture.header.name, &|is_whole| check_encoder(fixture, device, is_whole));
    });
    assert!(count >= if only.is_some() { 1 } else { SAMPLE.len() }, "only {count} of the fixtures are there");
    assert!(wrong.is_empty(), "{} of {count} models:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn vulkan_computes_what_llama_cpp_computes() {
    everything_on("vulkan");
}

#[test]
fn opencl_computes_what_llama_cpp_computes() {
    common::apart("architectures_on_devices::opencl_computes_what_llama_cpp_computes", || {
        everything_on("opencl");
    });
}
