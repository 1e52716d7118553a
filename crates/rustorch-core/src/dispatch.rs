//! `dispatch_dtype!`: the one place where a `DType` becomes a Rust type.

/// The Rust type of a dense dtype, named by its variant: `element_type!(F32)` is `f32`.
#[macro_export]
macro_rules! element_type {
    (Bool) => {
        bool
    };
    (U8) => {
        u8
    };
    (I8) => {
        i8
    };
    (I16) => {
        i16
    };
    (I32) => {
        i32
    };
    (U32) => {
        u32
    };
    (I64) => {
        i64
    };
    (F16) => {
        $crate::f16
    };
    (BF16) => {
        $crate::bf16
    };
    (F32) => {
        f32
    };
    (F64) => {
        f64
    };
    (C64) => {
        $crate::C64
    };
    (C128) => {
        $crate::C128
    };
}

/// Runs generic code for the Rust type of a dtype known only at run time.
///
/// The second argument lists the dtypes to serve, or names a group: `all` (every dense dtype), `number` (all but `Bool`),
/// `real` (integers and floats), `int`, `float`, `complex`, `float_complex`. Others take the last arm.
///
/// ```
/// use rustorch_core::{dispatch_dtype, DType, Element};
/// fn size<T: Element>() -> usize { size_of::<T>() }
/// let bytes = dispatch_dtype!(DType::BF16, float, T => size::<T>(), _ => 0);
/// assert_eq!(bytes, 2);
/// ```
#[macro_export]
macro_rules! dispatch_dtype {
    ($dtype:expr, all, $($rest:tt)*) => {
        $crate::dispatch_dtype!($dtype, [Bool U8 I8 I16 I32 U32 I64 F16 BF16 F32 F64 C64 C128], $($rest)*)
    };
    ($dtype:expr, number, $($rest:tt)*) => {
        $crate::dispatch_dtype!($dtype, [U8 I8 I16 I32 U32 I64 F16 BF16 F32 F64 C64 C128], $($rest)*)
    };
    ($dtype:expr, real, $($rest:tt)*) => {
        $crate::dispatch_dtype!($dtype, [U8 I8 I16 I32 U32 I64 F16 BF16 F32 F64], $($rest)*)
    };
    ($dtype:expr, int, $($rest:tt)*) => { $crate::dispatch_dtype!($dtype, [U8 I8 I16 I32 U32 I64], $($rest)*) };
    ($dtype:expr, float, $($rest:tt)*) => { $crate::dispatch_dtype!($dtype, [F16 BF16 F32 F64], $($rest)*) };
    ($dtype:expr, complex, $($rest:tt)*) => { $crate::dispatch_dtype!($dtype, [C64 C128], $($rest)*) };
    ($dtype:expr, float_complex, $($rest:tt)*) => {
        $crate::dispatch_dtype!($dtype, [F16 BF16 F32 F64 C64 C128], $($rest)*)
    };
    ($dtype:expr, [$($variant:ident)*], $T:ident => $body:expr, _ => $other:expr) => {
        match $dtype {
            $($crate::DType::$variant => {
                type $T = $crate::element_type!($variant);
                $body
            })*
            #[allow(unreachable_patterns)]
            _ => $other,
        }
    };
}
