//! Factors that follow from a model's metadata.

use crate::model::ModelConfig;

/// A factor: a value of the file's metadata, or what a function of the configuration and the layer index gives where the file has none (or 0,
/// by which converters mean none).
#[derive(Clone, Copy, Debug)]
pub struct Factor {
    /// The metadata key, without the architecture's prefix.
    pub key: Option<&'static str>,
    /// The value where the key is absent.
    pub default: fn(&ModelConfig, usize) -> f32,
    /// Whether the metadata value is a divisor.
    pub divides: bool,
}

impl Factor {
    /// A metadata value, 1 where it is absent.
    pub const fn metadata(key: &'static str) -> Factor {
        Factor { key: Some(key), default: |_, _| 1.0, divides: false }
    }

    /// A function of the configuration.
    pub const fn computed(value: fn(&ModelConfig, usize) -> f32) -> Factor {
        Factor { key: None, default: value, divides: false }
    }

    /// With another value where the key is absent.
    pub const fn or(self, default: fn(&ModelConfig, usize) -> f32) -> Factor {
        Factor { default, ..self }
    }

    /// With the metadata value as a divisor.
    pub const fn inverted(self) -> Factor {
        Factor { divides: true, ..self }
    }
}

/// 1/√(elements of a head): the usual factor of attention scores.
pub(super) fn inverse_sqrt_head(config: &ModelConfig, layer: usize) -> f32 {
    1.0 / (config.layers[layer].key_length as f32).sqrt()
}

/// 1.
pub(super) fn one(_: &ModelConfig, _: usize) -> f32 {
    1.0
}
