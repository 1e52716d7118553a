//! The decoder that runs every architecture, built from ordinary tensor operations.

use super::cache::State;
use super::loader::Loader;
use super::modules::{Module, Norm};
use super::position::Position;
use super::weights::{Stage, TensorId, Weights};
use super::{KvCache, LinearObserver, Model, ModelConfig, captured};
use crate::arch::Architecture;
use crate::{Error, Result};
use rustorch_core::{DType, Device, Numerics};
use rustorch_tensor::Tensor;
use std::cell::RefCell;

/// An architecture's parts as modules, in the order in which they run.
pub(super) struct Decoder {
    steps: Vec<Step>,
}

struct Step {
    stage: Stage,
    module: Module,
}

/// What all modules share in one forward pass.
pub(super) struct ForwardPass<'a> {
    pub(super) weights: &'a Weights,
    pub(super) cache: &'a KvCache,
    pub(super) numerics: Numerics,
    /// The new tokens, `[n]`.
    pub(super) ids: Tensor,
    /// Their positions, `[n]`, on the device of each block.
    pub(super) positions: Vec<Tensor>,
    /// Where the first is.
    pub(super) position: Position,
    /// How many they are.
    pub(super) n: usize,
    /// Whether only the logits after the last of them are wanted.
    pub(super) last_row: bool,
    /// Whether they see only those before them.
    pub(super) causal: bool,
    /// Is shown the inputs of linear layers.
    pub(super) observer: Option<&'a dyn LinearObserver>,
    /// The states behind the new tokens, of those recurrences that have run, with their places in the cache.
    pub(super) new_states: RefCell<Vec<(usize, State)>>,
    /// What ALiBi adds to scores, on each device that has needed it.
    pub(super) alibi: RefCell<Vec<Tensor>>,
    /// Which keys are within windows to both sides, by the window.
    pub(super) windows: RefCell<Vec<(usize, Tensor)>>,
}

impl ForwardPass<'_> {
    /// The rows of a table, `[positions, embedding]`, for the positions of the new tokens.
    pub(super) fn rows_of_positions(&self, table: TensorId) -> Result<Tensor> {
        let table = &self.weights[table];
        let rows = table.dims()[0];
        let end = match &self.position {
            Position::At(start) => start + self.n,
            Position::Rows { .. } => self.cache.capacity(),
        };
        if end > rows {
            return Err(Error::ContextFull { capacity: rows, needed: end });
        }
        let positions = self.positions[0].to_device(table.device())?;
        Ok(table.embedding(&positions)?.to_dtype(DType::F32)?)
    }

    /// What ALiBi adds to the scores of the new tokens, `[heads, n, start + n]`, on a device. All blocks have the same heads.
    pub(super) fn alibi(&self, slopes: &Tensor, device: Device) -> Result<Tensor> {
        let mut copies = self.alibi.borrow_mut();
        if let Some(copy) = copies.iter().find(|copy| copy.device() == device) {
            return Ok(copy.clone());
        }
        let start = self.position.start()?;
        let keys = start + self.n;
        let distance = |query: usize| (0..keys).map(move |key| -(query.abs_diff(key) as f32));
        let distances: Vec<f32> = (start..keys).flat_map(distance).collect();
        let distances = Tensor::from_slice(&distances, [1, self.n, keys])?;
        let bias = slopes.unsqueeze(-1)?.unsqueeze(-1)?.mul(&distances)?.to_device(device)?;
        copies.push(bias.clone());
        Ok(bias)
    }

    /// Which keys the new tokens see in windows of this size around them, `[n, start + n]`, on a device.
    pub(super) fn window(&self, size: usize, device: Device) -> Result<Tensor> {
        let mut copies = self.windows.borrow_mut();
        if let Some((_, copy)) = copies.iter().find(|(of, copy)| *of == size && copy.device() == device) {
            return Ok(copy.clone());
        }
        let start = self.position.start()?;
        let keys = start + self.n;
        let near = |query: usize| (0..keys).map(move |key| query.abs_diff(key) <= size / 2);
        let near: Vec<bool> = (start..keys).flat_map(near).collect();
        let mask = Tensor::from_slice(&near, [self.n, keys])?.to_device(device)?;
        copies.push((size, mask.clone()));
        Ok(mask)
    }

    /// Keeps a recurrence's state behind the new tokens: it becomes the cache's when all has run.
    pub(super) fn set_state(&self, place: usize, state: State) {
        self.new_states.borrow_mut().push((place, state));
    }
}

