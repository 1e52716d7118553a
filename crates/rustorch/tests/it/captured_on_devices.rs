//! Tokens that a device decodes by a captured graph are those of the plain decoder there, to the last bit on software devices.

use crate::architectures_on_devices::fixture::Fixture;
use crate::common;
use rustorch::core::{DType, Numerics};
use rustorch::llm::LanguageModel;
use rustorch::llm::model::{Decoding, Offload};
use rustorch::{Tensor, TensorSpec, capture};

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

/// Writing to a part of a state leaves what follows in the same word.
fn write_in_place_on(name: &str) {
    let Some((device, executor)) = common::executor(name) else { return };
    executor.scope(|| {
        let numbers = |n: usize| Tensor::arange(0.0f32, n as f64, 1.0)?.to_dtype(DType::F16);
        let state = numbers(10).unwrap().to_device(device).unwrap();
        let x = numbers(3).unwrap().to_device(device).unwrap();
        let program = capture(&[TensorSpec::from(&x)], |x| {
            let negative = x[0].neg()?;
            state.narrow(0, 0, 3)?.copy_(&negative)?;
            state.narrow(0, 0, 5)?.add_(1)?;
            Ok(vec![negative])
        })
        .unwrap();
        assert!(program.is_prepared(0), "{:?}", program.graph());
        for turn in 0..2 {
            let negative = program.run(&[&x]).unwrap().remove(0);
            assert_eq!(negative.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap(), [0.0, -1.0, -2.0]);
            let more = turn as f32;
            let expected = [1.0, 0.0, -1.0, 4.0 + more, 5.0 + more, 5.0, 6.0, 7.0, 8.0, 9.0];
            assert_eq!(state.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap(), expected, "{turn}");
        }
    });
}

#[test]
fn vulkan_leaves_the_rest_of_a_state() {
    write_in_place_on("vulkan");
}

#[test]
fn opencl_leaves_the_rest_of_a_state() {
    write_in_place_on("opencl");
}

#[test]
fn vulkan_decodes_by_programs() {
    decode_on("vulkan");
}

#[test]
fn opencl_decodes_by_programs() {
    decode_on("opencl");
}
