//! Shapes and layouts, which are made by the constructors that check them.

use crate::{Dims, Layout, Shape};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// The lengths.
impl Serialize for Shape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.dims().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shape, D::Error> {
        Shape::new(Dims::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// A layout as data. What is not said is that of a contiguous layout at the start of its memory.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    shape: Shape,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strides: Option<Dims>,
    #[serde(default, skip_serializing_if = "super::is_zero")]
    offset: usize,
}

impl Serialize for Layout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (shape, strides, offset) = self.to_parts();
        Data { shape, strides, offset }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Layout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Layout, D::Error> {
        let Data { shape, strides, offset } = Data::deserialize(deserializer)?;
        Layout::from_parts(shape, strides, offset).map_err(de::Error::custom)
    }
}

impl Layout {
    /// Shape, strides where they are not those of a contiguous layout, and offset.
    pub(crate) fn to_parts(&self) -> (Shape, Option<Dims>, usize) {
        let strides = (self.strides() != &self.shape().contiguous_strides()[..])
            .then(|| Dims::from_slice(self.strides()));
        (self.shape().clone(), strides, self.offset())
    }

    /// The layout of these parts.
    pub(crate) fn from_parts(shape: Shape, strides: Option<Dims>, offset: usize) -> crate::Result<Layout> {
        match strides {
            Some(strides) => Layout::new(shape, strides, offset),
            None => Layout::contiguous(shape).at_offset(offset),
        }
    }
}
