//! Sort, top-k.

use super::strided::{Disjoint, for_rows2, unreachable_memory};
use crate::ThreadPool;
use crate::memory;
use crate::simd::{self, Level, Task};
use rustorch_core::{Element, Fault, Op, View, ViewMut, bf16, dispatch_dtype, f16};
use std::mem::MaybeUninit;

/// The fewest elements for which counting sort is tried.
const LEAST_COUNTED: usize = 32;
/// The fewest elements for which radix sort takes less time than comparisons.
const LEAST_BY_DIGITS: usize = 1 << 11;
/// The fewest elements of a row for each thread that sorts it.
const LEAST_SHARED: usize = 1 << 14;
/// The fewest elements of which radix sort takes digits of 8 bits instead of 11: from where keys are no longer in the second-level cache, a
/// pass more takes less time than writing to 2,048 places by turns.
const LEAST_BY_BYTES: usize = 1 << 17;
/// The most counters of counting sort: what fits into the nearest caches.
const MOST_COUNTERS: usize = 1 << 14;

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
            let flip = match (descending, size_of::<T>()) {
                (false, _) => 0,
                (true, ..=4) => u32::MAX.into(),
                (true, _) => u64::MAX,
            };
            if by_counting(x, flip, values, indices) {
                // Few distinct integers.
            } else if size_of::<T>() <= 4 && u32::try_from(x.len()).is_ok() {
                let mut keys = pack(pool, x, flip);
                if k >= LEAST_BY_DIGITS && k > x.len() / 2 {
                    match x.len() {
                        ..LEAST_BY_BYTES => by_digits::<{ 1 << 11 }>(pool, &mut keys),
                        _ => by_digits::<{ 1 << 8 }>(pool, &mut keys),
                    }
                } else {
                    first(&mut keys, k);
                }
                let (values, indices) = (Disjoint::new(values), Disjoint::new(indices));
                pool.ranges(k.min(keys.len()), LEAST_SHARED, |range| {
                    // SAFETY: ranges of one job do not overlap.
                    let (values, indices) = unsafe {
                        (values.slice(range.start, range.len()), indices.slice(range.start, range.len()))
                    };
                    for ((&key, value), index) in keys[range].iter().zip(values).zip(indices) {
                        let i = key as u32 as usize;
                        *value = T::of_key(key >> 32 ^ flip).unwrap_or_else(|| x[i]);
                        *index = i as i64;
                    }
                });
            } else {
                let mut keys: Vec<(u64, usize)> = x.iter().enumerate().map(|(i, x)| (x.key() ^ flip, i)).collect();
                first(&mut keys, k);
                for ((&(_, i), value), index) in keys.iter().zip(values).zip(indices) {
                    (*value, *index) = (x[i], i as i64);
                }
            }
        })
    }, _ => Err(unreachable_memory()))
}

/// Counting sort: writes the first elements of the sorted `x`, as many as there is room for, if they are integers of a range that is not
/// wider than there are elements; `false` otherwise.
fn by_counting<T: Key>(x: &[T], flip: u64, values: &mut [T], indices: &mut [i64]) -> bool {
    if T::DTYPE.is_float() || x.len() < LEAST_COUNTED {
        return false;
    }
    let key = |x: &T| x.key() ^ flip;
    let (least, most) =
        x.iter().fold((u64::MAX, 0), |(least, most), x| (key(x).min(least), key(x).max(most)));
    let Some(range) = usize::try_from(most - least).ok().filter(|&range| range < x.len().min(MOST_COUNTERS))
    else {
        return false;
    };
    let mut places = vec![0usize; range + 1];
    x.iter().for_each(|x| places[(key(x) - least) as usize] += 1);
    let mut before = 0;
    for place in &mut places {
        before += std::mem::replace(place, before);
    }
    // In the order of their indices, so that equals keep it.
    for (i, x) in x.iter().enumerate() {
        let place = &mut places[(key(x) - least) as usize];
        if let (Some(value), Some(index)) = (values.get_mut(*place), indices.get_mut(*place)) {
            (*value, *index) = (*x, i as i64);
        }
        *place += 1;
    }
    true
}

