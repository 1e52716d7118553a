//! Matmuls of dense operands: any numeric dtype with itself, and `f32` with weights of `f16` and `bf16`.
//!
//! Operands are packed, converted on the way, into panels in the dtype of accumulation; a kernel keeps a tile of results
//! in registers. Each result is one chain of multiply-adds over the inner dimension, in order, but those with 16-bit weights on x86-64 (`dots`),
//! and those of matmuls that need not be batch-invariant: of a vector ([`vector`], [`strips`]), of few results with many products each
//! ([`split_k`]), and of `bf16` where the CPU has instructions for pairs ([`vnni`]).

#[cfg(target_arch = "aarch64")]
mod arm;
mod blocks;
mod direct;
#[cfg(target_arch = "x86_64")]
mod dots;
mod few_rows;
mod gemm;
mod kernel;
mod many_rows;
mod pack;
mod scaled_rows;
mod split_k;
mod strips;
mod subtract;
mod vector;
mod vnni;
mod wide_rows;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use gemm::{with_packed, with_scratch};
pub(crate) use kernel::{HIGHEST, Pitched, Scalar, StridedTile, Tile, Tiles};
pub(crate) use pack::{pack_columns, pack_rows};
pub(crate) use subtract::{Field, Left, subtract_matmul};
#[cfg(target_arch = "x86_64")]
pub(crate) use vnni::{Bf16Tiles, Entered, Words};

#[cfg(target_arch = "aarch64")]
use arm as arch;
#[cfg(target_arch = "x86_64")]
use x86 as arch;

use super::gemm_args::{GemmArgs, Target, address};
use super::mul_mat_id::ExpertRows;
use super::rows::GroupedGemm;
use crate::kernels::pointwise::Pointwise;
use crate::math::Real;
use crate::{Isa, ThreadPool};
pub(super) use blocks::run_dequantized;
use rustorch_core::{
    C64, C128, DType, Element, Error, Fault, MatMul, Numerics, UnaryOp, View, ViewMut, bf16, f16,
};
use smallvec::SmallVec;
#[cfg(target_arch = "x86_64")]
use vnni::{Amx, Bf16Pairs, I8Quads};
use vnni::{Group, I8Pairs};

/// How the operands of a matmul become numbers of one type, and how the result becomes an element.
pub(crate) trait Arithmetic: Sized + 'static {
    /// Elements of the left operand and of the result.
    type X: Pointwise;
    /// Elements of the right operand.
    type W: Element;
    /// What is multiplied and summed.
    type E: Scalar;
    /// Whether elements are factors as they stand, and sums results: `X`, `W` and `E` are one type, and [`x`](Self::x), [`w`](Self::w) and,
    /// without bias, [`out`](Self::out) give back what they are given.
    const IS_PLAIN: bool = false;
    /// Whether `X` and `E` are one type, and sums results as they stand: [`start`](Self::start) and, without bias, [`out`](Self::out) give
    /// back what they are given.
    const SUMS_ARE_RESULTS: bool = Self::IS_PLAIN;
    /// Whether sums begin with what stands in the result, by [`start`](Self::start), instead of zero.
    const ADDS: bool = false;

    /// Whether elements of the left operand are rounded to the right one's dtype.
    #[cfg(target_arch = "x86_64")]
    const ROUNDS_ROWS: bool = false;

    /// What stood in the result as the beginning of a sum.
    #[inline(always)]
    fn start(_there: Self::X) -> Self::E {
        Self::E::ZERO
    }
    /// An element of the left operand as a factor.
    fn x(x: Self::X) -> Self::E;
    /// An element of the right operand as a factor.
    fn w(w: Self::W) -> Self::E;
    /// A sum, with the bias, as an element.
    fn out(sum: Self::E, bias: Option<Self::X>) -> Self::X;

    /// Eight contiguous elements of the right operand, converted: where rows lie along the inner dimension, they are
    /// packed by eight.
    ///
    /// # Safety
    /// The CPU has AVX2 and F16C; eight elements can be read.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load8(_w: *const Self::W) -> Option<std::arch::x86_64::__m256> {
        None
    }
}

