//! The [`Driver`] itself: checks arguments, then hands on.

use crate::discovery::bus_address;
use crate::encoder::Batch;
use crate::faults::{Faults, lock};
use crate::memory::Memory;
use crate::parameters::{Slots, Style};
use crate::pipeline::{Compiler, Kernel};
use crate::read::{self, CHUNK, Staging};
use rustorch_core::Fault;
use rustorch_core::profile::DeviceProfiler;
use rustorch_kernels::{BufferBinding, Driver, Hardware, KernelSource, Launch, LaunchCache};
use std::fmt;
use std::sync::Mutex;

/// A GPU by wgpu, open.
///
/// Launches and copies are collected and submitted together; [`read`](Driver::read) and [`finish`](Driver::finish) submit
/// what there is. Dropping the driver abandons what was not submitted.
pub struct WgpuDriver {
    pub(crate) wgpu: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    hardware: Hardware,
    pub(crate) faults: Faults,
    compiler: Compiler,
    /// The buffer of parameters of all batches.
    parameters: wgpu::Buffer,
    pub(crate) batch: Mutex<Batch>,
    staging: Staging,
    pci_address: Option<String>,
}

impl WgpuDriver {
    /// The driver of a device that was just made, with its abilities and whom to tell of errors.
    pub(crate) fn new(
        wgpu: wgpu::Device,
        queue: wgpu::Queue,
        hardware: Hardware,
        faults: Faults,
        cache: crate::cache::Cache,
    ) -> WgpuDriver {
        let limits = wgpu.limits();
        let immediates = if wgpu.features().contains(wgpu::Features::IMMEDIATES) {
            limits.max_immediate_size.min(Style::IMMEDIATES as u32) as usize
        } else {
            0
        };
        let slots = Slots::new(&wgpu, limits.min_uniform_buffer_offset_alignment as usize);
        let batch = Batch::new(wgpu.clone(), queue.clone(), faults.clone(), slots);
        WgpuDriver {
            compiler: Compiler::new(wgpu.clone(), faults.clone(), immediates, cache),
            parameters: batch.parameters().clone(),
            batch: Mutex::new(batch),
            staging: Staging::default(),
            pci_address: bus_address(&wgpu.adapter_info()).map(str::to_owned),
            wgpu,
            queue,
            hardware,
            faults,
        }
    }

    /// Gives the device up, as a driver does whose device was pulled out: everything fails from then on. For tests of what
    /// programs do then.
    pub fn lose(&self) {
        self.wgpu.destroy();
        // The loss is reported when wgpu looks at the device next.
        let _ = self.wgpu.poll(wgpu::PollType::Poll);
    }

    /// Checks a launch; every mistake that wgpu would find late, when it drops the whole batch, is found here.
    fn check(&self, launch: &Launch<'_, WgpuDriver>) -> Result<(), Fault> {
        let kernel = launch.kernel;
        let refuse = |why: String| Err(self.faults.refuse(format!("kernel `{}`: {why}", kernel.label)));
        if launch.buffers.len() != kernel.buffers.len() {
            return refuse(format!(
                "{} buffers given, it takes {}",
                launch.buffers.len(),
                kernel.buffers.len()
            ));
        }
        if launch.parameters.len() * 4 != kernel.parameters {
            return refuse(format!(
                "{} bytes of parameters given, it takes {}",
                launch.parameters.len() * 4,
                kernel.parameters
            ));
        }
        let most = self.hardware.groups;
        if launch.groups.iter().any(|&count| count == 0 || count > most) {
            return refuse(format!(
                "{:?} workgroups: 1 to {most} in each dimension are possible",
                launch.groups
            ));
        }
        let aligned = u64::from(self.hardware.window.unwrap_or(4));
        for (at, (window, binding)) in launch.buffers.iter().zip(&kernel.buffers).enumerate() {
            let BufferBinding { start, bytes, .. } = *window;
            let size = window.memory.buffer.size();
            if bytes < binding.least
                || !bytes.is_multiple_of(4)
                || bytes > self.hardware.max_binding
                || !start.is_multiple_of(aligned)
                || start.checked_add(bytes).is_none_or(|end| end > size)
            {
                return refuse(format!(
                    "buffer {at} is {bytes} bytes at {start} of {size}: it must be inside, {} to {} bytes in multiples \
                     of 4, and begin at a multiple of {aligned}",
                    binding.least, self.hardware.max_binding
                ));
            }
            let shared = launch.buffers[..at].iter().zip(&kernel.buffers).position(|(other, earlier)| {
                std::ptr::eq(other.memory, window.memory) && earlier.writes != binding.writes
            });
            if let Some(other) = shared {
                return refuse(format!(
                    "buffers {other} and {at} are the same memory, which it reads by one and writes by the other: wgpu \
                     allows this for separate memories only"
                ));
            }
        }
        Ok(())
    }

