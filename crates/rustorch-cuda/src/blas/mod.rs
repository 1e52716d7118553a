//! Matrix multiplication of dense matrices by cuBLASLt.
//!
//! Its functions are called as they are, not through `cudarc`'s safe layer, which rounds `f32` to TF32 and asks for an
//! algorithm again at every call. What a matmul needs is described once and kept ([`prepared`]); of a matmul that fails, or
//! for which there is no algorithm, it is kept that the library is not to be asked again.

mod prepared;

use crate::context::Context;
use crate::driver::Cuda;
use crate::libraries::CublasLt;
use crate::memory::Memory;
use cudarc::cublaslt::sys::{cublasLtHandle_t, cublasStatus_t};
use prepared::Prepared;
use rustorch_core::profile::SpanKind;
use rustorch_core::{DType, Fault};
use rustorch_kernels::driver::{BatchedGemm, BlasLibrary, GemmOutcome, MatrixBatch};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The library on a device, opened when the first matmul comes.
#[derive(Default)]
pub(crate) struct Blas {
    library: OnceLock<Result<Library, String>>,
    /// Held while it is opened.
    opening: Mutex<()>,
    known: Mutex<HashMap<Key, Known>>,
}

/// An open library.
pub(crate) struct Library {
    functions: &'static CublasLt,
    handle: cublasLtHandle_t,
    /// Its name and version.
    name: String,
}

// SAFETY: a handle belongs to a context and to no thread.
unsafe impl Send for Library {}
// SAFETY: the library may be called with a handle from several threads at once (cuBLAS, "Thread Safety").
unsafe impl Sync for Library {}

/// All that an algorithm is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    product: BatchedGemm,
    /// Of the addresses of left factors, right factors and results.
    alignment: [u32; 3],
}

/// What is known of a matmul.
#[derive(Clone)]
enum Known {
    Ready(Arc<Prepared>),
    /// There is no algorithm, or it has failed.
    Refused,
}

/// How many matmuls are remembered: more than a model has. Of more, all are forgotten.
const REMEMBERED: usize = 1024;

/// Temporary memory that an algorithm may have: what NVIDIA recommends for Hopper, the most of all architectures.
const WORKSPACE: usize = 32 << 20;

/// Fewer multiplications than this, which one or two workgroups of the engine's kernels do in the time of a launch, are not
/// worth that an algorithm is asked for each new shape. An estimate: it is not measured.
const LEAST: usize = 1 << 15;

impl Blas {
    /// The library, or why there is none. Where there is no memory for it, it is opened another time.
    pub(crate) fn library(&self, context: &Context) -> Result<&Library, &str> {
        if self.library.get().is_none() {
            // One thread opens it, and the others wait.
            let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
            if self.library.get().is_none() {
                let opened = match Library::open(context) {
                    Ok(library) => Ok(library),
                    Err(Closed::ForNow) => {
                        tracing::debug!(device = %context.device, "{NO_MEMORY}");
                        return Err(NO_MEMORY);
                    }
                    Err(Closed::ForGood(why)) => Err(why),
                };
                match &opened {
                    Ok(library) => tracing::debug!(device = %context.device, "matmuls by {}", library.name),
                    Err(why) => tracing::debug!(device = %context.device, "{why}"),
                }
                let _ = self.library.set(opened);
            }
        }
        self.library.get().expect("it was set above").as_ref().map_err(String::as_str)
    }

    /// Gives the handle back. The context is current, and no one is left to use it.
    pub(crate) fn close(&mut self) {
        self.known().clear();
        if let Some(Ok(library)) = self.library.take() {
            // SAFETY: the handle is this object's alone.
            match unsafe { (library.functions.cublasLtDestroy)(library.handle) } {
                cublasStatus_t::CUBLAS_STATUS_SUCCESS => {}
                status => tracing::debug!("{}", said("cublasLtDestroy", status)),
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, key: Key, what: Known) {
        let mut known = self.known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, what);
    }

    /// What a matmul needs; `None` if the library cannot do it.
    fn prepared(&self, context: &Context, library: &Library, key: Key) -> Option<Arc<Prepared>> {
        match self.known().get(&key) {
            Some(Known::Ready(prepared)) => return Some(Arc::clone(prepared)),
            Some(Known::Refused) => return None,
            None => {}
        }
        // Without a pool, memory for a single call costs more than it brings.
        let workspace = if context.pool.is_some() { WORKSPACE } else { 0 };
        // Two threads may ask for one matmul at once, and get the same.
        match Prepared::new((library.functions, library.handle), &key.product, key.alignment, workspace) {
            Ok(Some(prepared)) => {
                let prepared = Arc::new(prepared);
                self.remember(key, Known::Ready(Arc::clone(&prepared)));
                Some(prepared)
            }
            Ok(None) => {
                tracing::debug!(device = %context.device, product = ?key.product, "cuBLASLt has no algorithm");
                self.remember(key, Known::Refused);
                None
            }
            Err(why) => {
                self.refuse(context, key, &why);
                None
            }
        }
    }

    /// Does not ask the library for a matmul again.
    fn refuse(&self, context: &Context, key: Key, why: &str) {
        let product = &key.product;
        tracing::warn!(device = %context.device, ?product, "{why}; RusTorch's own kernels multiply instead");
        self.remember(key, Known::Refused);
    }
}

/// Why there is no open library.
enum Closed {
    /// There is no memory for it at present.
    ForNow,
    /// A sentence for people.
    ForGood(String),
}

const NO_MEMORY: &str = "there is no memory for cuBLASLt at present, so RusTorch's own kernels multiply: cublasLtCreate says \
     CUBLAS_STATUS_ALLOC_FAILED (3)";

impl Library {
    fn open(context: &Context) -> Result<Library, Closed> {
        let functions = crate::libraries::cublaslt().map_err(Closed::ForGood)?;
        context.enter().map_err(|fault| Closed::ForGood(fault.to_string()))?;
        // SAFETY: it takes nothing, and may be called at any time.
        let version = unsafe { (functions.cublasLtGetVersion)() };
        let name = format!("cuBLASLt {}.{}.{}", version / 10_000, version / 100 % 100, version % 100);
        let mut handle = std::ptr::null_mut();
        // SAFETY: a context is current, and the handle goes to a variable.
        match unsafe { (functions.cublasLtCreate)(&mut handle) } {
            cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(Library { functions, handle, name }),
            cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => Err(Closed::ForNow),
            status => {
                let hint = match status {
                    cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED
                    | cublasStatus_t::CUBLAS_STATUS_ARCH_MISMATCH => {
                        "; it may be newer than the GPU's driver, or not be for this GPU"
                    }
                    _ => "",
                };
                Err(Closed::ForGood(format!(
                    "{name} does not start, so RusTorch's own kernels multiply: {}{hint}",
                    said("cublasLtCreate", status)
                )))
            }
        }
    }
}

/// What a call said.
fn said(call: &str, status: cublasStatus_t) -> String {
    format!("{call} says {status:?} ({})", status as u32)
}

/// The largest power of two that divides an address, up to the 256 bytes to which memory is allocated.
fn alignment(address: u64) -> u32 {
    1 << address.trailing_zeros().min(8)
}

impl BlasLibrary<Memory> for Cuda {
    fn name(&self) -> &str {
        self.context.blas.library(&self.context).map_or("cuBLASLt", |library| &library.name)
    }

