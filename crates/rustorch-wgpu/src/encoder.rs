//! Batches of work.
//!
//! Launches and copies are collected in one command encoder and submitted together, for a submission costs as much as many
//! launches. wgpu orders the launches of a compute pass by barriers wherever one reads or writes what another has written.

use crate::faults::Faults;
use crate::memory::Memory;
use crate::parameters::{Slots, Style};
use crate::pipeline::Kernel;
use crate::read;
use crate::timestamps::{self, Timeline};
use crate::upload::{PIECE, Uploads};
use rustorch_core::Fault;
use rustorch_core::profile::SpanKind;
use std::collections::VecDeque;

/// The launches and copies after which a batch is submitted: enough that the submission costs little beside them, few
/// enough that the device begins soon.
pub(crate) const COMMANDS: usize = 64;

/// The bytes written from the host after which a batch is submitted: half of what may be under way, so that the host writes
/// on while the device copies.
const UPLOAD: usize = 4 * PIECE;

/// The batches that may be under way. The host waits before it gets further ahead of the device, for what it frees
/// meanwhile is held by those batches.
const IN_FLIGHT: usize = 8;

/// The work that was given and not yet submitted. Methods that submit return an error if the device is lost by then.
pub(crate) struct Batch {
    wgpu: wgpu::Device,
    queue: wgpu::Queue,
    faults: Faults,
    /// Before `encoder`: a pass ends before its encoder does.
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: Option<wgpu::CommandEncoder>,
    commands: usize,
    uploaded: usize,
    uploads: Uploads,
    slots: Slots,
    pub(crate) timeline: Timeline,
    in_flight: VecDeque<wgpu::SubmissionIndex>,
    /// The last batch.
    last: Option<wgpu::SubmissionIndex>,
}

impl Batch {
    pub(crate) fn new(wgpu: wgpu::Device, queue: wgpu::Queue, faults: Faults, slots: Slots) -> Batch {
        Batch {
            wgpu,
            queue,
            faults,
            pass: None,
            encoder: None,
            commands: 0,
            uploaded: 0,
            uploads: Uploads::new(),
            slots,
            timeline: Timeline::default(),
            in_flight: VecDeque::new(),
            last: None,
        }
    }

    /// The buffer of parameters.
    pub(crate) fn parameters(&self) -> &wgpu::Buffer {
        self.slots.buffer()
    }

    /// Adds a launch whose arguments were checked.
    pub(crate) fn launch(
        &mut self,
        kernel: &Kernel,
        group: Option<&wgpu::BindGroup>,
        parameters: &[u32],
        groups: [u32; 3],
    ) -> Result<(), Fault> {
        if kernel.style == Style::Uniform && !self.slots.fits(kernel.parameters) {
            self.submit()?;
        }
        let offset = (kernel.style == Style::Uniform).then(|| self.slots.push(parameters));
        let pass = self.pass(&kernel.label);
        pass.set_pipeline(&kernel.pipeline);
        if kernel.style == Style::Immediate {
            let mut bytes = [0; Style::IMMEDIATES];
            for (bytes, word) in bytes.chunks_exact_mut(4).zip(parameters) {
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
            pass.set_immediates(0, &bytes[..kernel.parameters]);
        }
        if group.is_some() {
            pass.set_bind_group(0, group, offset.as_slice());
        }
        pass.dispatch_workgroups(groups[0], groups[1], groups[2]);
        self.added()
    }

    /// Records that a command was added.
    fn added(&mut self) -> Result<(), Fault> {
        self.commands += 1;
        if self.commands >= COMMANDS {
            self.submit()?;
        }
        Ok(())
    }

    /// The pass that the next launch is part of.
    fn pass(&mut self, label: &str) -> &mut wgpu::ComputePass<'static> {
        if self.timeline.is_on() {
            self.pass = None;
        }
        let encoder = encoder(&mut self.encoder, &self.wgpu);
        self.pass.get_or_insert_with(|| {
            let stamps = self.timeline.next(&self.wgpu, label, SpanKind::Compute);
            let timestamp_writes = stamps.map(timestamps::writes);
            let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
            encoder.begin_compute_pass(&descriptor).forget_lifetime()
        })
    }

    /// Adds a copy whose arguments were checked. What was staged for it is in place: nothing is submitted before it.
    pub(crate) fn copy(
        &mut self,
        label: &str,
        (src, from): (&wgpu::Buffer, u64),
        (dst, to): (&wgpu::Buffer, u64),
        bytes: usize,
    ) -> Result<(), Fault> {
        self.pass = None;
        let encoder = encoder(&mut self.encoder, &self.wgpu);
        let stamps = self.timeline.next(&self.wgpu, label, SpanKind::Copy);
        if let Some((queries, first)) = stamps {
            encoder.write_timestamp(queries, first);
        }
        encoder.copy_buffer_to_buffer(src, from, dst, to, bytes as u64);
        if let Some((queries, first)) = stamps {
            encoder.write_timestamp(queries, first + 1);
        }
        self.added()
    }

    /// Writes to memory whose bounds were checked.
    pub(crate) fn write(&mut self, dst: &Memory, mut offset: u64, src: &[u8]) -> Result<(), Fault> {
        for piece in src.chunks(PIECE) {
            let (staged, from) = self.stage(piece)?;
            self.copy("write", (&staged, from), (&dst.buffer, offset), piece.len())?;
            offset += piece.len() as u64;
            self.uploaded += piece.len();
            if self.uploaded >= UPLOAD {
                self.submit()?;
            }
        }
        Ok(())
    }

    /// Copies bytes to where the device finds them, waiting for room if there is none.
    fn stage(&mut self, bytes: &[u8]) -> Result<(wgpu::Buffer, u64), Fault> {
        loop {
            match self.uploads.stage(&self.wgpu, &self.faults, bytes) {
                Ok(Some(staged)) => return Ok(staged),
                // What is under way comes back.
                Ok(None) => {}
                Err(Fault::OutOfMemory { .. }) if self.encoder.is_some() || !self.in_flight.is_empty() => {}
                Err(fault) => return Err(fault),
            }
            self.submit()?;
            read::wait(&self.wgpu, &self.faults, self.last.clone())?;
            self.in_flight.clear();
        }
    }

    /// Hands the work to the device. The returned index is that of all work so far; none if there never was any.
    pub(crate) fn submit(&mut self) -> Result<Option<wgpu::SubmissionIndex>, Fault> {
        self.faults.check()?;
        self.pass = None;
        if let Some(mut encoder) = self.encoder.take() {
            self.timeline.resolve(&self.wgpu, &mut encoder);
            let commands = encoder.finish();
            let released = self.uploads.release();
            self.slots.upload(&self.queue);
            let index = self.queue.submit([commands]);
            self.uploads.recall(released);
            self.in_flight.push_back(index.clone());
            self.last = Some(index);
            self.commands = 0;
            self.uploaded = 0;
            self.faults.check()?;
            if self.in_flight.len() > IN_FLIGHT {
                let oldest = self.in_flight.pop_front();
                read::wait(&self.wgpu, &self.faults, oldest)?;
            }
        }
        Ok(self.last.clone())
    }
}

/// The encoder of a batch, made when its first command comes.
fn encoder<'a>(
    encoder: &'a mut Option<wgpu::CommandEncoder>,
    wgpu: &wgpu::Device,
) -> &'a mut wgpu::CommandEncoder {
    encoder.get_or_insert_with(|| wgpu.create_command_encoder(&wgpu::CommandEncoderDescriptor::default()))
}
