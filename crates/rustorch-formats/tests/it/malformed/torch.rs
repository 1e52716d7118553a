//! PyTorch: archives and pickles.

use super::{Case, check};
use crate::zip::{RawMember, RawZip, member};
use rustorch_formats::torch::{ErrorKind, File};

/// The archive of a pickle, with a storage `0` of 16 bytes.
fn archive(pickle: impl AsRef<[u8]>) -> RawZip {
    RawZip::new([member("a/data.pkl", pickle), member("a/byteorder", "little"), member("a/data/0", [0; 16])])
}

fn file(pickle: impl AsRef<[u8]>) -> Vec<u8> {
    archive(pickle).bytes()
}

/// The pickle of a tensor of this storage, sizes, strides and offset.
fn tensor(kind: &str, key: &str, len: u8, sizes: &[u8], strides: &[u8], offset: u8, end: &[u8]) -> Vec<u8> {
    let tuple = |items: &[u8]| [b"(".to_vec(), items.to_vec(), b"t".to_vec()].concat();
    let string = |text: &str| [&[0x8c, text.len() as u8][..], text.as_bytes()].concat();
    [
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
        string("storage"),
        format!("ctorch\n{kind}\n").into_bytes(),
        string(key),
        string("cpu"),
        vec![b'K', len, b't', b'Q', b'K', offset],
        tuple(sizes),
        tuple(strides),
        b"\x89)".to_vec(),
        end.to_vec(),
        b"tR.".to_vec(),
    ]
    .concat()
}

