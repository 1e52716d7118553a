//! A reading position in the bytes of a file, on which every read is checked.

use super::ErrorKind;

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, pos: 0 }
    }

    /// The offset of the next byte; never more than the length of the file.
    pub(super) fn pos(&self) -> usize {
        self.pos
    }

    pub(super) fn remaining(&self) -> usize {
        self.bytes.len() - self.pos
    }

    /// The next `n` bytes; `what` is being read, for the error.
    #[inline]
    pub(super) fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], ErrorKind> {
        self.require(n, what)?;
        let bytes = &self.bytes[self.pos..self.pos + n];
        self.pos += n;
        Ok(bytes)
    }

    /// Checks that `n` more bytes are there.
    #[inline]
    pub(super) fn require(&self, n: usize, what: &'static str) -> Result<(), ErrorKind> {
        if n <= self.remaining() {
            return Ok(());
        }
        let expected = (self.pos as u64).saturating_add(n as u64);
        Err(ErrorKind::Truncated { what, expected, actual: self.bytes.len() as u64 })
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ErrorKind> {
        let bytes = self.take(N, what)?;
        Ok(bytes.try_into().expect("take returned N bytes"))
    }

    #[inline]
    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, ErrorKind> {
        self.array(what).map(u32::from_le_bytes)
    }

    #[inline]
    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, ErrorKind> {
        self.array(what).map(u64::from_le_bytes)
    }
}