/// What modules hand along, both `[rows, embedding]`.
pub(super) struct Flow {
    /// The residual stream.
    residual: Tensor,
    /// What the next module starts from: the residual stream, or what modules have made of it since.
    branch: Tensor,
    /// Embeddings for each block, `[n, blocks, width]`, where the architecture has them.
    pub(super) per_layer: Option<Tensor>,
    /// Several residual streams, `[n, streams, embedding]`, where the architecture has them.
    pub(super) streams: Option<Tensor>,
    /// The values of the first recurrence, `[n, embedding]`, where others mix them into theirs.
    pub(super) first_value: Option<Tensor>,
}

impl Decoder {
    /// The modules of a model of this architecture, with the weights that `loader` finds.
    pub(super) fn load(
        architecture: &Architecture,
        config: &ModelConfig,
        loader: &mut Loader<'_>,
    ) -> Result<Decoder> {
        let blocks = (0..config.blocks).map(|i| (Stage::Block(i), architecture.block(config, i)));
        let stages = std::iter::once((Stage::Embedding, architecture.embedding))
            .chain(blocks)
            .chain([(Stage::Output, architecture.output)]);
        let mut steps = Vec::new();
        for (stage, parts) in stages {
            loader.enter(stage);
            let modules = Module::load_all(parts, loader)?;
            steps.extend(modules.into_iter().map(|module| Step { stage, module }));
        }
        let _ = steps
            .iter_mut()
            .rev()
            .any(|step| Module::drop_rows_after(std::slice::from_mut(&mut step.module)));
        Ok(Decoder { steps })
    }

    /// The logits, or the hidden states that they are of.
    pub(super) fn forward(&self, pass: &ForwardPass<'_>, wanted: Wanted) -> Result<Tensor> {
        let mut flow = Flow::new(pass.ids.clone());
        let mut stage = Stage::Embedding;
        let until_output = |step: &&Step| wanted != Wanted::HiddenStates || !step.module.is_output();
        let mut steps = self.steps.iter().take_while(until_output).peekable();
        while let Some(step) = steps.next() {
            if step.stage != stage {
                stage = step.stage;
                flow.enter(pass.weights.device(stage))?;
            }
            match (&step.module, steps.peek()) {
                // A sum and its norm are one operation, also where the norm begins the next block.
                (Module::Add, Some(Step { module: Module::Norm(norm), stage: of_norm })) => {
                    stage = *of_norm;
                    let device = norm.device(pass.weights).unwrap_or_else(|| pass.weights.device(stage));
                    flow.add_norm(norm, device, pass.weights)?;
                    steps.next();
                }
                (module, _) => module.forward(pass, &mut flow)?,
            }
        }
        Ok(flow.branch)
    }
}

impl Flow {
    pub(super) fn new(x: Tensor) -> Flow {
        Flow { residual: x.clone(), branch: x, per_layer: None, streams: None, first_value: None }
    }

    /// Makes `x` the residual stream.
    pub(super) fn begin(&mut self, x: Tensor) {
        (self.residual, self.branch) = (x.clone(), x);
    }

    /// What the next module starts from.
    pub(super) fn input(&self) -> &Tensor {
        &self.branch
    }

    /// The residual stream.
    pub(super) fn residual(&self) -> &Tensor {
        &self.residual
    }

    /// The residual stream and the branch.
    pub(super) fn into_parts(self) -> (Tensor, Tensor) {
        (self.residual, self.branch)
    }

    /// Begins a stage on its device: what the one before has left is the residual stream.
    fn enter(&mut self, device: Device) -> Result<()> {
        self.begin(self.branch.to_device(device)?);
        Ok(())
    }

    /// What a module has computed. If that has dropped rows, all but the last, so does the residual stream.
    pub(super) fn set_branch(&mut self, branch: Tensor) -> Result<()> {
        self.residual = last_rows(&self.residual, &branch)?;
        self.branch = branch;
        Ok(())
    }

    /// Adds the branch to the residual stream.
    pub(super) fn add(&mut self) -> Result<()> {
        self.begin(self.residual.add(&self.branch)?);
        Ok(())
    }

