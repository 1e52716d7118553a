//! Sort, top-k.

use super::strided::{for_rows2, unreachable_memory};
use crate::ThreadPool;
use rustorch_core::{Element, Fault, Op, View, ViewMut, bf16, dispatch_dtype, f16};

/// `Sort` or `TopK`.
pub(super) fn run(pool: &ThreadPool, op: &Op, x: &View<'_>, outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
    let (axis, descending, k) = match op {
        Op::Sort(sort) => (sort.axis, sort.descending, None),
        Op::TopK(top) => (top.axis, top.largest, Some(top.k)),
        _ => return Err(unreachable_memory()),
    };
    let len = x.layout().dims().get(axis).copied().unwrap_or(1);
    let k = k.unwrap_or(len);
    dispatch_dtype!(x.dtype(), [Bool U8 I8 I16 I32 U32 I64 F16 BF16 F32 F64], T => {
        for_rows2(pool, x, outs, axis, 16 * len, &|x: &[T], values: &mut [T], indices: &mut [i64]| {
            if size_of::<T>() <= 4 && u32::try_from(x.len()).is_ok() {
                // The key above the index, so that one comparison orders both.
                let flip = if descending { u64::from(u32::MAX) } else { 0 };
                let pack = |(i, x): (usize, &T)| (x.key() ^ flip) << 32 | i as u64;
                let mut keys: Vec<u64> = x.iter().enumerate().map(pack).collect();
                first(&mut keys, k);
                for ((key, value), index) in keys.iter().zip(values).zip(indices) {
                    let i = *key as u32 as usize;
                    (*value, *index) = (x[i], i as i64);
                }
            } else {
                let flip = if descending { u64::MAX } else { 0 };
                let mut keys: Vec<(u64, usize)> = x.iter().enumerate().map(|(i, x)| (x.key() ^ flip, i)).collect();
                first(&mut keys, k);
                for ((&(_, i), value), index) in keys.iter().zip(values).zip(indices) {
                    (*value, *index) = (x[i], i as i64);
                }
            }
        })
    }, _ => Err(unreachable_memory()))
}

/// Brings the `k` least of distinct keys to the front, in order.
fn first<K: Ord>(keys: &mut Vec<K>, k: usize) {
    if k < keys.len() {
        if k != 0 {
            keys.select_nth_unstable(k - 1);
        }
        keys.truncate(k);
    }
    keys.sort_unstable();
}

/// An order-preserving map to unsigned numbers: of 32 bits for types of up to 4 bytes. NaN comes last, and zeros of
/// either sign are equal.
trait Key: Element {
    fn key(self) -> u64;
}

macro_rules! integers {
    ($($t:ty: $offset:expr),*) => {$(
        impl Key for $t {
            #[inline(always)]
            fn key(self) -> u64 {
                (self as i64).wrapping_add($offset) as u64
            }
        }
    )*};
}

integers!(bool: 0, u8: 0, i8: 128, i16: 1 << 15, i32: 1 << 31, u32: 0, i64: i64::MIN);

impl Key for f32 {
    #[inline(always)]
    fn key(self) -> u64 {
        if self.is_nan() {
            return u32::MAX.into();
        }
        // Adding zero turns −0 into 0.
        let bits = (self + 0.0).to_bits();
        u64::from(if bits >> 31 == 1 { !bits } else { bits | 1 << 31 })
    }
}

impl Key for f64 {
    #[inline(always)]
    fn key(self) -> u64 {
        if self.is_nan() {
            return u64::MAX;
        }
        let bits = (self + 0.0).to_bits();
        if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
    }
}

impl Key for f16 {
    #[inline(always)]
    fn key(self) -> u64 {
        self.to_f32().key()
    }
}

impl Key for bf16 {
    #[inline(always)]
    fn key(self) -> u64 {
        self.to_f32().key()
    }
}
