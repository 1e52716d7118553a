//! Which dtype each tensor gets: llama.cpp's choices, so that files of one name are alike.

use super::category::{Category, layer};
use super::{Mixture, QuantizeError};
use rustorch_core::{DType, QuantType};
use rustorch_formats::gguf::{Metadata, Value};

use Mixture as M;
use QuantType as Q;

/// What the choice goes by, of the model.
#[derive(Debug)]
pub(super) struct ModelFacts {
    architecture: String,
    layers: usize,
    experts: usize,
    /// Heads that share a key and a value.
    heads_per_kv: usize,
    /// Whether values of attention are so small, as in Llama 70B, that more bits cost nothing.
    small_values: bool,
}

impl ModelFacts {
    /// Reads them; what is missing counts as llama.cpp counts it.
    pub(super) fn read(metadata: &Metadata) -> ModelFacts {
        let architecture: &str = metadata.find("general.architecture").ok().flatten().unwrap_or_default();
        // Where there is a value for each block, the first one counts.
        let size = |name: &str| -> usize {
            let integer = match metadata.value(&format!("{architecture}.{name}")) {
                Some(Value::Array(array)) => array.integers().and_then(|mut all| all.next()),
                Some(value) => value.as_integer(),
                None => None,
            };
            integer.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
        };
        let (layers, heads) = (size("block_count"), size("attention.head_count"));
        let kv_heads = match metadata.contains(&format!("{architecture}.attention.head_count_kv")) {
            true => size("attention.head_count_kv"),
            false => heads,
        };
        ModelFacts {
            layers,
            experts: size("expert_count"),
            heads_per_kv: heads.checked_div(kv_heads).unwrap_or(0),
            small_values: layers == 80
                && (architecture == "qwen2" || architecture == "llama" && heads != kv_heads),
            architecture: architecture.to_owned(),
        }
    }
}

/// A tensor that gets a dtype.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) name: &'a str,
    /// Outermost first.
    pub(super) shape: &'a [usize],
    pub(super) category: Category,
}

impl Candidate<'_> {
    pub(super) fn columns(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The number of experts that it holds.
    pub(super) fn matrices(&self) -> usize {
        self.shape.iter().rev().skip(2).product()
    }
}

