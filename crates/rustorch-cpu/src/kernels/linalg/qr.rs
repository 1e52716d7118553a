//! Factors of orthonormal columns and an upper triangle, by Householder's reflections.
//!
//! A reflection is `H = I − τ·v·vᴴ`, with LAPACK's choice of signs: the diagonal of `R` is real and has the opposite sign
//! of what stood there. Reflections of a block are applied together, as `I − V·T·Vᴴ` with an upper triangle `T`.

use super::Place;
use super::number::{Divisor, Number};
use crate::ThreadPool;
use crate::kernels::matmul::{Left, subtract_matmul};
use crate::simd::{self, Level, Task};

/// Columns that are reflected one after the other.
const WIDTH: usize = 16;
/// Columns whose reflections are applied together to the rest of the matrix.
const BLOCK: usize = 64;

/// Elements of work space for a matrix of `m` rows and `n` columns of which `k` columns of `Q` are wanted, apart from
/// the matrix itself.
pub(super) fn room(m: usize, n: usize, k: usize) -> usize {
    let reflections = m.min(n);
    reflections * (m + BLOCK) + m * WIDTH + 2 * BLOCK * n.max(k)
}

/// The reflections of a block: `V` has `rows` rows of `width`, `T` is `width` by `width`.
#[derive(Clone, Copy)]
struct Reflections<T> {
    v: Place<T>,
    t: Place<T>,
    rows: usize,
    width: usize,
}

/// Two scratch matrices of [`BLOCK`] rows.
#[derive(Clone, Copy)]
struct Scratch<T>([*mut T; 2]);

/// Replaces the upper triangle of `a`, a matrix of `m` rows and `n` columns, by `R`, and writes the first `k` columns of
/// `Q`, `[m, k]`. What stands below the diagonal of `a` is spoilt; `work` has [`room`].
pub(super) fn factor<T: Number>(
    pool: &ThreadPool,
    a: &mut [T],
    [m, n, k]: [usize; 3],
    q: &mut [T],
    work: &mut [T],
) {
    let reflections = m.min(n);
    assert!(a.len() == m * n && q.len() == m * k && work.len() >= room(m, n, k) && reflections <= k);
    q.fill(T::ZERO);
    for i in 0..k.min(m) {
        q[i * k + i] = T::ONE;
    }
    let (vs, work) = work.split_at_mut(reflections * m);
    let (ts, work) = work.split_at_mut(reflections * BLOCK);
    let (panel, work) = work.split_at_mut(m * WIDTH);
    let (one, two) = work.split_at_mut(BLOCK * n.max(k));
    let scratch = Scratch([one.as_mut_ptr(), two.as_mut_ptr()]);
    let (a, q) = (Place { at: a.as_mut_ptr(), row: n }, Place { at: q.as_mut_ptr(), row: k });
    vs.fill(T::ZERO);
    ts.fill(T::ZERO);
    let (vs, ts) = (vs.as_mut_ptr(), ts.as_mut_ptr());
    let blocks = |first: usize| {
        let width = BLOCK.min(reflections - first);
        let v = Place { at: vs.wrapping_add(first * m), row: width };
        let t = Place { at: ts.wrapping_add(first * BLOCK), row: width };
        Reflections { v, t, rows: m - first, width }
    };
    // SAFETY: `a`, `q` and the parts of `work` have the sizes that the functions ask for, and are borrowed mutably.
    unsafe {
        for first in (0..reflections).step_by(BLOCK) {
            let block = blocks(first);
            reflect_block(pool, a.block(first, first), &block, panel, scratch);
            let rest = first + block.width;
            apply(pool, &block, Factor::Adjoint, a.block(first, rest), n - rest, scratch);
        }
        for first in (0..reflections).step_by(BLOCK).rev() {
            let block = blocks(first);
            // What blocks behind it have not changed is still the identity's.
            let rest = first + block.width;
            let ones = if rest == reflections { k.min(m) } else { rest } - first;
            apply(pool, &block, Factor::Plain { ones }, q.block(first, first), k - first, scratch);
        }
    }
}

