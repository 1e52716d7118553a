//! From tensors of `transformers` to those of GGUF.

use super::architecture::{HfArchitecture, LAYER};
use super::rope::Rope;
use super::{Config, ConvertError};
use crate::quantize::{Mixture, from_f32, to_f32};
use rustorch_core::DType;
use rustorch_formats::safetensors::{File, TensorRef};
use std::io::{self, Write};

/// About so many values are converted at a time.
const CHUNK: usize = 1 << 18;

/// A tensor of the GGUF file.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) name: String,
    /// Outermost dimension first.
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
    source: Source,
}

/// What a tensor is made of.
#[derive(Debug)]
enum Source {
    /// A tensor of the weights.
    Tensor {
        name: String,
        /// Of how many heads the rows are reordered, so that the halves of a head become pairs.
        heads: Option<usize>,
        /// Added to each value.
        shift: f32,
    },
    Values(Vec<f32>),
}

/// The dtype of the first matrix that is `bf16` or `f16`; `f16` if there is none.
pub(super) fn usual_dtype(weights: &File) -> DType {
    let matrices = weights.tensors().filter(|tensor| tensor.shape().len() > 1);
    let first = matrices.map(|tensor| tensor.dtype()).find(|dtype| matches!(dtype, DType::BF16 | DType::F16));
    first.unwrap_or(DType::F16)
}

/// The mixture whose matrices have this dtype.
pub(super) fn mixture(dtype: DType) -> Result<Mixture, ConvertError> {
    let all = [Mixture::F32, Mixture::F16, Mixture::BF16, Mixture::Q8_0];
    all.into_iter().find(|mixture| mixture.dtype() == dtype).ok_or(ConvertError::DType(dtype))
}

/// All tensors of the file. The embedding table has `rows` at most.
pub(super) fn plan(
    weights: &File,
    config: &Config,
    architecture: &HfArchitecture,
    rope: &Rope,
    rows: Option<usize>,
    dtype: DType,
) -> Result<Vec<Planned>, ConvertError> {
    let mut planned = Vec::new();
    if let Some(factors) = &rope.factors {
        planned.push(Planned {
            name: "rope_freqs.weight".into(),
            shape: vec![factors.len()],
            dtype: DType::F32,
            source: Source::Values(factors.clone()),
        });
    }
    let [heads, kv_heads] = architecture.heads(config)?;
    for tensor in weights.tensors() {
        let Some(name) = text_tensor(tensor.name()) else { continue };
        let unknown = || ConvertError::UnknownTensor {
            name: tensor.name().into(),
            architecture: architecture.classes[0],
        };
        let (name, suffix) = name.rsplit_once('.').ok_or_else(unknown)?;
        if name.ends_with("rotary_emb") && suffix == "inv_freq" {
            // Computed from the configuration.
            continue;
        }
        let (mapped, part) = mapped(name, architecture).ok_or_else(unknown)?;
        if !matches!(suffix, "weight" | "bias") {
            return Err(unknown());
        }
        let heads = match part {
            "self_attn.q_proj" => Some(heads),
            "self_attn.k_proj" => Some(kv_heads),
            _ => None,
        };
        let mut shape = tensor.shape().to_vec();
        if let (Some(rows), "token_embd") = (rows, mapped.as_str()) {
            shape[0] = shape[0].min(rows);
        }
        let heads = heads.filter(|_| architecture.permutes);
        if heads.is_some_and(|heads| !shape[0].is_multiple_of(2 * heads)) {
            let message = format!("{} rows are not those of {} heads of pairs", shape[0], heads.unwrap_or(0));
            return Err(ConvertError::Tensor { name: tensor.name().into(), message });
        }
        if to_f32(tensor.dtype(), &[]).is_none() {
            let message = format!("has the dtype {}, which weights have not", tensor.dtype());
            return Err(ConvertError::Tensor { name: tensor.name().into(), message });
        }
        let is_norm = mapped.ends_with("_norm");
        planned.push(Planned {
            dtype: match dtype {
                _ if shape.len() <= 1 || is_norm || suffix != "weight" => DType::F32,
                // Rows that are no whole blocks.
                DType::Quant(quant) if !shape[shape.len() - 1].is_multiple_of(quant.block_len()) => {
                    DType::F16
                }
                dtype => dtype,
            },
            name: format!("{mapped}.{suffix}"),
            shape,
            source: Source::Tensor {
                name: tensor.name().to_owned(),
                heads,
                shift: if architecture.shifts_norms && name.ends_with("norm") { 1.0 } else { 0.0 },
            },
        });
    }
    Ok(planned)
}

