//! Reading archives.

use super::{
    CENTRAL_LEN, CENTRAL_SIGNATURE, DEFLATED, END_LEN, END_SIGNATURE, END64_LEN, END64_SIGNATURE,
    EXPANSION_FACTOR, LOCAL_LEN, LOCAL_SIGNATURE, LOCATOR64_LEN, LOCATOR64_SIGNATURE, MAX_MEMBERS,
    MIN_EXPANSION_LIMIT, STORED, ZIP64_ID, ZipError, inflate,
};
use crate::SharedBytes;
use std::ops::Range;

/// A member of an archive, checked.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: Box<str>,
    deflated: bool,
    crc: u32,
    /// Where the member with the header before it begins.
    start: usize,
    /// Where its data is; within the archive.
    range: Range<usize>,
    /// The size of the data when expanded.
    pub(crate) size: usize,
}

/// An archive and its directory.
#[derive(Clone, Debug)]
pub(crate) struct Archive {
    bytes: SharedBytes,
    /// Sorted by name.
    members: Vec<Member>,
}

/// What the end of an archive says of the directory.
struct End {
    count: u64,
    offset: u64,
    len: u64,
    /// Where the first of the end records begins.
    start: usize,
}

impl Archive {
    /// Reads the directory of an archive.
    pub(crate) fn parse(bytes: SharedBytes) -> Result<Self, ZipError> {
        let end = find_end(&bytes)?;
        let bad = || ZipError::BadDirectory { offset: end.offset, len: end.len, end: end.start as u64 };
        let directory_end = end.offset.checked_add(end.len).ok_or_else(bad)?;
        if directory_end > end.start as u64 {
            return Err(bad());
        }
        // Both fit: they are within the archive.
        let (start, len) = (end.offset as usize, end.len as usize);
        let max = (len / CENTRAL_LEN).min(MAX_MEMBERS);
        let Some(count) = usize::try_from(end.count).ok().filter(|&count| count <= max) else {
            return Err(ZipError::TooManyMembers { count: end.count, max: max as u64 });
        };
        let mut rest = &bytes[start..start + len];
        let mut members = Vec::with_capacity(count);
        for index in 0..count {
            let (member, len) = entry(&bytes[..start], rest, index)?;
            rest = &rest[len..];
            members.push(member);
        }
        if !rest.is_empty() {
            return Err(ZipError::LongDirectory { len: rest.len() });
        }
        check_expansion(&members, bytes.len() as u64)?;
        // In place: there may be many.
        members.sort_unstable_by(|a, b| (a.start, &a.name).cmp(&(b.start, &b.name)));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].range.end > pair[1].start) {
            let (first, second) = (pair[0].name.to_string(), pair[1].name.to_string());
            return Err(ZipError::OverlappingMembers { first, second });
        }
        members.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(ZipError::DuplicateMember { name: pair[0].name.to_string() });
        }
        Ok(Self { bytes, members })
    }

    /// The members that are no directories, by name.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.name.ends_with('/'))
    }

    /// The member called `name`.
    pub(crate) fn find(&self, name: &str) -> Option<&Member> {
        let place = self.members.binary_search_by(|member| (*member.name).cmp(name)).ok()?;
        Some(&self.members[place])
    }

    /// The data of a member of this archive, which is a range of the archive where it is stored.
    ///
    /// `check` says whether its checksum is compared, which reads all of it.
    pub(crate) fn read(&self, member: &Member, check: bool) -> Result<SharedBytes, ZipError> {
        let data =
            self.bytes.slice(member.range.clone()).expect("ranges are checked when the archive is parsed");
        let data =
            if member.deflated { inflate::all(&data, member.size, &member.name)?.into() } else { data };
        if check {
            let mut crc = flate2::Crc::new();
            crc.update(&data);
            let (expected, actual) = (member.crc, crc.sum());
            if actual != expected {
                return Err(ZipError::BadChecksum { name: member.name.to_string(), expected, actual });
            }
        }
        Ok(data)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn find_end(bytes: &[u8]) -> Result<End, ZipError> {
    let last = bytes.len().checked_sub(END_LEN).ok_or(ZipError::NoEnd)?;
    // Behind it is a comment, of which it has the length.
    let first = last.saturating_sub(usize::from(u16::MAX));
    let at = (first..=last)
        .rev()
        .find(|&at| {
            bytes[at..].starts_with(&END_SIGNATURE)
                && at + END_LEN + usize::from(u16_at(bytes, at + 20)) == bytes.len()
        })
        .ok_or(ZipError::NoEnd)?;
    let end = &bytes[at..];
    let [disk, directory_disk, count_here, count] = [4, 6, 8, 10].map(|field| u16_at(end, field));
    let (len, offset) = (u32_at(end, 12), u32_at(end, 16));
    if count == u16::MAX || len == u32::MAX || offset == u32::MAX {
        return find_end64(bytes, at);
    }
    if disk != 0 || directory_disk != 0 || count_here != count {
        return Err(ZipError::MultipleDisks);
    }
    Ok(End { count: count.into(), offset: offset.into(), len: len.into(), start: at })
}

/// The same from the records of 64 bits, which stand before the end record at `end`.
fn find_end64(bytes: &[u8], end: usize) -> Result<End, ZipError> {
    let at = end.checked_sub(LOCATOR64_LEN).ok_or(ZipError::BadEnd64)?;
    let locator = &bytes[at..end];
    if !locator.starts_with(&LOCATOR64_SIGNATURE) {
        return Err(ZipError::BadEnd64);
    }
    let start = usize::try_from(u64_at(locator, 8)).map_err(|_| ZipError::BadEnd64)?;
    let record = bytes[..at].get(start..).filter(|record| record.len() >= END64_LEN);
    let record = record.filter(|record| record.starts_with(&END64_SIGNATURE)).ok_or(ZipError::BadEnd64)?;
    let [count_here, count, len, offset] = [24, 32, 40, 48].map(|field| u64_at(record, field));
    if u32_at(record, 16) != 0 || u32_at(record, 20) != 0 || count_here != count {
        return Err(ZipError::MultipleDisks);
    }
    Ok(End { count, offset, len, start })
}

/// The member of the first entry of `directory`, and the entry's length. `before` is what the archive has before the directory.
fn entry(before: &[u8], directory: &[u8], index: usize) -> Result<(Member, usize), ZipError> {
    let bad = || ZipError::BadEntry { index };
    if directory.len() < CENTRAL_LEN || !directory.starts_with(&CENTRAL_SIGNATURE) {
        return Err(bad());
    }
    let [flags, method] = [8, 10].map(|field| u16_at(directory, field));
    let [name_len, extra_len, comment_len] = [28, 30, 32].map(|field| usize::from(u16_at(directory, field)));
    let extra_start = CENTRAL_LEN + name_len;
    let len = extra_start + extra_len + comment_len;
    if directory.len() < len {
        return Err(bad());
    }
    let raw_name = &directory[CENTRAL_LEN..extra_start];
    let Ok(name) = std::str::from_utf8(raw_name) else {
        return Err(ZipError::NameNotUtf8 { name: String::from_utf8_lossy(raw_name).into_owned() });
    };
    let name = name.to_owned();
    // Encrypted, or with a masked header.
    if flags & (1 | 1 << 13) != 0 {
        return Err(ZipError::Encrypted { name });
    }
    if method != STORED && method != DEFLATED {
        return Err(ZipError::UnsupportedMethod { name, method });
    }
    let mut fields = [24, 20, 42].map(|field| u64::from(u32_at(directory, field)));
    if fields.contains(&u64::from(u32::MAX)) {
        let extra = &directory[extra_start..extra_start + extra_len];
        widen(&mut fields, extra).ok_or_else(bad)?;
    }
    let [size, compressed, offset] = fields;
    if u16_at(directory, 34) != 0 {
        return Err(ZipError::MultipleDisks);
    }
    let deflated = method == DEFLATED;
    if !deflated && size != compressed {
        return Err(ZipError::StoredSize { name, stored: compressed, size });
    }
    if deflated && size > inflate::max_expansion(compressed) {
        return Err(ZipError::ImpossibleExpansion { name, compressed, size });
    }

    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let Some(header) = before.get(start..).filter(|header| header.len() >= LOCAL_LEN) else {
        return Err(ZipError::OutOfArchive { name });
    };
    let name_end = LOCAL_LEN + usize::from(u16_at(header, 26));
    let matches = header.starts_with(&LOCAL_SIGNATURE)
        && u16_at(header, 8) == method
        && header.get(LOCAL_LEN..name_end) == Some(raw_name);
    if !matches {
        return Err(ZipError::HeaderMismatch { name });
    }
    let data_start = start + name_end + usize::from(u16_at(header, 28));
    let data_end = usize::try_from(compressed).ok().and_then(|len| data_start.checked_add(len));
    let (Some(end), Ok(size)) = (data_end.filter(|&end| end <= before.len()), usize::try_from(size)) else {
        return Err(ZipError::OutOfArchive { name });
    };
    let crc = u32_at(directory, 16);
    Ok((Member { name: name.into(), deflated, crc, start, range: data_start..end, size }, len))
}

/// Takes fields that do not fit 32 bits from the extra field that has them, in its order: size, compressed size, offset.
fn widen(fields: &mut [u64; 3], mut extra: &[u8]) -> Option<()> {
    loop {
        let (id, len) = (extra.get(..4).map(|head| u16_at(head, 0))?, usize::from(u16_at(extra, 2)));
        let field = extra.get(4..4 + len)?;
        if id == ZIP64_ID {
            let mut values = field.as_chunks::<8>().0.iter();
            for field in fields.iter_mut().filter(|field| **field == u64::from(u32::MAX)) {
                *field = u64::from_le_bytes(*values.next()?);
            }
            return Some(());
        }
        extra = &extra[4 + len..];
    }
}

fn check_expansion(members: &[Member], archive_len: u64) -> Result<(), ZipError> {
    let deflated = members.iter().filter(|member| member.deflated);
    let size = deflated.fold(0u64, |sum, member| sum.saturating_add(member.size as u64));
    let max = archive_len.saturating_mul(EXPANSION_FACTOR).max(MIN_EXPANSION_LIMIT);
    if size > max { Err(ZipError::TooMuchExpansion { size, max }) } else { Ok(()) }
}
