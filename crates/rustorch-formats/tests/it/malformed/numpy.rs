//! NumPy: .npy files, and .npz archives.

use super::{Case, check};
use crate::zip::{RawMember, RawZip, member};
use rustorch_formats::SharedBytes;
use rustorch_formats::numpy::{Array, Error, Npz};

/// A file of this header and data.
fn npy(header: impl AsRef<[u8]>, data: usize) -> Vec<u8> {
    let header = header.as_ref();
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header, &vec![0; data]].concat()
}

/// A header of these values.
fn header(descr: &str, order: &str, shape: &str) -> String {
    format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n")
}

fn valid() -> Vec<u8> {
    npy(header("'<f4'", "False", "(2,)"), 8)
}

#[rustfmt::skip]
fn arrays() -> Vec<Case> {
    let cut = |len: usize| valid()[..len].to_vec();
    let of = |descr: &str, shape: &str, data| npy(header(descr, "False", shape), data);
    let text = |text: &str| npy(text, 0);
    vec![
        ("empty", "Truncated", "has 0 bytes, and the header needs 8", vec![]),
        ("cut in the magic", "Truncated", "has 4 bytes", cut(4)),
        ("cut in the length", "Truncated", "has 9 bytes, and the header needs 10", cut(9)),
        ("cut in the header", "Truncated", "has 30 bytes", cut(30)),
        ("a zip archive", "BadMagic", "an .npz file is opened as one", b"PK\x03\x04\x14\0\0\0".to_vec()),
        ("a pickle", "BadMagic", "looks like a pickle", b"\x80\x04\x95\x00\x00\x00".to_vec()),
        ("a text", "BadMagic", "begins with \"a,b,c\\n\"", b"a,b,c\n1,2,3".to_vec()),
        ("version 4.0", "UnsupportedVersion", "version 4.0", b"\x93NUMPY\x04\x00\x10\x00".to_vec()),
        ("version 1.1", "UnsupportedVersion", "version 1.1", b"\x93NUMPY\x01\x01\x10\x00".to_vec()),
        ("a header of 4 GiB", "HeaderTooLong", "4294967295", b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec()),
        ("no dict", "BadHeader", "at byte 0: expected `{`", text("[1, 2]")),
        ("a dict that does not end", "BadHeader", "expected a key or `}`", text("{'descr': '<f4', ")),
        ("a key without a value", "BadHeader", "expected a dtype", text("{'descr': }")),
        ("no colon", "BadHeader", "expected `:`", text("{'descr' '<f4'}")),
        ("no comma", "BadHeader", "expected `,` or `}`", text("{'descr': '<f4' 'shape': ()}")),
        ("a string that does not end", "BadHeader", "expected a string that ends", text("{'descr")),
        ("more than a dict", "BadHeader", "expected the end of the header", text("{} {}")),
        ("order of 1", "BadHeader", "expected `True` or `False`", npy(header("'<f4'", "1", "(2,)"), 8)),
        ("a shape without parentheses", "BadHeader", "expected `(`", of("'<f4'", "2", 8)),
        ("a negative length", "BadHeader", "expected the length of a dimension", of("'<f4'", "(-2,)", 8)),
        ("a length of 2^64", "BadHeader", "at byte 53: expected the length", of("'<f4'", "(  18446744073709551616,)", 8)),
        ("a call", "BadHeader", "at byte 53: expected `,` or `)`", of("'<f4'", "(2 if x else 3,)", 8)),
        ("50000 parentheses", "BadHeader", "at byte 52: expected the length", npy(header("'<f4'", "False", &format!("( {}", "(".repeat(50_000))), 0)),
        ("an unknown key", "UnknownKey", "'extra'", text("{'extra': 1}")),
        ("a key twice", "DuplicateKey", "'shape' twice", text("{'shape': (), 'shape': ()}")),
        ("no dtype", "MissingKey", "'descr'", text("{'shape': (), 'fortran_order': False}")),
        ("no order", "MissingKey", "'fortran_order'", text("{'shape': (), 'descr': '<f4'}")),
        ("no shape", "MissingKey", "'shape'", text("{'fortran_order': True, 'descr': '<f4'}")),
        ("objects", "Objects", "Python objects", of("'|O'", "(2,)", 8)),
        ("a structured dtype", "Structured", "fields", of("[('x', '<f4'), ('y', '<f4')]", "(1,)", 8)),
        ("strings", "UnknownDType", "dtype '<U5'", of("'<U5'", "(2,)", 40)),
        ("16-bit unsigned", "UnknownDType", "'<u2' is not supported; save the array with another, such as int32", of("'<u2'", "(2,)", 4)),
        ("without a byte order", "UnknownDType", "dtype 'f4'", of("'f4'", "(2,)", 8)),
        ("no byte order of four bytes", "UnknownDType", "dtype '|f4'", of("'|f4'", "(2,)", 8)),
        ("an empty dtype", "UnknownDType", "dtype ''", of("''", "(2,)", 8)),
        ("65 dimensions", "TooManyDims", "64", of("'<f4'", &format!("({})", "1,".repeat(65)), 4)),
        ("2^64 values", "TooLarge", "[4294967296, 4294967296]", of("'<f4'", "(4294967296, 4294967296)", 0)),
        ("2^64 values of an empty array", "TooLarge", "4294967296, 0]", of("'<f4'", "(4294967296, 4294967296, 0)", 0)),
        ("a terabyte", "TruncatedData", "the array needs 1099511627776", of("'|u1'", "(1099511627776,)", 9)),
        ("data cut", "TruncatedData", "has 7 bytes of data, and the array needs 8", cut(valid().len() - 1)),
        ("bytes at the end", "TrailingBytes", "1 bytes", of("'<f4'", "(2,)", 9)),
    ]
}

