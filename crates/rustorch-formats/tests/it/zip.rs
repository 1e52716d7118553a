//! Zip archives built field by field, so that any of them can be wrong.

use crate::common::crc32;

/// A member; a field that is given replaces the true value.
#[derive(Clone, Default)]
pub(crate) struct RawMember {
    pub(crate) name: Vec<u8>,
    /// As it is in the archive.
    pub(crate) data: Vec<u8>,
    pub(crate) flags: u16,
    pub(crate) method: u16,
    pub(crate) size: Option<u32>,
    pub(crate) compressed: Option<u32>,
    pub(crate) crc: Option<u32>,
    /// The name in the header before the data.
    pub(crate) local_name: Option<Vec<u8>>,
    pub(crate) offset: Option<u32>,
    pub(crate) disk: u16,
    pub(crate) extra: Vec<u8>,
}

/// A stored member.
pub(crate) fn member(name: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> RawMember {
    RawMember { name: name.as_ref().to_vec(), data: data.as_ref().to_vec(), ..RawMember::default() }
}

/// An archive.
#[derive(Clone, Default)]
pub(crate) struct RawZip {
    pub(crate) members: Vec<RawMember>,
    pub(crate) count: Option<u16>,
    pub(crate) count_here: Option<u16>,
    pub(crate) directory_offset: Option<u32>,
    /// Between the directory and the end record, and counted to the directory.
    pub(crate) behind: Vec<u8>,
    /// Between the directory and the end record, and not counted.
    pub(crate) end64: Vec<u8>,
}

impl RawZip {
    pub(crate) fn new(members: impl Into<Vec<RawMember>>) -> Self {
        Self { members: members.into(), ..Self::default() }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Vec<u8> {
        change(&mut self);
        self.bytes()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (mut out, mut directory) = (Vec::new(), Vec::new());
        for m in &self.members {
            let offset = m.offset.unwrap_or(out.len() as u32);
            let local_name = m.local_name.as_ref().unwrap_or(&m.name);
            let compressed = m.compressed.unwrap_or(m.data.len() as u32);
            let crc = m.crc.unwrap_or_else(|| crc32(&m.data));
            let sizes = [crc, compressed, m.size.unwrap_or(compressed)].map(u32::to_le_bytes).concat();
            out.extend(b"PK\x03\x04");
            out.extend([20, m.flags, m.method, 0, 33].map(u16::to_le_bytes).concat());
            out.extend(&sizes);
            out.extend([local_name.len() as u16, 0].map(u16::to_le_bytes).concat());
            out.extend(local_name);
            out.extend(&m.data);
            directory.extend(b"PK\x01\x02");
            directory.extend([20, 20, m.flags, m.method, 0, 33].map(u16::to_le_bytes).concat());
            directory.extend(&sizes);
            let lens = [m.name.len() as u16, m.extra.len() as u16, 0, m.disk, 0, 0, 0];
            directory.extend(lens.map(u16::to_le_bytes).concat());
            directory.extend(offset.to_le_bytes());
            directory.extend(&m.name);
            directory.extend(&m.extra);
        }
        directory.extend(&self.behind);
        let offset = self.directory_offset.unwrap_or(out.len() as u32);
        let count = self.count.unwrap_or(self.members.len() as u16);
        let len = directory.len() as u32;
        out.extend(directory);
        out.extend(&self.end64);
        out.extend(b"PK\x05\x06");
        out.extend([0, 0, self.count_here.unwrap_or(count), count].map(u16::to_le_bytes).concat());
        out.extend([len, offset].map(u32::to_le_bytes).concat());
        out.extend([0, 0]);
        out
    }
}
