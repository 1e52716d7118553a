//! Collecting statistics while a text runs.

use super::{ActivationStatistics, ImatrixError, SquareSums};
use crate::evaluate::{ChunkRunner, Chunks};
use crate::model::{LinearInput, LinearObserver, Matrices};
use crate::{Error, LanguageModel, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What is collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectOptions {
    /// `output.weight`, too, not only the weights of blocks.
    pub output: bool,
}

/// Runs the chunks of a text through a model, and adds the squares of what each weight is multiplied with to `statistics`. `observe` is called after
/// each chunk with how many there were.
///
/// # Errors
/// If the model cannot be run, an activation is not finite, or `statistics` is of another model.
pub fn collect(
    model: &LanguageModel,
    chunks: &Chunks,
    options: &CollectOptions,
    statistics: &mut ActivationStatistics,
    observe: &mut dyn FnMut(usize),
) -> Result<(), ImatrixError> {
    let collector = Collector { weights: RefCell::default(), output: options.output };
    let mut runner = ChunkRunner::new(model, chunks.context())?;
    for (i, chunk) in chunks.iter().enumerate() {
        runner.observe(chunk, options.output, &collector)?;
        observe(i + 1);
    }
    let collected = ActivationStatistics {
        weights: collector.weights.into_inner(),
        datasets: Vec::new(),
        chunk_size: chunks.context(),
        chunk_count: chunks.len(),
    };
    statistics.merge(&collected)
}

struct Collector {
    weights: RefCell<BTreeMap<String, SquareSums>>,
    output: bool,
}

impl LinearObserver for Collector {
    fn observe(&self, input: &LinearInput<'_>) -> Result<()> {
        let name = input.weight;
        if !(name.starts_with("blk.") || self.output && name == "output.weight") {
            return Ok(());
        }
        let mut weights = self.weights.borrow_mut();
        let of = weights.entry(name.to_owned()).or_default();
        add(of, input)?;
        match of.sums.iter().all(|sum| sum.is_finite()) {
            true => Ok(()),
            false => Err(Error::Request(format!("what `{name}` is multiplied with is not finite"))),
        }
    }
}

/// Adds the squares of a layer's input, and counts its rows.
fn add(of: &mut SquareSums, input: &LinearInput<'_>) -> Result<()> {
    let dims = input.x.dims();
    let columns = dims.last().copied().unwrap_or(1);
    let values = input.x.to_vec::<f32>()?;
    let rows = values.chunks_exact(columns);
    match input.matrices {
        Matrices::One => {
            of.counts.resize(1, 0);
            of.counts[0] += rows.len() as u64;
            rows.for_each(|row| of.add(row, 0, 1));
        }
        Matrices::Each(count) => {
            of.counts.resize(1, 0);
            of.counts[0] += dims[0] as u64;
            // A vector for each matrix, or one that they share.
            let vectors = dims[1];
            for (i, row) in rows.enumerate() {
                match vectors {
                    1 => (0..count).for_each(|matrix| of.add(row, matrix, count)),
                    _ => of.add(row, i % vectors, count),
                }
            }
        }
        Matrices::Chosen(chosen, count) => {
            of.counts.resize(count, 0);
            let used = chosen.dims()[1];
            let rows: Vec<&[f32]> = rows.collect();
            for (i, expert) in chosen.to_vec::<i64>()?.into_iter().enumerate() {
                // Ids come from `topk`, which gives indices of experts.
                let expert = expert as usize;
                let row = if dims[1] == 1 { i / used } else { i };
                of.counts[expert] += 1;
                of.add(rows[row], expert, count);
            }
        }
    }
    Ok(())
}
