//! Dropout: elements times a mask, which is a function of the key and of their positions.

use super::random::{BLOCKS, Blocks};
use super::strided::{self, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, Level, Task};
use rustorch_core::{Dropout, Fault, PhiloxKey, View, ViewMut, dispatch_dtype};

/// Elements of a group, which takes [`BLOCKS`] Philox blocks.
const GROUP: usize = Dropout::GROUP;
/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 13;

pub(super) fn run(
    pool: &ThreadPool,
    dropout: &Dropout,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let Dropout { p, key } = *dropout;
    let below = dropout.threshold();
    dispatch_dtype!(x.dtype(), float, T => {
        let scale = <T as Wide>::Acc::of(1.0 / (1.0 - p));
        strided::map1_at(pool, out, x, GRAIN, &|at, x: &[T], out: &mut [T]| {
            let (mut wide, mut result) = (Vec::new(), Vec::new());
            let x = T::widen(x, &mut wide);
            T::narrow(out, &mut result, |out| simd::run(Masked { key, below, scale, at, x, out }));
        })
    }, _ => Err(unreachable_memory()))
}

/// The masks of elements from a position on: what each is multiplied with.
pub(super) fn masks<T: Real>(dropout: &Dropout, mut at: usize, mut out: &mut [T]) {
    let ones = [T::ONE; GROUP];
    let (key, below, scale) = (dropout.key, dropout.threshold(), T::of(1.0 / (1.0 - dropout.p)));
    while !out.is_empty() {
        let n = out.len().min(GROUP - at % GROUP);
        let (now, later) = out.split_at_mut(n);
        simd::run(Masked { key, below, scale, at, x: &ones[..n], out: now });
        at += n;
        out = later;
    }
}

/// Elements from a position on, times their masks.
struct Masked<'a, T> {
    key: PhiloxKey,
    /// An element whose 32 random bits are below this is kept.
    below: u64,
    /// What it is multiplied with then.
    scale: T,
    at: usize,
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Task for Masked<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Masked { key, below, scale, mut at, mut x, mut out } = self;
        while !x.is_empty() {
            let skip = at % GROUP;
            let n = x.len().min(GROUP - skip);
            let (now, later) = x.split_at(n);
            let (to, rest) = out.split_at_mut(n);
            let group = Group { key, below, scale, first: (at / GROUP * BLOCKS) as u64 };
            match (now.first_chunk::<GROUP>(), to.first_chunk_mut::<GROUP>()) {
                (Some(now), Some(to)) => group.apply(l, now, to),
                _ => {
                    let (mut padded, mut masked) = ([T::ZERO; GROUP], [T::ZERO; GROUP]);
                    padded[skip..skip + n].copy_from_slice(now);
                    group.apply(l, &padded, &mut masked);
                    to.copy_from_slice(&masked[skip..skip + n]);
                }
            }
            (x, out) = (later, rest);
            at += n;
        }
    }
}

struct Group<T> {
    key: PhiloxKey,
    below: u64,
    scale: T,
    /// Its first block.
    first: u64,
}

impl<T: Real> Group<T> {
    #[inline(always)]
    fn apply<L: Level>(&self, l: L, x: &[T; GROUP], out: &mut [T; GROUP]) {
        let (high, low) = ((self.below >> 16) as u32, (self.below & 0xFFFF) as u32);
        let words = Blocks(self.key, self.first).run(l);
        let mut undecided = [0u32; BLOCKS];
        // Both halves of a word make sixteen masks each.
        let (xs, outs) = (x.as_chunks::<{ 2 * BLOCKS }>().0, out.as_chunks_mut::<{ 2 * BLOCKS }>().0);
        for ((words, x), out) in words.iter().zip(xs).zip(outs) {
            let mut masks = [T::ZERO; 2 * BLOCKS];
            for j in 0..BLOCKS {
                let (first, second) = (words[j] & 0xFFFF, words[j] >> 16);
                masks[j] = if first < high { self.scale } else { T::ZERO };
                masks[j + BLOCKS] = if second < high { self.scale } else { T::ZERO };
                undecided[j] |= u32::from(first == high) | u32::from(second == high);
            }
            for ((out, &x), mask) in out.iter_mut().zip(x).zip(masks) {
                *out = x * mask;
            }
        }
        // In one of 65536 elements the lower bits decide.
        if undecided.iter().fold(0, |all, &any| all | any) != 0 {
            let lower = Blocks(self.key, self.first ^ Dropout::LOWER).run(l);
            for (i, (&x, out)) in x.iter().zip(out).enumerate() {
                let (k, j) = (i / BLOCKS, i % BLOCKS);
                if half(&words, k, j) == high && half(&lower, k, j) < low {
                    *out = x * self.scale;
                }
            }
        }
    }
}

/// Half-word `k` of block `j`.
#[inline(always)]
fn half(words: &[[u32; BLOCKS]; 4], k: usize, j: usize) -> u32 {
    words[k / 2][j] >> (k % 2 * 16) & 0xFFFF
}
