//! Mistakes of the caller that only the data shows: an index out of range, an integer divided by zero.
//!
//! A kernel cannot return an error. It notes the first one in a small buffer that the engine reads before it hands any
//! result to the host, so that no number behind a mistake is ever seen.

use rustorch_core::Error;

/// Words of the buffer: the code (0 for none), the index as two words, the length that it exceeds.
pub(crate) const WORDS: usize = 4;

macro_rules! mistakes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $op:literal;)*) => {
        /// Where a mistake is found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Mistake { $($(#[$doc])* $name = $code,)* }

        fn op(code: u32) -> Option<&'static str> {
            match code { $($code => Some($op),)* _ => None }
        }
    };
}

mistakes! {
    /// An id outside the table.
    Embedding = 1, "embedding";
    /// An index outside the axis.
    IndexSelect = 2, "index_select";
    /// An index outside the axis.
    Gather = 3, "gather";
    /// An index outside the axis.
    Scatter = 4, "scatter";
    /// An index outside the axis.
    ScatterAdd = 5, "scatter_add";
    /// An expert that does not exist.
    ExpertMatMul = 6, "expert_matmul";
    /// An integer divided by zero.
    FloorDivide = 7, "floor_divide";
    /// An integer divided by zero.
    Remainder = 8, "remainder";
    /// An index outside the plane.
    MaxPoolBackward = 9, "max_pool_backward";
}

/// WGSL that notes a mistake: `mistake(code, index, length)`, for a kernel whose binding `m` is the engine's buffer.
pub(crate) const WGSL: &str = "
fn mistake(code: u32, low: u32, high: u32, length: u32) {
    if atomicCompareExchangeWeak(&m[0], 0u, code).exchanged {
        atomicStore(&m[1], low);
        atomicStore(&m[2], high);
        atomicStore(&m[3], length);
    }
}
";

/// The error for what a kernel noted; none if it noted nothing.
pub(crate) fn error(words: [u32; WORDS]) -> Option<Error> {
    let [code, low, high, len] = words;
    let op = op(code)?;
    let index = (u64::from(high) << 32 | u64::from(low)) as i64;
    Some(match op {
        "floor_divide" | "remainder" => {
            Error::argument(op, "an integer is divided by zero; check the divisor or cast to a float")
        }
        _ => Error::Index { op, index, len: len as usize },
    })
}
