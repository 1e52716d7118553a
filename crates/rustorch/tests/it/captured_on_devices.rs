//! Tokens that a device decodes by a captured graph are those of the plain decoder there, to the last bit on software devices.

use crate::architectures_on_devices::fixture::Fixture;
use crate::common;
use rustorch::core::Numerics;
use rustorch::llm::LanguageModel;
use rustorch::llm::model::{Decoding, Offload};

/// Without and with windows; with experts and sinks.
const MODELS: [(&str, Numerics); 3] =
    [("llama", Numerics::Ggml), ("gemma3", Numerics::F32), ("gpt-oss", Numerics::Ggml)];

/// The logits behind each of some tokens, decoded one by one behind a prompt, and how the last one was.
fn decoded(model: &LanguageModel, ids: &[u32], prompt: usize) -> (Vec<Vec<u32>>, Result<(), String>) {
    let model = model.model();
    let mut cache = model.new_cache_for(320, 64).unwrap();
    model.forward(&ids[..prompt], &mut cache, false).unwrap();
    let bits = |id: &u32| {
        let logits = model.forward(&[*id], &mut cache, false).unwrap().to_vec::<f32>().unwrap();
        logits.into_iter().map(f32::to_bits).collect()
    };
    let logits = ids[prompt..].iter().map(bits).collect();
    let how = match cache.decoding() {
        Decoding::Captured(_) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    (logits, how)
}

fn decode_on(name: &str) {
    let Some((device, executor)) = common::executor(name) else { return };
    executor.scope(|| {
        let fixtures = Fixture::all();
        for (name, numerics) in MODELS {
            let fixture = fixtures.iter().find(|fixture| fixture.header.name == name).unwrap();
            let mut model = fixture.model().unwrap();
            model.set_numerics(numerics);
            model.offload(&Offload { device, blocks: None, bytes: None }).unwrap();
            let ids: Vec<u32> = fixture.prompt.iter().chain(&fixture.forced).copied().collect();
            // Across the number of rows at which the program is another one.
            let ids: Vec<u32> = ids.iter().cycle().take(260).copied().collect();
            let by_program = decoded(&model, &ids, 253);
            model.set_eager(true);
            let (plain, how) = decoded(&model, &ids, 253);
            assert!(how.is_err_and(|why| why.contains("asked for")), "{name}");
            assert_eq!(by_program.1, Ok(()), "{name}");
            assert!(by_program.0 == plain, "{name}: other logits by the program");
        }
    });
}

#[test]
fn vulkan_decodes_by_programs() {
    decode_on("vulkan");
}

#[test]
fn opencl_decodes_by_programs() {
    decode_on("opencl");
}
