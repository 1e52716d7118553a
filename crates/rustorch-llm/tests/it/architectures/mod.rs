//! Small models of every architecture compute what llama.cpp computes with them.
//!
//! Expected: `fixtures/architectures.jsonl`, written by `tools/oracle/llama_archs.py`.

mod agreement;
mod encoders;
pub(crate) mod fixture;
mod knobs;
mod mutations;
mod nearest;
pub(crate) mod weights;

use agreement::{CONTEXT, compare, error, logits, whole};
use fixture::Fixture;
use rustorch_core::{DType, Numerics};
use rustorch_llm::arch::Architecture;
use rustorch_llm::generate::{Session, SessionOptions};
use rustorch_llm::model::KvCache;
use rustorch_llm::{Error, LanguageModel};
use std::cell::Cell;
use std::sync::Arc;

/// How far logits may be from llama.cpp's, in parts of their range.
const TOLERANCE: f32 = 1e-4;
/// The same where keys, values or activations are rounded: where the order of a sum differs, one may be rounded to another value.
const ROUNDED_TOLERANCE: f32 = 1e-3;

/// Runs `check` on all fixtures, and fails with all that is wrong.
fn each(check: impl Fn(&Fixture) -> Result<String, String>) {
    let fixtures = Fixture::all();
    let mut wrong = Vec::new();
    for fixture in &fixtures {
        match check(fixture) {
            Ok(note) => println!("{}: {note}", fixture.header.name),
            Err(message) => wrong.push(message),
        }
    }
    assert!(wrong.is_empty(), "{} of {} models:\n{}", wrong.len(), fixtures.len(), wrong.join("\n"));
}

#[test]
fn every_architecture_has_a_model() {
    let fixtures = Fixture::all();
    let mut names: Vec<&str> = fixtures.iter().map(|fixture| fixture.header.architecture()).collect();
    let encoders = fixture::EncoderFixture::all();
    names.extend(encoders.iter().map(|fixture| fixture.header.architecture()));
    let without: Vec<&str> =
        Architecture::ALL.iter().map(|a| a.name).filter(|name| !names.contains(name)).collect();
    assert!(without.is_empty(), "no fixture is of {without:?}");
}

#[test]
fn logits_and_best_ids_equal_llama_cpps() {
    each(|fixture| {
        let named = |message: String| format!("{}: {message}", fixture.header.name);
        let mut model = fixture.model()?;
        if fixture.exact_gelu {
            model.set_numerics(Numerics::F32);
        }
        let ids: Vec<u32> = fixture.prompt.iter().chain(&fixture.forced).copied().collect();
        // As in the oracle, keys and values are `f32`, too, so that what differs is no rounding of these.
        let rows = logits(&model, DType::F32, &ids, whole()).map_err(named)?;
        let [first, last] = fixture.logits();
        let (a, b) = (error(&rows[fixture.prompt.len() - 1], &first), error(&rows[rows.len() - 1], &last));
        // Not the larger of both, which would hide one that is no number.
        if [a, b].iter().any(|&error| error.is_nan() || error > TOLERANCE) {
            return Err(named(format!("errors of {a:.1e} and {b:.1e} of the logits' range")));
        }
        let counted = compare(&model, DType::F32, fixture, &fixture.ids, TOLERANCE).map_err(named)?;
        model.set_numerics(Numerics::Ggml);
        compare(&model, DType::F16, fixture, &fixture.ids, ROUNDED_TOLERANCE).map_err(named)?;
        Ok(format!("errors {a:.1e} and {b:.1e}, {counted} ids"))
    });
}

#[test]
fn chunks_of_a_prompt_change_no_bit() {
    each(|fixture| {
        let model = fixture.model()?;
        let bits = |rows: Vec<Vec<f32>>| rows.concat().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let at_once = bits(logits(&model, DType::F16, &fixture.prompt, whole())?);
        let one_by_one = bits(logits(&model, DType::F16, &fixture.prompt, std::iter::repeat(1))?);
        let lengths = (1..).map(|i| weights::length(&fixture.header.name, i));
        let in_chunks = bits(logits(&model, DType::F16, &fixture.prompt, lengths)?);
        match [("one by one", one_by_one), ("in random chunks", in_chunks)]
            .iter()
            .find(|(_, other)| *other != at_once)
        {
            Some((how, _)) => Err(format!("{}: other logits {how}", fixture.header.name)),
            None => Ok(format!("{} logits", at_once.len())),
        }
    });
}

