//! Rows times factors, added to rows of sums that stay in memory.

use super::Arithmetic;
use super::vector::Values;
use crate::math::Real;
use crate::simd::{self, LANES, Level};

/// `sums[c] += Σ factors[i] · rows[i][c]`, one after the other, for `n` values of `c`.
///
/// # Safety
/// The rows and the sums have as many values.
#[inline(always)]
pub(super) unsafe fn add_scaled<L: Level, A: Arithmetic, const N: usize>(
    l: L,
    factors: [A::E; N],
    rows: [*const A::X; N],
    sums: *mut A::E,
    n: usize,
) where
    A::E: Real,
{
    for c in 0..n {
        // SAFETY: this function's contract.
        unsafe {
            let mut sum = *sums.add(c);
            for i in 0..N {
                sum = factors[i].fma(l, A::x(*rows[i].add(c)), sum);
            }
            *sums.add(c) = sum;
        }
    }
}

/// [`add_scaled`], where the next rows, `step` elements after these, are prefetched; `FIRST` begins sums, whose memory was not written.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn add_scaled_ahead<L: Level, A: Arithmetic, const N: usize, const FIRST: bool>(
    l: L,
    factors: [A::E; N],
    rows: [*const A::X; N],
    step: usize,
    sums: *mut A::E,
    n: usize,
) where
    A::X: Values<A::E>,
    A::E: Real,
{
    // SAFETY: this function's contract.
    unsafe {
        for c in (0..n - n % LANES).step_by(LANES) {
            let to = sums.add(c).cast::<[A::E; LANES]>();
            let mut lanes = [<A::E as Real>::ZERO; LANES];
            if !FIRST {
                lanes = to.read_unaligned();
            }
            for i in 0..N {
                simd::prefetch_l2(rows[i].wrapping_add(step + c));
                let right = A::X::load(l, rows[i].add(c));
                for j in 0..LANES {
                    lanes[j] = factors[i].fma(l, right[j], lanes[j]);
                }
            }
            to.write_unaligned(lanes);
        }
        for c in n - n % LANES..n {
            let mut sum = if FIRST { <A::E as Real>::ZERO } else { *sums.add(c) };
            for i in 0..N {
                sum = factors[i].fma(l, A::x(*rows[i].add(c)), sum);
            }
            *sums.add(c) = sum;
        }
    }
}

/// [`add_scaled`] for several rows of sums, each with factors of its own.
///
/// # Safety
/// The rows and the sums have as many values.
#[inline(always)]
pub(super) unsafe fn add_scaled_rows<L: Level, A: Arithmetic, const N: usize, const M: usize>(
    l: L,
    factors: [[A::E; N]; M],
    rows: [*const A::X; N],
    sums: [*mut A::E; M],
    n: usize,
) where
    A::X: Values<A::E>,
    A::E: Real,
{
    // SAFETY: this function's contract.
    unsafe {
        for c in (0..n - n % LANES).step_by(LANES) {
            let mut right = [[<A::E as Real>::ZERO; LANES]; N];
            for i in 0..N {
                right[i] = A::X::load(l, rows[i].add(c));
            }
            for m in 0..M {
                let to = sums[m].add(c).cast::<[A::E; LANES]>();
                let mut lanes = to.read_unaligned();
                for i in 0..N {
                    for j in 0..LANES {
                        lanes[j] = factors[m][i].fma(l, right[i][j], lanes[j]);
                    }
                }
                to.write_unaligned(lanes);
            }
        }
        for c in n - n % LANES..n {
            for m in 0..M {
                for i in 0..N {
                    *sums[m].add(c) = factors[m][i].fma(l, A::x(*rows[i].add(c)), *sums[m].add(c));
                }
            }
        }
    }
}