/// A tensor's name in a model of text alone; `None` for those of images.
fn text_tensor(name: &str) -> Option<&str> {
    if ["vision", "visual", "multi_modal_projector"].iter().any(|part| name.contains(part)) {
        return None;
    }
    let inner = name.strip_prefix("model.language_model.").or_else(|| name.strip_prefix("language_model."));
    Some(inner.unwrap_or(name))
}

/// A tensor's name in GGUF, and of tensors of layers its name there; both without suffix.
fn mapped<'a>(name: &'a str, architecture: &HfArchitecture) -> Option<(String, &'a str)> {
    let inner = name.strip_prefix("model.").unwrap_or(name);
    if let Some((layer, part)) = inner.strip_prefix("layers.").and_then(|rest| rest.split_once('.')) {
        let layer: usize = layer.parse().ok()?;
        let mut parts = LAYER.iter().chain(architecture.layer);
        let (_, to) = parts.find(|(from, _)| *from == part)?;
        return Some((format!("blk.{layer}.{to}"), part));
    }
    let to = match inner {
        "embed_tokens" => "token_embd",
        "norm" => "output_norm",
        "lm_head" => "output",
        _ => return None,
    };
    Some((to.to_owned(), inner))
}

impl Planned {
    /// The number of values.
    pub(super) fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// Writes the data.
    pub(super) fn write(&self, weights: &File, out: &mut dyn Write) -> io::Result<()> {
        match &self.source {
            Source::Values(values) => self.encode(values, out),
            Source::Tensor { name, heads, shift } => {
                let tensor = weights.tensor(name).map_err(io::Error::other)?;
                if heads.is_none() && *shift == 0.0 && tensor.dtype() == self.dtype {
                    let bytes = self.dtype.bytes_for(self.numel()).unwrap_or(0);
                    return out.write_all(&tensor.bytes()[..bytes]);
                }
                self.convert(tensor, *heads, *shift, out)
            }
        }
    }

    fn convert(
        &self,
        tensor: TensorRef<'_>,
        heads: Option<usize>,
        shift: f32,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let rows = self.shape.first().copied().unwrap_or(1).max(1);
        let columns = self.numel() / rows;
        let row_bytes = tensor.dtype().bytes_for(columns).unwrap_or(0);
        // The row of the source that becomes row `i`.
        let source = |i: usize| match heads {
            None => i,
            Some(heads) => {
                let (length, half) = (rows / heads, rows / heads / 2);
                let (head, place) = (i / length, i % length);
                head * length + place % 2 * half + place / 2
            }
        };
        let at_once = (CHUNK / columns.max(1)).max(1);
        let mut bytes = Vec::new();
        for first in (0..rows).step_by(at_once) {
            bytes.clear();
            for i in first..(first + at_once).min(rows) {
                bytes.extend_from_slice(&tensor.bytes()[source(i) * row_bytes..][..row_bytes]);
            }
            let values = to_f32(tensor.dtype(), &bytes);
            let mut values =
                values.ok_or_else(|| io::Error::other(format!("{} has no values", tensor.dtype())))?;
            if shift != 0.0 {
                values.iter_mut().for_each(|value| *value += shift);
            }
            self.encode(&values, out)?;
        }
        Ok(())
    }

    fn encode(&self, values: &[f32], out: &mut dyn Write) -> io::Result<()> {
        let mut bytes = vec![0; self.dtype.bytes_for(values.len()).unwrap_or(0)];
        let fail = |message: String| io::Error::other(format!("tensor `{}`: {message}", self.name));
        from_f32(self.dtype, values, None, &mut bytes).map_err(fail)?;
        out.write_all(&bytes)
    }
}
