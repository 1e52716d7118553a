//! Zip archives, as `.npz` and `.pt` files are: read strictly, without a byte that is not accounted for by the archive's own
//! directory, and written as Python's `zipfile` and PyTorch do.
//!
//! The directory is read here, because of what strangers' archives may hold. The crate `zip` (9.8) takes several times the
//! archive's size for a directory of many members, before a caller can ask whether names occur twice or members overlap, and does
//! not compare the names before members with those in the directory.

mod error;
mod inflate;
mod read;
mod write;

pub use error::ZipError;
pub(crate) use read::Archive;
pub(crate) use write::{Compression, ZipWriter};

/// The most members that an archive may have.
const MAX_MEMBERS: usize = 1 << 18;
/// What the compressed members of an archive may expand to together, in bytes, where its size does not allow more.
const MIN_EXPANSION_LIMIT: u64 = 1 << 30;
/// The multiple of the archive's size that they may expand to.
const EXPANSION_FACTOR: u64 = 64;

const LOCAL_SIGNATURE: [u8; 4] = *b"PK\x03\x04";
const CENTRAL_SIGNATURE: [u8; 4] = *b"PK\x01\x02";
const END_SIGNATURE: [u8; 4] = *b"PK\x05\x06";
const END64_SIGNATURE: [u8; 4] = *b"PK\x06\x06";
const LOCATOR64_SIGNATURE: [u8; 4] = *b"PK\x06\x07";

const LOCAL_LEN: usize = 30;
const CENTRAL_LEN: usize = 46;
const END_LEN: usize = 22;
const END64_LEN: usize = 56;
const LOCATOR64_LEN: usize = 20;

/// The id of the extra field with sizes and offsets of 64 bits.
const ZIP64_ID: u16 = 1;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// The flag of names in UTF-8.
const UTF8: u16 = 1 << 11;
