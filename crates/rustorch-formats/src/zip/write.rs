//! Writing archives.

use super::{
    CENTRAL_LEN, CENTRAL_SIGNATURE, END_SIGNATURE, END64_LEN, END64_SIGNATURE, LOCAL_LEN, LOCAL_SIGNATURE,
    LOCATOR64_SIGNATURE, STORED, UTF8, ZIP64_ID,
};
use std::borrow::Cow;
use std::io::{self, Write};

/// The version of the format that has sizes of 64 bits.
const VERSION: u16 = 45;
/// The same with the system whose attributes the directory has: Unix.
const MADE_BY: u16 = 3 << 8 | VERSION;
/// 1 January 1980, the first day that the format has.
const DATE: u16 = 1 << 5 | 1;
/// Readable and writable by the owner.
const ATTRIBUTES: u32 = 0o600 << 16;
/// The id of the extra field by which PyTorch aligns data.
const PADDING_ID: [u8; 2] = *b"FB";
/// The bytes of an extra field before its content.
const EXTRA_HEAD: usize = 4;
const ZIP64_LEN: usize = EXTRA_HEAD + 16;

/// Whether members are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Compression {
    /// As they are.
    #[default]
    Stored,
    /// By deflate.
    #[cfg(feature = "numpy")]
    Deflated,
}

/// Writes an archive, member by member, as Python's `zipfile` does with `force_zip64`.
pub(crate) struct ZipWriter<W> {
    out: W,
    offset: u64,
    directory: Vec<u8>,
    count: u64,
}

impl<W: Write> ZipWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, offset: 0, directory: Vec::new(), count: 0 }
    }

    /// Adds a member, whose data begins at a multiple of `alignment` bytes.
    pub(crate) fn add(
        &mut self,
        name: &str,
        data: &[u8],
        compression: Compression,
        alignment: u64,
    ) -> io::Result<()> {
        let name_len = u16::try_from(name.len()).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, "a name is longer than zip archives allow")
        })?;
        let mut crc = flate2::Crc::new();
        crc.update(data);
        let (method, packed) = match compression {
            Compression::Stored => (STORED, Cow::Borrowed(data)),
            #[cfg(feature = "numpy")]
            Compression::Deflated => {
                let mut encoder =
                    flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(data)?;
                (super::DEFLATED, encoder.finish()?.into())
            }
        };
        let flags = if name.is_ascii() { 0 } else { UTF8 };
        let (size, packed_size) = (data.len() as u64, packed.len() as u64);
        let padding = self.padding(name.len(), alignment);

        let mut header = Vec::with_capacity(LOCAL_LEN + name.len() + ZIP64_LEN + padding.len());
        header.extend(LOCAL_SIGNATURE);
        header.extend([VERSION, flags, method, 0, DATE].map(u16::to_le_bytes).concat());
        header.extend([crc.sum(), u32::MAX, u32::MAX].map(u32::to_le_bytes).concat());
        header.extend(name_len.to_le_bytes());
        // Both parts are short.
        header.extend(((ZIP64_LEN + padding.len()) as u16).to_le_bytes());
        header.extend(name.as_bytes());
        header.extend([ZIP64_ID, 16].map(u16::to_le_bytes).concat());
        header.extend([size, packed_size].map(u64::to_le_bytes).concat());
        header.extend(padding);
        self.out.write_all(&header)?;
        self.out.write_all(&packed)?;

        // What does not fit 32 bits is in an extra field.
        let wide: Vec<_> =
            [size, packed_size, self.offset].into_iter().filter(|&n| n >= u32::MAX.into()).collect();
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        let extra_len = if wide.is_empty() { 0 } else { EXTRA_HEAD + 8 * wide.len() };
        self.directory.reserve(CENTRAL_LEN + name.len() + extra_len);
        self.directory.extend(CENTRAL_SIGNATURE);
        self.directory.extend([MADE_BY, VERSION, flags, method, 0, DATE].map(u16::to_le_bytes).concat());
        self.directory.extend(crc.sum().to_le_bytes());
        self.directory.extend([narrow(packed_size), narrow(size)].concat());
        self.directory.extend([name_len, extra_len as u16, 0, 0, 0].map(u16::to_le_bytes).concat());
        self.directory.extend(ATTRIBUTES.to_le_bytes());
        self.directory.extend(narrow(self.offset));
        self.directory.extend(name.as_bytes());
        if !wide.is_empty() {
            self.directory.extend([ZIP64_ID, (8 * wide.len()) as u16].map(u16::to_le_bytes).concat());
            self.directory.extend(wide.into_iter().flat_map(u64::to_le_bytes));
        }
        self.offset += header.len() as u64 + packed_size;
        self.count += 1;
        Ok(())
    }

    /// An extra field behind which the data of the next member is aligned; empty where it is without.
    fn padding(&self, name_len: usize, alignment: u64) -> Vec<u8> {
        let start = self.offset + (LOCAL_LEN + name_len + ZIP64_LEN) as u64;
        if start.is_multiple_of(alignment) {
            return Vec::new();
        }
        let head = start + EXTRA_HEAD as u64;
        let len = (head.next_multiple_of(alignment) - head) as u16;
        let mut field = [PADDING_ID, len.to_le_bytes()].concat();
        field.resize(EXTRA_HEAD + usize::from(len), b'Z');
        field
    }

    /// Writes the directory and gives the writer back.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        let (offset, len) = (self.offset, self.directory.len() as u64);
        self.out.write_all(&self.directory)?;
        let wide = self.count >= u16::MAX.into() || offset >= u32::MAX.into() || len >= u32::MAX.into();
        if wide {
            let mut record = END64_SIGNATURE.to_vec();
            record.extend((END64_LEN as u64 - 12).to_le_bytes());
            record.extend([VERSION, VERSION, 0, 0, 0, 0].map(u16::to_le_bytes).concat());
            record.extend([self.count, self.count, len, offset].map(u64::to_le_bytes).concat());
            record.extend(LOCATOR64_SIGNATURE);
            record.extend(0u32.to_le_bytes());
            record.extend((offset + len).to_le_bytes());
            record.extend(1u32.to_le_bytes());
            self.out.write_all(&record)?;
        }
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        let mut record = END_SIGNATURE.to_vec();
        record.extend([0, 0, count, count].map(u16::to_le_bytes).concat());
        record.extend([len, offset].map(|n| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes()).concat());
        record.extend(0u16.to_le_bytes());
        self.out.write_all(&record)?;
        self.out.flush()?;
        Ok(self.out)
    }
}
