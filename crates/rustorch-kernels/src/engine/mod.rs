//! The [`Backend`] on top of a [`Driver`]: plans operations, caches compiled kernels, transfers data.

mod assert_log;
mod blas;
mod memory;
mod prepared;
mod probe;
mod run;
mod scratch_cache;
mod stream_sync;

use crate::library::strided::byte_range;
use crate::{Arithmetic, Driver, Hardware, Kernel, KernelSource, Language, SubgroupUse, family};
use assert_log::AssertLog;
use blas::Proofs;
use memory::{Memory, Spare};
use rustorch_core::{
    Backend, Buffer, Decline, Device, DeviceCapability, DeviceMetrics, Extensions, Fault, Op, PrepareRequest,
    PreparedOp, Remarks, Streams, TensorMeta, VendorBlas, View, ViewMut, copy_mismatch,
};
use scratch_cache::ScratchCache;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use stream_sync::StreamSync;

/// The kernels of this crate on a driver's device.
pub struct Engine<D: Driver> {
    shared: Arc<Shared<D>>,
    hardware: Hardware,
    capability: DeviceCapability,
    kernels: RwLock<HashMap<Kernel, Arc<D::Kernel>>>,
    spare: Spare<D>,
    scratch_cache: ScratchCache<D>,
    assert_log: AssertLog<D>,
    proofs: Proofs,
}

/// What an engine shares with its memories, which may outlive it.
pub(crate) struct Shared<D: Driver> {
    driver: D,
    sync: StreamSync,
}

impl<D: Driver> Engine<D> {
    /// The engine for a driver's device, after a look at how it computes. Whether its kernels use subgroups is for
    /// [`SubgroupUse::from_env`] to say.
    ///
    /// # Errors
    /// If the device cannot run even the kernels that probe it, or if the environment makes no sense.
    pub fn new(driver: D) -> Result<Engine<D>, Fault> {
        Engine::with(driver, SubgroupUse::from_env()?)
    }

    /// As [`new`](Self::new), with a wish of the caller's about subgroups.
    ///
    /// # Errors
    /// If the device cannot run even the kernels that probe it.
    pub fn with(driver: D, subgroups: SubgroupUse) -> Result<Engine<D>, Fault> {
        let doubles = probe::doubles(&driver)?;
        let divides_doubles = doubles == Some(true);
        let arithmetic = Arithmetic { divides_doubles, ..probe::arithmetic(&driver)? };
        let subgroups = match subgroups.of(driver.hardware()) {
            Some(stated) => probe::subgroups(&driver, stated)?,
            None => None,
        };
        let hardware =
            Hardware { f64: doubles.is_some(), arithmetic, subgroups, ..driver.hardware().clone() };
        tracing::info!(device = %hardware.device, ?arithmetic, ?subgroups, "probed");
        if !arithmetic.faithful {
            let device = hardware.device;
            tracing::warn!(%device, "its compiler changes sums or denies NaN: results may differ from the CPU's");
        }
        let capability = family::capability(&hardware);
        let shared = Arc::new(Shared { driver, sync: StreamSync::default() });
        let assert_log = AssertLog::new(&shared)?;
        Ok(Engine {
            shared,
            hardware,
            capability,
            kernels: RwLock::default(),
            spare: Spare::default(),
            scratch_cache: ScratchCache::default(),
            assert_log,
            proofs: Proofs::default(),
        })
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.shared.driver
    }

    /// What the device is able to do, its arithmetic as probed, and the subgroups that kernels use.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// The kernel, compiled if it is new.
    fn kernel(&self, kernel: &Kernel) -> Result<Arc<D::Kernel>, Fault> {
        let known = self.kernels.read().unwrap_or_else(PoisonError::into_inner).get(kernel).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        // Two threads may compile one kernel at once; the first to finish is kept.
        let compiled = Arc::new(compile(self.driver(), &kernel.label(), kernel.wgsl(&self.hardware))?);
        let mut kernels = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
        Ok(kernels.entry(kernel.clone()).or_insert(compiled).clone())
    }

    fn memory<'a>(&self, buffer: &'a Buffer) -> Result<&'a Memory<D>, Fault> {
        buffer.memory::<Memory<D>>().ok_or_else(|| Fault::Backend {
            device: self.hardware.device,
            message: format!("{buffer:?} is not this device's memory"),
        })
    }
}

/// Compiles a module for a driver, in its language.
fn compile<D: Driver>(driver: &D, label: &str, wgsl: crate::wgsl::Wgsl) -> Result<D::Kernel, Fault> {
    let text = |source, entry| KernelSource {
        label,
        source,
        entry,
        workgroup: wgsl.workgroup,
        buffers: wgsl.buffers,
        parameters: 4 * wgsl.words,
        checked: wgsl.checked,
    };
    let hardware = driver.hardware();
    match hardware.language {
        // SAFETY: the source was generated together with the numbers that describe it, as below.
        Language::Wgsl => unsafe { driver.compile(&text(&wgsl.code, "main")) },
        language => {
            let translated = crate::translate(&wgsl, language).map_err(|message| Fault::Backend {
                device: hardware.device,
                message: format!("{label}: {message}"),
            })?;
            // SAFETY: a translation keeps the module's buffers, parameters and workgroup.
            unsafe { driver.compile(&text(&translated.source, &translated.entry)) }
        }
    }
}

// SAFETY: buffers have the driver's memory of at least the size asked for, and no host address; plans bind windows of the
// operands' memory, and kernels stay inside these by the lengths and strides that plans hand them; the order of launches follows
// who reads and writes which memory (`sync.rs`), and memory is freed after the work that uses it.
unsafe impl<D: Driver> Backend for Engine<D> {
    fn device(&self) -> Device {
        self.hardware.device
    }

