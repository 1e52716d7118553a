//! Packing operands into panels, in the order in which tiles read them.

use super::Arithmetic;
use super::kernel::Scalar;
use crate::Isa;

/// `k` values of `n` columns as `[k][columns]`, zero beyond `n`. Element `(p, j)` is `w[p * k_stride + j * n_stride]`.
///
/// # Safety
/// Every such element can be read, and `k * columns` elements of `out` written. The CPU has `isa`.
pub(crate) unsafe fn pack_columns<A: Arithmetic>(
    isa: Isa,
    w: *const A::W,
    (k, n): (usize, usize),
    (k_stride, n_stride): (usize, usize),
    columns: usize,
    out: *mut A::E,
) {
    #[cfg(target_arch = "x86_64")]
    if k_stride == 1 && size_of::<A::E>() == 4 && matches!(isa, Isa::Avx2 | Isa::AvxVnni | Isa::Avx512) {
        // SAFETY: this function's contract.
        if unsafe { transpose_columns::<A>(w, (k, n), n_stride, columns, out) } {
            return;
        }
    }
    let _ = isa;
    // SAFETY: this function's contract.
    unsafe {
        if k_stride < n_stride {
            for j in 0..n {
                for p in 0..k {
                    *out.add(p * columns + j) = A::w(*w.add(p * k_stride + j * n_stride));
                }
            }
        } else if n_stride == 1 {
            // A loop of its own, which the compiler turns into copies of whole vectors.
            for p in 0..k {
                for j in 0..n {
                    *out.add(p * columns + j) = A::w(*w.add(p * k_stride + j));
                }
            }
        } else {
            for p in 0..k {
                for j in 0..n {
                    *out.add(p * columns + j) = A::w(*w.add(p * k_stride + j * n_stride));
                }
            }
        }
        for p in 0..k {
            for j in n..columns {
                *out.add(p * columns + j) = A::E::ZERO;
            }
        }
    }
}

/// [`pack_columns`] for columns that lie along the inner dimension, by eight. `false` if the type cannot.
///
/// # Safety
/// As there; the CPU has AVX2 and F16C, and sums have 32 bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn transpose_columns<A: Arithmetic>(
    w: *const A::W,
    (k, n): (usize, usize),
    n_stride: usize,
    columns: usize,
    out: *mut A::E,
) -> bool {
    use super::x86::transpose;
    use std::arch::x86_64::*;
    let out = out.cast::<f32>();
    let full = k / 8 * 8;
    // SAFETY: this function's contract. Columns past the end are read as the last one, and set to zero.
    unsafe {
        for j in (0..columns).step_by(8) {
            let column = |c: usize| w.add((j + c).min(n - 1) * n_stride);
            let starts =
                [column(0), column(1), column(2), column(3), column(4), column(5), column(6), column(7)];
            let mut keep = [0i32; 8];
            keep[..(n.max(j) - j).min(8)].fill(-1);
            let keep = _mm256_castsi256_ps(_mm256_loadu_si256(keep.as_ptr().cast()));
            for p in (0..full).step_by(8) {
                let mut rows = [_mm256_setzero_ps(); 8];
                for c in 0..8 {
                    match A::load8(starts[c].add(p)) {
                        Some(row) => rows[c] = row,
                        None => return false,
                    }
                }
                let rows = transpose(rows);
                for c in 0..8 {
                    _mm256_storeu_ps(out.add((p + c) * columns + j), _mm256_and_ps(rows[c], keep));
                }
            }
            for p in full..k {
                for c in 0..8 {
                    let value = if j + c < n { A::w(*starts[c].add(p)) } else { A::E::ZERO };
                    *out.cast::<A::E>().add(p * columns + j + c) = value;
                }
            }
        }
    }
    true
}

/// `rows` of one height as `[k][height]`.
///
/// # Safety
/// Each row has `k` elements `stride` apart, and `k * rows.len()` elements of `out` can be written.
pub(crate) unsafe fn pack_rows<A: Arithmetic>(rows: &[*const A::X], k: usize, stride: usize, out: *mut A::E) {
    // SAFETY: this function's contract.
    unsafe {
        match *rows {
            [a, b, c, d, e, f, g, h, i, j, l, m] => {
                pack_side_by_side::<A, 12>([a, b, c, d, e, f, g, h, i, j, l, m], k, stride, out);
            }
            [a, b, c, d, e, f, g, h] => {
                pack_side_by_side::<A, 8>([a, b, c, d, e, f, g, h], k, stride, out);
            }
            [a, b, c, d, e, f] => pack_side_by_side::<A, 6>([a, b, c, d, e, f], k, stride, out),
            [a, b, c, d] => pack_side_by_side::<A, 4>([a, b, c, d], k, stride, out),
            _ => {
                for (i, &row) in rows.iter().enumerate() {
                    for p in 0..k {
                        *out.add(p * rows.len() + i) = A::x(*row.add(p * stride));
                    }
                }
            }
        }
    }
}

/// [`pack_rows`] for a height known beforehand, which fills each line of the result at once.
///
/// # Safety
/// As there.
unsafe fn pack_side_by_side<A: Arithmetic, const H: usize>(
    rows: [*const A::X; H],
    k: usize,
    stride: usize,
    out: *mut A::E,
) {
    // Rows of a transposed matrix lie beside each other: so do those of a line.
    let beside = (1..H).all(|i| rows[i] == rows[0].wrapping_add(i));
    if beside && stride != 1 {
        for p in 0..k {
            // SAFETY: this function's contract.
            unsafe {
                let line: [A::E; H] = (*rows[0].add(p * stride).cast::<[A::X; H]>()).map(A::x);
                out.add(p * H).cast::<[A::E; H]>().write_unaligned(line);
            }
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    let done = if A::SUMS_ARE_RESULTS
        && size_of::<A::E>() == 4
        && H.is_multiple_of(4)
        && stride == 1
        && Isa::detect() > Isa::Portable
    {
        let done = k / 8 * 8;
        // SAFETY: this function's contract; the CPU has AVX2, and elements have 32 bits, as factors have.
        unsafe { super::x86::interleave(rows.map(<*const A::X>::cast), done, out.cast()) };
        if !A::IS_PLAIN {
            for i in 0..done * H {
                // SAFETY: packed elements, of the factors' type by `SUMS_ARE_RESULTS`.
                unsafe { *out.add(i) = A::x(*out.add(i).cast::<A::X>()) };
            }
        }
        done
    } else {
        0
    };
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    for p in done..k {
        // SAFETY: this function's contract.
        unsafe {
            for i in 0..H {
                *out.add(p * H + i) = A::x(*rows[i].add(p * stride));
            }
        }
    }
}
