//! Eigenvalues of symmetric tridiagonal matrices: the QL algorithm without square roots in its inner loop, by Pal, Walker
//! and Kahan, as LAPACK's `dsterf` has it.

use rustorch_core::MatrixDefect;

/// Sweeps for each eigenvalue after which the algorithm has not converged; two are usual.
const SWEEPS: usize = 30;

/// Overwrites a diagonal with the matrix's eigenvalues, in ascending order. `beside` are the elements below the diagonal,
/// one fewer, which are used up; elements that are smaller beside their neighbours than `precision`, a
/// rounding error of the matrix's dtype, are taken for zero.
///
/// Squares of the elements must be representable.
pub(super) fn eigenvalues(
    diagonal: &mut [f64],
    beside: &mut [f64],
    precision: f64,
) -> Result<(), MatrixDefect> {
    let n = diagonal.len();
    let squared_precision = precision * precision;
    beside.iter_mut().for_each(|e| *e *= *e);
    let mut start = 0;
    while start < n {
        let end = end_of_block(diagonal, beside, start, squared_precision);
        let block = &mut diagonal[start..=end];
        let squares = &mut beside[start..end];
        // Small eigenvalues are found first where small elements come first.
        if block[block.len() - 1].abs() < block[0].abs() {
            block.reverse();
            squares.reverse();
        }
        eigenvalues_of_block(block, squares, squared_precision)?;
        start = end + 1;
    }
    diagonal.sort_unstable_by(f64::total_cmp);
    Ok(())
}

/// The last row that is connected with row `start`: the element below it is negligible.
fn end_of_block(diagonal: &[f64], squares: &[f64], start: usize, squared_precision: f64) -> usize {
    let pairs = diagonal[start..].windows(2);
    let negligible =
        |(square, pair): (&f64, &[f64])| *square <= squared_precision * (pair[0] * pair[1]).abs();
    let rows = squares[start..].iter().zip(pairs).take_while(|&pair| !negligible(pair)).count();
    start + rows
}

/// The eigenvalues of a matrix of which no element beside the diagonal is negligible, in no order.
fn eigenvalues_of_block(
    diagonal: &mut [f64],
    squares: &mut [f64],
    squared_precision: f64,
) -> Result<(), MatrixDefect> {
    let n = diagonal.len();
    let mut sweeps = SWEEPS * n;
    let mut first = 0;
    while first < n {
        let last = end_of_block(diagonal, squares, first, squared_precision);
        if last + 1 < n {
            squares[last] = 0.0;
        }
        match last - first {
            0 => first += 1,
            1 => {
                let of_two = eigenvalues_of_two([diagonal[first], diagonal[last]], squares[first]);
                [diagonal[first], diagonal[last]] = of_two;
                squares[first] = 0.0;
                first += 2;
            }
            _ if sweeps == 0 => return Err(MatrixDefect::NotConverged),
            _ => {
                sweeps -= 1;
                sweep(&mut diagonal[first..=last], &mut squares[first..last]);
            }
        }
    }
    Ok(())
}

/// A QL step from the last row to the first one.
fn sweep(diagonal: &mut [f64], squares: &mut [f64]) {
    let last = squares.len();
    // Wilkinson's shift.
    let root = squares[0].sqrt();
    let half = (diagonal[1] - diagonal[0]) / (2.0 * root);
    let shift = diagonal[0] - root / (half + half.hypot(1.0).copysign(half));
    let (mut cosine, mut sine) = (1.0, 0.0);
    let mut gamma = diagonal[last] - shift;
    let mut p = gamma * gamma;
    for i in (0..last).rev() {
        let square = squares[i];
        let r = p + square;
        if i + 1 < last {
            squares[i + 1] = sine * r;
        }
        let previous = cosine;
        // The inverse by a division of its own, which need not wait for the other one: they are most of a step's time.
        let inverse = r / p;
        cosine = p / r;
        sine = square / r;
        let (old, alpha) = (gamma, diagonal[i]);
        gamma = cosine * (alpha - shift) - sine * old;
        diagonal[i + 1] = old + (alpha - gamma);
        p = if inverse.is_finite() {
            gamma * gamma * inverse
        } else if cosine != 0.0 {
            gamma * gamma / cosine
        } else {
            previous * square
        };
    }
    squares[0] = sine * p;
    diagonal[0] = shift + gamma;
}

/// The eigenvalues of a matrix of two rows, of which the element beside the diagonal is given by its square.
fn eigenvalues_of_two([a, c]: [f64; 2], square: f64) -> [f64; 2] {
    let (sum, distance) = (a + c, (a - c).hypot(2.0 * square.sqrt()));
    // The larger one, and the other one of their product, without cancellation.
    let large = 0.5 * (sum + distance.copysign(sum));
    if large == 0.0 {
        return [0.0, 0.0];
    }
    let (most, least) = if a.abs() > c.abs() { (a, c) } else { (c, a) };
    [large, most / large * least - square / large]
}
