//! What a file holds: a tree of Python's values.

use super::{ErrorKind, Result};
use rustorch_core::DType;

/// A value of a checkpoint; `T` is the type of tensors.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<T> {
    /// `None`.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A string.
    Str(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Value<T>>),
    /// A tuple; also `torch.Size`.
    Tuple(Vec<Value<T>>),
    /// A set.
    Set(Vec<Value<T>>),
    /// A dict or `OrderedDict`, in its order.
    Dict(Vec<(Value<T>, Value<T>)>),
    /// `torch.float32` and its like.
    DType(DType),
    /// A `torch.device`, such as `cuda:0`.
    Device(String),
    /// A tensor.
    Tensor(T),
}

impl<T> Value<T> {
    /// A dict with strings for keys.
    pub fn dict<K: Into<String>>(entries: impl IntoIterator<Item = (K, Value<T>)>) -> Self {
        Value::Dict(entries.into_iter().map(|(key, value)| (Value::Str(key.into()), value)).collect())
    }

    /// The value under a string in a dict.
    ///
    /// # Errors
    /// If this is no dict, or has no such key.
    pub fn get(&self, key: &str) -> Result<&Value<T>> {
        let Value::Dict(entries) = self else {
            return Err(ErrorKind::WrongType { expected: "a dict", found: self.type_name() }.into());
        };
        self.find(key).ok_or_else(|| {
            let keys = entries.iter().filter_map(|(key, _)| key.as_str().map(str::to_owned)).collect();
            ErrorKind::MissingKey { key: key.to_owned(), keys }.into()
        })
    }

    /// The value under a string in a dict, if this is a dict and has it.
    pub fn find(&self, key: &str) -> Option<&Value<T>> {
        let entries = self.as_dict()?;
        entries.iter().find(|(found, _)| found.as_str() == Some(key)).map(|(_, value)| value)
    }

    /// The tensors of a dict from names to tensors, in its order.
    ///
    /// Checkpoints often have such a dict under a key, such as `model` or `state_dict`, beside others: see [`get`](Self::get).
    ///
    /// # Errors
    /// If this is no dict, or has another entry.
    pub fn state_dict(&self) -> Result<Vec<(&str, &T)>> {
        let Value::Dict(entries) = self else {
            return Err(ErrorKind::WrongType { expected: "a dict", found: self.type_name() }.into());
        };
        let tensor = |(key, value): &'_ (Value<T>, Value<T>)| ErrorKind::NotAStateDict {
            key: key.as_str().map_or_else(|| key.type_name().to_owned(), |key| format!("`{key}`")),
            found: if key.as_str().is_none() { "under a key that is no string" } else { value.type_name() },
        };
        let entries = entries.iter().map(|entry| match entry {
            (Value::Str(name), Value::Tensor(value)) => Ok((&**name, value)),
            other => Err(tensor(other).into()),
        });
        entries.collect()
    }

    /// The boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self { Some(*value) } else { None }
    }

    /// The integer, if this is one.
    pub fn as_int(&self) -> Option<i64> {
        if let Value::Int(value) = self { Some(*value) } else { None }
    }

    /// The number, if this is an integer or a floating-point number.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(value) => Some(*value),
            Value::Int(value) => Some(*value as f64),
            _ => None,
        }
    }

    /// The string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Str(value) = self { Some(value) } else { None }
    }

    /// The elements, if this is a list, a tuple or a set.
    pub fn as_list(&self) -> Option<&[Value<T>]> {
        match self {
            Value::List(items) | Value::Tuple(items) | Value::Set(items) => Some(items),
            _ => None,
        }
    }

    /// The entries, if this is a dict.
    pub fn as_dict(&self) -> Option<&[(Value<T>, Value<T>)]> {
        if let Value::Dict(entries) = self { Some(entries) } else { None }
    }

    /// The tensor, if this is one.
    pub fn as_tensor(&self) -> Option<&T> {
        if let Value::Tensor(value) = self { Some(value) } else { None }
    }

    /// Whether this is `None`.
    pub fn is_none(&self) -> bool {
        matches!(self, Value::None)
    }

    /// What this is, for messages: `a dict`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a floating-point number",
            Value::Str(_) => "a string",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "a list",
            Value::Tuple(_) => "a tuple",
            Value::Set(_) => "a set",
            Value::Dict(_) => "a dict",
            Value::DType(_) => "a dtype",
            Value::Device(_) => "a device",
            Value::Tensor(_) => "a tensor",
        }
    }

    /// The same values with other tensors.
    ///
    /// # Errors
    /// The first of `map`.
    pub fn try_map<U, E>(&self, map: &mut impl FnMut(&T) -> Result<U, E>) -> Result<Value<U>, E> {
        Ok(match self {
            Value::None => Value::None,
            Value::Bool(value) => Value::Bool(*value),
            Value::Int(value) => Value::Int(*value),
            Value::Float(value) => Value::Float(*value),
            Value::Str(value) => Value::Str(value.clone()),
            Value::Bytes(value) => Value::Bytes(value.clone()),
            Value::List(list) => Value::List(try_map_all(list, map)?),
            Value::Tuple(list) => Value::Tuple(try_map_all(list, map)?),
            Value::Set(list) => Value::Set(try_map_all(list, map)?),
            Value::Dict(entries) => {
                let entries = entries.iter().map(|(key, value)| Ok((key.try_map(map)?, value.try_map(map)?)));
                Value::Dict(entries.collect::<Result<_, E>>()?)
            }
            Value::DType(value) => Value::DType(*value),
            Value::Device(value) => Value::Device(value.clone()),
            Value::Tensor(tensor) => Value::Tensor(map(tensor)?),
        })
    }
}

fn try_map_all<T, U, E>(
    items: &[Value<T>],
    map: &mut impl FnMut(&T) -> Result<U, E>,
) -> Result<Vec<Value<U>>, E> {
    items.iter().map(|item| item.try_map(map)).collect()
}

impl<T> From<bool> for Value<T> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl<T> From<i64> for Value<T> {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl<T> From<f64> for Value<T> {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

impl<T> From<&str> for Value<T> {
    fn from(value: &str) -> Self {
        Value::Str(value.to_owned())
    }
}
