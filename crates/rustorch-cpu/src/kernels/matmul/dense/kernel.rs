//! The microkernel: a tile of results in registers, along the whole inner dimension.

use crate::Isa;
use rustorch_core::{C64, C128};
use std::ops::Range;

/// Rows whose elements are contiguous.
#[derive(Clone, Copy)]
pub(crate) struct Pitched<P> {
    /// Where the first one begins.
    pub(crate) first: P,
    /// Elements from one to the next.
    pub(crate) pitch: usize,
}

impl<E> Pitched<*mut E> {
    /// The same, to read.
    pub(crate) fn to_read(self) -> Pitched<*const E> {
        Pitched { first: self.first, pitch: self.pitch }
    }
}

/// `to[i][j] = from[i][j] + Σ x[p][i] · w[p][j]` over `k` values of `p`, in order, from zero without `from`, which may be `to`; `x` is
/// `[k][H]`, `w` is `[k][columns]`, and `from` and `to` have `H` rows of as many columns.
pub(crate) type Tile<E> =
    unsafe fn(k: usize, x: *const E, w: *const E, from: Option<Pitched<*const E>>, to: Pitched<*mut E>);

/// A tile whose left operand is read where it stands: the value `p` of row `i` is `p + i * pitch` elements from the first.
pub(crate) type StridedTile<E> = unsafe fn(
    k: usize,
    x: Pitched<*const E>,
    w: *const E,
    from: Option<Pitched<*const E>>,
    to: Pitched<*mut E>,
);

/// No tile is higher.
pub(crate) const HIGHEST: usize = 12;

/// The kernels of a type on an instruction set.
pub(crate) struct Tiles<E: 'static> {
    /// Columns of every tile.
    pub(crate) columns: usize,
    /// Rows and kernels, ascending from 1 row.
    pub(crate) by_rows: &'static [(usize, Tile<E>)],
    /// Those of left operands that are not packed, if there are any, of as many rows.
    pub(crate) strided: &'static [StridedTile<E>],
}

impl<E> Tiles<E> {
    /// Rows of the highest tile.
    pub(crate) fn most_rows(&self) -> usize {
        self.by_rows[self.by_rows.len() - 1].0
    }

    /// Adds a product of packed operands to packed sums, by one of these tiles.
    ///
    /// # Safety
    /// As of the tile, all of whose rows are as long as it has columns.
    #[inline(always)]
    pub(crate) unsafe fn accumulate(&self, tile: Tile<E>, k: usize, x: *const E, w: *const E, acc: *mut E) {
        let sums = Pitched { first: acc, pitch: self.columns };
        // SAFETY: this function's contract.
        unsafe { tile(k, x, w, Some(sums.to_read()), sums) }
    }

    /// The highest tile of at most `rows` rows.
    pub(crate) fn at_most(&self, rows: usize) -> (usize, Tile<E>) {
        self.by_rows[self.place(rows)]
    }

    /// The place of the highest tile of at most `rows` rows.
    fn place(&self, rows: usize) -> usize {
        self.by_rows.partition_point(|&(height, _)| height <= rows).max(1) - 1
    }

    /// The tiles of rows that begin at a multiple of the [highest](Self::most_rows) and end at one or with the matrix: the
    /// first row of each, its height and kernel.
    pub(crate) fn over(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, usize, Tile<E>)> {
        self.places(rows).map(|(row, place)| (row, self.by_rows[place].0, self.by_rows[place].1))
    }

    /// The same of left operands that are not packed: the first row of each, and its kernel.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn strided_over(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, StridedTile<E>)> {
        self.places(rows).map(|(row, place)| (row, self.strided[place]))
    }

    fn places(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let mut next = rows.start;
        std::iter::from_fn(move || {
            (next < rows.end).then(|| {
                let place = self.place(rows.end - next);
                next += self.by_rows[place].0;
                (next - self.by_rows[place].0, place)
            })
        })
    }
}

/// A type in which products are summed.
pub(crate) trait Scalar: Copy + Send + Sync + 'static {
    /// Zero.
    const ZERO: Self;

    /// `acc + a·b`; integers wrap.
    fn multiply_add(acc: Self, a: Self, b: Self) -> Self;

    /// The kernels for an instruction set of this CPU.
    fn tiles(isa: Isa) -> &'static Tiles<Self>;

    /// Those with tiles of half as many columns, if left operands can be read where they stand.
    fn narrow_tiles(isa: Isa) -> Option<&'static Tiles<Self>>;
}

/// A vector register, or several that act as one.
pub(crate) trait Vector: Copy {
    /// The type of its elements.
    type E: Scalar;
    /// How many.
    const LANES: usize;

    /// # Safety
    /// The CPU has the instruction set, as in all functions here.
    unsafe fn splat(value: Self::E) -> Self;
    /// # Safety
    /// `LANES` elements can be read.
    unsafe fn load(from: *const Self::E) -> Self;
    /// # Safety
    /// `LANES` elements can be written.
    unsafe fn store(self, to: *mut Self::E);
    /// `acc + a·b`.
    ///
    /// # Safety
    /// As above.
    unsafe fn multiply_add(acc: Self, a: Self, b: Self) -> Self;
}

