//! Strings, which in GGUF are bytes: vocabularies hold tokens that are pieces of characters.

use crate::SharedBytes;
use std::fmt;
use std::ops::Deref;
use std::str::Utf8Error;

/// A string of bytes that are UTF-8 by convention but not by promise.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ByteString(Box<[u8]>);

impl ByteString {
    /// The string as text.
    ///
    /// # Errors
    /// Where it is not UTF-8.
    pub fn to_str(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(&self.0)
    }
}

impl Deref for ByteString {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<T: AsRef<[u8]> + ?Sized> From<&T> for ByteString {
    fn from(bytes: &T) -> Self {
        Self(bytes.as_ref().into())
    }
}

impl From<String> for ByteString {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl From<Vec<u8>> for ByteString {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

/// In double quotes, with escapes for control characters and replacements for what is not UTF-8.
impl fmt::Debug for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

/// As text, with replacements for what is not UTF-8.
impl fmt::Display for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&self.0))
    }
}

/// The bytes of the length before each string.
pub(super) const LEN_BYTES: usize = 8;

/// An array of strings of bytes, such as a vocabulary: the file's own bytes and an index into them.
///
/// Reading one makes a single allocation (the index), however many strings there are.
#[derive(Clone)]
pub struct StrArray {
    // The array as it is in a file: each string behind its length as a little-endian u64.
    encoded: SharedBytes,
    // Where each string begins in `encoded`; it ends where the length of the next begins.
    starts: Box<[usize]>,
}

impl StrArray {
    /// `starts` must be ascending offsets into `encoded`, each behind a length that reaches to the next one's length.
    pub(super) fn from_encoded(encoded: SharedBytes, starts: Vec<usize>) -> Self {
        Self { encoded, starts: starts.into() }
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The bytes of string `index`; `None` past the end.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let start = *self.starts.get(index)?;
        let end = match self.starts.get(index + 1) {
            Some(next) => next - LEN_BYTES,
            None => self.encoded.len(),
        };
        Some(&self.encoded[start..end])
    }

    /// String `index` as text; `None` past the end and where it is not UTF-8.
    pub fn get_str(&self, index: usize) -> Option<&str> {
        std::str::from_utf8(self.get(index)?).ok()
    }

    /// The bytes of each string in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + DoubleEndedIterator + Clone {
        let all: &[u8] = &self.encoded;
        let starts = &self.starts;
        (0..starts.len()).map(move |index| {
            let end = starts.get(index + 1).map_or(all.len(), |next| next - LEN_BYTES);
            &all[starts[index]..end]
        })
    }

    /// The array as it stands in a file behind its type and count.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for StrArray {
    fn from_iter<I: IntoIterator<Item = T>>(strings: I) -> Self {
        let mut encoded = Vec::new();
        let mut starts = Vec::new();
        for string in strings {
            let string = string.as_ref();
            encoded.extend_from_slice(&(string.len() as u64).to_le_bytes());
            starts.push(encoded.len());
            encoded.extend_from_slice(string);
        }
        Self::from_encoded(encoded.into(), starts)
    }
}

impl PartialEq for StrArray {
    fn eq(&self, other: &Self) -> bool {
        // The encoding is unique, so equal bytes are equal strings; the count follows from them.
        *self.encoded == *other.encoded
    }
}

impl Eq for StrArray {}

impl fmt::Debug for StrArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(String::from_utf8_lossy)).finish()
    }
}
