//! Expanding members.

use super::ZipError;
use flate2::{Decompress, FlushDecompress, Status};

/// The most that `compressed` bytes of deflate can expand to.
pub(super) fn max_expansion(compressed: u64) -> u64 {
    // A match of 258 bytes takes at least two bits, of which there are four in a byte.
    compressed.saturating_mul(4 * 258)
}

/// Expands `data` to exactly `size` bytes.
pub(super) fn all(data: &[u8], size: usize, name: &str) -> Result<Vec<u8>, ZipError> {
    let bad = || ZipError::BadDeflate { name: name.to_owned(), size: size as u64 };
    // One more, so that data that goes on is told from data that ends.
    let mut out = Vec::with_capacity(size.saturating_add(1));
    let mut inflater = Decompress::new(false);
    let status = inflater.decompress_vec(data, &mut out, FlushDecompress::Finish).map_err(|_| bad())?;
    let complete =
        status == Status::StreamEnd && out.len() == size && inflater.total_in() == data.len() as u64;
    if complete { Ok(out) } else { Err(bad()) }
}
