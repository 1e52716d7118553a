//! Headers: a dict as Python writes it, of dtype, order and shape.

use super::{ErrorKind, MAGIC, MAX_DIMS, MAX_HEADER_LEN};
use rustorch_core::DType;
use std::fmt::Write;

/// The data of arrays begins at a multiple of so many bytes.
const ALIGNMENT: usize = 64;
/// The digits that NumPy leaves space for in the first dimension.
const GROWTH_DIGITS: usize = 21;
/// Magic and version.
const START: usize = MAGIC.len() + 2;

/// What a header says of an array.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) dtype: DType,
    pub(super) big_endian: bool,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<usize>,
}

/// Reads the header of a file, and tells where it ends.
pub(super) fn parse(file: &[u8]) -> Result<(Header, usize), ErrorKind> {
    let truncated =
        |expected: usize| ErrorKind::Truncated { expected: expected as u64, actual: file.len() as u64 };
    let start = &file[..file.len().min(MAGIC.len())];
    if *start != MAGIC[..start.len()] {
        return Err(ErrorKind::BadMagic { found: start.to_vec() });
    }
    let Some(&[major, minor]) = file.get(MAGIC.len()..START) else { return Err(truncated(START)) };
    let len_bytes = match (major, minor) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        _ => return Err(ErrorKind::UnsupportedVersion { major, minor }),
    };
    let text_start = START + len_bytes;
    let len = file.get(START..text_start).ok_or_else(|| truncated(text_start))?;
    let len = len.iter().rev().fold(0usize, |len, &byte| len << 8 | usize::from(byte));
    if len > MAX_HEADER_LEN {
        return Err(ErrorKind::HeaderTooLong { len: len as u64 });
    }
    let end = text_start + len;
    let text = file.get(text_start..end).ok_or_else(|| truncated(end))?;
    Ok((Parser { text, at: 0 }.header()?, end))
}

