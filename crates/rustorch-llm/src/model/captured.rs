//! Decoding by a captured graph: one program for every position.

use super::Model;
use super::cache::KvCache;
use super::decoder::{ForwardPass, Wanted};
use super::position::Position;
use super::weights::Stage;
use crate::{Error, Result};
use rustorch_core::DType;
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::{Program, Tensor, TensorSpec, capture as capture_function, is_capturing};
use std::cell::RefCell;
use std::sync::Arc;

/// How single tokens of a cache are decoded.
#[derive(Clone, Copy, Debug)]
pub enum Decoding<'a> {
    /// None was yet.
    Unknown,
    /// By this program.
    Captured(&'a Program),
    /// By the decoder's modules, one operation after another: why.
    Eager(&'a str),
}

/// What decodes the next token of a cache.
#[derive(Default)]
pub(super) struct CapturedDecoder {
    /// What decodes.
    program: Option<Prepared>,
    /// Why it did not run when the last token was decoded.
    unused: Option<&'static str>,
}

/// A program, or why there is none.
struct Prepared {
    executor: HybridExecutor,
    /// Of the model that it was captured from.
    version: Arc<()>,
    program: Result<Program, String>,
}

impl CapturedDecoder {
    pub(super) fn decoding(&self) -> Decoding<'_> {
        match (self.unused, &self.program) {
            (Some(why), _) => Decoding::Eager(why),
            (None, None) => Decoding::Unknown,
            (None, Some(Prepared { program: Ok(program), .. })) => Decoding::Captured(program),
            (None, Some(Prepared { program: Err(why), .. })) => Decoding::Eager(why),
        }
    }
}

/// The logits `[1, vocabulary]` after a token behind those of a cache, which is made room for; `None` where no program decodes it.
pub(super) fn decode(model: &Model, id: u32, cache: &mut KvCache) -> Result<Option<Tensor>> {
    let executor = HybridExecutor::current();
    cache.decoder.unused = refusal(model, &executor);
    if cache.decoder.unused.is_some() {
        return Ok(None);
    }
    let is_of = |of: &Prepared| of.executor.same(&executor) && Arc::ptr_eq(&of.version, &model.version);
    if !cache.decoder.program.as_ref().is_some_and(is_of) {
        let program = match is_on_cpu(model, cache) {
            true => capture(model, cache, 1).map_err(|error| error.to_string()).and_then(in_place),
            false => Err(ELSEWHERE.to_owned()),
        };
        cache.decoder.program = Some(Prepared { executor, version: Arc::clone(&model.version), program });
    }
    let Decoding::Captured(program) = cache.decoder.decoding() else { return Ok(None) };
    let position = cache.len() as i64;
    let rows: Vec<i64> = cache.next_rows().map(|row| row as i64).collect();
    let ids = Tensor::from_slice(&[i64::from(id)], [1])?;
    let positions = Tensor::from_slice(&[position], [1])?;
    let rows = Tensor::from_slice(&rows, [rows.len()])?;
    let logits = program.run(&[&ids, &positions, &rows])?.remove(0);
    cache.advance(1, Vec::new());
    Ok(Some(logits))
}

/// States are tensors that are never written to, so that a copy is a handle.
const RECURRENT: &str =
    "a recurrent state is another tensor after each token, so that earlier ones can be gone back to";

const ELSEWHERE: &str = "a program would take more launches on a GPU, where the decoder writes keys and values to the cache in the launch that rotates and rounds them";

/// Why tokens are decoded one operation after another, whatever the model is.
fn refusal(model: &Model, executor: &HybridExecutor) -> Option<&'static str> {
    if model.is_eager {
        Some("it was asked for")
    } else if !executor.runs_plainly_on_cpu() || is_capturing() {
        Some("operations are placed or recorded one by one")
    } else {
        None
    }
}

