//! A matmul in cuBLASLt's terms: descriptions of its operands, and the algorithm.
//!
//! cuBLASLt counts columns where rows are counted here: a matrix by rows is, read by columns, its transpose. So it is asked for
//! the transposed result, whose left factor is the transposed right one: no element moves.

use super::said;
use crate::libraries::CublasLt;
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as Compute, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t as Description, cublasLtMatmulPreference_t,
    cublasLtMatmulPreferenceAttributes_t as Wish, cublasLtMatrixLayout_t,
    cublasLtMatrixLayoutAttribute_t as Layout, cublasLtReductionScheme_t as Reduction,
    cublasStatus_t as Status, cudaDataType_t as Data, cudaStream_t,
};
use rustorch_core::DType;
use rustorch_kernels::driver::{BatchedGemm, MatrixBatch};
use std::ffi::c_void;

/// A matmul of one shape, ready to run on any memory of one alignment.
pub(super) struct Prepared {
    described: Described,
    algorithm: cublasLtMatmulAlgo_t,
    /// Bytes of temporary memory.
    pub(super) workspace: usize,
}

// SAFETY: descriptions are plain memory of the host that nothing changes once they are made.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

impl Prepared {
    /// Describes a matmul and asks for an algorithm; `None` if there is none.
    ///
    /// # Errors
    /// What the library says.
    pub(super) fn new(
        (library, handle): (&'static CublasLt, cublasLtHandle_t),
        product: &BatchedGemm,
        alignment: [u32; 3],
        workspace: usize,
    ) -> Result<Option<Prepared>, String> {
        let Some(described) = Described::new(library, product)? else { return Ok(None) };
        let wishes = Wishes::new(library, product.dtype, alignment, workspace)?;
        // SAFETY: all zeros are a value of it.
        let mut found: sys::cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
        let mut count = 0;
        let Described { product, left, right, result } = &described;
        // SAFETY: the handle and the descriptions live; there is room for the one answer that is asked for.
        let status = unsafe {
            (library.cublasLtMatmulAlgoGetHeuristic)(
                handle,
                product.raw,
                left.raw,
                right.raw,
                result.raw,
                result.raw,
                wishes.raw,
                1,
                &mut found,
                &mut count,
            )
        };
        match status {
            Status::CUBLAS_STATUS_SUCCESS => {}
            Status::CUBLAS_STATUS_NOT_SUPPORTED => return Ok(None),
            status => return Err(said("cublasLtMatmulAlgoGetHeuristic", status)),
        }
        let usable =
            count == 1 && found.state == Status::CUBLAS_STATUS_SUCCESS && found.workspaceSize <= workspace;
        Ok(usable.then(|| Prepared { described, algorithm: found.algo, workspace: found.workspaceSize }))
    }

    /// Gives the matmul to a stream: left factors, right factors, results.
    ///
    /// # Safety
    /// The handle is the one that the matmul was prepared for, and its context is current; the addresses are of the device's
    /// memory, aligned as was stated, and reach as far as the matmul says; the temporary memory has its bytes.
    pub(super) unsafe fn run(
        &self,
        handle: cublasLtHandle_t,
        accumulate: bool,
        [a, b, out]: [*mut c_void; 3],
        temporary: *mut c_void,
        stream: cudaStream_t,
    ) -> Status {
        let Described { product, left, right, result } = &self.described;
        // Factors are of the type in which the sums are.
        let (one, beta) = (1.0_f64, f64::from(u8::from(accumulate)));
        let (one_single, beta_single) = (1.0_f32, f32::from(u8::from(accumulate)));
        let [alpha, beta] = match product.scale {
            Data::CUDA_R_64F => [(&raw const one).cast(), (&raw const beta).cast()],
            _ => [(&raw const one_single).cast(), (&raw const beta_single).cast::<c_void>()],
        };
        // SAFETY: by the contract of this function; factors are read before the call returns.
        unsafe {
            (product.library.cublasLtMatmul)(
                handle,
                product.raw,
                alpha,
                b,
                left.raw,
                a,
                right.raw,
                beta,
                out,
                result.raw,
                out,
                result.raw,
                &raw const self.algorithm,
                temporary,
                self.workspace,
                stream,
            )
        }
    }
}

/// A dtype in cuBLASLt's terms.
struct Kind {
    data: Data,
    /// The type of the results.
    result: Data,
    compute: Compute,
    /// The type of the sums.
    scale: Data,
    /// Ways of computing that are not exact enough, of `CUBLASLT_NUMERICAL_IMPL_FLAGS`.
    forbidden: u64,
}

// `CUBLASLT_NUMERICAL_IMPL_FLAGS_*` of cublasLt.h, which are macros.
const ACCUMULATOR_16F: u64 = 0x01 << 8;
const ACCUMULATOR_32F: u64 = 0x02 << 8;
const INPUT_16F: u64 = 0x01 << 16;
const INPUT_16BF: u64 = 0x02 << 16;
const INPUT_TF32: u64 = 0x04 << 16;
const INPUT_32F: u64 = 0x08 << 16;

// `cublasOperation_t` of cublas_api.h.
const AS_IT_LIES: i32 = 0;
const TRANSPOSED: i32 = 1;

impl Kind {
    /// `None` if the dtype is none of those that go to the library, or if numbers are larger than the library's.
    fn of_gemm(product: &BatchedGemm) -> Option<Kind> {
        let &BatchedGemm { dtype, out_dtype, m, n, k, batch, a, b, out, .. } = product;
        let fits = |number: usize| i32::try_from(number).is_ok();
        let numbers = [m, n, k, batch, a.pitch, b.pitch, out.pitch];
        let result = Kind::of(out_dtype)?.data;
        let kind = Kind::of(dtype).filter(|_| numbers.into_iter().all(fits))?;
        // What is rounded at the end is of the factors' dtype, or of that of the sums.
        (result == kind.data || result == kind.scale).then_some(Kind { result, ..kind })
    }

