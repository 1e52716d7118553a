//! Rotary positions: `rope_parameters`, or `rope_theta` and `rope_scaling` as they were before.

use super::architecture::HfArchitecture;
use super::{Config, ConvertError};
use rustorch_formats::gguf;
use serde_json::{Map, Value};
use std::f64::consts::PI;

/// How positions are rotated.
#[derive(Debug)]
pub(super) struct Rope {
    entries: Vec<(&'static str, gguf::Value)>,
    /// Factors of each pair's frequency, where some are stretched.
    pub(super) factors: Option<Vec<f32>>,
}

impl Rope {
    pub(super) fn read(config: &Config, architecture: &HfArchitecture) -> Result<Rope, ConvertError> {
        let object = |field: &'static str| match config.find(field) {
            None => Ok(Map::new()),
            Some(Value::Object(object)) => Ok(object.clone()),
            Some(other) => Err(ConvertError::field(field, format!("is {other}, not an object"))),
        };
        let (parameters, scaling) = (object("rope_parameters")?, object("rope_scaling")?);
        let all = if parameters.is_empty() { scaling } else { parameters };
        let of = |kind: &str| all.get(kind).and_then(Value::as_object).cloned();
        let (full, sliding) = (of("full_attention"), of("sliding_attention"));
        let is_by_kind = full.is_some() || sliding.is_some();
        let full = if is_by_kind { full.unwrap_or_default() } else { all.clone() };
        let theta = match number(&full, "rope_theta")? {
            Some(theta) => Some(theta),
            None => architecture.number(config, "rope_theta")?,
        };
        let mut rope = Rope { entries: Vec::new(), factors: None };
        rope.scale(&full, config, architecture, theta)?;
        if let Some(theta) = theta {
            rope.set("rope.freq_base", theta as f32);
        }
        let sliding = sliding.unwrap_or_default();
        known(&sliding, &["rope_type", "rope_theta"])?;
        match sliding.get("rope_type").and_then(Value::as_str) {
            None | Some("default") => {}
            Some(kind) => {
                return Err(ConvertError::field(
                    "rope_parameters",
                    format!("has {kind} for windows; only default is supported"),
                ));
            }
        }
        let local = number(&sliding, "rope_theta")?;
        if let Some(theta) = local
            .map_or_else(|| architecture.number(config, "rope_local_base_freq"), |theta| Ok(Some(theta)))?
        {
            rope.set("rope.freq_base_swa", theta as f32);
        }
        Ok(rope)
    }

    /// The entries of the metadata, without the architecture's name.
    pub(super) fn metadata(&self) -> impl Iterator<Item = (&'static str, gguf::Value)> {
        self.entries.iter().cloned()
    }

    fn set(&mut self, key: &'static str, value: impl Into<gguf::Value>) {
        self.entries.push((key, value.into()));
    }

    /// Positions that reach further than the model was first trained for.
    fn scale(
        &mut self,
        of: &Map<String, Value>,
        config: &Config,
        architecture: &HfArchitecture,
        theta: Option<f64>,
    ) -> Result<(), ConvertError> {
        const COMMON: [&str; 4] = ["rope_type", "type", "rope_theta", "factor"];
        let kind = of.get("rope_type").or(of.get("type")).and_then(Value::as_str).unwrap_or("default");
        let factor = number(of, "factor")?;
        match (kind, factor) {
            ("default", _) => known(of, &COMMON),
            ("linear", Some(factor)) => {
                known(of, &COMMON)?;
                self.set("rope.scaling.type", "linear");
                self.set("rope.scaling.factor", factor as f32);
                Ok(())
            }
            ("yarn", Some(factor)) => {
                const NAMES: [(&str, &str); 5] = [
                    ("extrapolation_factor", "rope.scaling.yarn_ext_factor"),
                    ("attention_factor", "rope.scaling.yarn_attn_factor"),
                    ("attn_factor", "rope.scaling.yarn_attn_factor"),
                    ("beta_fast", "rope.scaling.yarn_beta_fast"),
                    ("beta_slow", "rope.scaling.yarn_beta_slow"),
                ];
                let names = NAMES.iter().map(|(name, _)| *name);
                let others: Vec<&str> =
                    COMMON.into_iter().chain(names).chain(["original_max_position_embeddings"]).collect();
                known(of, &others)?;
                let original = number(of, "original_max_position_embeddings")?
                    .or(config.find_f64("original_max_position_embeddings")?);
                let Some(original) = original else {
                    return Err(ConvertError::field(
                        "rope_parameters",
                        "has no `original_max_position_embeddings`, which yarn needs",
                    ));
                };
                self.set("rope.scaling.type", "yarn");
                self.set("rope.scaling.factor", factor as f32);
                self.set("rope.scaling.original_context_length", original as u32);
                for (name, key) in NAMES {
                    if let (Some(value), true) =
                        (number(of, name)?, self.entries.iter().all(|(set, _)| *set != key))
                    {
                        self.set(key, value as f32);
                    }
                }
                Ok(())
            }
            ("llama3", _) if architecture.name == "llama" => {
                let names = ["low_freq_factor", "high_freq_factor", "original_max_position_embeddings"];
                known(of, &[&COMMON[..], &names].concat())?;
                let [low, high, original] = names;
                let length = architecture.head_length(config)?;
                self.factors = Some(llama3(
                    length,
                    theta.unwrap_or(1e4),
                    factor.unwrap_or(8.0),
                    [number(of, low)?.unwrap_or(1.0), number(of, high)?.unwrap_or(4.0)],
                    number(of, original)?.unwrap_or(8192.0),
                ));
                Ok(())
            }
            _ => Err(ConvertError::field(
                "rope_parameters",
                format!("has the type {kind}, which is not supported for {}", architecture.name),
            )),
        }
    }
}

fn number(of: &Map<String, Value>, field: &str) -> Result<Option<f64>, ConvertError> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => Err(ConvertError::field(
                format!("rope_parameters.{field}"),
                format!("is {value}, not a number"),
            )),
        },
    }
}

/// Fails on fields that are not among these.
fn known(of: &Map<String, Value>, fields: &[&str]) -> Result<(), ConvertError> {
    match of.iter().find(|(field, value)| !fields.contains(&field.as_str()) && !value.is_null()) {
        Some((field, value)) => Err(ConvertError::UnknownField {
            field: format!("rope_parameters.{field}"),
            value: value.to_string(),
        }),
        None => Ok(()),
    }
}

/// Llama 3's factors: low frequencies are divided by `factor`, high ones are left, and those between are mixed. Rounded where `torch` rounds.
fn llama3(length: usize, theta: f64, factor: f64, [low, high]: [f64; 2], original: f64) -> Vec<f32> {
    let (low_wavelength, high_wavelength) = (original / low, original / high);
    let of = |i: usize| {
        let exponent = i as f32 / length as f32;
        let frequency = 1.0 / (theta as f32).powf(exponent);
        let wavelength = (2.0 * PI) as f32 / frequency;
        if f64::from(wavelength) < high_wavelength {
            1.0
        } else if f64::from(wavelength) > low_wavelength {
            factor as f32
        } else {
            let smooth = (original as f32 / wavelength - low as f32) / (high - low) as f32;
            1.0 / ((1.0 - smooth) / factor as f32 + smooth)
        }
    };
    (0..length).step_by(2).map(of).collect()
}
