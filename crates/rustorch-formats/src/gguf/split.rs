//! Files split into parts, as by llama.cpp's `gguf-split`: `model-00001-of-00003.gguf` and so on.
//!
//! The first part has all of the metadata. Every part has `split.no` (from 0), `split.count` and `split.tensors.count`,
//! a table of its own tensors, and their data.

use super::file::Opened;
use super::{Error, ErrorKind, Metadata, Result};
use std::path::{Path, PathBuf};

pub(super) const NO_KEY: &str = "split.no";
pub(super) const COUNT_KEY: &str = "split.count";
pub(super) const TENSORS_KEY: &str = "split.tensors.count";

/// Which part of how many a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SplitInfo {
    /// From 0.
    pub(super) no: u32,
    /// At least 2.
    pub(super) count: u32,
}

/// Which part the file with this metadata is; `None` where it is whole.
pub(super) fn of(metadata: &Metadata) -> Result<Option<SplitInfo>> {
    // The format has 16 bits for both. A count of 0 or 1 is left behind by merging.
    let count = metadata.find::<u16>(COUNT_KEY)?.unwrap_or(0);
    if count <= 1 {
        return Ok(None);
    }
    Ok(Some(SplitInfo { no: metadata.get::<u16>(NO_KEY)?.into(), count: count.into() }))
}

/// The name of part `no` (from 0) of `count`: `part_file_name("model", 0, 3)` is `model-00001-of-00003.gguf`.
pub fn part_file_name(prefix: &str, no: u32, count: u32) -> String {
    format!("{prefix}-{:05}-of-{count:05}.gguf", u64::from(no) + 1)
}

/// The prefix, number (from 0) and count of a name made by [`part_file_name`]; `None` for any other name.
pub fn parse_part_file_name(name: &str) -> Option<(&str, u32, u32)> {
    let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (prefix, no) = rest.rsplit_once('-')?;
    let number = |digits: &str| -> Option<u32> {
        (digits.len() == 5 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
    };
    let (no, count) = (number(no)?, number(count)?);
    (1..=count).contains(&no).then(|| (prefix, no - 1, count))
}

/// The paths of all parts of the split file of which `path` is the part `this`.
pub(super) fn sibling_paths(path: &Path, this: SplitInfo) -> Result<Vec<PathBuf>> {
    let SplitInfo { no, count } = this;
    let fail = |kind| Error::at(Some(path), kind);
    let name = path.file_name().and_then(|name| name.to_str());
    let Some((prefix, named_no, named_count)) = name.and_then(parse_part_file_name) else {
        return Err(fail(ErrorKind::SplitName { no, count }));
    };
    if named_count != count {
        return Err(fail(ErrorKind::SplitName { no, count }));
    }
    if named_no != no {
        return Err(fail(ErrorKind::SplitNumber { found: no, expected: named_no }));
    }
    let paths: Vec<_> = (0..count).map(|no| path.with_file_name(part_file_name(prefix, no, count))).collect();
    let missing: Vec<_> = paths
        .iter()
        .filter(|path| !path.exists())
        .map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    if missing.is_empty() { Ok(paths) } else { Err(fail(ErrorKind::MissingParts { missing, count })) }
}

/// Checks that `parts` are the parts of one split file in order, or one whole file.
pub(super) fn check(parts: &[Opened]) -> Result<()> {
    let Some(first) = parts.first() else {
        return Err(ErrorKind::SplitPartsGiven { given: 0, count: 0 }.into());
    };
    let info = |part: &Opened| of(&part.parsed.metadata).map_err(|e| part.error(e.into_kind()));
    let count = info(first)?.map_or(1, |this| this.count);
    for (no, part) in (0..).zip(parts) {
        let (found, expected) = (info(part)?.map_or((0, 1), |this| (this.no, this.count)), (no, count));
        if found.1 != expected.1 {
            return Err(part.error(ErrorKind::SplitCount { no, found: found.1, expected: count }));
        }
        if found.0 != no && count > 1 {
            return Err(part.error(ErrorKind::SplitNumber { found: found.0, expected: no }));
        }
    }
    if parts.len() != count as usize {
        return Err(ErrorKind::SplitPartsGiven { given: parts.len(), count }.into());
    }
    let metadata = &first.parsed.metadata;
    if count > 1
        && let Some(expected) = metadata.find::<u64>(TENSORS_KEY)?
    {
        let actual = parts.iter().map(|part| part.parsed.tensors.len() as u64).sum();
        if actual != expected {
            return Err(first.error(ErrorKind::SplitTensorCount { expected, actual }));
        }
    }
    Ok(())
}
