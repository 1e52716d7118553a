//! Which sampler the options, the model file and the defaults ask for, in this order.

use crate::args::{SamplingArgs, Seed};
use crate::failure::Failure;
use crate::output;
use rustorch::gguf::{Metadata, Value};
use rustorch::llm::LanguageModel;
use rustorch::llm::sampling::{Sampler, SamplerConfig};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a model file may say about sampling that this program does not do.
const NOT_SUPPORTED: &[&str] =
    &["sequence", "xtc_probability", "xtc_threshold", "mirostat", "mirostat_tau", "mirostat_eta"];

/// The settings that the options ask for, completed by the model file's (`general.sampling.*`) and llama.cpp's defaults.
///
/// # Errors
/// If one is out of range.
pub(crate) fn config(args: &SamplingArgs, model: &LanguageModel) -> Result<SamplerConfig, Failure> {
    let suggested = Suggested(model.file().metadata());
    let default = SamplerConfig::default();
    let config = SamplerConfig {
        temperature: args.temp.or(suggested.float("temp")).unwrap_or(default.temperature),
        top_k: args.top_k.or(suggested.count("top_k", 0)).unwrap_or(default.top_k),
        top_p: args.top_p.or(suggested.float("top_p")).unwrap_or(default.top_p),
        min_p: args.min_p.or(suggested.float("min_p")).unwrap_or(default.min_p),
        repeat_penalty: args
            .repeat_penalty
            .or(suggested.float("penalty_repeat"))
            .unwrap_or(default.repeat_penalty),
        repeat_last_n: args
            .repeat_last_n
            .or(suggested.count("penalty_last_n", usize::MAX))
            .unwrap_or(default.repeat_last_n),
        presence_penalty: args.presence_penalty.unwrap_or(default.presence_penalty),
        frequency_penalty: args.frequency_penalty.unwrap_or(default.frequency_penalty),
        seed: match args.seed {
            Some(Seed::Fixed(seed)) => seed,
            Some(Seed::Random) | None => random_seed(),
        },
        ..default
    };
    config.validate().map_err(|e| Failure::Usage(e.to_string()))?;
    Ok(config)
}

/// The sampler that the options ask for.
pub(crate) fn sampler(args: &SamplingArgs, model: &LanguageModel) -> Result<Sampler, Failure> {
    Sampler::new(config(args, model)?).map_err(|e| Failure::Usage(e.to_string()))
}

/// Tells where each setting comes from that the options or the file say something about.
pub(crate) fn describe(args: &SamplingArgs, model: &LanguageModel, sampler: &Sampler) {
    let suggested = Suggested(model.file().metadata());
    let config = sampler.config();
    let settings: [(&str, &str, bool, String); 6] = [
        ("temp", "temp", args.temp.is_some(), config.temperature.to_string()),
        ("top-k", "top_k", args.top_k.is_some(), config.top_k.to_string()),
        ("top-p", "top_p", args.top_p.is_some(), config.top_p.to_string()),
        ("min-p", "min_p", args.min_p.is_some(), config.min_p.to_string()),
        (
            "repeat-penalty",
            "penalty_repeat",
            args.repeat_penalty.is_some(),
            config.repeat_penalty.to_string(),
        ),
        ("repeat-last-n", "penalty_last_n", args.repeat_last_n.is_some(), config.repeat_last_n.to_string()),
    ];
    for (name, key, given, value) in settings {
        let from = match (given, suggested.float(key)) {
            (true, Some(of_file)) => format!("from --{name}; the file has {of_file}"),
            (true, None) => format!("from --{name}"),
            (false, Some(_)) => "from the file".to_owned(),
            (false, None) => "the default".to_owned(),
        };
        output::note(format_args!("{name}: {value} ({from})"));
    }
    for name in NOT_SUPPORTED.iter().filter(|name| suggested.value(name).is_some()) {
        output::note(format_args!("general.sampling.{name} of the file is not supported"));
    }
    output::note(format_args!("seed: {}", config.seed));
}

/// What a file suggests under `general.sampling`.
struct Suggested<'a>(&'a Metadata);

impl Suggested<'_> {
    fn value(&self, name: &str) -> Option<&Value> {
        self.0.value(&format!("general.sampling.{name}"))
    }

    fn float(&self, name: &str) -> Option<f32> {
        match self.value(name)? {
            Value::F32(x) => Some(*x),
            Value::F64(x) => Some(*x as f32),
            // llama.cpp's converter writes what it finds, texts included.
            Value::Str(text) => text.to_string().trim().parse().ok(),
            other => other.as_integer().map(|n| n as f32),
        }
    }

    /// A count, of which a negative one stands for `all`.
    fn count(&self, name: &str, all: usize) -> Option<usize> {
        let n = match self.value(name)? {
            Value::Str(text) => text.to_string().trim().parse().ok()?,
            other => other.as_integer()?,
        };
        Some(if n < 0 { all } else { usize::try_from(n).unwrap_or(usize::MAX) })
    }
}

/// A seed from the clock, below 2³²: readers of JSON that keep floats only keep it.
fn random_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.as_secs() as u32 ^ now.subsec_nanos().rotate_left(2))
}