/// Chooses for one tensor after another: in llama.cpp's order, for some choices count those before.
pub(super) struct Chooser<'a> {
    facts: &'a ModelFacts,
    mixture: Mixture,
    /// Whether there is an importance matrix.
    importance: bool,
    /// Whether the embedding table serves as the output, too.
    tied: bool,
    output: Option<DType>,
    values: usize,
    values_so_far: usize,
    downs_so_far: usize,
    gates_so_far: usize,
    ups_so_far: usize,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(
        facts: &'a ModelFacts,
        mixture: Mixture,
        importance: bool,
        output: Option<DType>,
        categories: impl Iterator<Item = Category> + Clone,
    ) -> Chooser<'a> {
        Chooser {
            facts,
            mixture,
            importance,
            output,
            tied: !categories.clone().any(|category| category == Category::Output),
            values: categories.filter(|&category| category == Category::AttentionValue).count(),
            values_so_far: 0,
            downs_so_far: 0,
            gates_so_far: 0,
            ups_so_far: 0,
        }
    }

    /// The dtype of the next tensor, before its shape is looked at; `default` is the mixture's.
    pub(super) fn choose(
        &mut self,
        tensor: &Candidate<'_>,
        default: QuantType,
    ) -> Result<DType, QuantizeError> {
        let is_output = tensor.category == Category::Output;
        if is_output || (self.tied && tensor.category == Category::TokenEmbedding) {
            return Ok(self.output.unwrap_or_else(|| DType::Quant(self.output_type(tensor, default))));
        }
        if self.mixture == M::MXFP4_MOE {
            return Ok(DType::Quant(if tensor.matrices() > 1 { Q::MXFP4 } else { Q::Q8_0 }));
        }
        let few_bits =
            matches!(self.mixture, M::IQ1_S | M::IQ1_M | M::IQ2_XXS | M::IQ2_XS | M::IQ2_S | M::IQ2_M);
        let chosen = match tensor.category {
            Category::TokenEmbedding => self.embedding(),
            _ if few_bits => self.of_few_bits(tensor.category),
            Category::AttentionValue => Some(self.attention_value(default)),
            Category::AttentionKey if self.facts.experts == 8 => Some(Q::Q8_0),
            Category::AttentionKey | Category::AttentionQuery => match self.mixture {
                M::IQ3_XS => Some(Q::IQ3_XXS),
                M::IQ3_XXS => Some(Q::IQ2_S),
                _ => None,
            },
            Category::AttentionOutput => self.attention_output(),
            Category::FfnDown => self.ffn_down(tensor.name)?,
            Category::FfnGate => {
                self.gates_so_far += 1;
                self.ffn_up(tensor.name, self.gates_so_far - 1)?
            }
            Category::FfnUp => {
                self.ups_so_far += 1;
                self.ffn_up(tensor.name, self.ups_so_far - 1)?
            }
            Category::Output | Category::Other => None,
        };
        Ok(DType::Quant(chosen.unwrap_or(default)))
    }

    fn is_falcon(&self) -> bool {
        self.facts.architecture == "falcon"
    }

    fn output_type(&self, tensor: &Candidate<'_>, default: QuantType) -> QuantType {
        let fits = tensor.columns().is_multiple_of(default.block_len());
        match self.mixture {
            M::MXFP4_MOE => Q::Q8_0,
            _ if self.is_falcon() || !fits => Q::Q8_0,
            M::IQ2_XXS | M::IQ2_XS | M::IQ3_XXS | M::IQ1_S | M::IQ2_S | M::IQ2_M | M::IQ1_M => Q::Q5_K,
            _ if default == Q::Q8_0 => Q::Q8_0,
            _ => Q::Q6_K,
        }
    }

    fn embedding(&self) -> Option<QuantType> {
        match self.mixture {
            M::IQ2_XXS | M::IQ2_XS | M::IQ1_S | M::IQ1_M => Some(Q::Q2_K),
            M::IQ2_S | M::IQ2_M | M::IQ3_XXS => Some(Q::IQ3_S),
            M::TQ1_0 | M::TQ2_0 | M::Q2_0 => Some(Q::Q4_K),
            _ => None,
        }
    }

    /// In the mixtures of one and two bits.
    fn of_few_bits(&mut self, category: Category) -> Option<QuantType> {
        let more = if matches!(self.mixture, M::IQ2_S | M::IQ2_M) { Q::IQ3_S } else { Q::Q2_K };
        match category {
            Category::AttentionValue => {
                let is_shared = self.facts.heads_per_kv >= 4 || self.facts.experts >= 4;
                self.values_so_far += 1;
                Some(if is_shared { Q::Q4_K } else { more })
            }
            Category::AttentionKey if self.facts.experts == 8 => Some(Q::Q4_K),
            Category::FfnDown => {
                let is_first = self.downs_so_far < self.facts.layers / 8;
                self.downs_so_far += 1;
                is_first.then_some(more)
            }
            Category::AttentionOutput if self.facts.experts == 8 => Some(Q::Q5_K),
            Category::AttentionOutput => match self.mixture {
                M::IQ1_S | M::IQ1_M => Some(Q::IQ2_XXS),
                M::IQ2_S | M::IQ2_M => Some(Q::IQ3_S),
                _ => None,
            },
            _ => None,
        }
    }

    fn attention_value(&mut self, default: QuantType) -> QuantType {
        let at = self.values_so_far;
        self.values_so_far += 1;
        if self.facts.experts == 8 {
            return Q::Q8_0;
        }
        let is_shared = self.facts.heads_per_kv >= 4;
        let chosen = match self.mixture {
            M::Q2_K if !is_shared => Q::Q3_K,
            M::Q2_K | M::Q2_K_S | M::IQ3_XXS | M::IQ3_XS | M::IQ3_S if is_shared => Q::Q4_K,
            M::IQ3_XXS if !self.importance => Q::IQ3_S,
            M::IQ3_M => Q::Q4_K,
            M::Q3_K_M => {
                if at < 2 {
                    Q::Q5_K
                } else {
                    Q::Q4_K
                }
            }
            M::Q3_K_L => Q::Q5_K,
            M::IQ4_NL | M::IQ4_XS if is_shared => Q::Q5_K,
            M::Q4_K_M | M::Q5_K_M if takes_more_bits(at, self.values) => Q::Q6_K,
            M::Q4_K_S if at < 4 => Q::Q5_K,
            _ => default,
        };
        let is_small = self.facts.small_values && matches!(chosen, Q::Q3_K | Q::Q4_K);
        if is_small { Q::Q5_K } else { chosen }
    }

    fn attention_output(&self) -> Option<QuantType> {
        if self.is_falcon() {
            return (self.mixture == M::Q3_K_L).then_some(Q::Q4_K);
        }
        match self.mixture {
            M::Q2_K
            | M::IQ3_XS
            | M::IQ3_XXS
            | M::Q3_K_S
            | M::Q3_K_M
            | M::IQ4_NL
            | M::Q4_K_S
            | M::Q4_K_M
            | M::IQ3_S
            | M::IQ3_M
            | M::IQ4_XS
                if self.facts.experts == 8 =>
            {
                Some(Q::Q5_K)
            }
            _ if self.facts.experts == 8 => None,
            M::Q2_K => Some(Q::Q3_K),
            M::IQ3_XXS => Some(Q::IQ3_S),
            M::Q3_K_M | M::IQ3_M => Some(Q::Q4_K),
            M::Q3_K_L => Some(Q::Q5_K),
            _ => None,
        }
    }

    fn ffn_down(&mut self, name: &str) -> Result<Option<QuantType>, QuantizeError> {
        let layer = self.layer(name, self.downs_so_far)?;
        self.downs_so_far += 1;
        let layers = self.facts.layers;
        let (is_first, more) = (layer < layers / 8, takes_more_bits(layer, layers));
        let is_very_first = layer < layers / 16;
        Ok(match self.mixture {
            M::Q2_K => Some(Q::Q3_K),
            M::Q2_K_S => is_first.then_some(Q::Q4_K),
            M::IQ3_XXS if !self.importance => Some(if is_first { Q::Q4_K } else { Q::Q3_K }),
            M::Q3_K_M if is_very_first => Some(Q::Q5_K),
            M::Q3_K_M => Some(if !self.is_falcon() || more { Q::Q4_K } else { Q::Q3_K }),
            M::IQ3_M => (is_first || (self.facts.experts == 8 && more)).then_some(Q::Q4_K),
            M::Q3_K_L => Some(if self.is_falcon() { Q::Q4_K } else { Q::Q5_K }),
            M::Q4_K_M if self.is_falcon() => Some(match (is_very_first, more) {
                (true, _) => Q::Q6_K,
                (false, true) => Q::Q5_K,
                (false, false) => Q::Q4_K,
            }),
            M::Q4_K_M | M::Q5_K_M => more.then_some(Q::Q6_K),
            M::IQ4_NL | M::IQ4_XS => (is_first && !self.importance).then_some(Q::Q5_K),
            M::Q4_K_S => (is_first && !self.is_falcon()).then_some(Q::Q5_K),
            // With importances, 4 bits without a minimum go wrong in the first down projections.
            M::Q4_0 => (is_first && self.importance).then_some(Q::Q4_1),
            M::Q5_0 => (is_first && self.importance).then_some(Q::Q5_1),
            _ => None,
        })
    }

    fn ffn_up(&self, name: &str, count: usize) -> Result<Option<QuantType>, QuantizeError> {
        if self.mixture != M::IQ3_XS {
            return Ok(None);
        }
        let layers = self.facts.layers;
        let layer = self.layer(name, count)?;
        Ok(((layers / 8)..(7 * layers / 8)).contains(&layer).then_some(Q::IQ3_XXS))
    }

    /// The block that a tensor belongs to: the `count`-th, or by its name where there are experts, of which models have several tensors in a block.
    fn layer(&self, name: &str, count: usize) -> Result<usize, QuantizeError> {
        if self.facts.experts <= 1 {
            return Ok(count);
        }
        let layers = self.facts.layers;
        layer(name).filter(|&layer| layer < layers).ok_or_else(|| QuantizeError::Layer {
            tensor: name.to_owned(),
            layers,
            mixture: self.mixture,
        })
    }
}