/// A program that writes to the cache where it is.
fn in_place(program: Program) -> Result<Program, String> {
    match program.staged_states() {
        0 => Ok(program),
        _ => Err("an operation may fail behind writes to the cache, of which a program would make a copy"
            .to_owned()),
    }
}

fn is_on_cpu(model: &Model, cache: &KvCache) -> bool {
    let blocks = (0..model.config.blocks).map(Stage::Block);
    let stages = [Stage::Embedding, Stage::Output].into_iter().chain(blocks);
    let mut devices = cache.devices().chain(stages.map(|stage| model.weights.device(stage)));
    devices.all(|device| device.is_cpu())
}

/// See [`Model::capture_static`].
pub(super) fn capture_static(model: &Model, context: usize, tokens: &[usize]) -> Result<Vec<Program>> {
    // A batch as large as the context leaves no window that moves: rows are positions in every block.
    let cache = model.make_cache(DType::F16, context, context)?;
    let rows = cache.next_rows().count();
    let end = i64::try_from(context).map_err(|_| Error::Request("a context beyond 2⁶³".into()))?;
    let capture = |&n: &usize| {
        check(model, &cache, n)?;
        let index = || TensorSpec::new([n], DType::I64);
        captured(&[index()?, index()?], |args| {
            let rows = args[1].narrow(0, 0, 1)?.expand([rows])?;
            let logits = forward(model, &cache, n, &args[0], &args[1], rows)?;
            // Rows behind the end would take the place of the last.
            let fits = args[1].narrow(0, n - 1, 1)?.lt(end)?;
            Ok(fits.where_cond(&logits, f32::NAN)?)
        })
    };
    tokens.iter().map(capture).collect()
}

/// See [`Model::capture`].
pub(super) fn capture(model: &Model, cache: &KvCache, tokens: usize) -> Result<Program> {
    check(model, cache, tokens)?;
    let index = |n: usize| TensorSpec::new([n], DType::I64);
    let rows = cache.next_rows().count();
    let specs = [index(tokens)?, index(tokens)?, index(rows)?];
    captured(&specs, |args| forward(model, cache, tokens, &args[0], &args[1], args[2].clone()))
}

fn check(model: &Model, cache: &KvCache, tokens: usize) -> Result<()> {
    if tokens == 0 {
        return Err(Error::Request("no tokens to decode".into()));
    }
    if tokens > cache.batch() {
        return Err(Error::ContextFull { capacity: cache.batch(), needed: tokens });
    }
    if !model.config.causal {
        return Err(Error::Request("an encoder decodes nothing".into()));
    }
    if cache.has_states() {
        return Err(Error::Request(RECURRENT.into()));
    }
    Ok(())
}

/// The logits of the last of some tokens.
fn forward(
    model: &Model,
    cache: &KvCache,
    tokens: usize,
    ids: &Tensor,
    positions: &Tensor,
    rows: Tensor,
) -> Result<Tensor> {
    let pass = ForwardPass {
        weights: &model.weights,
        cache,
        numerics: model.numerics,
        ids: ids.clone(),
        positions: vec![positions.clone(); model.config.blocks],
        position: Position::Rows(rows),
        n: tokens,
        last_row: true,
        causal: model.config.causal,
        observer: None,
        new_states: RefCell::default(),
        alibi: RefCell::default(),
        windows: RefCell::default(),
    };
    model.decoder.forward(&pass, Wanted::LastLogits)
}

/// A program of one result.
fn captured(specs: &[TensorSpec], f: impl FnOnce(&[Tensor]) -> Result<Tensor>) -> Result<Program> {
    let failed: RefCell<Option<Error>> = RefCell::new(None);
    let program = capture_function(specs, |args| {
        f(args).map(|logits| vec![logits]).map_err(|error| {
            let message = rustorch_core::Error::argument("capture", error.to_string());
            failed.replace(Some(error));
            message
        })
    });
    program.map_err(|error| failed.take().unwrap_or_else(|| error.into()))
}
