//! Sessions: cutting a prompt into pieces, reuse of the cache, the end of the context, stopping.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use crate::architectures::fixture::Fixture;
use crate::common;
use rustorch_core::Philox;
use rustorch_llm::generate::{FinishReason, GenerationOptions, Overflow, Session, SessionOptions, Step};
use rustorch_llm::model::Checkpoints;
use rustorch_llm::sampling::{Sampler, SamplerConfig};
use rustorch_llm::tokenizer::EncodeOptions;
use rustorch_llm::{Error, LanguageModel};
use rustorch_testkit::conformance::Extent;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

fn options(model: &LanguageModel) -> SessionOptions {
    SessionOptions { context: 128, ..SessionOptions::for_model(model) }
}

fn new(model: &Arc<LanguageModel>, options: SessionOptions) -> Session {
    Session::new(Arc::clone(model), options).unwrap()
}

fn tokens(model: &LanguageModel, n: usize) -> Vec<u32> {
    let mut random = Philox::new(7);
    let vocabulary = model.model().config().vocabulary as u32;
    (0..n).map(|_| random.next_u32() % vocabulary).collect()
}

fn greedy() -> Sampler {
    Sampler::new(SamplerConfig::greedy()).unwrap()
}

fn quiet(_: Step<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// Every model of the shared data, and the one that the program carries.
fn every_model() -> Vec<Arc<LanguageModel>> {
    let mut models = vec![common::carried()];
    for folder in ["models", "archs"] {
        if let Some(folder) = common::shared(folder) {
            models.extend(common::models(&folder).iter().map(|path| common::open(path)));
        }
    }
    models
}

/// Of one model in four, or with `RUSTORCH_CONFORMANCE=all` of each.
#[test]
fn a_prompt_in_any_pieces_gives_the_same_logits_bit_for_bit() {
    for model in every_model().into_iter().step_by(Extent::share(4)) {
        let ids = tokens(&model, 40);
        let mut whole = new(&model, options(&model));
        let expected = bits(whole.feed(&ids).unwrap());
        for batch in [1, 33] {
            let mut pieces = new(&model, SessionOptions { batch, ..options(&model) });
            let name = model.file().parts()[0].path().map(|p| p.display().to_string());
            assert_eq!(bits(pieces.feed(&ids).unwrap()), expected, "{name:?} in pieces of {batch}");
        }
    }
}

#[test]
fn all_rows_of_a_prompt_equal_the_rows_one_by_one() {
    let model = common::carried();
    let ids = tokens(&model, 12);
    let mut cache = model.model().new_cache(32).unwrap();
    let all = model.model().forward(&ids, &mut cache, true).unwrap();
    let mut cache = model.model().new_cache(32).unwrap();
    for (i, &id) in ids.iter().enumerate() {
        let one = model.model().forward(&[id], &mut cache, false).unwrap();
        let row = all.narrow(0, i, 1).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(bits(&row), bits(&one.to_vec::<f32>().unwrap()), "row {i}");
    }
}

#[test]
fn what_the_cache_shares_with_a_prompt_is_not_read_again() {
    let model = common::carried();
    let ids = tokens(&model, 30);
    let limit = GenerationOptions { max_tokens: Some(5), ignore_end: true, ..Default::default() };
    let mut session = new(&model, options(&model));
    session.generate(&ids, &mut greedy(), &limit, &mut quiet).unwrap();

    // Another turn: the first 20 tokens as before, then different ones.
    let mut turn = ids[..20].to_vec();
    turn.extend([5, 6, 7]);
    let reused = session.generate(&turn, &mut greedy(), &limit, &mut quiet).unwrap();
    assert_eq!((reused.reused_tokens, reused.prompt_tokens), (20, 3));
    let fresh = new(&model, options(&model)).generate(&turn, &mut greedy(), &limit, &mut quiet).unwrap();
    assert_eq!(reused.tokens, fresh.tokens);

    // The very same prompt: only its last token is read again.
    let again = session.generate(&turn, &mut greedy(), &limit, &mut quiet).unwrap();
    assert_eq!((again.reused_tokens, again.prompt_tokens), (22, 1));
    assert_eq!(again.tokens, fresh.tokens);
}

#[test]
fn a_prompt_that_does_not_fit_is_an_error_that_says_how_much_is_needed() {
    let model = common::carried();
    let mut session = new(&model, SessionOptions { context: 10, ..options(&model) });
    match session.feed(&tokens(&model, 11)) {
        Err(Error::ContextFull { capacity: 10, needed: 11 }) => {}
        other => panic!("{other:?}"),
    }
    // The session is still usable.
    session.feed(&tokens(&model, 10)).unwrap();
    // A prompt that does not fit is refused before anything is forgotten for it.
    let mut other = tokens(&model, 11);
    other[0] ^= 1;
    let refused = session.generate(&other, &mut greedy(), &GenerationOptions::default(), &mut quiet);
    assert!(matches!(refused, Err(Error::ContextFull { capacity: 10, needed: 11 })), "{refused:?}");
    assert_eq!((session.tokens().len(), session.cache().len()), (10, 10));
}

#[test]
fn a_full_context_goes_on_with_what_it_is_told_to_hold() {
    let model = common::carried();
    let ids = tokens(&model, 10);
    let limit = GenerationOptions { max_tokens: Some(30), ignore_end: true, ..Default::default() };
    let full = SessionOptions { context: 20, ..options(&model) };
    let mut session = new(&model, full);
    let mut held = Vec::new();
    let done = session
        .generate_with_room(&ids, &mut greedy(), &limit, &mut quiet, &mut |tokens| {
            assert_eq!(tokens.len(), 20);
            // All but the five after the second.
            held = [&tokens[..2], &tokens[7..]].concat();
            Some(held.clone())
        })
        .unwrap();
    assert_eq!((done.finish, done.tokens.len()), (FinishReason::Length, 30));
    assert!(done.dropped_tokens >= 5 && done.dropped_tokens.is_multiple_of(5), "{}", done.dropped_tokens);
    assert_eq!(session.tokens()[..held.len()], held);
    let read = session.tokens().to_vec();
    assert_eq!(bits(new(&model, full).feed(&read).unwrap()), bits(session.logits().unwrap()));
    // What leaves no room ends the generation.
    let mut session = new(&model, full);
    let done =
        session.generate_with_room(&ids, &mut greedy(), &limit, &mut quiet, &mut |all| Some(all.to_vec()));
    assert_eq!(done.unwrap().finish, FinishReason::ContextFull);
}

#[test]
fn a_prompt_is_read_in_batches_as_small_as_the_observer_asks_for() {
    let model = common::carried();
    let ids = tokens(&model, 100);
    let limit = GenerationOptions { max_tokens: Some(1), ..Default::default() };
    let calls = |observe_every| {
        let mut session = new(&model, SessionOptions { observe_every, ..options(&model) });
        let mut seen = Vec::new();
        let done = session.generate(&ids, &mut greedy(), &limit, &mut |step| {
            if let Step::Prompt { done, total } = step {
                assert_eq!(total, 100);
                seen.push(done);
            }
            ControlFlow::Continue(())
        });
        (seen, done.unwrap().tokens)
    };
    // No machine reads a token in a nanosecond, and all read the rest in an hour.
    let (often, tokens) = calls(Duration::from_nanos(1));
    assert_eq!(often, (1..=100).collect::<Vec<_>>());
    assert_eq!(calls(Duration::from_secs(3600)), (vec![1, 100], tokens));
}

#[test]
fn a_context_that_fills_up_ends_the_generation_or_shifts() {
    let model = common::carried();
    let ids = tokens(&model, 10);
    let limit = GenerationOptions { max_tokens: Some(40), ignore_end: true, ..Default::default() };
    let full = SessionOptions { context: 16, ..options(&model) };
    let done = new(&model, full).generate(&ids, &mut greedy(), &limit, &mut quiet).unwrap();
    assert_eq!(done.finish, FinishReason::ContextFull);
    // Six tokens were read after the prompt's ten, and one more was chosen.
    assert_eq!(done.tokens.len(), 7);

    let shifting = SessionOptions { overflow: Overflow::Shift { keep: 2 }, ..full };
    let mut session = new(&model, shifting);
    let shifted = session.generate(&ids, &mut greedy(), &limit, &mut quiet).unwrap();
    assert_eq!((shifted.finish, shifted.tokens.len()), (FinishReason::Length, 40));
    assert_eq!(shifted.tokens[..7], done.tokens[..]);
    assert_eq!(session.tokens()[..2], ids[..2]);

    // What follows a shift is what a fresh context with the same tokens gives.
    let held = session.tokens().to_vec();
    let mut fresh = new(&model, shifting);
    assert_eq!(bits(fresh.feed(&held).unwrap()), bits(session.logits().unwrap()));
}

#[test]
fn stop_texts_limits_and_observers_end_a_generation() {
    let model = common::carried();
    let prompt = model.tokenizer().unwrap().encode("First Citizen:\n", EncodeOptions::default());
    let run = |options: &GenerationOptions, observe: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>| {
        let mut session = new(&model, SessionOptions::for_model(&model));
        session.generate(&prompt, &mut greedy(), options, observe).unwrap()
    };
    let free = GenerationOptions { max_tokens: Some(30), ignore_end: true, ..Default::default() };
    let all = run(&free, &mut quiet);
    assert_eq!((all.finish, all.tokens.len()), (FinishReason::Length, 30));

    // Any later piece of the text stops there, wherever tokens end.
    let stop: String = all.text.chars().skip(10).take(5).collect();
    let at = all.text.find(&stop).unwrap();
    let mut shown = String::new();
    let stopped = run(&GenerationOptions { stop: vec![stop], ..free.clone() }, &mut |step| {
        if let Step::Token { text, .. } = step {
            shown.push_str(text);
        }
        ControlFlow::Continue(())
    });
    assert_eq!((stopped.finish, stopped.text.as_str()), (FinishReason::Stop, &all.text[..at]));
    assert_eq!(shown, stopped.text);

    let mut seen = 0;
    let broken = run(&free, &mut |step| {
        seen += usize::from(matches!(step, Step::Token { .. }));
        if seen == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((broken.finish, broken.tokens.len()), (FinishReason::Interrupted, 4));
    assert_eq!(broken.tokens, all.tokens[..4]);
}

#[test]
fn the_same_seed_gives_the_same_text_on_any_number_of_threads() {
    let model = common::carried();
    let ids = tokens(&model, 8);
    let options_ = GenerationOptions { max_tokens: Some(20), ignore_end: true, ..Default::default() };
    let texts: Vec<Vec<u32>> = [1, 2, 3]
        .map(|threads| {
            let executor = rustorch_runtime::HybridExecutor::builder().threads(threads).build().unwrap();
            executor.scope(|| {
                let config = SamplerConfig { temperature: 1.0, seed: 11, ..SamplerConfig::default() };
                let mut sampler = Sampler::new(config).unwrap();
                new(&model, options(&model))
                    .generate(&ids, &mut sampler, &options_, &mut quiet)
                    .unwrap()
                    .tokens
            })
        })
        .into();
    assert_eq!(texts[0], texts[1]);
    assert_eq!(texts[0], texts[2]);
}

#[test]
fn senseless_requests_are_refused() {
    let model = common::carried();
    let vocabulary = model.model().config().vocabulary;
    let mut session = new(&model, options(&model));
    assert!(matches!(session.feed(&[vocabulary as u32]), Err(Error::Token { .. })));
    assert!(session.generate(&[], &mut greedy(), &GenerationOptions::default(), &mut quiet).is_err());
    assert!(session.logits().is_err());
    let none = SessionOptions { context: 0, ..options(&model) };
    assert!(Session::new(Arc::clone(&model), none).is_err());
}

#[test]
fn copies_of_recurrent_states_are_counted_and_bounded() {
    let cache_of = |name: &str| {
        let fixture = Fixture::all().into_iter().find(|fixture| fixture.header.name == name).unwrap();
        let model = fixture.model().unwrap();
        let mut cache = model.model().new_cache(64).unwrap();
        let fresh = (cache.bytes(), cache.checkpoints());
        for pair in fixture.prompt.chunks(2).cycle().take(20) {
            model.model().forward(pair, &mut cache, false).unwrap();
        }
        (fresh, cache)
    };
    let ((state, none_yet), cache) = cache_of("mamba");
    assert_eq!(none_yet.map(|checkpoints| (checkpoints.count, checkpoints.bytes)), Some((0, 0)));
    let Checkpoints { count, most, bytes, .. } = cache.checkpoints().unwrap();
    assert_eq!((count, most, bytes, cache.bytes()), (16, 16, 16 * state, 17 * state));
    let ((keys_and_values, none), cache) = cache_of("llama");
    assert_eq!((none, cache.checkpoints(), cache.bytes()), (None, None, keys_and_values));
}
