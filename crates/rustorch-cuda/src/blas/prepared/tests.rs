//! What is set, read back from a real cuBLASLt. Its descriptions are of the host: no GPU is needed, only the library. Which
//! algorithm it chooses, and whether it has one, only a GPU tells.
#![allow(clippy::print_stdout, reason = "skipped tests say so")]

#[path = "../../../tests/it/common/gemms.rs"]
mod gemms;

use super::*;
use gemms::{ARRANGEMENTS, DTYPES, Strided};
use rustorch_testkit::{Requirement, skip};

/// The library, by `CUBLASLT_PATH`, toolkit or Python package; else what is missing is said.
fn library() -> Option<&'static CublasLt> {
    match crate::libraries::cublaslt() {
        Ok(library) => {
            // SAFETY: it takes nothing, and may be called at any time.
            println!("cuBLASLt {}", unsafe { (library.cublasLtGetVersion)() });
            Some(library)
        }
        Err(why) => {
            skip(Requirement::CublasLt, why);
            None
        }
    }
}

/// Eight 3 × 5 by 5 × 7 matmuls: rows of `a` apart, `b` transposed and the same for all.
fn product(dtype: DType, batch: usize) -> BatchedGemm {
    BatchedGemm {
        dtype,
        out_dtype: dtype,
        m: 3,
        n: 7,
        k: 5,
        batch,
        a: MatrixBatch { pitch: 6, transposed: false, step: 18 },
        b: MatrixBatch { pitch: 9, transposed: true, step: 0 },
        out: MatrixBatch { pitch: 7, transposed: false, step: 21 },
        accumulate: false,
    }
}

/// An attribute as the library keeps it, which must have the size of `T`.
fn read<T: Default>(get: impl Fn(*mut c_void, usize, *mut usize) -> Status) -> T {
    let (mut value, mut written) = (T::default(), 0);
    let status = get((&raw mut value).cast(), size_of::<T>(), &mut written);
    assert_eq!(status, Status::CUBLAS_STATUS_SUCCESS);
    assert_eq!(written, size_of::<T>());
    value
}

fn layout<T: Default>(of: &LayoutOf, attribute: Layout) -> T {
    // SAFETY: the description lives, and the value goes to a variable of the size that is given.
    read(|to, size, written| unsafe {
        (of.library.cublasLtMatrixLayoutGetAttribute)(of.raw, attribute, to, size, written)
    })
}

fn wish<T: Default>(of: &Wishes, attribute: Wish) -> T {
    // SAFETY: as above.
    read(|to, size, written| unsafe {
        (of.library.cublasLtMatmulPreferenceGetAttribute)(of.raw, attribute, to, size, written)
    })
}

#[test]
fn matmuls_are_described_as_they_are() {
    let Some(library) = library() else { return };
    for dtype in DTYPES {
        let kind = Kind::of(dtype).unwrap();
        let described = Described::new(library, &product(dtype, 8)).unwrap().unwrap();
        let attribute = |attribute| {
            let raw = described.product.raw;
            // SAFETY: the description lives, and the value goes to a variable of the size that is given.
            read::<i32>(|to, size, written| unsafe {
                (library.cublasLtMatmulDescGetAttribute)(raw, attribute, to, size, written)
            })
        };
        assert_eq!(attribute(Description::CUBLASLT_MATMUL_DESC_COMPUTE_TYPE), kind.compute as i32);
        assert_eq!(attribute(Description::CUBLASLT_MATMUL_DESC_SCALE_TYPE), kind.scale as i32);
        assert_eq!(attribute(Description::CUBLASLT_MATMUL_DESC_TRANSA), TRANSPOSED);
        assert_eq!(attribute(Description::CUBLASLT_MATMUL_DESC_TRANSB), AS_IT_LIES);
        assert_eq!(attribute(Description::CUBLASLT_MATMUL_DESC_POINTER_MODE), 0, "factors are of the host");
        assert_eq!(attribute(Description::CUBLASLT_MATMUL_DESC_EPILOGUE), 1, "nothing else is done");

        // By columns: `b` as it lies is 5 × 7, `a` is 5 × 3, the result 7 × 3.
        let sizes = [
            (&described.left, 5, 7, 9, 0),
            (&described.right, 5, 3, 6, 18),
            (&described.result, 7, 3, 7, 21),
        ];
        for (of, rows, columns, pitch, step) in sizes {
            assert_eq!(layout::<u32>(of, Layout::CUBLASLT_MATRIX_LAYOUT_TYPE), kind.data as u32);
            assert_eq!(layout::<i32>(of, Layout::CUBLASLT_MATRIX_LAYOUT_ORDER), 0, "by columns");
            assert_eq!(layout::<u64>(of, Layout::CUBLASLT_MATRIX_LAYOUT_ROWS), rows);
            assert_eq!(layout::<u64>(of, Layout::CUBLASLT_MATRIX_LAYOUT_COLS), columns);
            assert_eq!(layout::<i64>(of, Layout::CUBLASLT_MATRIX_LAYOUT_LD), pitch);
            assert_eq!(layout::<i32>(of, Layout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT), 8);
            assert_eq!(layout::<i64>(of, Layout::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET), step);
        }
        let one = Described::new(library, &product(dtype, 1)).unwrap().unwrap();
        assert_eq!(layout::<i32>(&one.left, Layout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT), 1);
    }
}

