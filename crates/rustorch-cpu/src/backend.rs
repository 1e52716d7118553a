//! The CPU as a [`Backend`].

use crate::{Isa, ThreadPool, kernels};
use rustorch_core::{
    Backend, Buffer, Call, DType, Decline, Device, DeviceCapability, Fault, Op, TensorMeta, View, ViewMut,
    copy_mismatch, run_checked,
};

/// A hash of this crate's sources, by its build script.
const SOURCES: u64 = match u64::from_str_radix(env!("KERNEL_SOURCES"), 10) {
    Ok(hash) => hash,
    Err(_) => panic!("the build script writes a decimal number"),
};

/// The CPU: every operation in every dtype, and the reference for every other device.
///
/// Results do not depend on the number of threads.
pub struct CpuBackend {
    pool: ThreadPool,
    capability: DeviceCapability,
}

impl CpuBackend {
    /// A backend that computes on `threads` threads; at least 1.
    pub fn new(threads: usize) -> CpuBackend {
        let pool = ThreadPool::new(threads);
        let name = format!("{}, {} threads, {:?}", model_name(), pool.threads(), Isa::detect());
        let capability =
            DeviceCapability { kernels: SOURCES, in_place: true, ..DeviceCapability::complete(name) };
        CpuBackend { pool, capability }
    }

    /// The number of threads that compute.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Runs an operation into the given outputs. The executor, which has inferred them, calls [`Backend::run`] instead, which
    /// does not infer them again.
    ///
    /// # Errors
    /// If [`Op::infer`] refuses the arguments or gives other outputs, and as [`Backend::run`].
    pub fn run(&self, op: &Op, args: &[View<'_>], outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        run_checked(self, op, args, outs)
    }
}

// SAFETY: buffers come from the global allocator or the system, as large as asked for; kernels stay inside their views, whose
// shapes are those that `Op::infer` has accepted, and write all of their outputs before they return.
unsafe impl Backend for CpuBackend {
    fn device(&self) -> Device {
        Device::CPU
    }

    fn capability(&self) -> &DeviceCapability {
        &self.capability
    }

    fn supports(&self, op: &Op, _args: &[TensorMeta<'_>]) -> Result<(), Decline> {
        match op {
            Op::Custom(op) if !op.has_cpu() => Err(Decline::Kernel("it has none for the CPU".into())),
            #[cfg(not(feature = "fft"))]
            Op::Fft(_) => Err(Decline::Kernel(kernels::WITHOUT_FFT.into())),
            #[cfg(not(feature = "linalg"))]
            Op::Linalg(op) if op.is_spectral() => Err(Decline::Kernel(kernels::WITHOUT_LINALG.into())),
            _ => Ok(()),
        }
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer, Fault> {
        crate::memory::alloc(bytes)
    }

    fn alloc_zeroed(&self, bytes: usize) -> Option<Buffer> {
        crate::memory::alloc_zeroed(bytes)
    }

    unsafe fn run(&self, op: &Op, args: &[View<'_>], outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        let result = kernels::run(&self.pool, op, args, outs);
        // What programs rely on to leave states as they were.
        debug_assert!(
            op.fails_on_values() || !matches!(result, Err(Fault::Invalid(_))),
            "{} fails for the values of its arguments: {result:?}",
            op.name()
        );
        result
    }

    unsafe fn run_together(&self, calls: &mut [Call<'_, '_>]) -> Result<(), Fault> {
        if kernels::run_together(&self.pool, calls)? {
            return Ok(());
        }
        // SAFETY: this function's contract.
        calls.iter_mut().try_for_each(|call| unsafe { Backend::run(self, call.op, call.args, call.outs) })
    }

    unsafe fn run_packed(&self, op: &Op, dtype: DType, args: &[*const u8], out: *mut u8, n: usize) -> bool {
        // SAFETY: this function's contract.
        unsafe { kernels::run_packed(op, dtype, args, out, n) }
    }

    fn copy_in(&self, src: &[u8], dst: &mut ViewMut<'_>) -> Result<(), Fault> {
        if dst.write_bytes(src) { Ok(()) } else { Err(copy_mismatch()) }
    }

    fn copy_out(&self, src: &View<'_>, dst: &mut [u8]) -> Result<(), Fault> {
        match src.as_bytes() {
            Some(bytes) if bytes.len() == dst.len() => {
                dst.copy_from_slice(bytes);
                Ok(())
            }
            _ => Err(copy_mismatch()),
        }
    }

    fn synchronize(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// What the CPU calls itself; elsewhere the name of its architecture.
fn model_name() -> String {
    // Miri does not execute the instruction.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(name) = brand() {
        return name;
    }
    std::env::consts::ARCH.to_owned()
}

/// The brand string, where the CPU has one.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn brand() -> Option<String> {
    #[allow(unused_unsafe, reason = "newer versions of Rust call the function safe")]
    // SAFETY: every CPU of this architecture has the instruction.
    let part = |leaf| unsafe { std::arch::x86_64::__cpuid(leaf) };
    if part(0x8000_0000).eax < 0x8000_0004 {
        return None;
    }
    let parts = (0x8000_0002..=0x8000_0004).map(part);
    let bytes: Vec<u8> = parts
        .flat_map(|part| [part.eax, part.ebx, part.ecx, part.edx])
        .flat_map(u32::to_le_bytes)
        .take_while(|&byte| byte != 0)
        .collect();
    let text = String::from_utf8_lossy(&bytes);
    let words: Vec<&str> = text.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}
