//! The metadata of a file: an ordered map of keys to values.

use super::{Array, ByteString, Error, ErrorKind, FromValue, MAX_KEY_LEN, Mismatch, Result, StrArray, Value};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Keys and values in the order of the file.
///
/// The getters come in two forms. `get` fails where the key is missing ([`ErrorKind::MissingKey`]), `find` gives `None`.
/// Both fail where the value is of another type ([`ErrorKind::WrongType`]) or does not fit
/// ([`ErrorKind::OutOfRange`], [`ErrorKind::NotUtf8`]). What types they read is listed at [`FromValue`].
#[derive(Clone, Default)]
pub struct Metadata {
    entries: Vec<(Arc<str>, Value)>,
    index: HashMap<Arc<str>, usize>,
    // The file, for errors.
    path: Option<Arc<Path>>,
}

impl Metadata {
    /// No metadata.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity), index: HashMap::with_capacity(capacity), path: None }
    }

    pub(super) fn set_path(&mut self, path: Option<Arc<Path>>) {
        self.path = path;
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether there is an entry for `key`.
    pub fn contains(&self, key: &str) -> bool {
        self.index.contains_key(key)
    }

    /// The value of `key`, of whatever type.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.index.get(key).map(|&i| &self.entries[i].1)
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> + DoubleEndedIterator + Clone {
        self.entries.iter().map(|(key, value)| (&**key, value))
    }

    /// The value of `key` as a `T`.
    ///
    /// # Errors
    /// Where the key is missing, or its value is not a `T`.
    pub fn get<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T> {
        self.find(key)?
            .ok_or_else(|| self.error(ErrorKind::MissingKey { key: key.to_owned(), expected: T::EXPECTED }))
    }

    /// The value of `key` as a `T`; `None` where the key is missing.
    ///
    /// # Errors
    /// Where the value is not a `T`.
    pub fn find<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        T::from_value(value).map(Some).map_err(|mismatch| {
            let (key, expected) = (key.to_owned(), T::EXPECTED);
            self.error(match mismatch {
                Mismatch::Type => ErrorKind::WrongType { key, expected, found: value.type_name() },
                Mismatch::Range(value) => ErrorKind::OutOfRange { key, expected, value },
                Mismatch::Utf8 => ErrorKind::NotUtf8 { key },
            })
        })
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error::at(self.path.as_deref(), kind)
    }

    /// Adds an entry at the end.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateKey`] where the key is there already, [`ErrorKind::KeyTooLong`] past [`MAX_KEY_LEN`].
    pub fn insert(&mut self, key: &str, value: impl Into<Value>) -> Result<()> {
        if key.len() > MAX_KEY_LEN {
            return Err(ErrorKind::KeyTooLong { offset: 0, len: key.len() as u64 }.into());
        }
        if self.contains(key) {
            return Err(ErrorKind::DuplicateKey { key: key.to_owned() }.into());
        }
        self.push(key, value.into());
        Ok(())
    }

    /// Gives `key` the value, in its place where it is there already, at the end where it is not.
    ///
    /// # Errors
    /// [`ErrorKind::KeyTooLong`] past [`MAX_KEY_LEN`].
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> Result<()> {
        match self.index.get(key) {
            Some(&i) => {
                self.entries[i].1 = value.into();
                Ok(())
            }
            None => self.insert(key, value),
        }
    }

    /// Removes `key` and gives its value, if it was there.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let i = self.index.remove(key)?;
        self.index.values_mut().filter(|place| **place > i).for_each(|place| *place -= 1);
        Some(self.entries.remove(i).1)
    }

    /// Adds an entry whose key is not there yet.
    pub(super) fn push(&mut self, key: &str, value: Value) {
        let key: Arc<str> = key.into();
        self.index.insert(Arc::clone(&key), self.entries.len());
        self.entries.push((key, value));
    }
}

macro_rules! getters {
    ($($get:ident -> $type:ty, $what:literal;)*) => {
        /// The getters by name; each is [`get`](Metadata::get) of its type.
        impl Metadata {$(
            #[doc = concat!("The value of `key` as ", $what, ".")]
            ///
            /// # Errors
            /// Where the key is missing, or its value is of another type or does not fit.
            pub fn $get(&self, key: &str) -> Result<$type> {
                self.get(key)
            }
        )*}
    };
}

getters! {
    get_u8 -> u8, "a `u8`, from any integer type";
    get_u16 -> u16, "a `u16`, from any integer type";
    get_u32 -> u32, "a `u32`, from any integer type";
    get_i32 -> i32, "an `i32`, from any integer type";
    get_u64 -> u64, "a `u64`, from any integer type";
    get_i64 -> i64, "an `i64`, from any integer type";
    get_usize -> usize, "a `usize`, from any integer type";
    get_f32 -> f32, "an `f32`; a double is rounded";
    get_f64 -> f64, "an `f64`";
    get_bool -> bool, "a boolean";
    get_str -> &str, "text";
    get_bytes -> &ByteString, "a string of bytes";
    get_array -> &Array, "an array of any type";
    get_str_array -> &StrArray, "an array of strings";
}

impl PartialEq for Metadata {
    /// Whether keys, values and their order are the same.
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(key, value)| (key, format_args!("{value}").to_string())))
            .finish()
    }
}