    fn takes(&self, product: &BatchedGemm) -> bool {
        let &BatchedGemm { m, n, k, batch, .. } = product;
        m.saturating_mul(n).saturating_mul(k).saturating_mul(batch) >= LEAST
    }

    fn multiply(
        &self,
        product: &BatchedGemm,
        a: (&Memory, usize),
        b: (&Memory, usize),
        out: (&Memory, usize),
    ) -> Result<GemmOutcome, Fault> {
        multiply(&self.context, product, [a, b, out])
    }
}

fn multiply(
    context: &Arc<Context>,
    product: &BatchedGemm,
    operands: [(&Memory, usize); 3],
) -> Result<GemmOutcome, Fault> {
    let &BatchedGemm { dtype, out_dtype, m, n, k, batch, a, b, out, accumulate } = product;
    let shapes: [(DType, MatrixBatch, usize, usize); 3] =
        [(dtype, a, m, k), (dtype, b, k, n), (out_dtype, out, m, n)];
    for ((memory, start), (dtype, matrices, rows, columns)) in operands.iter().zip(shapes) {
        memory.check(context, *start, dtype.block_bytes() * matrices.extent(rows, columns, batch))?;
    }
    context.enter()?;
    let blas = &context.blas;
    let Ok(library) = blas.library(context) else { return Ok(GemmOutcome::NotNow) };
    let addresses = operands.map(|(memory, start)| memory.address + start as u64);
    let key = Key { product: *product, alignment: addresses.map(alignment) };
    let Some(prepared) = blas.prepared(context, library, key) else { return Ok(GemmOutcome::Refused) };
    // Given back in the order of the stream, when the matmul is done.
    let workspace = match prepared.workspace {
        0 => None,
        bytes => match Memory::new(context, bytes.next_multiple_of(16)) {
            Ok(memory) => Some(memory),
            Err(Fault::OutOfMemory { .. }) => return Ok(GemmOutcome::NotNow),
            Err(fault) => return Err(fault),
        },
    };
    let mut status = cublasStatus_t::CUBLAS_STATUS_SUCCESS;
    let label = format!("cuBLASLt matmul {dtype}");
    context.spans.measure(context, SpanKind::Compute, &label, || {
        let pointer = |address: u64| std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
        let [a, b, out] = addresses.map(pointer);
        let temporary = workspace.as_ref().map_or(std::ptr::null_mut(), |memory| pointer(memory.address));
        // SAFETY: the handle and the descriptions live; the memories have the bytes of their layouts, as was checked, and are
        // there in the order of the stream; the algorithm was chosen for these descriptions, alignments and workspace.
        status = unsafe {
            prepared.run(library.handle, accumulate, [a, b, out], temporary, context.stream().handle.cast())
        };
        Ok(())
    })?;
    match status {
        cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(GemmOutcome::Given),
        cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => Ok(GemmOutcome::NotNow),
        status => {
            blas.refuse(context, key, &said("cublasLtMatmul", status));
            Ok(GemmOutcome::Refused)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_aligned_as_they_are() {
        assert_eq!([0x7f00_0000_0000, 256, 384, 8, 6, 3].map(alignment), [256, 256, 128, 8, 2, 1]);
    }

    #[test]
    fn a_status_is_named() {
        let status = cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED;
        assert_eq!(said("cublasLtMatmul", status), "cublasLtMatmul says CUBLAS_STATUS_EXECUTION_FAILED (13)");
    }
}
