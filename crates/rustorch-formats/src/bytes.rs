//! Bytes that several holders share: a file mapped or read, a heap buffer, or data in the executable.

use memmap2::{Mmap, MmapMut};
use std::fmt;
use std::io::{self, Read};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A range of immutable bytes together with whatever keeps them alive.
///
/// Cloning and slicing are cheap and copy nothing. A tensor that holds the `SharedBytes` of its data may outlive the
/// file object that it came from.
///
/// The start of a range of a file is as aligned as its offset in the file is (files begin on a page of memory, mapped or
/// [read](Self::read)); ranges of heap or embedded bytes promise no alignment.
#[derive(Clone)]
pub struct SharedBytes {
    owner: Owner,
    range: Range<usize>,
}

#[derive(Clone)]
enum Owner {
    Map(Arc<Mmap>),
    /// Pages of our own.
    Read(Arc<Mmap>),
    Shared(Arc<[u8]>),
    Vec(Arc<Vec<u8>>),
    Static(&'static [u8]),
}

impl Owner {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Owner::Map(pages) | Owner::Read(pages) => pages,
            Owner::Shared(bytes) => bytes,
            Owner::Vec(bytes) => bytes,
            Owner::Static(bytes) => bytes,
        }
    }
}

impl SharedBytes {
    fn new(owner: Owner) -> Self {
        let range = 0..owner.bytes().len();
        Self { owner, range }
    }

    /// Reads `len` bytes into fresh pages of memory, so that tensors need no copy to be aligned.
    ///
    /// # Errors
    /// If the pages cannot be had, or the source fails or ends early.
    pub fn read(mut source: impl Read, len: usize) -> io::Result<Self> {
        Self::fill(len, |pages| source.read_exact(pages))
    }

    /// Has `fill` write `len` bytes of fresh pages. They are huge ones where the system has them: weights that are streamed
    /// through for each token of a language model come up to a third faster from those than from a mapped file.
    pub(crate) fn fill(len: usize, fill: impl FnOnce(&mut [u8]) -> io::Result<()>) -> io::Result<Self> {
        if len == 0 {
            return Ok(Self::from(&[]));
        }
        let mut pages = MmapMut::map_anon(len)?;
        #[cfg(target_os = "linux")]
        if len >= 2 << 20 {
            // A refusal changes nothing: the pages are ordinary ones.
            let _ = pages.advise(memmap2::Advice::HugePage);
        }
        fill(&mut pages)?;
        Ok(Self::new(Owner::Read(Arc::new(pages.make_read_only()?))))
    }

    /// The bytes `range` of these bytes, sharing the owner; `None` where they reach past the end.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.range.len() {
            return None;
        }
        let range = self.range.start + range.start..self.range.start + range.end;
        Some(Self { owner: self.owner.clone(), range })
    }

    /// Whether the bytes are a memory-mapped file, of which the operating system reads pages at their first use.
    pub fn is_mapped(&self) -> bool {
        matches!(self.owner, Owner::Map(_))
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.owner.bytes()[self.range.clone()]
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Mmap> for SharedBytes {
    fn from(map: Mmap) -> Self {
        Self::new(Owner::Map(Arc::new(map)))
    }
}

impl From<Arc<[u8]>> for SharedBytes {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self::new(Owner::Shared(bytes))
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(Owner::Vec(Arc::new(bytes)))
    }
}

impl From<&'static [u8]> for SharedBytes {
    fn from(bytes: &'static [u8]) -> Self {
        Self::new(Owner::Static(bytes))
    }
}

impl<const N: usize> From<&'static [u8; N]> for SharedBytes {
    fn from(bytes: &'static [u8; N]) -> Self {
        Self::new(Owner::Static(bytes))
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = match self.owner {
            Owner::Map(_) => "mapped",
            Owner::Read(_) => "read",
            Owner::Shared(_) | Owner::Vec(_) => "heap",
            Owner::Static(_) => "static",
        };
        write!(f, "SharedBytes({owner}, {:?})", self.range)
    }
}
