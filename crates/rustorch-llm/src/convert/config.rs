//! `config.json`, with an account of what was read of it.

use super::ConvertError;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Fields that change nothing in what a model computes from given tokens.
const WITHOUT_EFFECT: &[&str] = &[
    "_attn_implementation_autoset",
    "_name_or_path",
    "add_cross_attention",
    "architectures",
    "attention_dropout",
    "attn_implementation",
    "auto_map",
    "begin_suppress_tokens",
    "boi_token_index",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "dtype",
    "eoi_token_index",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "image_token_index",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "mm_tokens_per_image",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "problem_type",
    "return_dict",
    "return_dict_in_generate",
    "task_specific_params",
    "tie_word_embeddings",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "vision_config",
];

/// The fields of a configuration; those of a part for text (`text_config`) come before others of the same name.
pub(super) struct Config {
    fields: Map<String, Value>,
    read: RefCell<BTreeSet<&'static str>>,
}

impl Config {
    pub(super) fn new(value: Value) -> Result<Config, ConvertError> {
        let Value::Object(mut fields) = value else {
            return Err(ConvertError::field("architectures", "is missing: there is no config.json"));
        };
        match fields.remove("text_config") {
            Some(Value::Object(text)) => {
                let architectures = fields.remove("architectures");
                fields.extend(text);
                fields.extend(architectures.map(|value| ("architectures".to_owned(), value)));
            }
            Some(other) => {
                return Err(ConvertError::field("text_config", format!("is {other}, not an object")));
            }
            None => {}
        }
        // Without a value, a field says as much as none.
        fields.retain(|_, value| !value.is_null());
        Ok(Config { fields, read: RefCell::default() })
    }

    /// A field's value, if it has one.
    pub(super) fn find(&self, field: &'static str) -> Option<&Value> {
        self.read.borrow_mut().insert(field);
        self.fields.get(field)
    }

    pub(super) fn find_size(&self, field: &'static str) -> Result<Option<usize>, ConvertError> {
        let size = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
        self.typed(field, "a count", size)
    }

    /// A count that the configuration has to have.
    pub(super) fn size(&self, field: &'static str) -> Result<usize, ConvertError> {
        self.find_size(field)?.ok_or_else(|| ConvertError::field(field, "is missing"))
    }

    pub(super) fn find_f64(&self, field: &'static str) -> Result<Option<f64>, ConvertError> {
        self.typed(field, "a number", Value::as_f64)
    }

    pub(super) fn find_bool(&self, field: &'static str) -> Result<Option<bool>, ConvertError> {
        self.typed(field, "true or false", Value::as_bool)
    }

    pub(super) fn find_text(&self, field: &'static str) -> Result<Option<&str>, ConvertError> {
        self.typed(field, "a string", Value::as_str)
    }

    pub(super) fn find_texts(&self, field: &'static str) -> Result<Option<Vec<&str>>, ConvertError> {
        self.typed(field, "a list of strings", |value| value.as_array()?.iter().map(Value::as_str).collect())
    }

    /// Fails unless a field is missing or has this value, the only one with which the architecture computes the same in GGUF.
    pub(super) fn expect(&self, field: &'static str, expected: impl Into<Value>) -> Result<(), ConvertError> {
        let expected = expected.into();
        let same = |value: &Value| match (value.as_f64(), expected.as_f64()) {
            (Some(a), Some(b)) => a == b,
            _ => *value == expected,
        };
        match self.find(field) {
            Some(value) if !same(value) => {
                Err(ConvertError::field(field, format!("is {value}; only {expected} is supported")))
            }
            _ => Ok(()),
        }
    }

    /// Fails on a field that nobody has read and that may have an effect.
    pub(super) fn finish(&self) -> Result<(), ConvertError> {
        let read = self.read.borrow();
        let unknown = self
            .fields
            .iter()
            .find(|(field, _)| !read.contains(field.as_str()) && !WITHOUT_EFFECT.contains(&field.as_str()));
        match unknown {
            Some((field, value)) => {
                Err(ConvertError::UnknownField { field: field.clone(), value: value.to_string() })
            }
            None => Ok(()),
        }
    }

    fn typed<'a, T>(
        &'a self,
        field: &'static str,
        kind: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ConvertError> {
        let Some(value) = self.find(field) else { return Ok(None) };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(ConvertError::field(field, format!("is {value}, not {kind}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_nobody_read_is_unknown() {
        let config = |value| Config::new(value).unwrap();
        let read = config(json!({"hidden_size": 8, "use_cache": true, "x": null}));
        assert_eq!(read.size("hidden_size").unwrap(), 8);
        read.finish().unwrap();
        let unread = config(json!({"embedding_multiplier": 12.0}));
        assert!(matches!(unread.finish(), Err(ConvertError::UnknownField { .. })));
        let wrong = config(json!({"hidden_size": "8"})).size("hidden_size").unwrap_err().to_string();
        assert!(wrong.contains("`hidden_size` is \"8\", not a count"), "{wrong}");
        let nested = config(
            json!({"hidden_size": 1, "architectures": ["A"], "text_config": {"hidden_size": 2, "architectures": ["B"]}}),
        );
        assert_eq!(
            (nested.size("hidden_size").unwrap(), nested.find_texts("architectures").unwrap()),
            (2, Some(vec!["A"]))
        );
        nested.expect("hidden_size", 2.0).unwrap();
        assert!(nested.expect("hidden_size", 3).is_err());
    }
}
