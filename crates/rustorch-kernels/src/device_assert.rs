//! Device-side asserts: caller errors that only the data shows, such as an index out of range or an integer division by zero.
//!
//! Kernels cannot return errors. The first failed assert is recorded in a small buffer, which the engine checks before any
//! result reaches the host.

use rustorch_core::{BinaryOp, Error, OpKind};

/// Words of the buffer: the code (0 for none), the index as two words, the length that it exceeds.
pub(crate) const WORDS: usize = 4;

/// The code of an assert that fails in an operation.
pub(crate) fn code(op: impl Into<OpKind>) -> u32 {
    let op = op.into();
    1 + OpKind::ALL.iter().position(|&kind| kind == op).expect("every kind is among them") as u32
}

fn op(code: u32) -> Option<OpKind> {
    OpKind::ALL.get((code as usize).checked_sub(1)?).copied()
}

/// WGSL `device_assert(code, low, high, length)`: records a failed assert, in kernels whose binding `m` is the assert log.
pub(crate) fn wgsl() -> String {
    let [floor_divide, remainder] = [BinaryOp::FloorDiv, BinaryOp::Remainder].map(code);
    format!("const FLOOR_DIVIDE = {floor_divide}u;\nconst REMAINDER = {remainder}u;\n{RECORD}")
}

const RECORD: &str = "fn device_assert(code: u32, low: u32, high: u32, length: u32) {
    if atomicCompareExchangeWeak(&m[0], 0u, code).exchanged {
        atomicStore(&m[1], low);
        atomicStore(&m[2], high);
        atomicStore(&m[3], length);
    }
}
";

/// The error for an assert record; `None` if no assert failed.
pub(crate) fn error(words: [u32; WORDS]) -> Option<Error> {
    let [code, low, high, len] = words;
    let op = op(code)?;
    let index = (u64::from(high) << 32 | u64::from(low)) as i64;
    Some(match op {
        OpKind::Binary(_) => {
            Error::argument(op.name(), "an integer is divided by zero; check the divisor or cast to a float")
        }
        _ => Error::Index { op: op.name(), index, len: len as usize },
    })
}