    /// Makes the branch the residual stream.
    pub(super) fn replace(&mut self) {
        self.residual = self.branch.clone();
    }

    /// [`add`](Self::add), and the norm of the sum as the next branch, on the norm's device.
    fn add_norm(&mut self, norm: &Norm, device: Device, weights: &Weights) -> Result<()> {
        let Flow { residual, branch, .. } = self;
        if residual.device() == device && branch.device() == device {
            (*residual, *branch) = norm.add_forward(residual, branch, weights)?;
        } else {
            // One tensor goes from device to device, not two.
            *residual = residual.add(&*branch)?.to_device(device)?;
            *branch = norm.forward(residual, weights)?;
        }
        Ok(())
    }
}

/// As many of the last rows of `x` as `y` has.
pub(super) fn last_rows(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (all, rows) = (x.dims()[0], y.dims()[0]);
    Ok(if rows < all { x.narrow(0, all - rows, rows)? } else { x.clone() })
}

/// What a forward pass is to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Logits after every token.
    Logits,
    /// Logits after the last token.
    LastLogits,
    /// What logits are computed from, of every token.
    HiddenStates,
}

pub(super) fn forward(
    model: &Model,
    tokens: &[u32],
    cache: &mut KvCache,
    wanted: Wanted,
    observer: Option<&dyn LinearObserver>,
) -> Result<Tensor> {
    let config = &model.config;
    if wanted != Wanted::HiddenStates && !config.causal {
        let message = "an encoder has no logits of next tokens; `Model::hidden_states` gives what it has";
        return Err(Error::Request(message.into()));
    }
    if tokens.is_empty() {
        return Err(Error::Request("no tokens to decode".into()));
    }
    if let Some(&id) = tokens.iter().find(|&&id| id as usize >= config.vocabulary) {
        return Err(Error::Token { id, vocabulary: config.vocabulary });
    }
    cache.check_room(tokens.len())?;
    let batch = cache.batch();
    if tokens.len() <= batch {
        return forward_batch(model, tokens, cache, wanted, observer);
    }
    let mut rows = Vec::new();
    for tokens in tokens.chunks(batch) {
        let found = forward_batch(model, tokens, cache, wanted, observer)?;
        if wanted == Wanted::LastLogits {
            rows.clear();
        }
        rows.push(found);
    }
    Ok(Tensor::cat(&rows, 0)?)
}

/// As many tokens as the cache takes at once.
fn forward_batch(
    model: &Model,
    tokens: &[u32],
    cache: &mut KvCache,
    wanted: Wanted,
    observer: Option<&dyn LinearObserver>,
) -> Result<Tensor> {
    let (config, weights) = (&model.config, &model.weights);
    cache.make_room(tokens.len())?;
    if let ([id], None) = (tokens, observer)
        && wanted != Wanted::HiddenStates
        && let Some(logits) = captured::decode(model, *id, cache)?
    {
        return Ok(logits);
    }
    let (start, n) = (cache.len(), tokens.len());
    let ids: Vec<i64> = tokens.iter().map(|&id| id.into()).collect();
    let positions: Vec<i64> = (start as i64..).take(n).collect();
    let pass = ForwardPass {
        weights,
        cache,
        numerics: model.numerics,
        ids: Tensor::from_slice(&ids, [n])?,
        positions: on_each_device(&Tensor::from_slice(&positions, [n])?, config.blocks, weights)?,
        position: Position::At(start),
        n,
        last_row: wanted == Wanted::LastLogits,
        causal: config.causal,
        observer,
        new_states: RefCell::default(),
        alibi: RefCell::default(),
        windows: RefCell::default(),
    };
    let logits = model.decoder.forward(&pass, wanted)?;
    let new_states = pass.new_states.into_inner();
    cache.advance(n, new_states);
    Ok(logits)
}

/// `x` for each block, on its device.
fn on_each_device(x: &Tensor, blocks: usize, weights: &Weights) -> Result<Vec<Tensor>> {
    let mut copies: Vec<Tensor> = vec![x.clone()];
    (0..blocks)
        .map(|block| {
            let device = weights.device(Stage::Block(block));
            if let Some(copy) = copies.iter().find(|copy| copy.device() == device) {
                return Ok(copy.clone());
            }
            copies.push(x.to_device(device)?);
            Ok(copies[copies.len() - 1].clone())
        })
        .collect()
}