    /// Of factors and results of one dtype; `None` if it is none of those that go to the library.
    fn of(dtype: DType) -> Option<Kind> {
        let narrow = ACCUMULATOR_16F | INPUT_16F | INPUT_16BF | INPUT_TF32;
        let [half, single] = [Data::CUDA_R_32F; 2].map(|scale| (Compute::CUBLAS_COMPUTE_32F, scale));
        let double = (Compute::CUBLAS_COMPUTE_64F, Data::CUDA_R_64F);
        let (data, (compute, scale), forbidden) = match dtype {
            DType::F16 => (Data::CUDA_R_16F, half, ACCUMULATOR_16F),
            DType::BF16 => (Data::CUDA_R_16BF, half, ACCUMULATOR_16F),
            DType::F32 => (Data::CUDA_R_32F, single, narrow),
            DType::F64 => (Data::CUDA_R_64F, double, narrow | ACCUMULATOR_32F | INPUT_32F),
            _ => return None,
        };
        Some(Kind { data, result: data, compute, scale, forbidden })
    }
}

/// A matmul and its operands, as cuBLASLt reads them.
struct Described {
    product: ProductOf,
    left: LayoutOf,
    right: LayoutOf,
    result: LayoutOf,
}

impl Described {
    /// `None` if it does not go to the library.
    fn new(library: &'static CublasLt, product: &BatchedGemm) -> Result<Option<Described>, String> {
        let &BatchedGemm { m, n, k, batch, a, b, out, .. } = product;
        let Some(kind) = Kind::of_gemm(product) else { return Ok(None) };
        Ok(Some(Described {
            product: ProductOf::new(library, &kind, [b.transposed, a.transposed])?,
            left: LayoutOf::new(library, kind.data, b, [k, n], batch)?,
            right: LayoutOf::new(library, kind.data, a, [m, k], batch)?,
            result: LayoutOf::new(library, kind.result, out, [m, n], batch)?,
        }))
    }
}

fn succeeded(call: &str, status: Status) -> Result<(), String> {
    if status == Status::CUBLAS_STATUS_SUCCESS { Ok(()) } else { Err(said(call, status)) }
}

/// The description of a matmul, and the type of its sums.
struct ProductOf {
    library: &'static CublasLt,
    raw: cublasLtMatmulDesc_t,
    scale: Data,
}

impl ProductOf {
    /// Of factors as they lie, or transposed: left, right.
    fn new(library: &'static CublasLt, kind: &Kind, transposed: [bool; 2]) -> Result<ProductOf, String> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the handle goes to a variable.
        let status = unsafe { (library.cublasLtMatmulDescCreate)(&mut raw, kind.compute, kind.scale) };
        succeeded("cublasLtMatmulDescCreate", status)?;
        let made = ProductOf { library, raw, scale: kind.scale };
        let which = [Description::CUBLASLT_MATMUL_DESC_TRANSA, Description::CUBLASLT_MATMUL_DESC_TRANSB];
        for (attribute, transposed) in which.into_iter().zip(transposed) {
            let operation = if transposed { TRANSPOSED } else { AS_IT_LIES };
            // SAFETY: the description lives, and the attribute is a 32-bit number, which is copied.
            let status = unsafe {
                (library.cublasLtMatmulDescSetAttribute)(
                    made.raw,
                    attribute,
                    (&raw const operation).cast(),
                    size_of_val(&operation),
                )
            };
            succeeded("cublasLtMatmulDescSetAttribute", status)?;
        }
        Ok(made)
    }
}

impl Drop for ProductOf {
    fn drop(&mut self) {
        // SAFETY: the description is this object's alone; the library copies what a call needs.
        let _ = unsafe { (self.library.cublasLtMatmulDescDestroy)(self.raw) };
    }
}

/// Where a batch of matrices lies.
struct LayoutOf {
    library: &'static CublasLt,
    raw: cublasLtMatrixLayout_t,
}

impl LayoutOf {
    /// Of matrices with so many rows and columns.
    fn new(
        library: &'static CublasLt,
        data: Data,
        matrices: MatrixBatch,
        [rows, columns]: [usize; 2],
        batch: usize,
    ) -> Result<LayoutOf, String> {
        // What is contiguous is a column there.
        let (lines, len) = if matrices.transposed { (columns, rows) } else { (rows, columns) };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the handle goes to a variable.
        let status = unsafe {
            let (len, lines, pitch) = (len as u64, lines as u64, matrices.pitch as i64);
            (library.cublasLtMatrixLayoutCreate)(&mut raw, data, len, lines, pitch)
        };
        succeeded("cublasLtMatrixLayoutCreate", status)?;
        let made = LayoutOf { library, raw };
        if batch > 1 {
            made.set(Layout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch as i32)?;
            made.set(Layout::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrices.step as i64)?;
        }
        Ok(made)
    }