/// Factors the columns of a block, and finds its reflections.
///
/// # Safety
/// `a` has the block's rows and columns; it, the block and the scratch are the caller's alone, and the block is zero.
unsafe fn reflect_block<T: Number>(
    pool: &ThreadPool,
    a: Place<T>,
    block: &Reflections<T>,
    panel: &mut [T],
    scratch: Scratch<T>,
) {
    for first in (0..block.width).step_by(WIDTH) {
        let width = WIDTH.min(block.width - first);
        let rows = block.rows - first;
        let part =
            Reflections { v: block.v.block(first, first), t: block.t.block(first, first), rows, width };
        // SAFETY: this function's contract; all blocks are parts of what it names, and disjoint.
        unsafe {
            reflect_panel(a.block(first, first), &part, panel);
            apply(
                pool,
                &part,
                Factor::Adjoint,
                a.block(first, first + width),
                block.width - first - width,
                scratch,
            );
            // T of both is [T₀, −T₀·V₀ᴴ·V₁·T₁; 0, T₁]. V₁ is zero in the first rows.
            let [one, two] = scratch.0.map(|at| Place { at, row: width });
            one.clear(first, width);
            two.clear(first, width);
            let before = block.v.block(first, 0);
            let sizes = [first, width, rows];
            subtract_matmul(pool, sizes, adjoint(before), part.v.read(), one.write());
            let sizes = [first, width, first];
            subtract_matmul(pool, sizes, plain(block.t), one.read(), two.write());
            let sizes = [first, width, width];
            let to = block.t.block(0, first);
            subtract_matmul(pool, sizes, plain(two), part.t.read(), to.write());
        }
    }
}

/// What a matrix is multiplied by.
#[derive(Clone, Copy)]
enum Factor {
    /// The adjoint of the product of a block's reflections.
    Adjoint,
    /// The product of a block's reflections. The matrix begins with `ones` columns of the identity.
    Plain { ones: usize },
}

/// `c −= V·T'·Vᴴ·c` for `columns` columns, where `T'` is `T`, or its adjoint: the product of the reflections, or of its
/// adjoint, with `c`.
///
/// # Safety
/// `c` has the block's rows and these columns, and as many rows and columns as it has ones; it and the scratch are the caller's alone.
unsafe fn apply<T: Number>(
    pool: &ThreadPool,
    block: &Reflections<T>,
    factor: Factor,
    c: Place<T>,
    columns: usize,
    scratch: Scratch<T>,
) {
    let [one, two] = scratch.0.map(|at| Place { at, row: columns });
    let &Reflections { v, t, rows, width } = block;
    let (t, ones) = match factor {
        Factor::Adjoint => (adjoint(t), 0),
        Factor::Plain { ones } => (plain(t), ones),
    };
    // SAFETY: this function's contract; the scratch has room for `width` rows of these columns.
    unsafe {
        one.clear(width, columns);
        two.clear(width, columns);
        subtract_matmul(pool, [width, columns, rows], adjoint(v), c.read(), one.write());
        subtract_matmul(pool, [width, columns, width], t, one.read(), two.write());
        // The products are subtracted one by one. Those from ones are added up before: each would be rounded as a number of that size.
        for i in 0..ones {
            *c.block(i, i).at = T::ZERO;
        }
        subtract_matmul(pool, [rows, columns, width], plain(v), two.read(), c.write());
        for i in 0..ones {
            let at = c.block(i, i).at;
            *at = *at + T::ONE;
        }
    }
}

fn plain<T>(a: Place<T>) -> Left<T> {
    Left { at: a.at.cast_const(), strides: [a.row, 1], conj: false }
}

fn adjoint<T>(a: Place<T>) -> Left<T> {
    Left { at: a.at.cast_const(), strides: [1, a.row], conj: true }
}

/// Factors up to [`WIDTH`] columns, gathered so that a row is a vector or a few.
///
/// # Safety
/// `a` has the part's rows and columns; it and the part are the caller's alone.
unsafe fn reflect_panel<T: Number>(a: Place<T>, part: &Reflections<T>, panel: &mut [T]) {
    let width = part.width;
    let (rows, _) = panel[..part.rows * WIDTH].as_chunks_mut::<WIDTH>();
    for (i, row) in rows.iter_mut().enumerate() {
        // SAFETY: a row of the block.
        row[..width].copy_from_slice(unsafe { std::slice::from_raw_parts(a.block(i, 0).at, width) });
        row[width..].fill(T::ZERO);
    }
    let mut t = [[T::ZERO; WIDTH]; WIDTH];
    simd::run(Panel { rows, width, t: &mut t });
    for (i, row) in rows.iter().enumerate() {
        // SAFETY: as above; V has as many rows and columns.
        let (to, v) = unsafe {
            let part = std::slice::from_raw_parts_mut(part.v.block(i, 0).at, width);
            (std::slice::from_raw_parts_mut(a.block(i, 0).at, width), part)
        };
        to.copy_from_slice(&row[..width]);
        let below = i.min(width);
        v[..below].copy_from_slice(&row[..below]);
        if i < width {
            v[i] = T::ONE;
        }
    }
    for (i, row) in t[..width].iter().enumerate() {
        // SAFETY: T has as many rows and columns.
        unsafe { std::slice::from_raw_parts_mut(part.t.block(i, 0).at, width) }
            .copy_from_slice(&row[..width]);
    }
}

