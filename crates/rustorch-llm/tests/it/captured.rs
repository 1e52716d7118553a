//! Decoding by captured graphs gives the bits of the plain decoder, for every architecture and type of weights.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use crate::architectures::fixture::Fixture;
use crate::common;
use rustorch_core::{Backend, DType, Device, Numerics};
use rustorch_cpu::CpuBackend;
use rustorch_llm::LanguageModel;
use rustorch_llm::model::{Decoding, KvCache};
use rustorch_runtime::{HybridExecutor, Placement};
use rustorch_tensor::Tensor;
use rustorch_testkit::{FakeCompiler, FakeDevice, Point};
use std::collections::BTreeMap;
use std::sync::Arc;

const CONTEXT: usize = 96;

fn bits(logits: &Tensor) -> Vec<u32> {
    logits.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// How the last token was decoded: nothing if by a program.
fn why_eager(cache: &KvCache) -> Option<String> {
    match cache.decoding() {
        Decoding::Captured(_) => None,
        Decoding::Eager(why) => Some(why.to_owned()),
        Decoding::Unknown => panic!("nothing was decoded"),
    }
}

/// Reads a prompt and decodes tokens one by one, with both decoders; why not by a program.
fn check(model: &mut LanguageModel, ids: &[u32], prompt: usize, what: &str) -> Option<String> {
    let mut logits = [true, false].map(|is_eager| {
        model.set_eager(is_eager);
        let mut cache = model.model().new_cache_for(CONTEXT, 16).unwrap();
        let mut all = vec![bits(&model.model().forward(&ids[..prompt], &mut cache, false).unwrap())];
        for (i, id) in ids[prompt..].iter().enumerate() {
            // Back by a few tokens, which are decoded again.
            if i == 5 {
                let left = cache.truncate(cache.len() - 3);
                model.model().forward(&ids[left..prompt + i], &mut cache, false).unwrap();
            }
            all.push(bits(&model.model().forward(&[*id], &mut cache, false).unwrap()));
        }
        let why = why_eager(&cache);
        assert_eq!(cache.len(), ids.len(), "{what}");
        if is_eager {
            assert_eq!(why.as_deref(), Some("it was asked for"), "{what}");
        }
        (all, why)
    });
    assert!(logits[0].0 == logits[1].0, "{what}: other logits by the program");
    logits[1].1.take()
}

/// What most people run.
const COMMON: [&str; 9] =
    ["llama", "qwen2", "qwen3", "qwen3moe", "gemma3", "gemma2", "phi3", "gpt-oss", "gpt2"];

/// Common ones with all roundings, the others with one each, by turns.
#[test]
fn every_architecture_decodes_alike() {
    let mut eager = BTreeMap::new();
    let fixtures = Fixture::all();
    for (turn, fixture) in fixtures.iter().enumerate() {
        let mut model = fixture.model().unwrap();
        let ids = [&fixture.prompt[..], &fixture.forced, &fixture.prompt[..8]].concat();
        let all = Numerics::ALL;
        let is_common = COMMON.contains(&&*fixture.header.name);
        let chosen = if is_common { all } else { std::slice::from_ref(&all[turn % all.len()]) };
        for &numerics in chosen {
            model.set_numerics(numerics);
            let prompt = fixture.prompt.len().min(20);
            if let Some(why) = check(&mut model, &ids[..ids.len().min(60)], prompt, &fixture.header.name) {
                eager.insert(fixture.header.name.clone(), why);
            }
        }
    }
    println!("{} of {} models by programs; the others:", fixtures.len() - eager.len(), fixtures.len());
    eager.iter().for_each(|(name, why)| println!("{name}: {why}"));
    let known = ["recurrent state", "position in Rust", "may fail behind writes"];
    let is_known = |why: &String| known.iter().any(|known| why.contains(known));
    assert!(eager.values().all(is_known), "{eager:?}");
    for name in COMMON {
        assert!(!eager.contains_key(name), "{name}: {}", eager[name]);
    }
}

#[test]
fn every_type_of_weights_decodes_alike() {
    let Some(folder) = common::shared("models") else { return };
    for path in common::models(&folder) {
        // SAFETY: nobody changes the test data.
        let mut model = unsafe { LanguageModel::open_mapped(&path) }.unwrap();
        let ids: Vec<u32> = (0..48).map(|i| (i * 37 + 11) % 500 + 3).collect();
        let why = check(&mut model, &ids, 4, &path.display().to_string());
        assert_eq!(why, None, "{}", path.display());
    }
}

#[test]
fn one_program_decodes_at_every_position_and_leaves_the_cache_where_it_is() {
    // Of its own: while one thread explains, the operations of all threads are recorded.
    let executor = HybridExecutor::builder().threads(1).build().unwrap();
    executor.scope(|| {
        let mut model = common::carried_model();
        model.set_numerics(Numerics::F32);
        let mut cache = model.model().new_cache(64).unwrap();
        for id in 0..20 {
            model.model().forward(&[id], &mut cache, false).unwrap();
        }
        let Decoding::Captured(program) = cache.decoding() else { panic!("{:?}", cache.decoding()) };
        let first = std::ptr::from_ref(program);
        let graph = program.graph();
        // Keys and values are written where they are: no state is copied, and none is in the arena.
        let blocks = model.model().config().blocks;
        assert_eq!(graph.states.len(), 2 * blocks);
        assert_eq!(program.staged_states(), 0);
        let last = bits(&model.model().forward(&[3], &mut cache, false).unwrap());
        assert!(matches!(cache.decoding(), Decoding::Captured(program) if std::ptr::eq(program, first)));

        // Where somebody wants to know of each operation, the decoder runs them.
        cache.truncate(20);
        let (placed, _) = executor.explain(|| {
            let logits = bits(&model.model().forward(&[3], &mut cache, false).unwrap());
            assert_eq!(why_eager(&cache).as_deref(), Some("operations are placed or recorded one by one"));
            logits
        });
        cache.truncate(20);
        assert_eq!(bits(&model.model().forward(&[3], &mut cache, false).unwrap()), placed);
        assert_eq!(placed, last);
        assert!(matches!(cache.decoding(), Decoding::Captured(_)));
    });
}

/// What decoding copies to a device that compiles the whole decoder: how often in each step, and the logits.
fn compiled(keeps: bool) -> (Vec<usize>, Vec<Vec<u32>>) {
    let device = Device::cuda(0);
    let compiler = FakeCompiler::new().takes_states(true).keeps_inputs(keeps);
    let fake = Arc::new(FakeDevice::new(device, Arc::new(CpuBackend::new(1))).with_compiler(compiler));
    let executor = HybridExecutor::builder().threads(1).backend(Arc::clone(&fake) as Arc<dyn Backend>);
    let executor = executor.placement(Placement::Order([device].into_iter().collect())).build().unwrap();
    executor.scope(|| {
        let mut model = common::carried_model();
        model.set_numerics(Numerics::F32);
        let mut cache = model.model().new_cache(64).unwrap();
        let steps = (0..8).map(|id| {
            let before = fake.calls_at(Point::CopyIn);
            let logits = bits(&model.model().forward(&[id], &mut cache, false).unwrap());
            (fake.calls_at(Point::CopyIn) - before, logits)
        });
        let steps = steps.unzip();
        let Decoding::Captured(program) = cache.decoding() else { panic!("{:?}", cache.decoding()) };
        let runs: Vec<u64> =
            program.explain().unwrap().regions.iter().map(|region| region.report.runs).collect();
        assert!(!runs.is_empty() && runs.iter().all(|runs| *runs == 8), "{runs:?}");
        steps
    })
}

#[test]
fn a_device_that_compiles_the_decoder_may_keep_the_cache() {
    let ([kept, given], logits): ([Vec<usize>; 2], _) = {
        let (kept, logits) = compiled(true);
        let (given, same) = compiled(false);
        assert_eq!(logits, same);
        ([kept, given], logits)
    };
    let executor = HybridExecutor::builder().threads(1).build().unwrap();
    executor.scope(|| {
        let mut model = common::carried_model();
        model.set_numerics(Numerics::F32);
        let mut cache = model.model().new_cache(64).unwrap();
        for (id, logits) in (0..8).zip(&logits) {
            assert_eq!(bits(&model.model().forward(&[id], &mut cache, false).unwrap()), *logits, "{id}");
        }
        // Behind the first step, keys and values of no block are copied.
        let caches = 2 * model.model().config().blocks;
        assert!(
            kept[1..].iter().zip(&given[1..]).all(|(kept, given)| kept + caches == *given),
            "{kept:?} {given:?}"
        );
    });
}

#[test]
fn a_prompt_may_be_a_program() {
    let model = common::carried_model();
    let ids: Vec<i64> = (5..12).collect();
    let [mut eager, cache] = [(); 2].map(|()| model.model().new_cache(64).unwrap());
    let tokens: Vec<u32> = ids.iter().map(|&id| id as u32).collect();
    let expected = model.model().forward(&tokens, &mut eager, false).unwrap();
    let program = model.model().capture(&cache, ids.len()).unwrap();
    let ids = Tensor::from_slice(&ids, [7]).unwrap();
    let positions = Tensor::arange(0i64, 7, 1).unwrap();
    let caches = program.graph().states.len() / 2;
    let rows = Tensor::zeros([caches], DType::I64).unwrap();
    assert_eq!(bits(&program.run(&[&ids, &positions, &rows]).unwrap()[0]), bits(&expected));
}

#[test]
fn programs_for_other_runtimes_share_a_cache() {
    let model = common::carried_model();
    let mut eager = model.model().new_cache(8).unwrap();
    let [_, _, expected] =
        [5, 6, 7].map(|id| bits(&model.model().forward(&[id], &mut eager, false).unwrap()));
    let programs = model.model().capture_static(8, &[2, 1]).unwrap();
    let run = |which: usize, ids: &[i64], position: i64| {
        let ids = Tensor::from_slice(ids, [ids.len()]).unwrap();
        let positions = Tensor::arange(position, position + ids.numel() as i64, 1).unwrap();
        programs[which].run(&[&ids, &positions]).unwrap().remove(0)
    };
    run(0, &[5, 6], 0);
    assert_eq!(bits(&run(1, &[7], 2)), expected);
    // Behind the context.
    let is_nan = |logits: Tensor| logits.to_vec::<f32>().unwrap().into_iter().all(f32::is_nan);
    assert!(!is_nan(run(0, &[1, 2], 6)) && is_nan(run(0, &[1, 2], 7)));
    assert!(!is_nan(run(1, &[1], 7)) && is_nan(run(1, &[1], 8)));
    let error = model.model().capture_static(8, &[9]).unwrap_err().to_string();
    assert!(error.contains("8 tokens, but 9"), "{error}");
}

#[test]
fn a_program_is_of_one_model_and_its_numerics() {
    let step = |model: &LanguageModel, cache: &mut KvCache, id: u32| {
        bits(&model.model().forward(&[id], cache, false).unwrap())
    };
    let mut models = [(); 2].map(|()| common::carried_model());
    models[1].set_numerics(Numerics::F32);
    let mut eager = [(); 2].map(|()| common::carried_model());
    eager[1].set_numerics(Numerics::F32);
    eager.iter_mut().for_each(|model| model.set_eager(true));
    // One cache, of which two models in turn make more.
    let new = |model: &LanguageModel| model.model().new_cache_of(DType::F16, 32).unwrap();
    let (mut cache, mut expected) = (new(&models[0]), new(&eager[0]));
    for (i, id) in [4, 9, 300, 7, 7, 12].into_iter().enumerate() {
        let which = i / 2 % 2;
        assert_eq!(step(&models[which], &mut cache, id), step(&eager[which], &mut expected, id), "at {i}");
    }
    // The same model, told to compute in another way.
    models[0].set_numerics(Numerics::F32);
    assert_eq!(step(&models[0], &mut cache, 5), step(&eager[1], &mut expected, 5));
    let error = models[0].model().capture(&cache, 33).unwrap_err().to_string();
    assert!(error.contains("32 tokens, but 33"), "{error}");
    let error = models[0].model().capture(&cache, 0).unwrap_err().to_string();
    assert!(error.contains("no tokens"), "{error}");
}
