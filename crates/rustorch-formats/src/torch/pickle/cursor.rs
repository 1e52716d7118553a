//! The bytes of a pickle.

use super::super::ErrorKind;

/// A place in a pickle.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn truncated(&self) -> ErrorKind {
        ErrorKind::PickleTruncated { offset: self.bytes.len() }
    }

    /// The next `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], ErrorKind> {
        let end = self.at.checked_add(len).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| self.truncated())?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ErrorKind> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, ErrorKind> {
        Ok(self.array::<1>()?[0])
    }

    /// A length of `N` bytes.
    pub(super) fn len<const N: usize>(&mut self) -> Result<usize, ErrorKind> {
        let len = self.array::<N>()?.iter().rev().fold(0u64, |len, &byte| len << 8 | u64::from(byte));
        usize::try_from(len).map_err(|_| self.truncated())
    }

    /// The bytes up to a line feed, which is taken, too.
    pub(super) fn line(&mut self) -> Result<&'a [u8], ErrorKind> {
        let len =
            self.bytes[self.at..].iter().position(|&byte| byte == b'\n').ok_or_else(|| self.truncated())?;
        let line = self.take(len)?;
        self.at += 1;
        Ok(line)
    }
}