/// A dtype times itself, in itself.
pub(crate) struct Same<T>(std::marker::PhantomData<T>);
/// A 16-bit float times itself, summed in `f32` and rounded once.
struct Half<T>(std::marker::PhantomData<T>);
/// `f32` activations times a weight in 16 bits: activations are rounded to 16 bits as in ggml, sums stay `f32`.
struct Weight<T>(std::marker::PhantomData<T>);
/// The same with activations as they are.
struct Exact<T>(std::marker::PhantomData<T>);

macro_rules! same {
    ($($ty:ty: $add:expr $(, $load:path)?;)*) => {$(
        impl Arithmetic for Same<$ty> {
            type X = $ty;
            type W = $ty;
            type E = $ty;
            const IS_PLAIN: bool = true;

            #[inline(always)]
            fn x(x: $ty) -> $ty {
                x
            }

            #[inline(always)]
            fn w(w: $ty) -> $ty {
                w
            }

            #[inline(always)]
            fn out(sum: $ty, bias: Option<$ty>) -> $ty {
                let add: fn($ty, $ty) -> $ty = $add;
                match bias {
                    Some(bias) => add(sum, bias),
                    None => sum,
                }
            }

            $(
                #[cfg(target_arch = "x86_64")]
                #[inline(always)]
                unsafe fn load8(w: *const $ty) -> Option<std::arch::x86_64::__m256> {
                    // SAFETY: this function's contract.
                    Some(unsafe { $load(w) })
                }
            )?
        }
    )*};
}

same! {
    i16: i16::wrapping_add;
    i32: i32::wrapping_add;
    i64: i64::wrapping_add;
    f32: |a, b| a + b, x86::load_f32;
    f64: |a, b| a + b;
    C64: |a, b| a + b;
    C128: |a, b| a + b;
}

/// An integer dtype times itself, wrapping, by way of another: the low bits of sums and products depend on the low bits of
/// the factors only.
struct Wrapping<T>(std::marker::PhantomData<T>);

macro_rules! wrapping {
    ($($ty:ty as $e:ty;)*) => {$(
        impl Arithmetic for Wrapping<$ty> {
            type X = $ty;
            type W = $ty;
            type E = $e;

            #[inline(always)]
            fn x(x: $ty) -> $e {
                x as $e
            }

            #[inline(always)]
            fn w(w: $ty) -> $e {
                w as $e
            }

            #[inline(always)]
            fn out(sum: $e, bias: Option<$ty>) -> $ty {
                (sum as $ty).wrapping_add(bias.unwrap_or(0))
            }
        }
    )*};
}

wrapping! {
    u8 as i16;
    i8 as i16;
    u32 as i32;
}