    /// Sets an attribute, whose type must be the stated one.
    fn set<T>(&self, attribute: Layout, value: T) -> Result<(), String> {
        // SAFETY: the description lives; the value is copied, and the library refuses another size than the attribute's.
        let status = unsafe {
            (self.library.cublasLtMatrixLayoutSetAttribute)(
                self.raw,
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        };
        succeeded("cublasLtMatrixLayoutSetAttribute", status)
    }
}

impl Drop for LayoutOf {
    fn drop(&mut self) {
        // SAFETY: the description is this object's alone; the library copies what a call needs.
        let _ = unsafe { (self.library.cublasLtMatrixLayoutDestroy)(self.raw) };
    }
}

/// What an algorithm has to keep to.
struct Wishes {
    library: &'static CublasLt,
    raw: cublasLtMatmulPreference_t,
}

impl Wishes {
    fn new(
        library: &'static CublasLt,
        dtype: DType,
        [a, b, out]: [u32; 3],
        workspace: usize,
    ) -> Result<Wishes, String> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the handle goes to a variable.
        let status = unsafe { (library.cublasLtMatmulPreferenceCreate)(&mut raw) };
        succeeded("cublasLtMatmulPreferenceCreate", status)?;
        let made = Wishes { library, raw };
        made.set(Wish::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace as u64)?;
        // Parts of a sum are kept and added as they were computed, never rounded to the result's dtype between.
        let reduction = Reduction::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        made.set(Wish::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction)?;
        let forbidden = Kind::of(dtype).map_or(0, |kind| kind.forbidden);
        made.set(Wish::CUBLASLT_MATMUL_PREF_IMPL_MASK, !forbidden)?;
        made.set(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b)?;
        made.set(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a)?;
        made.set(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out)?;
        made.set(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out)?;
        Ok(made)
    }

    /// Sets an attribute, whose type must be the stated one.
    fn set<T>(&self, attribute: Wish, value: T) -> Result<(), String> {
        // SAFETY: the description lives; the value is copied, and the library refuses another size than the attribute's.
        let status = unsafe {
            (self.library.cublasLtMatmulPreferenceSetAttribute)(
                self.raw,
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        };
        succeeded("cublasLtMatmulPreferenceSetAttribute", status)
    }
}

impl Drop for Wishes {
    fn drop(&mut self) {
        // SAFETY: the description is this object's alone.
        let _ = unsafe { (self.library.cublasLtMatmulPreferenceDestroy)(self.raw) };
    }
}

#[cfg(test)]
mod tests;
