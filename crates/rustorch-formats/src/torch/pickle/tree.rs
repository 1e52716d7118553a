//! The machine's containers as a tree.

use super::super::{ErrorKind, MAX_DEPTH, TensorView, Value};
use super::machine::{Container, Item};
use std::collections::HashMap;

/// An entry of a dict.
type Entry = (Value<TensorView>, Value<TensorView>);

/// The values that every pickle may describe.
const MIN_VALUES: usize = 1 << 10;
/// How many more it may describe by its length, in bytes: containers that occur several times are as many.
const VALUES_PER_BYTE: usize = 8;

/// The value of `root`, whose containers are among `containers`, by a pickle of `len` bytes.
pub(super) fn build(
    containers: &[Container],
    root: &Item,
    len: usize,
) -> Result<Value<TensorView>, ErrorKind> {
    let max = MIN_VALUES.saturating_add(len.saturating_mul(VALUES_PER_BYTE));
    let mut builder = Builder { containers, open: vec![false; containers.len()], depth: 0, left: max, max };
    builder.value(root)
}

struct Builder<'a> {
    containers: &'a [Container],
    /// Which containers the current one is in, itself included.
    open: Vec<bool>,
    depth: usize,
    /// How many values may still be made. Strings count by their length.
    left: usize,
    max: usize,
}

impl Builder<'_> {
    fn value(&mut self, item: &Item) -> Result<Value<TensorView>, ErrorKind> {
        let text = match item {
            Item::Str(text) | Item::Device(text) => text.len(),
            Item::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        let too_much = ErrorKind::TooMuchSharing { max: self.max };
        self.left = self.left.checked_sub(1 + text / size_of::<Value<TensorView>>()).ok_or(too_much)?;
        Ok(match item {
            Item::None => Value::None,
            Item::Bool(value) => Value::Bool(*value),
            Item::Int(value) => Value::Int(*value),
            Item::Float(value) => Value::Float(*value),
            Item::Str(text) => Value::Str(text.to_string()),
            Item::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            Item::Device(name) => Value::Device(name.to_string()),
            Item::Tensor(tensor) => Value::Tensor(TensorView::clone(tensor)),
            Item::Global(super::global::Global::DType(dtype)) => Value::DType(*dtype),
            Item::Global(_) | Item::Storage(..) => {
                return Err(ErrorKind::WrongType { expected: "a value", found: item.type_name() });
            }
            Item::Container(place) => self.container(*place)?,
        })
    }

    fn container(&mut self, place: usize) -> Result<Value<TensorView>, ErrorKind> {
        if std::mem::replace(&mut self.open[place], true) {
            return Err(ErrorKind::Cycle);
        }
        if self.depth == MAX_DEPTH {
            return Err(ErrorKind::TooDeep);
        }
        self.depth += 1;
        let containers = self.containers;
        let value = match &containers[place] {
            Container::List(items) => Value::List(self.values(items)?),
            Container::Tuple(items) => Value::Tuple(self.values(items)?),
            Container::Set(items) => Value::Set(self.values(items)?),
            Container::Dict(entries) => Value::Dict(self.entries(entries)?),
        };
        self.depth -= 1;
        self.open[place] = false;
        Ok(value)
    }

    fn values(&mut self, items: &[Item]) -> Result<Vec<Value<TensorView>>, ErrorKind> {
        // As many as the machine has items for, which the pickle has bytes for.
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.push(self.value(item)?);
        }
        Ok(values)
    }

    /// The entries of a dict; of several with one string for a key, the last value in the place of the first.
    fn entries(&mut self, entries: &[(Item, Item)]) -> Result<Vec<Entry>, ErrorKind> {
        let mut places = HashMap::new();
        let mut out: Vec<Entry> = Vec::new();
        for (key, value) in entries {
            let value = self.value(value)?;
            if let Item::Str(text) = key {
                match places.entry(&**text) {
                    std::collections::hash_map::Entry::Occupied(place) => {
                        let place: usize = *place.get();
                        out[place].1 = value;
                        continue;
                    }
                    std::collections::hash_map::Entry::Vacant(place) => {
                        place.insert(out.len());
                    }
                }
            }
            out.push((self.value(key)?, value));
        }
        Ok(out)
    }
}
