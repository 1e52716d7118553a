//! The architectures that are converted: their configurations as metadata, and the names of their tensors.

use super::rope::Rope;
use super::{Config, ConvertError};
use rustorch_formats::gguf::{Metadata, Value};

/// An architecture of `transformers`.
#[derive(Debug)]
pub(super) struct HfArchitecture {
    /// Its names in `architectures`.
    pub(super) classes: &'static [&'static str],
    /// Its name in GGUF.
    pub(super) name: &'static str,
    /// What `transformers` takes where the configuration does not tell.
    defaults: &'static [(&'static str, f64)],
    /// The field of the activation in feed-forward networks, and its only value.
    activation: (&'static str, &'static str),
    /// Flags that are off, or the architecture in GGUF would compute something else.
    off: &'static [&'static str],
    /// Whether `transformers` rotates halves of heads where GGUF's architecture rotates pairs.
    pub(super) permutes: bool,
    /// Whether weights of norms are stored less 1.
    pub(super) shifts_norms: bool,
    /// Names of a layer's tensors behind `model.layers.N.`, and in GGUF behind `blk.N.`.
    pub(super) layer: &'static [(&'static str, &'static str)],
    /// Checks and writes what only this architecture has.
    own: fn(&HfArchitecture, &Config, &mut Entries<'_>) -> Result<(), ConvertError>,
}

/// Names of a layer's tensors that all architectures have.
pub(super) const LAYER: &[(&str, &str)] = &[
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

const ALL: &[HfArchitecture] = &[
    HfArchitecture {
        classes: &["LlamaForCausalLM", "MistralForCausalLM"],
        name: "llama",
        defaults: &[("rms_norm_eps", 1e-6), ("rope_theta", 1e4)],
        activation: ("hidden_act", "silu"),
        off: &[],
        permutes: true,
        shifts_norms: false,
        layer: &[("post_attention_layernorm", "ffn_norm")],
        own: llama,
    },
    HfArchitecture {
        classes: &["Qwen2ForCausalLM"],
        name: "qwen2",
        defaults: &[("rms_norm_eps", 1e-6), ("rope_theta", 1e4)],
        activation: ("hidden_act", "silu"),
        off: &["use_sliding_window", "use_mrope"],
        permutes: false,
        shifts_norms: false,
        layer: &[("post_attention_layernorm", "ffn_norm")],
        own: qwen,
    },
    HfArchitecture {
        classes: &["Qwen3ForCausalLM"],
        name: "qwen3",
        defaults: &[("rms_norm_eps", 1e-6), ("rope_theta", 1e4), ("head_dim", 128.0)],
        activation: ("hidden_act", "silu"),
        off: &["use_sliding_window", "attention_bias"],
        permutes: false,
        shifts_norms: false,
        layer: &[
            ("post_attention_layernorm", "ffn_norm"),
            ("self_attn.q_norm", "attn_q_norm"),
            ("self_attn.k_norm", "attn_k_norm"),
        ],
        own: qwen,
    },
    HfArchitecture {
        classes: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
        name: "gemma3",
        defaults: &[
            ("vocab_size", 262_208.0),
            ("hidden_size", 2304.0),
            ("intermediate_size", 9216.0),
            ("num_hidden_layers", 26.0),
            ("num_attention_heads", 8.0),
            ("num_key_value_heads", 4.0),
            ("head_dim", 256.0),
            ("max_position_embeddings", 131_072.0),
            ("rms_norm_eps", 1e-6),
            ("rope_theta", 1e6),
            ("rope_local_base_freq", 1e4),
            ("query_pre_attn_scalar", 256.0),
            ("sliding_window", 4096.0),
        ],
        activation: ("hidden_activation", "gelu_pytorch_tanh"),
        off: &["attention_bias", "use_bidirectional_attention"],
        permutes: false,
        shifts_norms: true,
        layer: &[
            ("post_attention_layernorm", "post_attention_norm"),
            ("pre_feedforward_layernorm", "ffn_norm"),
            ("post_feedforward_layernorm", "post_ffw_norm"),
            ("self_attn.q_norm", "attn_q_norm"),
            ("self_attn.k_norm", "attn_k_norm"),
        ],
        own: gemma3,
    },
];

/// The metadata that begins with the architecture's name.
struct Entries<'a> {
    name: &'static str,
    metadata: &'a mut Metadata,
}