    fn capability(&self) -> &DeviceCapability {
        &self.capability
    }

    fn supports(&self, op: &Op, args: &[TensorMeta<'_>]) -> Result<(), Decline> {
        self.capability.check(op, args)?;
        family::supports(op, args, &self.hardware)
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer, Fault> {
        let memory = self.obtain(&self.shared.sync.submission(), bytes)?;
        // SAFETY: the buffer claims no host address.
        Ok(unsafe { Buffer::device(self.hardware.device, bytes, None, Box::new(memory)) })
    }

    fn overwrites(&self, op: &Op) -> bool {
        family::overwrites(op)
    }

    unsafe fn run(&self, op: &Op, args: &[View<'_>], outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        self.run_planned(op, args, outs)
    }

    fn prepare(&self, request: &PrepareRequest<'_>) -> Option<PreparedOp> {
        self.prepared(request)
    }

    unsafe fn run_prepared(
        &self,
        prepared: &PreparedOp,
        args: &[View<'_>],
        outs: &mut [ViewMut<'_>],
    ) -> Result<(), Fault> {
        self.run_prepared_op(prepared, args, outs)
    }

    fn copy_in(&self, src: &[u8], dst: &mut ViewMut<'_>) -> Result<(), Fault> {
        let range = byte_range(dst.dtype(), dst.layout()).ok_or_else(copy_mismatch)?;
        if range.len() != src.len() {
            return Err(copy_mismatch());
        }
        let submission = self.shared.sync.submission();
        self.write_bytes(&submission, self.memory(dst.buffer())?, dst.buffer().bytes(), range.start, src)
    }

    fn copy_out(&self, src: &View<'_>, dst: &mut [u8]) -> Result<(), Fault> {
        let range = byte_range(src.dtype(), src.layout()).ok_or_else(copy_mismatch)?;
        if range.len() != dst.len() {
            return Err(copy_mismatch());
        }
        let submission = self.shared.sync.submission();
        self.read_bytes(&submission, self.memory(src.buffer())?, range.start, dst)?;
        self.assert_log.check(&submission)
    }

    fn copy_from_peer(&self, src: &View<'_>, dst: &mut ViewMut<'_>) -> Option<Result<(), Fault>> {
        let source = src.buffer().memory::<Memory<D>>()?;
        let from = byte_range(src.dtype(), src.layout())?;
        let to = byte_range(dst.dtype(), dst.layout())?;
        if from.len() != to.len() {
            return Some(Err(copy_mismatch()));
        }
        // Drivers know whole words; behind a buffer's end there is padding.
        let words = from.start.is_multiple_of(4)
            && to.start.is_multiple_of(4)
            && (to.len().is_multiple_of(4)
                || from.end == src.buffer().bytes() && to.end == dst.buffer().bytes());
        if !words {
            return None;
        }
        let copy = |target: &Memory<D>| {
            let (submission, bytes) = (self.shared.sync.submission(), to.len().next_multiple_of(4));
            submission
                .before([(&target.history, true)].into_iter(), |a, b| self.driver().wait(a, b))
                .map_err(Some)?;
            let (src, dst) = ((source.raw(), from.start), (target.raw(), to.start));
            let result = self.driver().copy_from_peer(src, dst, bytes);
            submission.after([(&target.history, true)].into_iter());
            result.ok_or(None)?.map_err(Some)
        };
        match self.memory(dst.buffer()).map_err(Some).and_then(copy) {
            Ok(()) => Some(Ok(())),
            Err(Some(fault)) => Some(Err(fault)),
            Err(None) => None,
        }
    }

    fn synchronize(&self) -> Result<(), Fault> {
        let submission = self.shared.sync.submission();
        let then = submission.now();
        self.driver().finish()?;
        submission.all_done(then);
        self.assert_log.check(&submission)
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            streams: Some(self),
            blas: Some(self),
            profiler: self.driver().profiler(),
            metrics: Some(self),
            remarks: Some(self),
        }
    }
}

impl<D: Driver> Streams for Engine<D> {
    fn streams(&self) -> usize {
        self.shared.sync.streams()
    }

    fn set_streams(&self, wanted: usize) -> usize {
        match self.change_streams(wanted) {
            Ok(streams) => streams,
            Err(fault) => {
                tracing::warn!(%fault, wanted, "the number of streams stays");
                self.streams()
            }
        }
    }
}

impl<D: Driver> VendorBlas for Engine<D> {
    fn has_blas_library(&self) -> bool {
        matches!(self.driver().blas(), Some(Ok(_)))
    }
}

impl<D: Driver> DeviceMetrics for Engine<D> {
    fn pci_address(&self) -> Option<&str> {
        self.driver().pci_address()
    }
}

impl<D: Driver> Remarks for Engine<D> {
    fn remarks(&self) -> Vec<String> {
        self.remarks_on_blas()
    }
}

impl<D: Driver> Engine<D> {
    fn change_streams(&self, wanted: usize) -> Result<usize, Fault> {
        let wanted = wanted.clamp(1, crate::driver::STREAMS);
        let change = self.shared.sync.change();
        if wanted == self.streams() {
            return Ok(wanted);
        }
        // It belongs to streams, of which there may be fewer then; to free it is work, too.
        self.release_spare();
        self.driver().finish()?;
        self.assert_log.grow(&self.shared, wanted)?;
        let streams = self.driver().set_streams(wanted)?.clamp(1, wanted);
        change.set(streams);
        Ok(streams)
    }
}
