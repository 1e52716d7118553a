//! A [`Backend`] made of a [`Driver`]: plans operations, keeps compiled kernels, moves bytes.

mod kept;
mod memory;
mod notes;
mod order;
mod probe;
mod products;
mod run;

use crate::{Arithmetic, Driver, Hardware, Kernel, Language, SubgroupUse, Text, table};
use kept::Kept;
pub(crate) use memory::byte_range;
use memory::{Memory, Spare};
use notes::Notes;
use order::Order;
use products::Proofs;
use rustorch_core::profile::DeviceProfiler;
use rustorch_core::{
    Backend, Buffer, Decline, Device, DeviceCapability, Fault, Op, TensorMeta, View, ViewMut, copy_mismatch,
};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The kernels of this crate on a driver's device.
pub struct Engine<D: Driver> {
    shared: Arc<Shared<D>>,
    hardware: Hardware,
    capability: DeviceCapability,
    kernels: RwLock<HashMap<Kernel, Arc<D::Kernel>>>,
    spare: Spare<D>,
    kept: Kept<D>,
    notes: Notes<D>,
    proofs: Proofs,
}

/// What an engine shares with its memories, which may outlive it.
pub(crate) struct Shared<D: Driver> {
    driver: D,
    order: Order,
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
        tracing::debug!(device = %hardware.device, ?arithmetic, ?subgroups, "probed");
        if !arithmetic.faithful {
            let device = hardware.device;
            tracing::warn!(%device, "its compiler changes sums or denies NaN: results may differ from the processor's");
        }
        let capability = table::capability(&hardware);
        let shared = Arc::new(Shared { driver, order: Order::default() });
        let notes = Notes::new(&shared)?;
        Ok(Engine {
            shared,
            hardware,
            capability,
            kernels: RwLock::default(),
            spare: Spare::default(),
            kept: Kept::default(),
            notes,
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
    let text = |source, entry| Text {
        label,
        source,
        entry,
        workgroup: wgsl.workgroup,
        buffers: wgsl.buffers,
        parameters: 4 * wgsl.words,
    };
    let hardware = driver.hardware();
    match hardware.language {
        Language::Wgsl => driver.compile(&text(&wgsl.code, "main")),
        language => {
            let translated = crate::translate(&wgsl, language).map_err(|message| Fault::Backend {
                device: hardware.device,
                message: format!("{label}: {message}"),
            })?;
            driver.compile(&text(&translated.source, &translated.entry))
        }
    }
}

impl<D: Driver> Backend for Engine<D> {
    fn device(&self) -> Device {
        self.hardware.device
    }

    fn capability(&self) -> &DeviceCapability {
        &self.capability
    }

    fn supports(&self, op: &Op, args: &[TensorMeta<'_>]) -> Result<(), Decline> {
        self.capability.check(op, args)?;
        table::supports(op, args, &self.hardware)
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer, Fault> {
        let memory = self.obtain(&self.shared.order.turn(), bytes)?;
        // SAFETY: the buffer claims no host address.
        Ok(unsafe { Buffer::device(self.hardware.device, bytes, None, Box::new(memory)) })
    }

    fn run(&self, op: &Op, args: &[View<'_>], outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        self.run_planned(op, args, outs)
    }

    fn copy_in(&self, src: &[u8], dst: &mut ViewMut<'_>) -> Result<(), Fault> {
        let range = byte_range(dst.dtype(), dst.layout()).ok_or_else(copy_mismatch)?;
        if range.len() != src.len() {
            return Err(copy_mismatch());
        }
        let turn = self.shared.order.turn();
        self.write_bytes(&turn, self.memory(dst.buffer())?, dst.buffer().bytes(), range.start, src)
    }

    fn copy_out(&self, src: &View<'_>, dst: &mut [u8]) -> Result<(), Fault> {
        let range = byte_range(src.dtype(), src.layout()).ok_or_else(copy_mismatch)?;
        if range.len() != dst.len() {
            return Err(copy_mismatch());
        }
        let turn = self.shared.order.turn();
        self.read_bytes(&turn, self.memory(src.buffer())?, range.start, dst)?;
        self.notes.check(&turn)
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
            let (turn, bytes) = (self.shared.order.turn(), to.len().next_multiple_of(4));
            turn.before([(&target.uses, true)].into_iter(), |a, b| self.driver().wait(a, b)).map_err(Some)?;
            let (src, dst) = ((source.raw(), from.start), (target.raw(), to.start));
            let result = self.driver().copy_from_peer(src, dst, bytes);
            turn.after([(&target.uses, true)].into_iter());
            result.ok_or(None)?.map_err(Some)
        };
        match self.memory(dst.buffer()).map_err(Some).and_then(copy) {
            Ok(()) => Some(Ok(())),
            Err(Some(fault)) => Some(Err(fault)),
            Err(None) => None,
        }
    }

    fn synchronize(&self) -> Result<(), Fault> {
        let turn = self.shared.order.turn();
        let then = turn.now();
        self.driver().finish()?;
        turn.all_done(then);
        self.notes.check(&turn)
    }

    fn profiler(&self) -> Option<&dyn DeviceProfiler> {
        self.driver().profiler()
    }

    fn pci_address(&self) -> Option<&str> {
        self.driver().pci_address()
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks_on_products()
    }

    fn has_product_library(&self) -> bool {
        matches!(self.driver().products(), Some(Ok(_)))
    }

    fn streams(&self) -> usize {
        self.shared.order.streams()
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

impl<D: Driver> Engine<D> {
    fn change_streams(&self, wanted: usize) -> Result<usize, Fault> {
        let wanted = wanted.clamp(1, crate::driver::STREAMS);
        let change = self.shared.order.change();
        if wanted == self.streams() {
            return Ok(wanted);
        }
        // It belongs to streams, of which there may be fewer then; to free it is work, too.
        self.release_spare();
        self.driver().finish()?;
        self.notes.grow(&self.shared, wanted)?;
        let streams = self.driver().set_streams(wanted)?.clamp(1, wanted);
        change.set(streams);
        Ok(streams)
    }
}
