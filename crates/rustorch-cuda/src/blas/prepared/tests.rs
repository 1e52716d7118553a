//! What is set, read back from a real cuBLASLt. Its descriptions are of the host: no GPU is needed, only the library.
#![allow(clippy::print_stdout, reason = "skipped tests say so")]

use super::*;

/// The library, by `CUBLASLT_PATH`, toolkit or Python package; else what is missing is said.
fn library() -> Option<&'static CublasLt> {
    match crate::libraries::cublaslt() {
        Ok(library) => {
            // SAFETY: it takes nothing, and may be called at any time.
            println!("cuBLASLt {}", unsafe { (library.cublasLtGetVersion)() });
            Some(library)
        }
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

const DTYPES: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// Eight 3 × 5 by 5 × 7 products: rows of `a` apart, `b` transposed and the same for all.
fn product(dtype: DType, batch: usize) -> Product {
    Product {
        dtype,
        m: 3,
        n: 7,
        k: 5,
        batch,
        a: Matrices { pitch: 6, transposed: false, step: 18 },
        b: Matrices { pitch: 9, transposed: true, step: 0 },
        out: Matrices { pitch: 7, transposed: false, step: 21 },
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
fn products_are_described_as_they_are() {
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
    let made = LayoutOf::new(library, &kind, product(DType::F32, 1).a, [3, 5], 1).unwrap();
    let said = made.set(Layout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1_i64).unwrap_err();
    assert_eq!(said, "cublasLtMatrixLayoutSetAttribute says CUBLAS_STATUS_INVALID_VALUE (7)");
}

#[test]
fn what_does_not_go_to_the_library() {
    assert!(Kind::of_product(&product(DType::F32, 1)).is_some());
    assert!(Kind::of_product(&Product { dtype: DType::C64, ..product(DType::F32, 1) }).is_none());
    assert!(Kind::of_product(&Product { k: 1 << 31, ..product(DType::F32, 1) }).is_none());
}