macro_rules! half {
    ($($ty:ty: $load:path;)*) => {$(
        impl Arithmetic for Half<$ty> {
            type X = $ty;
            type W = $ty;
            type E = f32;

            #[inline(always)]
            fn x(x: $ty) -> f32 {
                x.to_f32()
            }

            #[inline(always)]
            fn w(w: $ty) -> f32 {
                w.to_f32()
            }

            #[inline(always)]
            fn out(sum: f32, bias: Option<$ty>) -> $ty {
                <$ty>::from_f32(match bias {
                    Some(bias) => sum + bias.to_f32(),
                    None => sum,
                })
            }

            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn load8(w: *const $ty) -> Option<std::arch::x86_64::__m256> {
                // SAFETY: this function's contract.
                Some(unsafe { $load(w) })
            }
        }

        impl Arithmetic for Weight<$ty> {
            type X = f32;
            type W = $ty;
            type E = f32;
            #[cfg(target_arch = "x86_64")]
            const ROUNDS_ROWS: bool = true;

            #[inline(always)]
            fn x(x: f32) -> f32 {
                <$ty>::from_f32(x).to_f32()
            }

            #[inline(always)]
            fn w(w: $ty) -> f32 {
                w.to_f32()
            }

            #[inline(always)]
            fn out(sum: f32, bias: Option<f32>) -> f32 {
                super::rows::with_bias(sum, bias)
            }

            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn load8(w: *const $ty) -> Option<std::arch::x86_64::__m256> {
                // SAFETY: this function's contract.
                Some(unsafe { $load(w) })
            }
        }

        impl Arithmetic for Exact<$ty> {
            type X = f32;
            type W = $ty;
            type E = f32;

            #[inline(always)]
            fn x(x: f32) -> f32 {
                x
            }

            #[inline(always)]
            fn w(w: $ty) -> f32 {
                w.to_f32()
            }

            #[inline(always)]
            fn out(sum: f32, bias: Option<f32>) -> f32 {
                super::rows::with_bias(sum, bias)
            }

            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn load8(w: *const $ty) -> Option<std::arch::x86_64::__m256> {
                // SAFETY: this function's contract.
                Some(unsafe { $load(w) })
            }
        }
    )*};
}

half! {
    f16: x86::load_f16;
    bf16: x86::load_bf16;
}

/// Runs `$call::<A>(args)` for the arithmetic of two dtypes; `$numerics` says whether activations are rounded to a weight's.
macro_rules! dispatch {
    ($dtypes:expr, $numerics:expr, $A:ident => $call:expr) => {{
        macro_rules! arm {
            ($ty:ty) => {{
                type $A = $ty;
                $call
            }};
        }
        match $dtypes {
            (DType::F32, DType::F32) => arm!(Same<f32>),
            (DType::F32, DType::F16) if $numerics == Numerics::F32 => arm!(Exact<f16>),
            (DType::F32, DType::BF16) if $numerics == Numerics::F32 => arm!(Exact<bf16>),
            (DType::F32, DType::F16) => arm!(Weight<f16>),
            (DType::F32, DType::BF16) => arm!(Weight<bf16>),
            (DType::F16, DType::F16) => arm!(Half<f16>),
            (DType::BF16, DType::BF16) => arm!(Half<bf16>),
            (DType::F64, DType::F64) => arm!(Same<f64>),
            (DType::C64, DType::C64) => arm!(Same<C64>),
            (DType::C128, DType::C128) => arm!(Same<C128>),
            (DType::U8, DType::U8) => arm!(Wrapping<u8>),
            (DType::I8, DType::I8) => arm!(Wrapping<i8>),
            (DType::I16, DType::I16) => arm!(Same<i16>),
            (DType::I32, DType::I32) => arm!(Same<i32>),
            (DType::U32, DType::U32) => arm!(Wrapping<u32>),
            (DType::I64, DType::I64) => arm!(Same<i64>),
            (a, b) => Err(Error::dtype("matmul", "has no matmul for these dtypes", [a, b]).into()),
        }
    }};
}

