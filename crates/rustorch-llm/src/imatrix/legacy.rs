//! The format of `llama-imatrix` before it was GGUF (`imatrix.dat`).
//!
//! Little-endian: a count of entries; of each the length of a name, the name, a number of chunks, a number of values, and the values, mean squares times
//! the number of chunks. Behind them a count of all chunks and the name of a text, with its length; older files lack these.

use super::file::floats;
use super::{ActivationStatistics, SquareSums};
use std::collections::BTreeMap;

pub(super) fn read(bytes: &[u8]) -> Result<ActivationStatistics, String> {
    let mut rest = bytes;
    let entries = size(&mut rest).filter(|&count| count > 0);
    let Some(entries) = entries else {
        return Err("is neither a GGUF file nor an imatrix.dat".into());
    };
    let mut weights = BTreeMap::new();
    for i in 0..entries {
        let entry = entry(&mut rest).ok_or_else(|| {
            format!("is neither a GGUF file nor an imatrix.dat: it ends in entry {i} of {entries}")
        })?;
        weights.insert(entry.0, entry.1);
    }
    let chunk_count = size(&mut rest).unwrap_or(0);
    let dataset = size(&mut rest).and_then(|len| text(&mut rest, len)).filter(|name| !name.is_empty());
    Ok(ActivationStatistics { weights, datasets: dataset.into_iter().collect(), chunk_size: 0, chunk_count })
}

fn entry(rest: &mut &[u8]) -> Option<(String, SquareSums)> {
    let len = size(rest)?;
    let name = text(rest, len)?;
    let (chunks, values) = (size(rest)?, size(rest)?);
    let sums = floats(take(rest, values.checked_mul(4)?)?).into_iter().map(f64::from).collect();
    // Without chunks, the values are the means.
    (values > 0).then_some((name, SquareSums { sums, counts: vec![chunks.max(1) as u64] }))
}

fn size(rest: &mut &[u8]) -> Option<usize> {
    let bytes = take(rest, 4)?.try_into().ok()?;
    usize::try_from(i32::from_le_bytes(bytes)).ok()
}

fn text(rest: &mut &[u8], len: usize) -> Option<String> {
    take(rest, len).map(|name| String::from_utf8_lossy(name).into_owned())
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}
