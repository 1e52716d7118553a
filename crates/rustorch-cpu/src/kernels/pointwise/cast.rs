//! Conversion between dtypes: dense ones, and dequantization and quantization of block types.

use super::packed::room;
use super::{GRAIN, each};
use crate::ThreadPool;
use crate::kernels::copy;
use crate::kernels::strided::{self, map1, unreachable_memory};
use crate::math::Half;
use crate::simd::{self, Level, Task};
use rustorch_core::{
    C64, C128, DType, Element, Error, Fault, QuantType, View, ViewMut, bf16, dispatch_dtype, f16,
};
use std::slice::from_raw_parts;
use std::sync::atomic::{AtomicBool, Ordering};

/// Converts to the output's dtype.
pub(crate) fn cast(pool: &ThreadPool, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    match (x.dtype(), out.dtype()) {
        (from, to) if from == to => copy::copy(pool, x, out),
        (DType::Quant(quant), _) => dequantize(pool, quant, x, out),
        (_, DType::Quant(quant)) => quantize(pool, quant, x, out),
        (DType::F16, DType::F32) => {
            map1(pool, out, x, GRAIN, &|x: &[f16], out: &mut [f32]| f16::widen_all(x, out))
        }
        (DType::F32, DType::F16) => {
            map1(pool, out, x, GRAIN, &|x: &[f32], out: &mut [f16]| f16::narrow_all(x, out))
        }
        (DType::BF16, DType::F32) => {
            map1(pool, out, x, GRAIN, &|x: &[bf16], out: &mut [f32]| bf16::widen_all(x, out))
        }
        (DType::F32, DType::BF16) => {
            map1(pool, out, x, GRAIN, &|x: &[f32], out: &mut [bf16]| bf16::narrow_all(x, out))
        }
        (DType::F32, DType::I64) => map1(pool, out, x, GRAIN, &|x: &[f32], out| truncate(x, out)),
        (DType::F64, DType::I64) => map1(pool, out, x, GRAIN, &|x: &[f64], out| truncate(x, out)),
        (from, to) => dispatch_dtype!(from, all, A => {
            dispatch_dtype!(to, all, B => {
                map1(pool, out, x, GRAIN, &|x: &[A], out: &mut [B]| convert(x, out))
            }, _ => Err(unreachable_memory()))
        }, _ => Err(unreachable_memory())),
    }
}

/// Converts slices of equal length.
fn convert<A: Convert, B: Convert>(x: &[A], out: &mut [B]) {
    each!(out, x in x => B::from_wide(x.to_wide()));
}

/// Floats to `i64`, as `convert` does, for slices of equal length.
fn truncate<T: Truncate>(x: &[T], out: &mut [i64]) {
    simd::run(Truncated(x, out));
}

struct Truncated<'a, T>(&'a [T], &'a mut [i64]);

impl<T: Truncate> Task for Truncated<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        const BLOCK: usize = 256;
        for (xs, out) in self.0.chunks(BLOCK).zip(self.1.chunks_mut(BLOCK)) {
            if xs.iter().fold(true, |all, x| all & x.fits()) {
                // SAFETY: all of them fit, as was just found.
                each!(out, x in xs => unsafe { x.truncated() });
            } else {
                each!(out, x in xs => x.to_wide().int());
            }
        }
    }
}

/// Floats whose conversion to `i64` is vector code where they are known to fit: that which saturates is not.
trait Truncate: Convert {
    /// Whether it is a number within the range of `i64`.
    fn fits(self) -> bool;
    /// # Safety
    /// It [fits](Self::fits).
    unsafe fn truncated(self) -> i64;
}

macro_rules! truncate {
    ($($t:ty),*) => {$(
        impl Truncate for $t {
            #[inline(always)]
            fn fits(self) -> bool {
                self.abs() < 9_223_372_036_854_775_808.0
            }
            #[inline(always)]
            unsafe fn truncated(self) -> i64 {
                // SAFETY: by the contract; NaN does not fit.
                unsafe { self.to_int_unchecked() }
            }
        }
    )*};
}

truncate!(f32, f64);

