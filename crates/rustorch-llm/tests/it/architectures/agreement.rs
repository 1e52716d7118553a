//! What a model computes beside what llama.cpp computes.

use super::fixture::{EncoderFixture, Fixture, Ids};
use crate::common::{argmax, floats};
use rustorch_core::DType;
use rustorch_llm::model::Pooling;
use rustorch_llm::{Error, LanguageModel};

/// Ids count where the second is further behind than so many tolerances.
const MARGIN: f32 = 20.0;
/// So many of them must count.
const COUNTED: usize = 40;
/// Positions that the oracle's context holds; some factors of rotations depend on it.
pub(crate) const CONTEXT: usize = 128;

/// The logits after each of `ids`, fed in chunks of these lengths.
pub(crate) fn logits(
    model: &LanguageModel,
    cache: DType,
    ids: &[u32],
    mut lengths: impl Iterator<Item = usize>,
) -> Result<Vec<Vec<f32>>, String> {
    let mut cache = model.model().new_cache_of(cache, CONTEXT).map_err(|e| e.to_string())?;
    let (mut rows, mut rest) = (Vec::new(), ids);
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(lengths.next().unwrap().min(rest.len()));
        let logits = model.model().forward(chunk, &mut cache, true).map_err(|e| e.to_string())?;
        let values: Vec<f32> = logits.to_vec().map_err(|e| e.to_string())?;
        rows.extend(values.chunks_exact(values.len() / chunk.len()).map(<[f32]>::to_vec));
        rest = after;
    }
    Ok(rows)
}

/// One chunk for all ids.
pub(crate) fn whole() -> impl Iterator<Item = usize> {
    std::iter::once(CONTEXT)
}

/// The largest difference in parts of the range of the expected.
pub(crate) fn error(ours: &[f32], theirs: &[f32]) -> f32 {
    let (low, high) = theirs.iter().fold((f32::MAX, f32::MIN), |(l, h), &x| (l.min(x), h.max(x)));
    let largest = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs());
    largest.fold(0.0, |most, x| if x > most || x.is_nan() { x } else { most }) / (high - low)
}

/// Compares the best ids after the prompt, along the forced and along the greedy ids, where they count; says how many did.
pub(crate) fn compare(
    model: &LanguageModel,
    cache: DType,
    fixture: &Fixture,
    expected: &Ids,
    tolerance: f32,
) -> Result<usize, String> {
    let mut counted = 0;
    let ways = [
        (&fixture.forced, &expected.best, &expected.margins),
        (&expected.greedy, &expected.greedy, &expected.greedy_margins),
    ];
    for (fed, best, margins) in ways {
        let ids: Vec<u32> = fixture.prompt.iter().chain(fed).copied().collect();
        let rows = logits(model, cache, &ids, whole())?;
        for (i, (&id, &margin)) in best.iter().zip(margins).enumerate() {
            if margin < MARGIN * tolerance {
                continue;
            }
            counted += 1;
            let ours = argmax(&rows[fixture.prompt.len() - 1 + i]);
            if ours != id {
                return Err(format!("id {i} after the prompt is {ours}, not {id} (margin {margin})"));
            }
        }
    }
    if counted < COUNTED {
        return Err(format!("only {counted} ids count"));
    }
    Ok(counted)
}

/// The errors of an encoder's hidden states, and of what its pooling makes of them.
pub(crate) fn encoder_errors(model: &LanguageModel, fixture: &EncoderFixture) -> Result<[f32; 2], String> {
    let model = model.model();
    let values = || {
        let hidden = model.hidden_states(&fixture.ids)?;
        let pooled = model.pool(&hidden, model.pooling())?.to_vec::<f32>()?;
        Ok((model.pool(&hidden, Pooling::None)?.to_vec::<f32>()?, pooled))
    };
    let (hidden, pooled) = values().map_err(|e: Error| e.to_string())?;
    let pooled = pooled_error(&pooled, &floats(&fixture.pooled))?;
    Ok([error(&hidden, &floats(&fixture.hidden)), pooled])
}

/// The error of what is pooled.
pub(crate) fn pooled_error(pooled: &[f32], expected: &[f32]) -> Result<f32, String> {
    if pooled.len() != expected.len() {
        return Err(format!("{} values are pooled, not {}", pooled.len(), expected.len()));
    }
    // One score has no range.
    Ok(match expected {
        [score] => (pooled[0] - score).abs(),
        _ => error(pooled, expected),
    })
}