/// A pickle that calls a function, given as module and name on two lines, with these items.
fn call(function: &str, arguments: &[u8]) -> Vec<u8> {
    file([format!("c{function}\n(").as_bytes(), arguments, b"tR."].concat())
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let view = |sizes: &[u8], strides: &[u8], offset| file(tensor("FloatStorage", "0", 4, sizes, strides, offset, b""));
    let typed = |kind, key, len| file(tensor(kind, key, len, b"K\x01", b"K\x01", 0, b""));
    let laughs = [b"]".to_vec(), (0..40).flat_map(|i| [b'q', i, b'0', b']', b'h', i, b'a', b'h', i, b'a']).collect(), b".".to_vec()].concat();
    let legacy = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.".to_vec();
    let script = RawZip::new([member("a/data.pkl", "N."), member("a/constants.pkl", "")]).bytes();
    let deflated = RawMember { method: 8, size: Some(1 << 29), ..member("a/data.pkl", vec![0; 600_000]) };
    vec![
        // What is not such a file.
        ("empty", "NotAnArchive", "begins with \"\"", vec![]),
        ("a GGUF file", "NotAnArchive", "it is a GGUF file", b"GGUF\x03\0\0\0".to_vec()),
        ("a safetensors file", "NotAnArchive", "safetensors", b"\x40\0\0\0\0\0\0\0{\"a\"".to_vec()),
        ("a .npy file", "NotAnArchive", ".npy", b"\x93NUMPY\x01\0".to_vec()),
        ("a pickle", "NotAnArchive", "not one of torch.save", b"\x80\x04N.".to_vec()),
        ("before 1.6", "Legacy", "before 1.6", legacy),
        ("cut", "Zip", "no end record", b"PK\x03\x04\x00".to_vec()),
        ("no pickle", "NoPickle", "no `data.pkl`", RawZip::new([member("a/model.json", "{}")]).bytes()),
        ("TorchScript", "TorchScript", "a program", script),
        ("big-endian", "BigEndian", "big-endian", RawZip::new([member("a/data.pkl", "N."), member("a/byteorder", "big")]).bytes()),
        ("a pickle of 512 MiB", "PickleTooLong", "536870912 bytes long", RawZip::new([deflated]).bytes()),
        ("a pickle with a wrong checksum", "Zip", "`a/data.pkl` is damaged", archive("N.").with(|zip| zip.members[0].crc = Some(7))),
        // What is not allowed.
        ("os.system", "ForbiddenObject", "asks for `os.system`", call("os\nsystem", b"\x8c\x02ls")),
        ("posix.system", "ForbiddenObject", "asks for `posix.system`", file(b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02ls\x85R.")),
        ("eval", "ForbiddenObject", "`builtins.eval`", file("cbuiltins\neval\n.")),
        ("getattr", "ForbiddenObject", "`__builtin__.getattr`", file("c__builtin__\ngetattr\n.")),
        ("a module", "ForbiddenObject", "`torch.nn.modules.linear.Linear`, which is not supported; nothing was executed; save the state_dict()", file("ctorch.nn.modules.linear\nLinear\n.")),
        ("NumPy's scalar", "ForbiddenObject", "instead of NumPy's", file("cnumpy.core.multiarray\nscalar\n.")),
        ("a sparse tensor", "ForbiddenObject", "to_dense()", file("ctorch._utils\n_rebuild_sparse_tensor\n.")),
        ("a function of torch", "ForbiddenObject", "`torch.load`", file("ctorch\nload\n.")),
        ("a dtype of others", "ForbiddenObject", "`torch.float8_e5m2`", file("ctorch\nfloat8_e5m2\n.")),
        ("INST, which calls", "UnsupportedOpcode", "opcode 0x69 at byte 1", file("(ios\nsystem\n.")),
        ("an opcode that is none", "UnsupportedOpcode", "opcode 0xff", file([0xff])),
        ("protocol 0", "UnsupportedProtocol", "protocol 0", file([0x80, 0])),
        ("protocol 6", "UnsupportedProtocol", "protocol 6", file([0x80, 6])),
        // Pickles that are damaged.
        ("nothing", "PickleTruncated", "at byte 0", file("")),
        ("no stop", "PickleTruncated", "at byte 3", file([0x80, 2, b'N'])),
        ("a string past the end", "PickleTruncated", "at byte 6", file(b"X\xff\xff\xff\xffa")),
        ("a string of 2^64-1", "PickleTruncated", "at byte 9", file(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff")),
        ("a name that does not end", "PickleTruncated", "at byte 8", file("cos\nsyst")),
        ("bytes behind the stop", "TrailingBytes", "2 bytes follow", file("N.N.")),
        ("two values", "LeftOnStack", "1 items are left", file("NN.")),
        ("nothing to stop with", "StackUnderflow", "at byte 0", file(".")),
        ("a pop under the mark", "StackUnderflow", "at byte 2", file("N(0.")),
        ("no mark", "NoMark", "at byte 1", file("Nt.")),
        ("32769 items", "StackOverflow", "32768 items on its stack at byte 32768", file("N".repeat(40_000))),
        ("32769 marks", "StackOverflow", "32768 items on its stack at byte 32770", file([b"NN".to_vec(), b"(".repeat(40_000)].concat())),
        ("2^24 opcodes", "TooManyOpcodes", "16777216", file("N0".repeat(1 << 23) + "N.")),
        ("text in Latin-1", "NotUtf8", "at byte 0", file(b"\x8c\x01\xe9.")),
        ("an integer of 9 bytes", "IntegerTooLarge", "of 9 bytes", file(b"\x8a\x091234567890.")),
        ("the memo at 5", "BadMemo", "at 5, where it has 0 entries", file("h\u{5}.")),
        ("the memo at 2^32-1", "BadMemo", "at 4294967295, where it has 0", file(b"Nr\xff\xff\xff\xff.")),
        ("an append to a number", "WrongItem", "needs a container at byte 3 and has an integer", file(b"K\x01Na.")),
        ("an append to a dict", "WrongItem", "needs a list", file("}Na.")),
        ("an entry of a list", "WrongItem", "needs a dict at byte 3", file("]NNs.")),
        ("a key without value", "WrongItem", "an odd number of items", file("}(Nu.")),
        ("a call of a string", "WrongItem", "needs a function or class", file(b"\x8c\x01a)R.")),
        ("attributes of a list", "WrongItem", "needs a dict at byte 2 and has another container", file("]Nb.")),
        ("a function as a value", "WrongType", "a value is needed, a function", file("ccollections\nOrderedDict\n.")),
        ("a call of a dtype", "BadArguments", "calls a dtype with wrong arguments", file("ctorch\nfloat32\n)R.")),
        ("no tuple of arguments", "BadArguments", "calls OrderedDict with wrong arguments at byte 26: they are no tuple", file("ccollections\nOrderedDict\nNR.")),
        ("a count of a list", "BadArguments", "calls Counter with wrong arguments", call("collections\nCounter", b"]")),
        ("a parameter of a number", "BadArguments", "_rebuild_parameter with", call("torch._utils\n_rebuild_parameter", b"K\x01\x88N")),
        ("a tensor without a storage", "BadArguments", "the first is no storage", file(b"ctorch._utils\n_rebuild_tensor\n(NK\x00))tR.")),
        ("a negative size", "BadArguments", "a size is negative", file(tensor("FloatStorage", "0", 4, b"J\xff\xff\xff\xff", b"K\x01", 0, b""))),
        ("an id that is none", "BadPersistentId", "at byte 2", file(b"K\x01Q.")),
        ("an id of another class", "BadPersistentId", "at byte 46", file(b"(\x8c\x07storageccollections\nOrderedDict\n\x8c\x010\x8c\x03cpuK\x04tQ.")),
        ("101 levels", "TooDeep", "100 levels", file("]".repeat(101) + &"a".repeat(100) + ".")),
        ("a list in itself", "Cycle", "contains itself", file("]q\u{0}h\u{0}a.")),
        ("2^40 lists", "TooMuchSharing", "values", file(laughs)),
        // Tensors and storages.
        ("no storage", "MissingStorage", "`7` is missing", typed("FloatStorage", "7", 4)),
        ("a storage elsewhere", "MissingStorage", "`../byteorder`", typed("ByteStorage", "../byteorder", 6)),
        ("a storage of another size", "StorageSize", "`0` has 16 bytes, the pickle says 20", typed("FloatStorage", "0", 5)),
        ("a storage of another type", "StorageSize", "`0` has 16 bytes, the pickle says 32", typed("DoubleStorage", "0", 4)),
        ("65 dimensions", "TooManyDims", "65 dimensions", view(&b"K\x01".repeat(65), &b"K\x01".repeat(65), 0)),
        ("a stride too few", "BadStrides", "[1, 1] has the strides [1]", view(b"K\x01K\x01", b"K\x01", 0)),
        ("2^62 elements", "TensorTooLarge", "larger than any memory", view(b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f", b"K\0K\0", 0)),
        ("an element too many", "OutOfStorage", "shape [5], strides [1] and offset 0", view(b"K\x05", b"K\x01", 0)),
        ("an offset too large", "OutOfStorage", "offset 4 reaches beyond its storage of 16", view(b"K\x01", b"K\x01", 4)),
        ("a stride too large", "OutOfStorage", "strides [2147483647]", view(b"K\x02", b"J\xff\xff\xff\x7f", 0)),
        ("a conjugated tensor", "LazyBit", "call resolve_conj()", file(tensor("ComplexFloatStorage", "0", 2, b"K\x01", b"K\x01", 0, b"}\x8c\x04conj\x88s"))),
    ]
}

#[test]
fn each_malformation_has_its_error() {
    for pickle in [
        &b"N."[..],
        b"\x80\x02]q\x01(K\x01h\x01e0N.",
        &tensor("FloatStorage", "0", 4, b"K\x02", b"K\x01", 2, b""),
    ] {
        assert!(File::from_bytes(file(pickle)).is_ok());
    }
    let tar = [vec![0; 257], b"ustar\0".to_vec(), vec![0; 249]].concat();
    assert!(matches!(File::from_bytes(tar).unwrap_err().kind(), ErrorKind::Legacy));
    let variants = check(cases(), File::from_bytes);
    assert_eq!(variants.len(), 34, "{variants:?}");
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = std::fs::read(crate::common::fixture("torch/tensors.pt")).unwrap();
    for len in 0..bytes.len() {
        assert!(File::from_bytes(bytes[..len].to_vec()).is_err(), "{len}");
    }
    // Of the pickle alone.
    let pickle = tensor("FloatStorage", "0", 4, b"K\x02", b"K\x01", 2, b"");
    for len in 0..pickle.len() {
        let error = File::from_bytes(file(&pickle[..len])).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::PickleTruncated { .. }), "{len}: {error}");
    }
}