/// A tile of `H` rows and `V` vectors; the value `p` of row `i` of the left operand is `p * value + i * row` elements from the first.
///
/// # Safety
/// As [`Tile`] or [`StridedTile`], on a CPU with the vectors' instruction set.
#[inline(always)]
pub(crate) unsafe fn tile<T: Vector, const H: usize, const V: usize>(
    k: usize,
    x: *const T::E,
    [row, value]: [usize; 2],
    w: *const T::E,
    from: Option<Pitched<*const T::E>>,
    to: Pitched<*mut T::E>,
) {
    // SAFETY: this function's contract.
    unsafe {
        let mut sums = [[T::splat(T::E::ZERO); V]; H];
        if let Some(from) = from {
            for i in 0..H {
                for v in 0..V {
                    sums[i][v] = T::load(from.first.add(i * from.pitch + v * T::LANES));
                }
            }
        }
        for p in 0..k {
            let mut right = [T::splat(T::E::ZERO); V];
            for v in 0..V {
                right[v] = T::load(w.add((p * V + v) * T::LANES));
            }
            for i in 0..H {
                let left = T::splat(*x.add(p * value + i * row));
                for v in 0..V {
                    sums[i][v] = T::multiply_add(sums[i][v], left, right[v]);
                }
            }
        }
        for i in 0..H {
            for v in 0..V {
                sums[i][v].store(to.first.add(i * to.pitch + v * T::LANES));
            }
        }
    }
}

/// Elements as a vector that the compiler maps to registers as it can.
#[derive(Clone, Copy)]
pub(crate) struct Plain<E, const N: usize>([E; N]);

impl<E: Scalar, const N: usize> Vector for Plain<E, N> {
    type E = E;
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn splat(value: E) -> Self {
        Plain([value; N])
    }

    #[inline(always)]
    unsafe fn load(from: *const E) -> Self {
        // SAFETY: this function's contract.
        Plain(unsafe { from.cast::<[E; N]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut E) {
        // SAFETY: this function's contract.
        unsafe { to.cast::<[E; N]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn multiply_add(mut acc: Self, a: Self, b: Self) -> Self {
        for i in 0..N {
            acc.0[i] = E::multiply_add(acc.0[i], a.0[i], b.0[i]);
        }
        acc
    }
}

/// # Safety
/// As [`Tile`].
unsafe fn plain<E: Scalar, const N: usize, const H: usize>(
    k: usize,
    x: *const E,
    w: *const E,
    from: Option<Pitched<*const E>>,
    to: Pitched<*mut E>,
) {
    // SAFETY: this function's contract.
    unsafe { tile::<Plain<E, N>, H, 1>(k, x, [1, H], w, from, to) }
}

/// Whether portable code fuses. Where there is no instruction it rounds twice: these sums are in no order that another
/// implementation shares, so that exact products would cost a lot and buy nothing.
const FUSED: bool = crate::fused::INSTRUCTION;

macro_rules! scalars {
    ($($ty:ty: $zero:expr, $lanes:literal lanes, $multiply_add:expr;)*) => {$(
        impl Scalar for $ty {
            const ZERO: Self = $zero;

            #[inline(always)]
            fn multiply_add(acc: Self, a: Self, b: Self) -> Self {
                let multiply_add: fn(Self, Self, Self) -> Self = $multiply_add;
                multiply_add(acc, a, b)
            }

            fn tiles(isa: Isa) -> &'static Tiles<Self> {
                static PORTABLE: Tiles<$ty> = Tiles {
                    columns: $lanes,
                    by_rows: &[
                        (1, plain::<$ty, $lanes, 1>),
                        (2, plain::<$ty, $lanes, 2>),
                        (4, plain::<$ty, $lanes, 4>),
                    ],
                    strided: &[],
                };
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                if let Some(tiles) = <$ty as super::arch::ByHand>::tiles(isa) {
                    return tiles;
                }
                let _ = isa;
                &PORTABLE
            }

            fn narrow_tiles(isa: Isa) -> Option<&'static Tiles<Self>> {
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                return <$ty as super::arch::ByHand>::narrow_tiles(isa).filter(|tiles| !tiles.strided.is_empty());
                #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
                {
                    let _ = isa;
                    None
                }
            }
        }
    )*};
}

scalars! {
    f32: 0.0, 16 lanes, |acc, a, b| if FUSED { a.mul_add(b, acc) } else { acc + a * b };
    f64: 0.0, 8 lanes, |acc, a, b| if FUSED { a.mul_add(b, acc) } else { acc + a * b };
    C64: C64::new(0.0, 0.0), 8 lanes, |acc, a, b| acc + a * b;
    C128: C128::new(0.0, 0.0), 4 lanes, |acc, a, b| acc + a * b;
    i16: 0, 32 lanes, |acc, a, b| acc.wrapping_add(a.wrapping_mul(b));
    i32: 0, 16 lanes, |acc, a, b| acc.wrapping_add(a.wrapping_mul(b));
    i64: 0, 8 lanes, |acc, a, b| acc.wrapping_add(a.wrapping_mul(b));
}