fn deflated(size: u32, data: &[u8]) -> RawMember {
    RawMember { method: 8, size: Some(size), ..member("a.npy", data) }
}

/// An archive of one member, which its directory has 60000 times.
fn many() -> Vec<u8> {
    let one = RawZip::new([member("a", "")]).bytes();
    let (header, entry) = one[..one.len() - 22].split_at(31);
    let mut end = one[one.len() - 22..].to_vec();
    end[8..12].copy_from_slice(&[60_000u16, 60_000].map(u16::to_le_bytes).concat());
    end[12..16].copy_from_slice(&(60_000 * entry.len() as u32).to_le_bytes());
    [header, &entry.repeat(60_000), &end].concat()
}

/// `abc`, deflated.
const ABC: [u8; 5] = [0x4b, 0x4c, 0x4a, 0x06, 0x00];

#[rustfmt::skip]
fn archives() -> Vec<Case> {
    let zip = || RawZip::new([member("a.npy", valid())]);
    let one = |change: fn(&mut RawMember)| zip().with(|zip| change(&mut zip.members[0]));
    let wide = |locator: &[u8]| zip().with(|zip| { zip.count = Some(u16::MAX); zip.end64 = locator.to_vec() });
    let record = |count: u64| {
        let len = zip().bytes().len();
        let head = [&b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0"[..], &[0; 8], &count.to_le_bytes(), &count.to_le_bytes()].concat();
        let tail = [&51u64.to_le_bytes()[..], &(len as u64 - 73).to_le_bytes(), b"PK\x06\x07\0\0\0\0", &(len as u64 - 22).to_le_bytes(), &[1, 0, 0, 0]].concat();
        [head, tail].concat()
    };
    vec![
        ("empty", "Zip", "no end record", vec![]),
        ("several disks", "Zip", "a part of several", zip().with(|zip| zip.count_here = Some(0))),
        ("no records of 64 bits", "Zip", "zip64 end record is damaged", wide(b"")),
        ("2^40 members", "Zip", "claims 1099511627776 members, the limit of its directory is 1", wide(&record(1 << 40))),
        ("a directory behind the end", "Zip", "directory of 51 bytes at byte 5000", zip().with(|zip| zip.directory_offset = Some(5000))),
        ("more members than entries", "Zip", "claims 9 members", zip().with(|zip| zip.count = Some(9))),
        ("an entry cut", "Zip", "entry 1 of the archive's directory", zip().with(|zip| { zip.behind = vec![0; 50]; zip.count = Some(2) })),
        ("a size of 64 bits that is not there", "Zip", "entry 0 of the archive's directory", one(|m| m.size = Some(u32::MAX))),
        ("bytes behind the entries", "Zip", "7 bytes more than", zip().with(|zip| zip.behind = vec![0; 7])),
        ("a name of Latin-1", "Zip", "caf\u{fffd}.npy", one(|m| m.name = b"caf\xe9.npy".to_vec())),
        ("a name twice", "Zip", "two members called `a.npy`", RawZip::new([member("a.npy", ""), member("a.npy", "")]).bytes()),
        ("encryption", "Zip", "`a.npy` is encrypted", one(|m| m.flags = 1)),
        ("bzip2", "Zip", "method 12", one(|m| m.method = 12)),
        ("two names", "Zip", "the header before member `a.npy`", one(|m| m.local_name = Some(b"b.npy".to_vec()))),
        ("an offset behind the end", "Zip", "`a.npy` is not within", one(|m| m.offset = Some(1 << 30))),
        ("data behind the end", "Zip", "`c.npy` is not within", RawZip::new([RawMember { compressed: Some(1 << 30), ..member("c.npy", "") }]).bytes()),
        ("two members in one place", "Zip", "`a.npy` and `b.npy` overlap", RawZip::new([
            RawMember { compressed: Some(120), ..member("a.npy", valid()) }, member("b.npy", valid())]).bytes()),
        ("one member 60000 times", "Zip", "`a` and `a` overlap", many()),
        ("stored with another size", "Zip", "is stored, but has", one(|m| m.size = Some(5))),
        ("4 GiB of 5 bytes", "Zip", "claims to expand from 5 bytes to 4294967294", RawZip::new([deflated(u32::MAX - 1, &ABC)]).bytes()),
        ("3 GiB of 3 MB", "Zip", "members expand to 3221225472 bytes, the limit for its size is 1073741824", RawZip::new([deflated(3 << 30, &vec![0; 3_200_000])]).bytes()),
        ("no deflate", "Member", "array `a`: the compressed data of member `a.npy`", RawZip::new([deflated(100, &[0xFF; 50])]).bytes()),
        ("deflate that goes on", "Member", "does not expand to 2 bytes", RawZip::new([deflated(2, &ABC)]).bytes()),
        ("deflate that ends early", "Member", "does not expand to 4 bytes", RawZip::new([deflated(4, &ABC)]).bytes()),
        ("bytes behind deflate", "Member", "does not expand to 3 bytes", RawZip::new([deflated(3, &[&ABC[..], &[0]].concat())]).bytes()),
        ("a wrong checksum", "Member", "CRC-32 is", one(|m| m.crc = Some(1))),
        ("no array", "Member", "array `a`: not a .npy file: it begins with \"abc\"", RawZip::new([member("a.npy", "abc")]).bytes()),
        ("an array cut", "Member", "array `a`: file is truncated: it has 5 bytes of data", one(|m| m.data.truncate(m.data.len() - 3))),
    ]
}

/// Reads the archive and the array `a` in it.
fn read(bytes: SharedBytes) -> Result<Array, Error> {
    Npz::from_bytes(bytes)?.array("a")
}

#[test]
fn each_malformation_of_an_array_has_its_error() {
    assert!(Array::from_bytes(valid()).is_ok());
    assert!(Array::from_bytes(npy("{\"shape\":(2L,),\"descr\":'>i2',\"fortran_order\":True}", 4)).is_ok());
    let variants = check(arrays(), Array::from_bytes);
    assert_eq!(variants.len(), 15, "{variants:?}");
}

#[test]
fn each_malformation_of_an_archive_has_its_error() {
    assert!(read(RawZip::new([member("a.npy", valid()), member("folder/", "")]).bytes().into()).is_ok());
    check(archives(), read);
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = std::fs::read(crate::common::fixture("numpy/one.npy")).unwrap();
    for len in 0..bytes.len() {
        let error = Array::from_bytes(bytes[..len].to_vec()).unwrap_err();
        assert!(error.to_string().starts_with("file is truncated"), "{len}: {error}");
    }
    let bytes = std::fs::read(crate::common::fixture("numpy/dtypes_compressed.npz")).unwrap();
    for len in 0..bytes.len() {
        assert!(Npz::from_bytes(bytes[..len].to_vec()).is_err(), "{len}");
    }
}
