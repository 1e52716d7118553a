//! Checked access to the metadata of one architecture.

use crate::arch::NormKind;
use crate::{Error, Result};
use rustorch_formats::gguf::{Array, Metadata, Value};

/// More than any real model; guards sizes that are multiplied later.
const MOST: usize = 1 << 24;

/// The metadata keys that begin with an architecture's name. Errors name the key.
#[derive(Clone, Copy)]
pub(in crate::model) struct MetadataReader<'a> {
    metadata: &'a Metadata,
    prefix: &'static str,
}

impl<'a> MetadataReader<'a> {
    pub(in crate::model) fn new(metadata: &'a Metadata, prefix: &'static str) -> MetadataReader<'a> {
        MetadataReader { metadata, prefix }
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    pub(in crate::model) fn error(&self, name: &str, message: impl Into<String>) -> Error {
        Error::Hyperparameter { key: self.key(name), message: message.into() }
    }

    pub(in crate::model) fn missing(&self, name: &str) -> Error {
        self.error(name, "is missing")
    }

    /// A size between 1 and [`MOST`].
    pub(in crate::model) fn size(&self, name: &str) -> Result<usize> {
        let value = self.metadata.get::<u64>(&self.key(name))?;
        self.checked(name, value)
    }

    /// An optional size; converters also write 0 for "not given".
    pub(in crate::model) fn find_size(&self, name: &str) -> Result<Option<usize>> {
        let value = self.metadata.find::<u64>(&self.key(name))?.filter(|&value| value != 0);
        value.map(|value| self.checked(name, value)).transpose()
    }

    /// An optional integer.
    pub(in crate::model) fn find_i64(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.metadata.find::<i64>(&self.key(name))?)
    }

    fn checked(&self, name: &str, value: u64) -> Result<usize> {
        usize::try_from(value)
            .ok()
            .filter(|v| (1..=MOST).contains(v))
            .ok_or_else(|| self.error(name, format!("{value} is not between 1 and {MOST}")))
    }

    /// A finite value.
    pub(in crate::model) fn find_f32(&self, name: &str) -> Result<Option<f32>> {
        let value = self.metadata.find::<f32>(&self.key(name))?;
        match value {
            Some(v) if !v.is_finite() => Err(self.error(name, format!("{v} is not a finite number"))),
            other => Ok(other),
        }
    }

    /// The small value that is added to a variance or a mean square, by the key of this kind of norm; where the file lacks it, that of
    /// layer norms.
    pub(in crate::model) fn epsilon(&self, kind: NormKind) -> Result<f64> {
        let has = |name: &str| self.metadata.value(&self.key(name)).is_some();
        let (name, other) = (kind.epsilon_key(), NormKind::Layer.epsilon_key());
        let name = if !has(name) && has(other) { other } else { name };
        let value = self.metadata.get::<f32>(&self.key(name))?;
        match value.is_finite() && value >= 0.0 {
            true => Ok(value.into()),
            false => Err(self.error(name, format!("{value} is not a small number ≥ 0"))),
        }
    }

    pub(in crate::model) fn find_flag(&self, name: &str) -> Result<Option<bool>> {
        Ok(self.metadata.find::<bool>(&self.key(name))?)
    }

    pub(in crate::model) fn find_text(&self, name: &str) -> Result<Option<&'a str>> {
        Ok(self.metadata.find::<&str>(&self.key(name))?)
    }

    /// One size for every block: a number for all, or an array of one each, of which some may be 0.
    pub(in crate::model) fn per_block(&self, name: &str, blocks: usize) -> Result<Option<Vec<usize>>> {
        let Some(Value::Array(array)) = self.metadata.value(&self.key(name)) else {
            return Ok(self.find_size(name)?.map(|size| vec![size; blocks]));
        };
        let Some(values) = array.integers() else {
            return Err(self.error(name, "must be an integer or an array of integers"));
        };
        if values.len() != blocks {
            return Err(self.error(name, format!("has {} entries for {blocks} blocks", values.len())));
        }
        let sizes = values.map(|v| match v {
            0 => Ok(0),
            v => self.checked(name, u64::try_from(v).unwrap_or(0)),
        });
        sizes.collect::<Result<Vec<_>>>().map(Some)
    }

    /// Which blocks are of a kind: an array of flags, or a period.
    pub(in crate::model) fn find_pattern(&self, name: &str) -> Result<Option<Pattern>> {
        let Some(value) = self.metadata.value(&self.key(name)) else { return Ok(None) };
        match value {
            Value::Array(Array::Bool(flags)) => Ok(Some(Pattern::Flags(flags.clone()))),
            Value::Array(array) => match array.integers() {
                Some(values) => Ok(Some(Pattern::Flags(values.map(|v| v != 0).collect()))),
                None => Err(self.error(name, "must be an integer or an array of flags")),
            },
            _ => Ok(self.find_size(name)?.map(Pattern::Period)),
        }
    }

    /// The numbers of elements that are rotated by time, height, width and something else.
    pub(in crate::model) fn find_sections(&self, name: &str) -> Result<Option<[i128; 4]>> {
        let Some(value) = self.metadata.value(&self.key(name)) else { return Ok(None) };
        let Value::Array(array) = value else { return Err(self.error(name, "must be an array")) };
        let Some(values) = array.integers() else {
            return Err(self.error(name, "must be an array of integers"));
        };
        let mut sections = [0; 4];
        for (section, value) in sections.iter_mut().zip(values) {
            *section = value;
        }
        Ok(Some(sections))
    }
}

/// Which blocks are of a kind.
pub(in crate::model) enum Pattern {
    /// Of so many blocks, all but the last.
    Period(usize),
    /// Those with `true`.
    Flags(Vec<bool>),
}

impl Pattern {
    /// Whether a block is of the kind.
    pub(in crate::model) fn contains(&self, block: usize) -> bool {
        match self {
            Pattern::Period(period) => block % period + 1 < *period,
            Pattern::Flags(flags) => flags.get(block).copied().unwrap_or(false),
        }
    }
}