impl Entries<'_> {
    fn set(&mut self, key: &str, value: impl Into<Value>) -> Result<(), ConvertError> {
        Ok(self.metadata.set(&format!("{}.{key}", self.name), value)?)
    }

    fn set_count(&mut self, key: &str, field: &str, value: usize) -> Result<(), ConvertError> {
        let count =
            u32::try_from(value).map_err(|_| ConvertError::field(field, format!("is {value}: too large")))?;
        self.set(key, count)
    }
}

impl HfArchitecture {
    /// The one that a configuration names.
    pub(super) fn find(config: &Config) -> Result<&'static HfArchitecture, ConvertError> {
        let names = config.find_texts("architectures")?.unwrap_or_default();
        let Some(name) = names.first() else {
            return Err(ConvertError::field("architectures", "is missing"));
        };
        ALL.iter().find(|architecture| architecture.classes.contains(name)).ok_or_else(|| {
            let known: Vec<&str> =
                ALL.iter().flat_map(|architecture| architecture.classes).copied().collect();
            ConvertError::Architecture { name: (*name).to_owned(), known: known.join(", ") }
        })
    }

    fn default(&self, field: &str) -> Option<f64> {
        self.defaults.iter().find(|(name, _)| *name == field).map(|(_, value)| *value)
    }

    /// A count, or `transformers`' default.
    pub(super) fn size(&self, config: &Config, field: &'static str) -> Result<usize, ConvertError> {
        match (config.find_size(field)?, self.default(field)) {
            (Some(value), _) => Ok(value),
            (None, Some(default)) => Ok(default as usize),
            (None, None) => config.size(field),
        }
    }

    /// A number, or `transformers`' default.
    pub(super) fn number(&self, config: &Config, field: &'static str) -> Result<Option<f64>, ConvertError> {
        Ok(config.find_f64(field)?.or(self.default(field)))
    }

    /// The heads of queries, and of keys and values.
    pub(super) fn heads(&self, config: &Config) -> Result<[usize; 2], ConvertError> {
        let heads = self.size(config, "num_attention_heads")?;
        let kv_heads = match self.default("num_key_value_heads") {
            Some(_) => self.size(config, "num_key_value_heads")?,
            None => config.find_size("num_key_value_heads")?.unwrap_or(heads),
        };
        if heads == 0 || kv_heads == 0 {
            return Err(ConvertError::field("num_attention_heads", "or `num_key_value_heads` is 0"));
        }
        Ok([heads, kv_heads])
    }

    /// The length of a head.
    pub(super) fn head_length(&self, config: &Config) -> Result<usize, ConvertError> {
        match config.find_size("head_dim")?.or(self.default("head_dim").map(|length| length as usize)) {
            Some(length) => Ok(length),
            None => Ok(self.size(config, "hidden_size")? / self.heads(config)?[0]),
        }
    }

    /// Checks the configuration and writes it as metadata.
    pub(super) fn write(
        &self,
        config: &Config,
        rope: &Rope,
        metadata: &mut Metadata,
    ) -> Result<(), ConvertError> {
        let (field, only) = self.activation;
        config.expect(field, only)?;
        for flag in self.off {
            config.expect(flag, false)?;
        }
        let mut entries = Entries { name: self.name, metadata };
        for (key, field) in [
            ("block_count", "num_hidden_layers"),
            ("context_length", "max_position_embeddings"),
            ("embedding_length", "hidden_size"),
            ("feed_forward_length", "intermediate_size"),
        ] {
            entries.set_count(key, field, self.size(config, field)?)?;
        }
        let [heads, kv_heads] = self.heads(config)?;
        entries.set_count("attention.head_count", "num_attention_heads", heads)?;
        entries.set_count("attention.head_count_kv", "num_key_value_heads", kv_heads)?;
        for (key, value) in rope.metadata() {
            entries.set(key, value)?;
        }
        let epsilon = self.number(config, "rms_norm_eps")?.unwrap_or(1e-6);
        entries.set("attention.layer_norm_rms_epsilon", epsilon as f32)?;
        (self.own)(self, config, &mut entries)
    }

    fn write_head_length(&self, config: &Config, entries: &mut Entries<'_>) -> Result<(), ConvertError> {
        let length = self.head_length(config)?;
        entries.set_count("attention.key_length", "head_dim", length)?;
        entries.set_count("attention.value_length", "head_dim", length)
    }
}