/// A matmul of dense operands.
pub(super) fn run(
    pool: &ThreadPool,
    op: &MatMul,
    gemm: &GemmArgs,
    args: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let dtypes = (args[0].dtype(), args[1].dtype());
    let is_vector = op.allows_reassociation(dtypes.0, dtypes.1) && vector::fits(gemm);
    if !is_vector && direct::fits(gemm) {
        match dtypes {
            (DType::F32, DType::F32) => return run_direct::<f32>(pool, op.activation, gemm, args, out),
            (DType::F64, DType::F64) => return run_direct::<f64>(pool, op.activation, gemm, args, out),
            _ => {}
        }
    }
    if !is_vector && op.allows_reassociation(dtypes.0, dtypes.1) && split_k::fits(gemm) {
        match dtypes {
            (DType::F32, DType::F32) => return run_split_k::<f32>(pool, op.activation, gemm, args, out),
            (DType::F64, DType::F64) => return run_split_k::<f64>(pool, op.activation, gemm, args, out),
            _ => {}
        }
    }
    #[cfg(target_arch = "x86_64")]
    match dtypes {
        (DType::BF16, DType::BF16) if !op.batch_invariant && Amx::<Bf16Pairs>::fit(gemm) => {
            return run_vnni::<Amx<Bf16Pairs>>(pool, op.activation, gemm, args, out);
        }
        (DType::I8, DType::I8) if Amx::<I8Quads<i8, i8>>::fit(gemm) => {
            return run_vnni::<Amx<I8Quads<i8, i8>>>(pool, op.activation, gemm, args, out);
        }
        (DType::U8, DType::U8) if Amx::<I8Quads<u8, u8>>::fit(gemm) => {
            return run_vnni::<Amx<I8Quads<u8, u8>>>(pool, op.activation, gemm, args, out);
        }
        (DType::BF16, DType::BF16) if !op.batch_invariant && Bf16Pairs::fit(gemm) => {
            return run_vnni::<Bf16Pairs>(pool, op.activation, gemm, args, out);
        }
        (DType::I8, DType::I8) if I8Quads::<i8, i8>::fit(gemm) => {
            return run_vnni::<I8Quads<i8, i8>>(pool, op.activation, gemm, args, out);
        }
        (DType::U8, DType::U8) if I8Quads::<u8, u8>::fit(gemm) => {
            return run_vnni::<I8Quads<u8, u8>>(pool, op.activation, gemm, args, out);
        }
        _ => {}
    }
    if is_vector || wide_rows::fits(gemm) {
        match dtypes {
            (DType::F32, DType::F32) => return run_in_place::<Same<f32>>(pool, op, gemm, args, out),
            (DType::F64, DType::F64) => return run_in_place::<Same<f64>>(pool, op, gemm, args, out),
            (DType::F16, DType::F16) => return run_in_place::<Half<f16>>(pool, op, gemm, args, out),
            (DType::BF16, DType::BF16) => return run_in_place::<Half<bf16>>(pool, op, gemm, args, out),
            _ => {}
        }
    }
    dispatch!(dtypes, op.numerics, A => run_typed::<A>(pool, op.activation, gemm, args, out))
}