/// Keys of up to 32 bits above the indices, so that one comparison orders both.
fn pack<T: Key>(pool: &ThreadPool, x: &[T], flip: u64) -> Vec<u64> {
    let mut keys = memory::scratch(x.len());
    let room = Disjoint::new(&mut keys.spare_capacity_mut()[..x.len()]);
    pool.ranges(x.len(), LEAST_SHARED, |range| {
        // SAFETY: ranges of one job do not overlap.
        let keys = unsafe { room.slice(range.start, range.len()) };
        simd::run(Pack { x: &x[range.clone()], start: range.start as u64, flip, keys });
    });
    // SAFETY: the ranges cover all, and each was written.
    unsafe { keys.set_len(x.len()) };
    keys
}

struct Pack<'a, T> {
    x: &'a [T],
    /// The index of the first.
    start: u64,
    flip: u64,
    keys: &'a mut [MaybeUninit<u64>],
}

impl<T: Key> Task for Pack<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        for ((key, x), i) in self.keys.iter_mut().zip(self.x).zip(self.start..) {
            key.write((x.key() ^ self.flip) << 32 | i);
        }
    }
}

/// Radix sort by the upper 32 bits, from the lowest digit on. Each pass keeps the order of equal digits, so that the lower bits, which ascend at
/// first, need not be compared. Threads take a part of the keys each; where theirs go follows from the digits of all.
fn by_digits<const DIGITS: usize>(pool: &ThreadPool, keys: &mut Vec<u64>) {
    let len = keys.len();
    let parts = pool.threads().min(len / LEAST_SHARED).max(1);
    let part = |i: usize| len * i / parts..len * (i + 1) / parts;
    let mut counts = vec![[0u32; DIGITS]; parts];
    let mut sorted: Vec<u64> = memory::scratch(len);
    for shift in (32..u64::BITS).step_by(DIGITS.ilog2() as usize) {
        let digit = |key: u64| (key >> shift) as usize % DIGITS;
        let shared = Disjoint::new(&mut counts);
        pool.run(parts, |i| {
            // SAFETY: each of a job's numbers is given once.
            let counts = unsafe { &mut shared.slice(i, 1)[0] };
            counts.fill(0);
            keys[part(i)].iter().for_each(|&key| counts[digit(key)] += 1);
        });
        let of_digit = |at: usize| counts.iter().map(|counts| counts[at] as usize).sum::<usize>();
        if keys.first().is_none_or(|&key| of_digit(digit(key)) == len) {
            // One digit alone.
            continue;
        }
        let mut before = 0u32;
        for at in 0..DIGITS {
            for places in &mut counts {
                before += std::mem::replace(&mut places[at], before);
            }
        }
        sorted.clear();
        let room = Disjoint::new(&mut sorted.spare_capacity_mut()[..len]);
        let shared = Disjoint::new(&mut counts);
        pool.run(parts, |i| {
            // SAFETY: as above.
            let places = unsafe { &mut shared.slice(i, 1)[0] };
            for &key in &keys[part(i)] {
                let place = &mut places[digit(key)];
                // SAFETY: each key has a place of its own.
                let to = unsafe { room.slice(*place as usize, 1) };
                to[0].write(key);
                *place += 1;
            }
        });
        // SAFETY: there are as many places as keys, and each key has one of its own.
        unsafe { sorted.set_len(len) };
        std::mem::swap(keys, &mut sorted);
    }
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

    /// The element that has this key, if no other has it: reading it by its index takes longer where there are many.
    #[inline(always)]
    fn of_key(_: u64) -> Option<Self> {
        None
    }
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

    #[inline(always)]
    fn of_key(key: u64) -> Option<f32> {
        let key = key as u32;
        let x = f32::from_bits(if key >> 31 == 1 { key ^ 1 << 31 } else { !key });
        // There are two zeros and many NaNs.
        (x != 0.0 && !x.is_nan()).then_some(x)
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