struct Panel<'a, T> {
    rows: &'a mut [[T; WIDTH]],
    width: usize,
    t: &'a mut [[T; WIDTH]; WIDTH],
}

impl<T: Number> Task for Panel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        for j in 0..self.width {
            let (top, below) = self.rows.split_at_mut(j + 1);
            let top = &mut top[j];
            let (re, im) = top[j].parts();
            let rest = column_norm(below, j);
            if rest == 0.0 && im == 0.0 {
                // Nothing to reflect: H is the identity, τ is zero.
                continue;
            }
            let beta = -re.hypot(im).hypot(rest).copysign(re);
            let tau = T::from_parts((beta - re) / beta, -im / beta);
            let divisor = Divisor::new(T::from_parts(re - beta, im));
            // vᴴ times all columns: those before are V, those after are the matrix. v begins with a one.
            let mut sums = [[T::ZERO; WIDTH]; 4];
            let (fours, tail) = below.as_chunks_mut::<4>();
            for four in fours {
                for (row, sums) in four.iter_mut().zip(&mut sums) {
                    add_row(row, j, divisor, sums);
                }
            }
            for (row, sums) in tail.iter_mut().zip(&mut sums) {
                add_row(row, j, divisor, sums);
            }
            let mut product = *top;
            for c in 0..WIDTH {
                product[c] = product[c] + ((sums[0][c] + sums[1][c]) + (sums[2][c] + sums[3][c]));
            }
            self.t[j][j] = tau;
            for r in 0..j {
                let mut sum = T::ZERO;
                for c in r..j {
                    sum = sum + self.t[r][c] * product[c].conj();
                }
                self.t[r][j] = -(tau * sum);
            }
            let mut change = [T::ZERO; WIDTH];
            for c in j + 1..self.width {
                change[c] = tau.conj() * product[c];
            }
            for (value, change) in top.iter_mut().zip(change) {
                *value = *value - change;
            }
            top[j] = T::from_parts(beta, 0.0);
            for row in below {
                let v = row[j];
                for (value, change) in row.iter_mut().zip(change) {
                    *value = *value - v * change;
                }
            }
        }
    }
}

/// Makes element `j` of a row one of `v`, and adds the products of its conjugate with the row.
#[inline(always)]
fn add_row<T: Number>(row: &mut [T; WIDTH], j: usize, divisor: Divisor<T>, sums: &mut [T; WIDTH]) {
    let v = divisor.divide(row[j]);
    row[j] = v;
    let v = v.conj();
    for (sum, &value) in sums.iter_mut().zip(&*row) {
        *sum = *sum + v * value;
    }
}

/// The Euclidean norm of column `j`, also where squares overflow or vanish.
#[inline(always)]
fn column_norm<T: Number>(rows: &[[T; WIDTH]], j: usize) -> f64 {
    let squares = |scale: f64| {
        let mut sums = [0.0; 4];
        let (fours, tail) = rows.as_chunks::<4>();
        let square = |row: &[T; WIDTH]| {
            let (re, im) = row[j].parts();
            (re * scale) * (re * scale) + (im * scale) * (im * scale)
        };
        for four in fours {
            for (row, sum) in four.iter().zip(&mut sums) {
                *sum += square(row);
            }
        }
        for (row, sum) in tail.iter().zip(&mut sums) {
            *sum += square(row);
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    };
    let sum = squares(1.0);
    // Below, squares have lost digits; only f64 gets here, or zeros.
    if sum.is_finite() && sum > 1e-280 {
        return sum.sqrt();
    }
    let largest = rows.iter().map(|row| row[j].modulus()).fold(0.0, f64::max);
    if largest == 0.0 || !largest.is_finite() {
        return sum;
    }
    // A power of two, so that scaling is exact; in two steps, as the inverse of the least number is not finite.
    let scale = f64::from_bits((2046 - (largest.to_bits() >> 52).clamp(1, 2045)) << 52);
    squares(scale).sqrt() / scale
}