/// Reads what a header may have of Python's syntax.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn header(mut self) -> Result<Header, ErrorKind> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect(b'{', "`{`")?;
        while !self.accept(b'}') {
            let key = self.string("a key or `}`")?;
            self.expect(b':', "`:`")?;
            match key {
                b"descr" => set(&mut descr, "descr", self.descr()?)?,
                b"fortran_order" => set(&mut fortran_order, "fortran_order", self.boolean()?)?,
                b"shape" => set(&mut shape, "shape", self.shape()?)?,
                _ => return Err(ErrorKind::UnknownKey { key: String::from_utf8_lossy(key).into_owned() }),
            }
            if !self.accept(b',') {
                self.expect(b'}', "`,` or `}`")?;
                break;
            }
        }
        self.space();
        if self.at < self.text.len() {
            return Err(self.bad("the end of the header"));
        }
        let (dtype, big_endian) = descr.ok_or(ErrorKind::MissingKey { key: "descr" })?;
        let fortran_order = fortran_order.ok_or(ErrorKind::MissingKey { key: "fortran_order" })?;
        let shape = shape.ok_or(ErrorKind::MissingKey { key: "shape" })?;
        Ok(Header { dtype, big_endian, fortran_order, shape })
    }

    fn descr(&mut self) -> Result<(DType, bool), ErrorKind> {
        if self.accept(b'[') {
            return Err(ErrorKind::Structured);
        }
        let descr = String::from_utf8_lossy(self.string("a dtype")?).into_owned();
        let (order, kind) = descr.split_at_checked(1).unwrap_or_default();
        let dtype = match kind {
            "O" => return Err(ErrorKind::Objects),
            "b1" => DType::Bool,
            "u1" => DType::U8,
            "i1" => DType::I8,
            "i2" => DType::I16,
            "i4" => DType::I32,
            "u4" => DType::U32,
            "i8" => DType::I64,
            "f2" => DType::F16,
            "f4" => DType::F32,
            "f8" => DType::F64,
            "c8" => DType::C64,
            "c16" => DType::C128,
            _ => return Err(ErrorKind::UnknownDType { descr }),
        };
        match order {
            ">" => Ok((dtype, true)),
            "<" => Ok((dtype, false)),
            "|" if dtype.size() == Some(1) => Ok((dtype, false)),
            _ => Err(ErrorKind::UnknownDType { descr }),
        }
    }

    fn boolean(&mut self) -> Result<bool, ErrorKind> {
        self.space();
        for (word, value) in [(&b"True"[..], true), (b"False", false)] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.bad("`True` or `False`"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, ErrorKind> {
        let mut shape = Vec::new();
        self.expect(b'(', "`(`")?;
        while !self.accept(b')') {
            if shape.len() == MAX_DIMS {
                return Err(ErrorKind::TooManyDims);
            }
            shape.push(self.integer()?);
            if !self.accept(b',') {
                self.expect(b')', "`,` or `)`")?;
                break;
            }
        }
        Ok(shape)
    }

    fn integer(&mut self) -> Result<usize, ErrorKind> {
        self.space();
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        // Digits are ASCII; no digits, and more than fit, fail to parse.
        let digits = std::str::from_utf8(&self.text[self.at..self.at + digits]).unwrap_or_default();
        let value = digits.parse().map_err(|_| self.bad("the length of a dimension"))?;
        self.at += digits.len();
        // Python 2 marked some integers.
        self.accept(b'L');
        Ok(value)
    }

    fn string(&mut self, expected: &'static str) -> Result<&'a [u8], ErrorKind> {
        self.space();
        let rest = &self.text[self.at..];
        let quote = rest.first().copied().filter(|byte| matches!(byte, b'\'' | b'"'));
        let quote = quote.ok_or_else(|| self.bad(expected))?;
        let len =
            rest[1..].iter().position(|&byte| byte == quote).ok_or_else(|| self.bad("a string that ends"))?;
        self.at += len + 2;
        Ok(&rest[1..=len])
    }

    fn space(&mut self) {
        self.at += self.text[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    /// Whether `byte` comes next, in which case it is taken.
    fn accept(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), ErrorKind> {
        if self.accept(byte) { Ok(()) } else { Err(self.bad(expected)) }
    }

    fn bad(&self, expected: &'static str) -> ErrorKind {
        ErrorKind::BadHeader { offset: self.at, expected }
    }
}

fn set<T>(value: &mut Option<T>, key: &'static str, new: T) -> Result<(), ErrorKind> {
    if value.replace(new).is_some() { Err(ErrorKind::DuplicateKey { key }) } else { Ok(()) }
}

/// What NumPy calls `dtype`, where it knows it.
pub(super) fn descr(dtype: DType) -> Result<&'static str, ErrorKind> {
    Ok(match dtype {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::U32 => "<u4",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
        DType::BF16 | DType::Quant(_) => return Err(ErrorKind::UnsupportedDType { dtype }),
    })
}

/// The header of an array, as NumPy writes it.
pub(super) fn encode(dtype: DType, shape: &[usize], fortran_order: bool) -> Result<Vec<u8>, ErrorKind> {
    let order = if fortran_order { "True" } else { "False" };
    let mut dims: Vec<_> = shape.iter().map(usize::to_string).collect();
    let growing = if fortran_order { dims.last() } else { dims.first() };
    let space = growing.map_or(0, |dim| GROWTH_DIGITS.saturating_sub(dim.len()));
    if dims.len() == 1 {
        // A tuple of one has a comma.
        dims.push(String::new());
    }
    let dims = dims.join(", ");
    let mut text = format!("{{'descr': '{}', 'fortran_order': {order}, ", descr(dtype)?);
    // Writing to a string does not fail.
    let _ = write!(text, "'shape': ({}), }}{:space$}", dims.trim_end(), "");
    let used = START + 2 + text.len() + 1;
    let padding = ALIGNMENT - used % ALIGNMENT;
    let len = text.len() + padding + 1;
    let mut out = MAGIC.to_vec();
    out.extend([1, 0]);
    // At most 64 dimensions of 20 digits: far below 2^16.
    out.extend((len as u16).to_le_bytes());
    out.extend(text.as_bytes());
    out.resize(out.len() + padding, b' ');
    out.push(b'\n');
    Ok(out)
}
