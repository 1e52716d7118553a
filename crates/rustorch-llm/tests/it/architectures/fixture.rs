//! A line of `fixtures/architectures.jsonl`: a model without its weights, and what llama.cpp computes with it.

use super::weights;
use crate::common;
use rustorch_core::{DType, QuantType, f16};
use rustorch_formats::gguf::{Value, Writer};
use rustorch_llm::LanguageModel;
use rustorch_quant::quantize;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A model without its weights.
#[derive(Clone, Deserialize)]
pub(crate) struct Header {
    pub(crate) name: String,
    metadata: serde_json::Map<String, serde_json::Value>,
    /// How far the values of the embedding table reach.
    embedding: f32,
    /// Shapes, outermost dimension first.
    tensors: serde_json::Map<String, serde_json::Value>,
}

/// What llama.cpp computes, and with which decoder.
#[derive(Deserialize)]
pub(crate) struct Fixture {
    #[serde(flatten)]
    pub(crate) header: Header,
    /// The ids fed first.
    pub(crate) prompt: Vec<u32>,
    /// The ids fed after them, whatever the model says.
    pub(crate) forced: Vec<u32>,
    /// Whether the `f32` file's logits and ids are those of exact GELU, not of llama.cpp's table of `f16` values.
    #[serde(default)]
    pub(crate) exact_gelu: bool,
    logits: String,
    last_logits: String,
    #[serde(flatten)]
    pub(crate) ids: Ids,
    /// The copies in other types, by the name of the type.
    pub(crate) copies: BTreeMap<String, Copy>,
}

/// Ids of the largest logits, and how far the second is behind in parts of the logits' range.
#[derive(Deserialize)]
pub(crate) struct Ids {
    /// After the prompt and after each forced id.
    pub(crate) best: Vec<u32>,
    pub(crate) margins: Vec<f32>,
    /// After the prompt and after each of these ids.
    pub(crate) greedy: Vec<u32>,
    pub(crate) greedy_margins: Vec<f32>,
}

/// A copy of which matrices have another type.
#[derive(Deserialize)]
pub(crate) struct Copy {
    /// Of each type but the copy's own the matrices that have it; names of blocks' tensors lack `blk.N.`.
    kept: BTreeMap<String, Vec<String>>,
    #[serde(flatten)]
    pub(crate) ids: Ids,
}

impl Fixture {
    /// All lines.
    pub(crate) fn all() -> Vec<Fixture> {
        let text = include_str!("../../fixtures/architectures.jsonl");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The logits after the prompt, and after the last forced id.
    pub(crate) fn logits(&self) -> [Vec<f32>; 2] {
        [&self.logits, &self.last_logits].map(|text| common::floats(text))
    }

    /// The model of the fixture's file in `f32`.
    pub(crate) fn model(&self) -> Result<LanguageModel, String> {
        self.header.open(|_, _| DType::F32)
    }

    /// The model of the copy in this type.
    pub(crate) fn copied(&self, kind: &str) -> Result<LanguageModel, String> {
        self.header.copied(kind, &self.copies[kind].kept)
    }
}

/// An encoder without its weights, and what llama.cpp computes with it: a line of `fixtures/encoders.jsonl`.
#[derive(Deserialize)]
pub(crate) struct EncoderFixture {
    #[serde(flatten)]
    pub(crate) header: Header,
    pub(crate) ids: Vec<u32>,
    /// A row for each id.
    pub(crate) hidden: String,
    /// A vector, or scores.
    pub(crate) pooled: String,
    /// The copies in other types, by the name of the type.
    pub(crate) copies: BTreeMap<String, EncoderCopy>,
}

/// A copy of an encoder of which matrices have another type.
#[derive(Deserialize)]
pub(crate) struct EncoderCopy {
    /// As [`Copy`] has it.
    pub(crate) kept: BTreeMap<String, Vec<String>>,
    pub(crate) pooled: String,
    /// How far that moves, in parts of its range, where the results of norms are rounded otherwise.
    pub(crate) noise: f32,
}

impl EncoderFixture {
    /// All lines.
    pub(crate) fn all() -> Vec<EncoderFixture> {
        let text = include_str!("../../fixtures/encoders.jsonl");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Header {
    /// The name in `general.architecture`.
    pub(crate) fn architecture(&self) -> &str {
        self.metadata["general.architecture"].as_str().unwrap()
    }

    /// The same model under another name, with other tensors added.
    pub(crate) fn renamed(mut self, name: &str, tensors: &[&str]) -> Header {
        self.metadata.insert("general.architecture".into(), name.into());
        self.tensors.extend(tensors.iter().map(|&tensor| (tensor.to_owned(), serde_json::json!([32]))));
        self
    }

    /// The header with a value of metadata set.
    pub(crate) fn with(mut self, key: &str, value: serde_json::Value) -> Header {
        self.metadata.insert(key.into(), value);
        self
    }

    /// The keys of the architecture's metadata, without its prefix.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.keys().filter_map(|key| key.strip_prefix(self.architecture())?.strip_prefix('.'))
    }

    /// The same model with another value of a key: flags are reversed, numbers doubled or made 1, and others removed.
    pub(crate) fn with_another(&self, key: &str) -> Header {
        use serde_json::Value as Json;
        let mut header = self.clone();
        let key = format!("{}.{key}", self.architecture());
        let another = match &self.metadata[&key] {
            Json::Bool(value) => Some(Json::from(!value)),
            Json::Number(value) if value.as_u64() == Some(0) => Some(Json::from(1)),
            Json::Number(value) if value.is_u64() => value.as_u64().map(|value| Json::from(2 * value)),
            Json::Number(value) => value.as_f64().map(|value| Json::from(2.0 * value)),
            _ => None,
        };
        match another {
            Some(value) => header.metadata.insert(key, value),
            None => header.metadata.remove(&key),
        };
        header
    }

    /// The names of all tensors.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The model of a copy in this type, but for the matrices `kept` in others.
    pub(crate) fn copied(
        &self,
        kind: &str,
        kept: &BTreeMap<String, Vec<String>>,
    ) -> Result<LanguageModel, String> {
        self.open(|name, rank| {
            let name = match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
                Some((_, name)) => name,
                None => name,
            };
            match kept.iter().find(|(_, names)| names.iter().any(|kept| kept == name)) {
                _ if rank == 1 => DType::F32,
                Some((other, _)) => dtype(other),
                None => dtype(kind),
            }
        })
    }