/// A matmul of two matrices of `i8` whose sums are `i32`.
pub(super) fn run_int_mm(pool: &ThreadPool, args: &[View<'_>], out: &mut ViewMut<'_>) -> Result<(), Fault> {
    let gemm = GemmArgs::new(args, out)?;
    if gemm.is_empty() {
        return Ok(());
    }
    #[cfg(target_arch = "x86_64")]
    if Amx::<I8Quads<i8, i32>>::exists() {
        return run_vnni::<Amx<I8Quads<i8, i32>>>(pool, None, &gemm, args, out);
    }
    #[cfg(target_arch = "x86_64")]
    if I8Quads::<i8, i32>::exist() {
        return run_vnni::<I8Quads<i8, i32>>(pool, None, &gemm, args, out);
    }
    run_vnni::<I8Pairs>(pool, None, &gemm, args, out)
}

/// Matmuls by dot product instructions, which the CPU has.
fn run_vnni<G: Group>(
    pool: &ThreadPool,
    activation: Option<UnaryOp>,
    gemm: &GemmArgs,
    args: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let operands = [address::<G::X>(&args[0])?, address::<G::X>(&args[1])?];
    let target = Target::<G::Out>::new(out, args.get(2), activation)?;
    // SAFETY: the operands' views are valid; the result is this matmul's; the caller asked for the instructions.
    unsafe { vnni::run::<G>(pool, gemm, operands, &target) };
    Ok(())
}

/// Small matmuls of floats that are not packed.
fn run_direct<T: Real + Pointwise>(
    pool: &ThreadPool,
    activation: Option<UnaryOp>,
    gemm: &GemmArgs,
    args: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let operands = [address::<T>(&args[0])?, address::<T>(&args[1])?];
    let target = Target::<T>::new(out, args.get(2), activation)?;
    // SAFETY: the operands' views are valid; the result is this matmul's.
    unsafe { direct::run(pool, gemm, operands, &target) };
    Ok(())
}

/// Matmuls of few results with long sums.
fn run_split_k<T: Real + Scalar + Pointwise>(
    pool: &ThreadPool,
    activation: Option<UnaryOp>,
    gemm: &GemmArgs,
    args: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault>
where
    Same<T>: Arithmetic<X = T, W = T, E = T>,
{
    let operands = [address::<T>(&args[0])?, address::<T>(&args[1])?];
    let target = Target::<T>::new(out, args.get(2), activation)?;
    // SAFETY: the operands' views are valid; the result is this matmul's.
    unsafe { split_k::run(pool, gemm, operands, &target) };
    Ok(())
}

/// Matmuls of a vector and of few rows, whose larger operand is read where it stands.
fn run_in_place<A>(
    pool: &ThreadPool,
    op: &MatMul,
    gemm: &GemmArgs,
    args: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault>
where
    A: Arithmetic,
    A::X: vector::Values<A::E>,
    A::E: Real,
{
    let operands = [address::<A::X>(&args[0])?, address::<A::X>(&args[1])?];
    let target = Target::<A::X>::new(out, args.get(2), op.activation)?;
    // SAFETY: the operands' views are valid; the result is this matmul's.
    unsafe {
        if op.allows_reassociation(args[0].dtype(), args[1].dtype()) && vector::fits(gemm) {
            vector::run::<A>(pool, gemm, operands, &target);
        } else {
            wide_rows::run::<A>(pool, gemm, operands, &gemm.output(&target, &gemm.batch(0)));
        }
    }
    Ok(())
}

fn run_typed<A: Arithmetic>(
    pool: &ThreadPool,
    activation: Option<UnaryOp>,
    gemm: &GemmArgs,
    args: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let x = address::<A::X>(&args[0])?;
    let w = address::<A::W>(&args[1])?;
    let target = Target::<A::X>::new(out, args.get(2), activation)?;
    let [k_stride, n_stride] = gemm.b_strides;
    let matrix = gemm::Strided { n: gemm.n, k: gemm.k, k_stride, n_stride };
    let shared = gemm.shared_rows();
    let gemms: SmallVec<[_; 1]> = gemm
        .gemms(&shared)
        .map(|rows| GroupedGemm {
            w: w.wrapping_add(rows.b_start).cast(),
            // SAFETY: the operand's view is valid, and the rows are its own.
            x: unsafe { gemm.rows(x, &rows) },
            out: gemm.output(&target, &rows),
        })
        .collect();
    // SAFETY: the operands' views are valid; each result is one GEMM's.
    unsafe { gemm::run::<A>(pool, Isa::detect(), matrix, &gemms) };
    Ok(())
}

/// Matmuls of rows with the matrices that they chose.
pub(super) fn run_mul_mat_id(
    pool: &ThreadPool,
    numerics: Numerics,
    choices: &ExpertRows,
    [x, w]: [&View<'_>; 2],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let (dims, strides) = (w.layout().dims(), w.layout().strides());
    let matrix = gemm::Strided { n: dims[1], k: dims[2], k_stride: strides[2], n_stride: strides[1] };
    dispatch!((x.dtype(), w.dtype()), numerics, A => {
        // SAFETY: the views are valid; rows, matrices and results are theirs, and each result is written once.
        unsafe {
            let gemms = choices.strided::<<A as Arithmetic>::X>([x, w], out)?;
            gemm::run::<A>(pool, Isa::detect(), matrix, &gemms);
        }
        Ok(())
    })
}