/// Half of the blocks: the first and last eighth, and every third between.
fn takes_more_bits(layer: usize, layers: usize) -> bool {
    let first = layers / 8;
    layer < first || layer >= 7 * layers / 8 || (layer - first) % 3 == 2
}

/// The type itself, or the one that stands in for it where its blocks do not divide the columns; `None` if there is none.
pub(super) fn fitting(quant: QuantType, columns: usize) -> Option<DType> {
    if columns.is_multiple_of(quant.block_len()) {
        return Some(DType::Quant(quant));
    }
    let substitute = match quant {
        Q::IQ1_S | Q::IQ1_M | Q::IQ2_XXS | Q::IQ2_XS | Q::IQ2_S | Q::IQ3_XXS | Q::IQ3_S | Q::IQ4_XS => {
            Q::IQ4_NL
        }
        Q::Q2_0 | Q::Q2_K | Q::Q3_K | Q::TQ1_0 | Q::TQ2_0 => Q::Q4_0,
        Q::Q4_K => Q::Q5_0,
        Q::Q5_K => Q::Q5_1,
        Q::Q6_K => Q::Q8_0,
        // No type has smaller blocks.
        Q::Q4_0 | Q::Q4_1 | Q::Q5_0 | Q::Q5_1 | Q::Q8_0 | Q::Q8_1 | Q::IQ4_NL | Q::MXFP4 => {
            return Some(DType::F16);
        }
        Q::Q8_K | Q::NVFP4 | Q::Q1_0 => return None,
    };
    match columns.is_multiple_of(substitute.block_len()) {
        true => Some(DType::Quant(substitute)),
        false => Some(DType::F16),
    }
}
