#!/usr/bin/env python3
"""What gguf-py reads in GGUF files, as text that the tests of rustorch-formats compare with what our reader finds.

    pip install gguf==0.19.0
    gguf_describe.py FILE                 everything, a line for each metadata entry and tensor
    gguf_describe.py --digest DIR FILE…   a line for each file, named relative to DIR: tensors, keys, CRC-32 of the above

Regenerate what is committed, from the root of the repository:

    T=crates/rustorch-formats/tests/data D=../shared/data
    tools/oracle/gguf_describe.py --digest $D $D/*/*.gguf > $T/shared_digests.tsv
    tools/oracle/gguf_describe.py $D/models/stories260K-x4-Q4_K_M.gguf > $T/stories260K-x4-Q4_K_M.tsv
    tools/oracle/gguf_describe.py $T/gguf_py.gguf > $T/gguf_py.tsv
    cargo test -p rustorch-formats --test it writer:: && \
        tools/oracle/gguf_describe.py target/tmp/writer_sample.gguf > $T/writer_sample.tsv

Columns, separated by tabs:

    gguf    VERSION  TENSORS  KEYS
    KEY     TYPE     VALUE              numbers; floating-point ones by their bits
    KEY     string   LENGTH  CRC-32
    KEY     array    TYPE  COUNT  CRC-32 of the elements as they are in the file
    @NAME   DTYPE    SHAPE (outermost first)  OFFSET in the file  BYTES  CRC-32
"""
import os
import sys
import zlib

from gguf import GGUFReader, GGUFValueType

NAMES = {
    GGUFValueType.UINT8: "u8", GGUFValueType.INT8: "i8", GGUFValueType.UINT16: "u16", GGUFValueType.INT16: "i16",
    GGUFValueType.UINT32: "u32", GGUFValueType.INT32: "i32", GGUFValueType.UINT64: "u64", GGUFValueType.INT64: "i64",
    GGUFValueType.FLOAT32: "f32", GGUFValueType.FLOAT64: "f64", GGUFValueType.BOOL: "bool",
    GGUFValueType.STRING: "string", GGUFValueType.ARRAY: "array",
}


def crc(data):
    return f"{zlib.crc32(data):08x}"


def describe(path):
    reader = GGUFReader(path)
    fields = {key: field for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    version = int(reader.fields["GGUF.version"].parts[-1][0])
    yield ["gguf", version, len(reader.tensors), len(fields)]
    for key, field in fields.items():
        # parts: length and bytes of the key, type; then the value
        kind, value = GGUFValueType(int(field.parts[2][0])), field.parts[3:]
        if kind == GGUFValueType.STRING:
            yield [key, "string", int(value[0][0]), crc(value[1].tobytes())]
        elif kind == GGUFValueType.ARRAY:
            elements = b"".join(part.tobytes() for part in value[2:])
            yield [key, "array", NAMES[GGUFValueType(int(value[0][0]))], int(value[1][0]), crc(elements)]
        elif kind in (GGUFValueType.FLOAT32, GGUFValueType.FLOAT64):
            yield [key, NAMES[kind], "0x" + value[0].tobytes()[::-1].hex()]
        else:
            yield [key, NAMES[kind], int(value[0][0])]
    for tensor in reader.tensors:
        shape = "x".join(str(int(dim)) for dim in reversed(tensor.shape))
        data = tensor.data.tobytes()
        assert len(data) == tensor.n_bytes
        yield [f"@{tensor.name}", tensor.tensor_type.name, shape, int(tensor.data_offset), len(data), crc(data)]


def text(path):
    return "".join("\t".join(map(str, line)) + "\n" for line in describe(path))


def main():
    if sys.argv[1] == "--digest":
        for path in sys.argv[3:]:
            described = text(path)
            _, _, tensors, keys = described.split("\n", 1)[0].split("\t")
            print(os.path.relpath(path, sys.argv[2]), tensors, keys, crc(described.encode()), sep="\t")
    else:
        sys.stdout.write(text(sys.argv[1]))


main()
