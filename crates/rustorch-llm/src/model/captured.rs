//! Decoding by a captured graph: one program for every position.

use super::Model;
use super::cache::KvCache;
use super::decoder::{ForwardPass, Wanted};
use super::position::Position;
use super::weights::Stage;
use crate::{Error, Result};
use rustorch_core::{DType, Device, Node};
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
    /// The rows of the cache that it reads.
    rows: usize,
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
    let device = only_device(model, cache);
    cache.decoder.unused = refusal(model, &executor, device);
    if cache.decoder.unused.is_some() {
        return Ok(None);
    }
    let device = device.unwrap_or(Device::CPU);
    let most = rows_read(cache, device);
    let is_of = |of: &Prepared| {
        of.rows == most && of.executor.same(&executor) && Arc::ptr_eq(&of.version, &model.version)
    };
    if !cache.decoder.program.as_ref().is_some_and(is_of) {
        let program = capture_next(model, cache, device, most).map_err(|error| error.to_string());
        let program = program.and_then(|program| in_place(program, device));
        let version = Arc::clone(&model.version);
        cache.decoder.program = Some(Prepared { executor, version, rows: most, program });
    }
    let Decoding::Captured(program) = cache.decoder.decoding() else { return Ok(None) };
    let places: Vec<i64> = [cache.len()].into_iter().chain(cache.next_rows()).map(|at| at as i64).collect();
    let ids = Tensor::from_slice(&[i64::from(id)], [1])?.to_device(model.weights.device(Stage::Embedding))?;
    let places = Tensor::from_slice(&places, [places.len()])?.to_device(device)?;
    match program.run(&[&ids, &places]) {
        Ok(mut logits) => {
            cache.advance(1, Vec::new());
            Ok(Some(logits.remove(0)))
        }
        // Rows that it wrote are behind the cache's tokens. The plain decoder writes them anew, by other devices where this one fails.
        Err(error) if !device.is_cpu() => {
            if let Some(prepared) = &mut cache.decoder.program {
                prepared.program = Err(format!("a program failed: {error}"));
            }
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// States are tensors that are never written to, so that a copy is a handle.
const RECURRENT: &str =
    "a recurrent state is another tensor after each token, so that earlier ones can be gone back to";

/// Why tokens are decoded one operation after another, whatever the model is.
fn refusal(model: &Model, executor: &HybridExecutor, device: Option<Device>) -> Option<&'static str> {
    if model.is_eager {
        return Some("it was asked for");
    }
    match device {
        None => Some("parts of the model are on different devices"),
        Some(device)
            if is_capturing() || !(executor.runs_plainly(device) || is_compiled(executor, device)) =>
        {
            Some("operations are placed or recorded one by one")
        }
        Some(_) => None,
    }
}

/// Whether parts of a program of a device may be compiled by another one, such as Core ML beside the CPU.
fn is_compiled(executor: &HybridExecutor, device: Device) -> bool {
    device.is_cpu() && executor.compiles_regions()
}

/// The program, if it writes to the cache in place and the device has prepared every operation that runs there. Embeddings may be looked up on
/// the CPU and copied to the device.
fn in_place(program: Program, device: Device) -> Result<Program, String> {
    if program.staged_states() != 0 {
        return Err("an operation may fail behind writes to the cache, of which a program would make a copy"
            .to_owned());
    }
    let graph = program.graph();
    let is_ready = |node: usize| {
        let Node { results, device: sent_to, .. } = &graph.nodes[node];
        let is_there = results.iter().any(|result| graph.values[result.value.index()].device == device);
        device.is_cpu() || !is_there || sent_to.is_some() || program.is_prepared(node)
    };
    match (0..graph.nodes.len()).find(|&node| !is_ready(node)) {
        Some(node) => Err(format!("{device} cannot prepare the launches of {}", graph.nodes[node].op.name())),
        None => Ok(program),
    }
}

/// The device that all of a model and a cache are on; the table of embeddings may be on the CPU.
fn only_device(model: &Model, cache: &KvCache) -> Option<Device> {
    let blocks = (0..model.config.blocks).map(Stage::Block);
    let stages = blocks.chain([Stage::Output]).map(|stage| model.weights.device(stage));
    let mut devices = cache.devices().chain(stages);
    let first = devices.next()?;
    let table = model.weights.device(Stage::Embedding);
    (devices.all(|device| device == first) && (table == first || table.is_cpu())).then_some(first)
}

/// How many rows of a cache the program of its next token may read. On the CPU all: its kernel stops at the position. On other devices a power of
/// two, since kernels are chosen by the number of keys: when the cache outgrows it, a new program is captured.
fn rows_read(cache: &KvCache, device: Device) -> usize {
    const FEWEST: usize = 256;
    match device.is_cpu() {
        true => usize::MAX,
        false => (cache.len() + 1).next_power_of_two().clamp(FEWEST, cache.capacity().max(FEWEST)),
    }
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
            let logits = forward(model, &cache, n, (&args[0], &args[1]), (rows, usize::MAX))?;
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
    captured(&specs, |args| {
        forward(model, cache, tokens, (&args[0], &args[1]), (args[2].clone(), usize::MAX))
    })
}

/// Captures the decoding of one token on a device, which reads at most so many rows of the cache. Inputs of the program are the token's id, and one
/// tensor, copied to the device at once, of the token's position and the row at which it enters each cache of keys and values.
fn capture_next(model: &Model, cache: &KvCache, device: Device, most: usize) -> Result<Program> {
    check(model, cache, 1)?;
    let index = |n: usize, device| Ok::<_, Error>(TensorSpec::new([n], DType::I64)?.on(device));
    let rows = cache.next_rows().count();
    captured(&[index(1, model.weights.device(Stage::Embedding))?, index(1 + rows, device)?], |args| {
        let (position, rows) = (args[1].narrow(0, 0, 1)?, args[1].narrow(0, 1, rows)?);
        forward(model, cache, 1, (&args[0], &position), (rows, most))
    })
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
    (ids, positions): (&Tensor, &Tensor),
    (rows, most): (Tensor, usize),
) -> Result<Tensor> {
    let pass = ForwardPass {
        weights: &model.weights,
        cache,
        numerics: model.numerics,
        ids: ids.clone(),
        positions: vec![positions.clone(); model.config.blocks],
        position: Position::Rows { rows, most },
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