fn llama(this: &HfArchitecture, config: &Config, entries: &mut Entries<'_>) -> Result<(), ConvertError> {
    // Their tensors tell.
    let _ = (config.find_bool("attention_bias")?, config.find_bool("mlp_bias")?);
    // How a matmul is taken apart.
    let _ = config.find_size("pretraining_tp")?;
    if let Some(window) = config.find_size("sliding_window")?
        && window < this.size(config, "max_position_embeddings")?
    {
        let message = format!("is {window}: attention in windows is not part of `llama` in GGUF");
        return Err(ConvertError::field("sliding_window", message));
    }
    this.write_head_length(config, entries)?;
    entries.set_count("vocab_size", "vocab_size", config.size("vocab_size")?)?;
    entries.set_count("rope.dimension_count", "head_dim", this.head_length(config)?)
}

fn qwen(this: &HfArchitecture, config: &Config, entries: &mut Entries<'_>) -> Result<(), ConvertError> {
    // Windows are off.
    let _ = (config.find("sliding_window"), config.find("max_window_layers"));
    let _ = config.find_size("vocab_size")?;
    layer_types(config, |_| "full_attention")?;
    if config.find("head_dim").is_some() || this.default("head_dim").is_some() {
        this.write_head_length(config, entries)?;
    }
    Ok(())
}

fn gemma3(this: &HfArchitecture, config: &Config, entries: &mut Entries<'_>) -> Result<(), ConvertError> {
    const PATTERN: usize = 6;
    for field in ["sliding_window_pattern", "_sliding_window_pattern"] {
        config.expect(field, PATTERN)?;
    }
    layer_types(config, |i| if (i + 1) % PATTERN == 0 { "full_attention" } else { "sliding_attention" })?;
    let length = this.head_length(config)?;
    // The scale of attention is not in the file; 27B is told by its layers.
    let scale = match this.size(config, "num_hidden_layers")? {
        62 => this.size(config, "hidden_size")? / this.heads(config)?[0],
        _ => length,
    };
    let given = this.number(config, "query_pre_attn_scalar")?.unwrap_or(scale as f64);
    if given != scale as f64 {
        let message = format!("is {given}; `gemma3` in GGUF computes with {scale} here");
        return Err(ConvertError::field("query_pre_attn_scalar", message));
    }
    if let Some(cap) = config.find("attn_logit_softcapping") {
        return Err(ConvertError::field(
            "attn_logit_softcapping",
            format!("is {cap}; `gemma3` in GGUF has none"),
        ));
    }
    this.write_head_length(config, entries)?;
    if let Some(cap) = config.find_f64("final_logit_softcapping")?.filter(|&cap| cap != 0.0) {
        entries.set("final_logit_softcapping", cap as f32)?;
    }
    entries.set_count("attention.sliding_window", "sliding_window", this.size(config, "sliding_window")?)
}

/// Fails unless the layers are of these types.
fn layer_types(config: &Config, expected: impl Fn(usize) -> &'static str) -> Result<(), ConvertError> {
    let types = config.find_texts("layer_types")?.unwrap_or_default();
    match types.iter().enumerate().find(|(i, of)| **of != expected(*i)) {
        Some((i, of)) => {
            let message = format!("has {of} for layer {i}; only {} is supported there", expected(i));
            Err(ConvertError::field("layer_types", message))
        }
        None => Ok(()),
    }
}
