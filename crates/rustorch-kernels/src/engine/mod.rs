//! A [`Backend`] made of a [`Driver`]: plans operations, keeps compiled kernels, moves bytes.

mod memory;
mod probe;
mod run;

use crate::{Driver, Hardware, Kernel, Language, SubgroupUse, Text, mistake, table};
use memory::Memory;
pub(crate) use memory::byte_range;
use rustorch_core::profile::DeviceProfiler;
use rustorch_core::{
    Backend, Buffer, Decline, Device, DeviceCapability, Fault, Op, TensorMeta, View, ViewMut, copy_mismatch,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The kernels of this crate on a driver's device.
pub struct Engine<D: Driver> {
    driver: D,
    hardware: Hardware,
    capability: DeviceCapability,
    kernels: RwLock<HashMap<Kernel, Arc<D::Kernel>>>,
    /// Temporary memory that nobody uses, by size.
    spare: Mutex<HashMap<usize, Vec<D::Memory>>>,
    /// The buffer of [`mistake`]s.
    mistakes: D::Memory,
    /// Whether a kernel that may note a mistake has run since the buffer was read.
    suspect: AtomicBool,
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
        let arithmetic = probe::arithmetic(&driver)?;
        let subgroups = match subgroups.of(driver.hardware()) {
            Some(stated) => probe::subgroups(&driver, stated)?,
            None => None,
        };
        let hardware = Hardware { arithmetic, subgroups, ..driver.hardware().clone() };
        tracing::debug!(device = %hardware.device, ?arithmetic, ?subgroups, "probed");
        let mistakes = driver.allocate(4 * mistake::WORDS)?;
        driver.write(&mistakes, 0, &[0; 4 * mistake::WORDS])?;
        let capability = table::capability(&hardware);
        Ok(Engine {
            driver,
            hardware,
            capability,
            kernels: RwLock::default(),
            spare: Mutex::default(),
            mistakes,
            suspect: AtomicBool::new(false),
        })
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
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
        let compiled = Arc::new(compile(&self.driver, &kernel.label(), kernel.wgsl(&self.hardware))?);
        let mut kernels = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
        Ok(kernels.entry(kernel.clone()).or_insert(compiled).clone())
    }

    /// Fails with the first mistake that kernels have noted since the last look.
    fn check_mistakes(&self) -> Result<(), Fault> {
        if !self.suspect.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let mut words = [0u32; mistake::WORDS];
        let mut bytes = [0u8; 4 * mistake::WORDS];
        self.driver.read(&self.mistakes, 0, &mut bytes)?;
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        match mistake::error(words) {
            None => Ok(()),
            Some(error) => {
                self.driver.write(&self.mistakes, 0, &[0; 4 * mistake::WORDS])?;
                Err(error.into())
            }
        }
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
        let memory = Memory::<D>(self.allocate(bytes)?);
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
        self.write_bytes(&self.memory(dst.buffer())?.0, dst.buffer().bytes(), range.start, src)
    }

    fn copy_out(&self, src: &View<'_>, dst: &mut [u8]) -> Result<(), Fault> {
        let range = byte_range(src.dtype(), src.layout()).ok_or_else(copy_mismatch)?;
        if range.len() != dst.len() {
            return Err(copy_mismatch());
        }
        self.read_bytes(&self.memory(src.buffer())?.0, range.start, dst)?;
        self.check_mistakes()
    }

    fn synchronize(&self) -> Result<(), Fault> {
        self.driver.finish()?;
        self.check_mistakes()
    }

    fn profiler(&self) -> Option<&dyn DeviceProfiler> {
        self.driver.profiler()
    }

    fn pci_address(&self) -> Option<&str> {
        self.driver.pci_address()
    }
}
