//! What can be wrong with a zip archive.

/// What is wrong with a zip archive: one variant for each malformation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZipError {
    /// The end of the archive is not found.
    #[error("the archive has no end record; it is truncated, or no zip archive")]
    NoEnd,
    /// The archive is one of several.
    #[error("the archive is a part of several, which is not supported")]
    MultipleDisks,
    /// The records of 64 bits at the end are damaged.
    #[error("the archive's zip64 end record is damaged")]
    BadEnd64,
    /// The directory is not where the end record says.
    #[error(
        "the archive's directory of {len} bytes at byte {offset} does not end before its end record, at byte {end}"
    )]
    BadDirectory {
        /// Where it begins.
        offset: u64,
        /// Its length.
        len: u64,
        /// Where the end record begins.
        end: u64,
    },
    /// More members are claimed than are allowed, or than the directory has bytes for.
    #[error("the archive claims {count} members, the limit of its directory is {max}")]
    TooManyMembers {
        /// The claimed number.
        count: u64,
        /// The limit.
        max: u64,
    },
    /// An entry of the directory is damaged.
    #[error("entry {index} of the archive's directory is damaged or truncated")]
    BadEntry {
        /// The place of the entry in the directory, from 0.
        index: usize,
    },
    /// The directory is longer than its entries.
    #[error("the archive's directory has {len} bytes more than its entries")]
    LongDirectory {
        /// The number of bytes.
        len: usize,
    },
    /// A name is not UTF-8.
    #[error("the member name \"{name}\" is not valid UTF-8")]
    NameNotUtf8 {
        /// The name, its invalid bytes replaced.
        name: String,
    },
    /// Two members have one name.
    #[error("the archive has two members called `{name}`")]
    DuplicateMember {
        /// The name.
        name: String,
    },
    /// A member is encrypted.
    #[error("member `{name}` is encrypted, which is not supported")]
    Encrypted {
        /// The name.
        name: String,
    },
    /// A member is compressed by another method than deflate.
    #[error(
        "member `{name}` is compressed by method {method}; only stored and deflated members are supported"
    )]
    UnsupportedMethod {
        /// The name.
        name: String,
        /// The number of the method.
        method: u16,
    },
    /// What stands before a member differs from the directory.
    #[error("the header before member `{name}` does not match the archive's directory")]
    HeaderMismatch {
        /// The name.
        name: String,
    },
    /// A member reaches beyond the directory.
    #[error("member `{name}` is not within the archive")]
    OutOfArchive {
        /// The name.
        name: String,
    },
    /// Two members share bytes.
    #[error("members `{first}` and `{second}` overlap")]
    OverlappingMembers {
        /// The member that begins first.
        first: String,
        /// The member that begins within it.
        second: String,
    },
    /// A stored member has two sizes.
    #[error("member `{name}` is stored, but has {stored} bytes and claims {size}")]
    StoredSize {
        /// The name.
        name: String,
        /// The bytes that it has.
        stored: u64,
        /// The bytes that it claims.
        size: u64,
    },
    /// A member claims more than its bytes can expand to.
    #[error("member `{name}` claims to expand from {compressed} bytes to {size}, which deflate cannot do")]
    ImpossibleExpansion {
        /// The name.
        name: String,
        /// The bytes that it has.
        compressed: u64,
        /// The bytes that it claims.
        size: u64,
    },
    /// The members would expand to more than is allowed.
    #[error("the archive's members expand to {size} bytes, the limit for its size is {max}")]
    TooMuchExpansion {
        /// What they expand to.
        size: u64,
        /// The limit.
        max: u64,
    },
    /// The compressed data of a member is damaged.
    #[error("the compressed data of member `{name}` is damaged, or does not expand to {size} bytes")]
    BadDeflate {
        /// The name.
        name: String,
        /// The bytes that it should expand to.
        size: u64,
    },
    /// The checksum of a member is wrong.
    #[error("member `{name}` is damaged: its CRC-32 is {actual:08x} instead of {expected:08x}")]
    BadChecksum {
        /// The name.
        name: String,
        /// The checksum in the directory.
        expected: u32,
        /// That of the data.
        actual: u32,
    },
}