/// [`cast`] of `n` contiguous elements, between dense dtypes.
///
/// # Safety
/// As of [`packed::run`](super::packed::run), with `x` of dtype `from` and `out` of dtype `to`.
pub(super) unsafe fn cast_packed(
    [from, to]: [DType; 2],
    x: *const u8,
    out: *mut u8,
    n: usize,
) -> Result<(), Fault> {
    // SAFETY, of all slices: this function's contract.
    match (from, to) {
        (DType::F16, DType::F32) => {
            // SAFETY: see above.
            unsafe { f16::widen_all(from_raw_parts(x.cast(), n), room(out, n)) }
        }
        (DType::F32, DType::F16) => {
            // SAFETY: see above.
            unsafe { f16::narrow_all(from_raw_parts(x.cast(), n), room(out, n)) }
        }
        (DType::F32, DType::I64) => {
            // SAFETY: see above.
            unsafe { truncate::<f32>(from_raw_parts(x.cast(), n), room(out, n)) }
        }
        (DType::F64, DType::I64) => {
            // SAFETY: see above.
            unsafe { truncate::<f64>(from_raw_parts(x.cast(), n), room(out, n)) }
        }
        (from, to) => dispatch_dtype!(from, all, A => {
            dispatch_dtype!(to, all, B => {
                // SAFETY: see above.
                unsafe { convert::<A, B>(from_raw_parts(x.cast(), n), room(out, n)) }
            }, _ => return Err(unreachable_memory()))
        }, _ => return Err(unreachable_memory())),
    }
    Ok(())
}

/// A number on its way from one dtype to another, in the widest form that its family needs.
#[derive(Clone, Copy)]
enum Wide {
    Int(i64),
    Single(f32),
    Double(f64),
    Complex(C128),
}

/// Conversion through [`Wide`], which the compiler takes apart because each type uses one variant.
trait Convert: Element {
    fn to_wide(self) -> Wide;
    fn from_wide(x: Wide) -> Self;
}

impl Wide {
    #[inline(always)]
    fn int(self) -> i64 {
        match self {
            Wide::Int(i) => i,
            Wide::Single(x) => x as i64,
            Wide::Double(x) => x as i64,
            Wide::Complex(z) => z.re as i64,
        }
    }

    #[inline(always)]
    fn single(self) -> f32 {
        match self {
            Wide::Int(i) => i as f32,
            Wide::Single(x) => x,
            Wide::Double(x) => x as f32,
            Wide::Complex(z) => z.re as f32,
        }
    }

    #[inline(always)]
    fn double(self) -> f64 {
        match self {
            Wide::Int(i) => i as f64,
            Wide::Single(x) => f64::from(x),
            Wide::Double(x) => x,
            Wide::Complex(z) => z.re,
        }
    }
}

macro_rules! convert {
    ($($t:ty: $x:ident => $into:expr, $wide:ident => $from:expr;)*) => {$(
        impl Convert for $t {
            #[inline(always)]
            fn to_wide(self) -> Wide {
                let $x = self;
                $into
            }
            #[inline(always)]
            fn from_wide($wide: Wide) -> $t {
                $from
            }
        }
    )*};
}

convert! {
    bool: x => Wide::Int(i64::from(x)), w => match w {
        Wide::Int(i) => i != 0,
        Wide::Single(x) => x != 0.0,
        Wide::Double(x) => x != 0.0,
        Wide::Complex(z) => z.re != 0.0 || z.im != 0.0,
    };
    // Out-of-range floats saturate at 64 bits, then wrap, as integers do.
    u8: x => Wide::Int(i64::from(x)), w => w.int() as u8;
    i8: x => Wide::Int(i64::from(x)), w => w.int() as i8;
    i16: x => Wide::Int(i64::from(x)), w => w.int() as i16;
    i32: x => Wide::Int(i64::from(x)), w => w.int() as i32;
    u32: x => Wide::Int(i64::from(x)), w => w.int() as u32;
    i64: x => Wide::Int(x), w => w.int();
    // Through f64 no integer of 53 bits and no double is rounded twice.
    f16: x => Wide::Single(x.to_f32()), w => match w { Wide::Single(x) => f16::from_f32(x), w => f16::from_f64(w.double()) };
    bf16: x => Wide::Single(x.to_f32()), w => match w { Wide::Single(x) => simd::to_bf16(x), w => bf16::from_f64(w.double()) };
    f32: x => Wide::Single(x), w => w.single();
    f64: x => Wide::Double(x), w => w.double();
    C64: x => Wide::Complex(C128::new(f64::from(x.re), f64::from(x.im))), w => match w {
        Wide::Complex(z) => C64::new(z.re as f32, z.im as f32),
        w => C64::new(w.single(), 0.0),
    };
    C128: x => Wide::Complex(x), w => match w { Wide::Complex(z) => z, w => C128::new(w.double(), 0.0) };
}