/// Tokens enough for blocks with a window to drop the oldest.
fn many_ids(fixture: &Fixture) -> Vec<u32> {
    [&fixture.prompt[..], &fixture.forced, &fixture.ids.greedy, &fixture.prompt[..16]].concat()
}

fn has_windows(model: &LanguageModel) -> bool {
    model.model().config().layers.iter().any(|layer| layer.window.is_some())
}

/// The bits of the logits after each of `ids`, fed in chunks of these lengths.
fn bits(
    model: &LanguageModel,
    cache: &mut KvCache,
    ids: &[u32],
    lengths: &mut dyn Iterator<Item = usize>,
) -> Result<Vec<u32>, Error> {
    let (mut bits, mut rest) = (Vec::new(), ids);
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(lengths.next().unwrap().min(rest.len()));
        let logits = model.model().forward(chunk, cache, true)?;
        bits.extend(logits.to_vec::<f32>()?.iter().map(|x| x.to_bits()));
        rest = after;
    }
    Ok(bits)
}

#[test]
fn blocks_that_keep_their_window_give_the_bits_of_those_that_keep_all() {
    let checked = Cell::new(0);
    each(|fixture| {
        let mut model = fixture.model()?;
        if !has_windows(&model) {
            return Ok("no windows".into());
        }
        let name = &fixture.header.name;
        let named = |error: Error| format!("{name}: {error}");
        let ids = many_ids(fixture);
        for numerics in [Numerics::Ggml, Numerics::F32] {
            model.set_numerics(numerics);
            let mut all = model.model().new_cache(CONTEXT).map_err(named)?;
            let expected = bits(&model, &mut all, &ids, &mut whole()).map_err(named)?;
            for (how, lengths) in [
                ("at once", &mut whole() as &mut dyn Iterator<Item = usize>),
                ("one by one", &mut std::iter::repeat(1)),
                ("in random chunks", &mut (1..).map(|i| weights::length(name, i))),
            ] {
                if numerics == Numerics::F32 && how == "one by one" {
                    continue;
                }
                let mut cache = model.model().new_cache_for(CONTEXT, 5).map_err(named)?;
                if cache.bytes() >= all.bytes() {
                    return Err(format!("{name}: the cache is no smaller"));
                }
                if bits(&model, &mut cache, &ids, lengths).map_err(named)? != expected {
                    return Err(format!("{name}: other logits {how}, {numerics:?}"));
                }
            }
        }
        checked.set(checked.get() + 1);
        Ok(format!("{} ids", ids.len()))
    });
    assert!(checked.get() >= 8, "{checked:?} models have windows");
}

#[test]
fn a_session_that_goes_back_gives_what_a_fresh_one_gives() {
    each(|fixture| {
        let named = |error: Error| format!("{}: {error}", fixture.header.name);
        let model = Arc::new(fixture.model()?);
        // Batches that do not end where the session goes back to.
        let options = SessionOptions { context: CONTEXT, batch: 7, ..SessionOptions::for_model(&model) };
        let feed = |session: &mut Session, ids: &[u32]| -> Result<Vec<u32>, String> {
            Ok(session.feed(ids).map_err(named)?.iter().map(|x| x.to_bits()).collect())
        };
        let new = || Session::new(Arc::clone(&model), options).map_err(named);
        let turn = &fixture.forced[..8];
        // Where there are windows, also from far beyond them, to what they have and to what they have not.
        let (ids, places) = match has_windows(&model) {
            true => (many_ids(fixture), &[71, 70, 10][..]),
            false => (fixture.prompt.clone(), &[10][..]),
        };
        let mut session = new()?;
        for &kept in places {
            session.truncate(0);
            feed(&mut session, &ids)?;
            session.truncate(kept);
            let back = feed(&mut session, turn)?;
            let fresh = feed(&mut new()?, &[&ids[..kept], turn].concat())?;
            if back != fresh {
                let name = &fixture.header.name;
                return Err(format!("{name}: other logits after going back to {kept} ids"));
            }
        }
        Ok(format!("{} ids", session.tokens().len()))
    });
}

#[test]
fn copies_in_other_types_have_llama_cpps_ids() {
    each(|fixture| {
        let mut counts = Vec::new();
        for (kind, copy) in &fixture.copies {
            let model = fixture.copied(kind)?;
            let counted = compare(&model, DType::F16, fixture, &copy.ids, ROUNDED_TOLERANCE)
                .map_err(|message| format!("{} in {kind}: {message}", fixture.header.name))?;
            counts.push(format!("{counted} ids in {kind}"));
        }
        Ok(counts.join(", "))
    });
}
