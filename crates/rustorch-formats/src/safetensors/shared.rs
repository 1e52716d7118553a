//! Tensors that share memory, as the Python library's `safetensors.torch` treats them.

use super::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// Where in memory the data of a tensor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// What tells the tensor's storage from others, for example its address.
    pub storage: usize,
    /// The bytes of the storage from the tensor's first to its last.
    pub range: Range<usize>,
    /// Whether the tensor has each byte of the storage once.
    pub covers_storage: bool,
}

/// The groups of names whose tensors overlap in memory, sorted; tensors that share memory with no other are in none.
pub fn find_shared<'a>(tensors: impl IntoIterator<Item = (&'a str, Region)>) -> Vec<Vec<&'a str>> {
    groups(tensors).into_iter().map(|group| group.into_iter().map(|(name, _)| name).collect()).collect()
}

/// The names to leave out of a file, each with the name that is kept in its place: of tensors that overlap in memory, the first
/// by name of those that cover the whole storage is kept, as by the Python library's `save_model`.
///
/// ```
/// use rustorch_formats::safetensors::{Region, deduplicate};
/// let region = |storage| Region { storage, range: 0..8, covers_storage: true };
/// let tensors = [("lm_head.weight", region(1)), ("embed.weight", region(1)), ("norm.weight", region(2))];
/// let aliases = deduplicate(tensors)?;
/// assert_eq!(aliases.into_iter().collect::<Vec<_>>(), [("lm_head.weight", "embed.weight")]);
/// # Ok::<(), rustorch_formats::safetensors::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::NoneCoversMemory`] where none of a group covers it.
pub fn deduplicate<'a>(
    tensors: impl IntoIterator<Item = (&'a str, Region)>,
) -> Result<BTreeMap<&'a str, &'a str>> {
    let mut aliases = BTreeMap::new();
    for group in groups(tensors) {
        let Some(&(kept, _)) = group.iter().find(|(_, region)| region.covers_storage) else {
            let names = group.iter().map(|(name, _)| (*name).to_owned()).collect();
            return Err(ErrorKind::NoneCoversMemory { names }.into());
        };
        aliases.extend(group.iter().filter(|(name, _)| *name != kept).map(|(name, _)| (*name, kept)));
    }
    Ok(aliases)
}

/// The groups of tensors that overlap, each sorted by name.
fn groups<'a>(tensors: impl IntoIterator<Item = (&'a str, Region)>) -> Vec<Vec<(&'a str, Region)>> {
    let mut all: Vec<_> = tensors.into_iter().filter(|(_, region)| !region.range.is_empty()).collect();
    all.sort_by(|(a, x), (b, y)| {
        (x.storage, x.range.start, x.range.end, a).cmp(&(y.storage, y.range.start, y.range.end, b))
    });
    let mut groups: Vec<Vec<(&str, Region)>> = Vec::new();
    let mut last = None;
    for (name, region) in all {
        let end = match (last, groups.last_mut()) {
            (Some((storage, end)), Some(group)) if storage == region.storage && region.range.start < end => {
                group.push((name, region.clone()));
                end.max(region.range.end)
            }
            _ => {
                groups.push(vec![(name, region.clone())]);
                region.range.end
            }
        };
        last = Some((region.storage, end));
    }
    groups.retain(|group| group.len() > 1);
    for group in &mut groups {
        group.sort_by_key(|(name, _)| *name);
    }
    groups.sort_by_key(|group| group[0].0);
    groups
}