    /// Writes a file, its tensors in the dtypes that their names and ranks are given, and loads it.
    pub(crate) fn open(&self, dtype: impl Fn(&str, usize) -> DType) -> Result<LanguageModel, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        self.writer(dtype).write_file(&path).unwrap();
        LanguageModel::open(&path).map_err(|error| format!("{}: {error}", self.name))
    }

    /// What writes the file.
    pub(crate) fn writer(&self, dtype: impl Fn(&str, usize) -> DType) -> Writer<'static> {
        let mut writer = Writer::new();
        for (key, value) in &self.metadata {
            writer.metadata(key, metadata(value)).unwrap();
        }
        for (name, shape) in &self.tensors {
            let shape: Vec<usize> = serde_json::from_value(shape.clone()).unwrap();
            let dtype = dtype(name, shape.len());
            let data = encoded(&weights::tensor(name, &shape, self.embedding), dtype);
            writer.tensor(name, &shape, dtype, data).unwrap();
        }
        writer
    }
}

/// GGUF's value: `u32`, `f32`, `bool`, string, or an array of `i32`, `f32`, `bool` or strings.
pub(crate) fn metadata(value: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match value {
        Json::Bool(value) => (*value).into(),
        Json::String(value) => value.as_str().into(),
        Json::Number(value) if value.is_u64() => u32::try_from(value.as_u64().unwrap()).unwrap().into(),
        Json::Number(value) => (value.as_f64().unwrap() as f32).into(),
        Json::Array(values) => match &values[0] {
            Json::Bool(_) => serde_json::from_value::<Vec<bool>>(value.clone()).unwrap().into(),
            Json::String(_) => serde_json::from_value::<Vec<String>>(value.clone()).unwrap().into(),
            Json::Number(first) if first.is_f64() => {
                serde_json::from_value::<Vec<f32>>(value.clone()).unwrap().into()
            }
            _ => serde_json::from_value::<Vec<i32>>(value.clone()).unwrap().into(),
        },
        Json::Null | Json::Object(_) => panic!("{value} in metadata"),
    }
}

fn dtype(name: &str) -> DType {
    match name {
        "F32" => DType::F32,
        "F16" => DType::F16,
        _ => DType::Quant(*QuantType::ALL.iter().find(|quant| quant.name() == name).unwrap()),
    }
}

fn encoded(values: &[f32], dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::F16 => values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        DType::Quant(quant) => {
            let mut out = vec![0; values.len() / quant.block_len() * quant.block_bytes()];
            quantize(quant, values, None, &mut out).unwrap();
            out
        }
        other => panic!("no fixture is written in {other}"),
    }
}