/// Where the matrices of an operand lie whose leading dimensions are one batch of `batch`, or those of the longest of several.
fn matrices((dims, strides, _): Strided<'_>, batch: usize) -> MatrixBatch {
    let (leading, [rows, columns]) = dims.split_last_chunk().unwrap();
    let (steps, [row, column]) = strides.split_last_chunk().unwrap();
    let longest = leading.iter().position(|&len| len == batch);
    let step = longest.filter(|_| batch > 1).map_or(0, |d| steps[d]);
    let (lines, len, pitch, transposed) = match *column == 1 || *columns == 1 {
        true => (*rows, *columns, *row, false),
        false => (*columns, *rows, *column, true),
    };
    MatrixBatch { pitch: if lines == 1 { len } else { pitch }, transposed, step }
}

/// The elements at the corners of a batch of matrices, whose rows are `i` and whose columns are `j`: as cuBLASLt finds them, by
/// columns, and as they lie.
fn corners(of: &LayoutOf, operation: i32, matrices: MatrixBatch, [rows, columns]: [usize; 2], batch: usize) {
    let [across, down] = [rows, columns].map(|len| len as u64);
    // The library's matrix is the transposed one.
    let size = [
        layout::<u64>(of, Layout::CUBLASLT_MATRIX_LAYOUT_ROWS),
        layout(of, Layout::CUBLASLT_MATRIX_LAYOUT_COLS),
    ];
    assert_eq!(size, if operation == TRANSPOSED { [across, down] } else { [down, across] });
    let pitch = layout::<i64>(of, Layout::CUBLASLT_MATRIX_LAYOUT_LD) as usize;
    assert!(pitch as u64 >= size[0], "columns overlap");
    assert_eq!(layout::<i32>(of, Layout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) as usize, batch);
    let step = layout::<i64>(of, Layout::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) as usize;
    for matrix in [0, batch - 1] {
        for (i, j) in [(0, 0), (rows - 1, 0), (0, columns - 1), (rows - 1, columns - 1)] {
            let [row, column] = if operation == TRANSPOSED { [i, j] } else { [j, i] };
            assert_eq!(matrix * step + row + column * pitch, matrices.at(matrix, i, j));
        }
    }
}

#[test]
fn every_arrangement_is_described() {
    let Some(library) = library() else { return };
    for dtype in DTYPES {
        for &(a, b, calls) in ARRANGEMENTS {
            let longest = |dims: &[usize]| dims[..dims.len() - 2].iter().copied().max().unwrap_or(1);
            let batch = longest(a.0).max(longest(b.0));
            let ([.., m, k], [.., n]) = (a.0, b.0) else { panic!("matrices") };
            let (m, n, k) = (*m, *n, *k);
            let out = MatrixBatch { pitch: n, transposed: false, step: calls * m * n };
            let (a, b) = (matrices(a, batch), matrices(b, batch));
            let product =
                BatchedGemm { dtype, out_dtype: dtype, m, n, k, batch, a, b, out, accumulate: true };
            let described = Described::new(library, &product).unwrap().unwrap();
            let operation = |attribute| {
                let raw = described.product.raw;
                // SAFETY: the description lives, and the value goes to a variable of the size that is given.
                read::<i32>(|to, size, written| unsafe {
                    (library.cublasLtMatmulDescGetAttribute)(raw, attribute, to, size, written)
                })
            };
            let left = operation(Description::CUBLASLT_MATMUL_DESC_TRANSA);
            let right = operation(Description::CUBLASLT_MATMUL_DESC_TRANSB);
            corners(&described.left, left, b, [k, n], batch);
            corners(&described.right, right, a, [m, k], batch);
            corners(&described.result, AS_IT_LIES, out, [m, n], batch);
        }
    }
}

#[test]
fn wishes_are_kept() {
    let Some(library) = library() else { return };
    for dtype in DTYPES {
        let wishes = Wishes::new(library, dtype, [16, 32, 64], 5 << 20).unwrap();
        assert_eq!(wish::<u64>(&wishes, Wish::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES), 5 << 20);
        assert_eq!(wish::<u32>(&wishes, Wish::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK), 2);
        let allowed = wish::<u64>(&wishes, Wish::CUBLASLT_MATMUL_PREF_IMPL_MASK);
        assert_eq!(!allowed, Kind::of(dtype).unwrap().forbidden);
        // Left factors there are right ones here.
        let alignments = [
            (Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 32),
            (Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 16),
            (Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 64),
            (Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 64),
        ];
        for (attribute, bytes) in alignments {
            assert_eq!(wish::<u32>(&wishes, attribute), bytes);
        }
    }
}

#[test]
fn what_the_library_refuses_is_an_error() {
    let Some(library) = library() else { return };
    let kind = Kind::of(DType::F32).unwrap();
    let made = LayoutOf::new(library, kind.data, product(DType::F32, 1).a, [3, 5], 1).unwrap();
    let said = made.set(Layout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1_i64).unwrap_err();
    assert_eq!(said, "cublasLtMatrixLayoutSetAttribute says CUBLAS_STATUS_INVALID_VALUE (7)");
}

#[test]
fn what_does_not_go_to_the_library() {
    assert!(Kind::of_gemm(&product(DType::F32, 1)).is_some());
    assert!(Kind::of_gemm(&BatchedGemm { dtype: DType::C64, ..product(DType::F32, 1) }).is_none());
    assert!(Kind::of_gemm(&BatchedGemm { k: 1 << 31, ..product(DType::F32, 1) }).is_none());
}