/// Values that go to one thread at least, in whole blocks of any type.
const CODEC_GRAIN: usize = 1 << 13;

fn dequantize(pool: &ThreadPool, quant: QuantType, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    match out.dtype() {
        DType::F32 => decode_to(pool, quant, x, out, |bytes, out: &mut [f32]| decode_run(quant, bytes, out)),
        DType::F16 => decode_to(pool, quant, x, out, |bytes, out: &mut [f16]| decode_half(quant, bytes, out)),
        DType::BF16 => {
            decode_to(pool, quant, x, out, |bytes, out: &mut [bf16]| decode_half(quant, bytes, out))
        }
        _ => Err(unreachable_memory()),
    }
}

/// Dequantizes whole blocks.
pub(crate) fn decode_run(quant: QuantType, bytes: &[u8], out: &mut [f32]) {
    rustorch_quant::dequantize(quant, bytes, out)
        .expect("callers pass whole blocks and room for their values");
}

fn decode_half<T: Half>(quant: QuantType, bytes: &[u8], out: &mut [T]) {
    // A multiple of every block length.
    let mut wide = [0.0; 512];
    for (bytes, out) in bytes.chunks(512 / quant.block_len() * quant.block_bytes()).zip(out.chunks_mut(512)) {
        decode_run(quant, bytes, &mut wide[..out.len()]);
        T::narrow_all(&wide[..out.len()], out);
    }
}

/// Runs `dequantize` on runs of whole blocks and the output elements for them.
fn decode_to<T: Element>(
    pool: &ThreadPool,
    quant: QuantType,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
    dequantize: impl Fn(&[u8], &mut [T]) + Sync,
) -> Result<(), Fault> {
    let (block, bytes) = (quant.block_len(), quant.block_bytes());
    let runs = block_rows(quant, x)?;
    let Some(&(_, run)) = runs.first() else { return Ok(()) };
    let sources: Vec<&[u8]> =
        runs.iter().map(|&(start, len)| strided::quant_bytes(x, start, len)).collect::<Result<_, _>>()?;
    strided::with_slice(pool, out, |out: &mut [T]| {
        strided::par_units(pool, out, block, CODEC_GRAIN, |first, out| {
            let mut at = first * block;
            let mut rest = out;
            while !rest.is_empty() {
                let (row, col) = (at / run, at % run);
                let n = rest.len().min(run - col);
                let (now, later) = rest.split_at_mut(n);
                dequantize(&sources[row][col / block * bytes..(col + n) / block * bytes], now);
                rest = later;
                at += n;
            }
        });
        Ok(())
    })
}

/// The runs of consecutive values of a block-typed view in row-major order: start and length, all of one length.
fn block_rows(quant: QuantType, x: &View<'_>) -> Result<Vec<(usize, usize)>, Fault> {
    let layout = x.layout().collapsed();
    if layout.numel() == 0 {
        return Ok(Vec::new());
    }
    let ndim = layout.ndim();
    let whole = ndim != 0
        && layout.strides()[ndim - 1] == 1
        && layout.dims()[ndim - 1].is_multiple_of(quant.block_len());
    if !whole {
        let why = "blocks can be read only in rows along their own dimension; cast before transposing";
        return Err(Error::shape("cast", why, [x.layout().shape()]).into());
    }
    let run = layout.dims()[ndim - 1];
    Ok(layout.select(ndim - 1, 0)?.indices().map(|start| (start, run)).collect())
}

fn quantize(pool: &ThreadPool, quant: QuantType, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    let values = strided::dense::<f32>(x)?;
    let (block, bytes) = (quant.block_len(), quant.block_bytes());
    strided::with_bytes(out, |out| {
        let failed = AtomicBool::new(false);
        strided::par_units(pool, out, bytes, CODEC_GRAIN / block * bytes, |first, out| {
            let values = &values[first * block..][..out.len() / bytes * block];
            if rustorch_quant::quantize(quant, values, None, out).is_err() {
                failed.store(true, Ordering::Relaxed);
            }
        });
        if !failed.into_inner() {
            return Ok(());
        }
        // Once more as a whole, for the index of the error in the whole.
        rustorch_quant::quantize(quant, &values, None, out)
            .map_err(|e| Error::argument("cast", e.to_string()).into())
    })
}
