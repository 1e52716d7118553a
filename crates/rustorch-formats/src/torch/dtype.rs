//! What PyTorch calls dtypes and the types of storages.

use rustorch_core::DType;

/// Each dense dtype with its name in `torch`, and the name of its type of storage; `u32` has none.
const NAMES: &[(DType, &str, Option<&str>)] = &[
    (DType::Bool, "bool", Some("BoolStorage")),
    (DType::U8, "uint8", Some("ByteStorage")),
    (DType::I8, "int8", Some("CharStorage")),
    (DType::I16, "int16", Some("ShortStorage")),
    (DType::I32, "int32", Some("IntStorage")),
    (DType::U32, "uint32", None),
    (DType::I64, "int64", Some("LongStorage")),
    (DType::F16, "float16", Some("HalfStorage")),
    (DType::BF16, "bfloat16", Some("BFloat16Storage")),
    (DType::F32, "float32", Some("FloatStorage")),
    (DType::F64, "float64", Some("DoubleStorage")),
    (DType::C64, "complex64", Some("ComplexFloatStorage")),
    (DType::C128, "complex128", Some("ComplexDoubleStorage")),
];

pub(super) fn from_name(name: &str) -> Option<DType> {
    NAMES.iter().find(|entry| entry.1 == name).map(|entry| entry.0)
}

pub(super) fn from_storage_type(name: &str) -> Option<DType> {
    NAMES.iter().find(|entry| entry.2 == Some(name)).map(|entry| entry.0)
}

/// The name of a dtype, and of its type of storage where it has one.
pub(super) fn names(dtype: DType) -> Option<(&'static str, Option<&'static str>)> {
    NAMES.iter().find(|entry| entry.0 == dtype).map(|entry| (entry.1, entry.2))
}
