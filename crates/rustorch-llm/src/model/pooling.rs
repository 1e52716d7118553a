//! From the hidden states of a text to one vector, or to scores.

use super::Model;
use super::config::MetadataReader;
use super::loader::Loader;
use super::modules::{ActivationFn, LinearWeights, Norm};
use super::weights::Stage;
use crate::arch::{self, Activation, Linear, NormKind, RankedRows, Ranking};
use crate::{Error, Result};
use rustorch_tensor::Tensor;

/// What becomes of the hidden states of a text's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// All of them.
    None,
    /// Their mean.
    Mean,
    /// The first.
    Cls,
    /// The last.
    Last,
    /// Scores by the file's classifier.
    Rank,
}

/// What pooling needs beside the hidden states.
pub(super) struct PoolingHead {
    /// What the metadata says.
    pooling: Pooling,
    ranking: Ranking,
    gelu: ActivationFn,
    /// The classifier's first layer and its norm.
    dense: Option<(LinearWeights, Option<Norm>)>,
    /// The classifier's last layer.
    scores: Option<LinearWeights>,
    /// Layers behind a pooled vector.
    projections: Vec<LinearWeights>,
}

impl Pooling {
    /// What the metadata says.
    fn read(r: &MetadataReader<'_>, key: &str) -> Result<Option<Pooling>> {
        // Converters also write −1 for "not given".
        match r.find_i64(key)?.filter(|&value| value != -1 && value != i64::from(u32::MAX)) {
            None => Ok(None),
            Some(0) => Ok(Some(Pooling::None)),
            Some(1) => Ok(Some(Pooling::Mean)),
            Some(2) => Ok(Some(Pooling::Cls)),
            Some(3) => Ok(Some(Pooling::Last)),
            Some(4) => Ok(Some(Pooling::Rank)),
            Some(other) => Err(
                r.error(key, format!("{other} is none of 0 (none), 1 (mean), 2 (cls), 3 (last), 4 (rank)"))
            ),
        }
    }
}

impl PoolingHead {
    pub(super) fn load(ranking: Ranking, loader: &mut Loader<'_>) -> Result<PoolingHead> {
        loader.enter(Stage::Output);
        let pooling = Pooling::read(&loader.metadata, "pooling_type")?.unwrap_or(Pooling::None);
        let rows = match Pooling::read(&loader.metadata, "classifier.pooling_type")? {
            None | Some(Pooling::None | Pooling::Rank) => ranking.rows,
            Some(Pooling::Mean) => RankedRows::Mean,
            Some(Pooling::Cls) => RankedRows::First,
            Some(Pooling::Last) => RankedRows::Last,
        };
        let width = loader.config.embedding;
        let dense = match find_layer("cls", width, loader)? {
            Some(layer) => {
                let outputs = loader.shape_of("cls")?;
                let norm =
                    arch::Norm { kind: NormKind::Layer, tensor: Some("cls.norm"), bias: arch::Bias::None };
                let has_norm = loader.has_part("cls.norm");
                let norm = has_norm.then(|| Norm::load(&norm, &outputs[..1], loader)).transpose()?;
                Some((layer, norm))
            }
            None => None,
        };
        let scores = find_layer("cls.output", width, loader)?;
        let mut projections = Vec::new();
        let mut inputs = width;
        for name in ["dense_2", "dense_3"] {
            if let Some(layer) = find_layer(name, inputs, loader)? {
                inputs = loader.shape_of(name)?[0];
                projections.push(layer);
            }
        }
        Ok(PoolingHead {
            pooling,
            ranking: Ranking { rows, ..ranking },
            gelu: ActivationFn::of(Activation::GeluTanh)?,
            dense,
            scores,
            projections,
        })
    }
}

/// A layer of so many inputs, if the file has it. That of one output is a vector there.
fn find_layer(name: &'static str, inputs: usize, loader: &mut Loader<'_>) -> Result<Option<LinearWeights>> {
    if !loader.has_part(name) {
        return Ok(None);
    }
    Ok(Some(match loader.shape_of(name)?[..] {
        [_] => {
            let bias = loader.find_vector_named(&format!("{name}.bias"), 1)?;
            LinearWeights { weight: loader.row(name, inputs)?, scale: None, bias }
        }
        [outputs, ..] => loader.linear(Linear::maybe_biased(name), [outputs, inputs], None)?,
        [] => return Err(Error::Request(format!("`{name}` has no dimension"))),
    }))
}

impl Model {
    /// What the file says that becomes of the hidden states of a text.
    pub fn pooling(&self) -> Pooling {
        self.pooling_head.pooling
    }

    /// One vector `[1, width]`, scores `[1, labels]`, or all vectors `[n, width]`, of a text's hidden states `[n, embedding]`. Vectors have the
    /// width of the last layer that the file has behind pooling.
    ///
    /// # Errors
    /// If there is no hidden state, or they are to be ranked by a classifier that the file lacks.
    pub fn pool(&self, hidden: &Tensor, pooling: Pooling) -> Result<Tensor> {
        let n = hidden.dims()[0];
        if n == 0 {
            return Err(Error::Request("no tokens to pool".into()));
        }
        let head = &self.pooling_head;
        let rows = match pooling {
            Pooling::None => None,
            Pooling::Mean => Some(RankedRows::Mean),
            Pooling::Cls => Some(RankedRows::First),
            Pooling::Last => Some(RankedRows::Last),
            Pooling::Rank => Some(head.ranking.rows),
        };
        let mut x = match rows {
            None => hidden.clone(),
            Some(RankedRows::Mean) => hidden.mean(0, true)?,
            Some(RankedRows::First) => hidden.narrow(0, 0, 1)?,
            Some(RankedRows::Last) => hidden.narrow(0, n - 1, 1)?,
        };
        if pooling == Pooling::Rank {
            x = self.rank(&x)?;
        }
        for layer in &head.projections {
            x = layer.apply(&self.weights, self.numerics, &x)?;
        }
        Ok(x)
    }

    /// Scores `[1, labels]` of `x: [1, embedding]`.
    fn rank(&self, x: &Tensor) -> Result<Tensor> {
        let PoolingHead { ranking, gelu, dense, scores, .. } = &self.pooling_head;
        if dense.is_none() && scores.is_none() {
            let message = "the file has no classifier (`cls`, `cls.output`) to rank by";
            return Err(Error::Request(message.into()));
        }
        let mut x = x.clone();
        if let Some((layer, norm)) = dense {
            x = layer.apply(&self.weights, self.numerics, &x)?;
            x = if ranking.gelu { gelu.forward(&x, None, self.numerics)? } else { x.tanh()? };
            if let Some(norm) = norm {
                x = norm.forward(&x, &self.weights)?;
            }
        }
        if let Some(layer) = scores {
            x = layer.apply(&self.weights, self.numerics, &x)?;
        }
        Ok(if ranking.softmax { x.softmax(-1)? } else { x })
    }
}
