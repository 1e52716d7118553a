//! The device's own measuring, on the host's clock.

use crate::driver::WgpuDriver;
use crate::faults::lock;
use crate::pipeline::Kernel;
use crate::{read, timestamps};
use rustorch_core::Fault;
use rustorch_core::profile::{ClockMap, DeviceProfiler, DeviceSpan, host_ns};
use rustorch_kernels::{Driver, KernelSource};

/// How often both clocks are read together; the reading that took the shortest time counts.
const READINGS: usize = 5;

/// What is launched between the timestamps: Apple's GPUs leave out passes in which nothing is, and write none.
const NOTHING: KernelSource<'static> = KernelSource {
    label: "clock",
    source: "@compute @workgroup_size(1) fn main() {}",
    entry: "main",
    workgroup: [1; 3],
    buffers: 0,
    parameters: 0,
    checked: false,
};

/// Where the device has [timestamps](WgpuDriver::has_timestamps). Launches are slower while they are measured.
impl DeviceProfiler for WgpuDriver {
    fn start(&self) -> Result<(), Fault> {
        if !self.has_timestamps() {
            return Err(self.faults.refuse("it has no timestamps; launches cannot be measured"));
        }
        // SAFETY: the source is what its description says, or is refused.
        let nothing = unsafe { self.compile(&NOTHING) }?;
        let readings =
            (0..READINGS).map(|_| self.read_clocks(&nothing)).collect::<Result<Vec<_>, Fault>>()?;
        // There are readings.
        let (_, tick, host) = readings.into_iter().min().unwrap_or_default();
        if tick == 0 {
            // Metal under macOS 26: https://github.com/gfx-rs/wgpu/issues/9414.
            return Err(self.faults.refuse("its timestamps are all zero; launches cannot be measured"));
        }
        let clock = ClockMap::new(tick, host, f64::from(self.queue.get_timestamp_period()));
        let mut batch = lock(&self.batch);
        batch.submit()?;
        let copies = self.wgpu.features().contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);
        batch.timeline.start(clock, copies);
        Ok(())
    }

    fn take_spans(&self) -> Result<Vec<DeviceSpan>, Fault> {
        let (index, batches) = {
            let mut batch = lock(&self.batch);
            let index = batch.submit()?;
            (index, batch.timeline.take())
        };
        read::wait(&self.wgpu, &self.faults, index.clone())?;
        let mut spans = Vec::new();
        let mut ticks = Vec::new();
        for stamps in batches {
            ticks.resize(stamps.bytes(), 0);
            read::mapped(&self.wgpu, &self.faults, &stamps.buffer, index.clone(), &mut ticks)?;
            spans.extend(stamps.spans(&ticks));
        }
        Ok(spans)
    }

    fn stop(&self) {
        let mut batch = lock(&self.batch);
        // The pass under way is between timestamps. If the device is lost, the next call says so.
        let _ = batch.submit();
        batch.timeline.stop();
    }
}

impl WgpuDriver {
    /// Whether the device is able to measure launches.
    pub fn has_timestamps(&self) -> bool {
        self.wgpu.features().contains(wgpu::Features::TIMESTAMP_QUERY)
    }

    /// One reading of both clocks: how long it took on the host's, the device's tick and the time on the host's at its
    /// middle.
    fn read_clocks(&self, nothing: &Kernel) -> Result<(u64, u64, u64), Fault> {
        let (buffer, commands) = self.faults.scoped(&self.wgpu, 0, || {
            let queries = timestamps::queries(&self.wgpu, 2);
            let mut encoder = self.wgpu.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: None,
                timestamp_writes: Some(timestamps::writes((&queries, 0))),
            });
            pass.set_pipeline(&nothing.pipeline);
            pass.dispatch_workgroups(1, 1, 1);
            drop(pass);
            let buffer = timestamps::resolve(&self.wgpu, &mut encoder, &queries, 2);
            (buffer, encoder.finish())
        })?;
        let before = host_ns();
        let index = Some(self.queue.submit([commands]));
        read::wait(&self.wgpu, &self.faults, index.clone())?;
        let took = host_ns() - before;
        let mut ticks = [0; 16];
        read::mapped(&self.wgpu, &self.faults, &buffer, index, &mut ticks)?;
        let mut tick = [0; 8];
        tick.copy_from_slice(&ticks[..8]);
        Ok((took, u64::from_le_bytes(tick), before + took / 2))
    }
}