    /// The bind group of a launch that was checked. Made without an error scope, which takes as long: nothing is left that
    /// wgpu could refuse, and where it runs out of memory here it gives the device up by itself.
    fn bind(&self, launch: &Launch<'_, WgpuDriver>) -> Option<wgpu::BindGroup> {
        let kernel = launch.kernel;
        let layout = kernel.layout.as_ref()?;
        let uniform =
            (kernel.style == Style::Uniform).then_some((&self.parameters, 0, kernel.parameters as u64));
        let entries: Vec<_> = (0..)
            .zip(launch.buffers.iter().map(|w| (&w.memory.buffer, w.start, w.bytes)).chain(uniform))
            .map(|(binding, (buffer, offset, bytes))| wgpu::BindGroupEntry {
                binding,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer,
                    offset,
                    size: wgpu::BufferSize::new(bytes),
                }),
            })
            .collect();
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        Some(self.wgpu.create_bind_group(&descriptor))
    }
}

impl Driver for WgpuDriver {
    type Memory = Memory;
    type Kernel = Kernel;

    fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, Fault> {
        let allocate = || Memory::new(&self.wgpu, &self.faults, self.hardware.max_buffer, bytes);
        match allocate() {
            // Memory that was dropped is held by the work that uses it.
            Err(Fault::OutOfMemory { .. }) => {
                self.finish()?;
                allocate()
            }
            result => result,
        }
    }

    unsafe fn compile(&self, kernel: &KernelSource<'_>) -> Result<Kernel, Fault> {
        self.faults.check()?;
        self.compiler.compile(kernel)
    }

    unsafe fn launch(&self, launch: &Launch<'_, WgpuDriver>) -> Result<(), Fault> {
        self.faults.check()?;
        let made;
        let group = match launch.cache.and_then(LaunchCache::get::<Option<wgpu::BindGroup>>) {
            Some(group) => group,
            None => {
                self.check(launch)?;
                made = self.bind(launch);
                if let Some(cache) = launch.cache {
                    cache.set(made.clone());
                }
                &made
            }
        };
        lock(&self.batch).launch(launch.kernel, group.as_ref(), launch.parameters, launch.groups)
    }

    fn write(&self, dst: &Memory, offset: usize, src: &[u8]) -> Result<(), Fault> {
        self.faults.check()?;
        dst.check(&self.faults, "a write", offset, src.len())?;
        lock(&self.batch).write(dst, offset as u64, src)
    }

    fn read(&self, src: &Memory, offset: usize, dst: &mut [u8]) -> Result<(), Fault> {
        self.faults.check()?;
        src.check(&self.faults, "a read", offset, dst.len())?;
        for (at, part) in dst.chunks_mut(CHUNK).enumerate() {
            let staging = self.staging.take(&self.wgpu, &self.faults, part.len())?;
            let index = {
                let mut batch = lock(&self.batch);
                let from = (offset + at * CHUNK) as u64;
                batch.copy("read", (&src.buffer, from), (&staging, 0), part.len())?;
                batch.submit()?
            };
            read::mapped(&self.wgpu, &self.faults, &staging, index, part)?;
            self.staging.give(staging);
        }
        self.compiler.cache().save_if_quiet();
        Ok(())
    }

    fn copy(
        &self,
        src: &Memory,
        src_offset: usize,
        dst: &Memory,
        dst_offset: usize,
        bytes: usize,
    ) -> Result<(), Fault> {
        self.faults.check()?;
        src.check(&self.faults, "a copy", src_offset, bytes)?;
        dst.check(&self.faults, "a copy", dst_offset, bytes)?;
        if std::ptr::eq(src, dst) {
            return Err(self.faults.refuse("a copy within one memory: it must be between two"));
        }
        if bytes == 0 {
            return Ok(());
        }
        let (src, dst) = ((&src.buffer, src_offset as u64), (&dst.buffer, dst_offset as u64));
        lock(&self.batch).copy("copy", src, dst, bytes)
    }

    fn finish(&self) -> Result<(), Fault> {
        let index = lock(&self.batch).submit()?;
        read::wait(&self.wgpu, &self.faults, index)?;
        self.compiler.cache().save_if_quiet();
        Ok(())
    }

    fn profiler(&self) -> Option<&dyn DeviceProfiler> {
        self.has_timestamps().then_some(self)
    }

    fn pci_address(&self) -> Option<&str> {
        self.pci_address.as_deref()
    }
}

impl fmt::Debug for WgpuDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WgpuDriver").field("hardware", &self.hardware).finish_non_exhaustive()
    }
}
