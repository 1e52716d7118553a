//! When launches and copies ran on the device.
//!
//! While profiling, every launch is a pass of its own between two timestamps, which keeps launches apart that the device
//! might otherwise overlap: the sum of spans is an upper bound of what the same launches take when not profiled. Copies are
//! measured where the device has timestamps outside of passes.

use crate::encoder::COMMANDS;
use rustorch_core::profile::{ClockMap, DeviceSpan, SpanKind, current_sequence};
use std::mem;

/// The timestamps of launches and copies, batch by batch.
#[derive(Default)]
pub(crate) struct Timeline {
    /// The device's clock, while profiling.
    clock: Option<ClockMap>,
    copies: bool,
    /// The queries of the batch under way.
    queries: Option<wgpu::QuerySet>,
    marks: Vec<Mark>,
    /// Batches that were submitted.
    submitted: Vec<Stamps>,
}

/// What is measured, with the device's ticks still to come.
struct Mark {
    label: String,
    kind: SpanKind,
    sequence: u64,
}

/// The timestamps of a submitted batch.
pub(crate) struct Stamps {
    /// Two `u64` for each mark, mappable.
    pub(crate) buffer: wgpu::Buffer,
    marks: Vec<Mark>,
    clock: ClockMap,
}

impl Timeline {
    /// Begins to record by this clock; `copies` says whether timestamps are possible outside of passes.
    pub(crate) fn start(&mut self, clock: ClockMap, copies: bool) {
        self.clock = Some(clock);
        self.copies = copies;
    }

    /// Ends recording and forgets what was recorded.
    pub(crate) fn stop(&mut self) {
        *self = Timeline::default();
    }

    /// Whether launches are recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.clock.is_some()
    }

    /// The queries for a launch or a copy, and the index of its first, when it is recorded.
    pub(crate) fn next(
        &mut self,
        wgpu: &wgpu::Device,
        label: &str,
        kind: SpanKind,
    ) -> Option<(&wgpu::QuerySet, u32)> {
        if !self.is_on() || (kind == SpanKind::Copy && !self.copies) {
            return None;
        }
        let queries = self.queries.get_or_insert_with(|| queries(wgpu, 2 * COMMANDS as u32));
        let first = 2 * self.marks.len() as u32;
        self.marks.push(Mark { label: label.to_owned(), kind, sequence: current_sequence() });
        Some((queries, first))
    }

    /// Ends a batch: its timestamps are copied to where the host reads them.
    pub(crate) fn resolve(&mut self, wgpu: &wgpu::Device, encoder: &mut wgpu::CommandEncoder) {
        let (Some(queries), Some(clock)) = (self.queries.take(), self.clock) else { return };
        let marks = mem::take(&mut self.marks);
        let buffer = resolve(wgpu, encoder, &queries, 2 * marks.len() as u32);
        self.submitted.push(Stamps { buffer, marks, clock });
    }

    /// The timestamps of submitted batches, oldest first; they are forgotten here.
    pub(crate) fn take(&mut self) -> Vec<Stamps> {
        mem::take(&mut self.submitted)
    }
}

impl Stamps {
    /// The bytes of the buffer that hold timestamps.
    pub(crate) fn bytes(&self) -> usize {
        self.marks.len() * 16
    }

    /// The spans, by the contents of the buffer.
    pub(crate) fn spans(self, ticks: &[u8]) -> impl Iterator<Item = DeviceSpan> {
        let clock = self.clock;
        self.marks.into_iter().zip(ticks.as_chunks::<16>().0).map(move |(mark, pair)| {
            let [start, end] = [0, 8].map(|at| {
                let mut tick = [0; 8];
                tick.copy_from_slice(&pair[at..at + 8]);
                clock.host_ns(u64::from_le_bytes(tick))
            });
            DeviceSpan {
                label: mark.label.into(),
                kind: mark.kind,
                sequence: mark.sequence,
                start_ns: start,
                // Some devices report an end before its start when a launch is shorter than the clock's step.
                end_ns: end.max(start),
            }
        })
    }
}

/// Room for timestamps.
pub(crate) fn queries(wgpu: &wgpu::Device, count: u32) -> wgpu::QuerySet {
    wgpu.create_query_set(&wgpu::QuerySetDescriptor { label: None, ty: wgpu::QueryType::Timestamp, count })
}

/// A pass between two timestamps.
pub(crate) fn writes((query_set, first): (&wgpu::QuerySet, u32)) -> wgpu::ComputePassTimestampWrites<'_> {
    wgpu::ComputePassTimestampWrites {
        query_set,
        beginning_of_pass_write_index: Some(first),
        end_of_pass_write_index: Some(first + 1),
    }
}

/// Copies the first timestamps to a new buffer that the host can map.
pub(crate) fn resolve(
    wgpu: &wgpu::Device,
    encoder: &mut wgpu::CommandEncoder,
    queries: &wgpu::QuerySet,
    count: u32,
) -> wgpu::Buffer {
    let size = u64::from(count) * 8;
    let buffer = |usage| {
        wgpu.create_buffer(&wgpu::BufferDescriptor {
            label: Some("timestamps"),
            size,
            usage,
            mapped_at_creation: false,
        })
    };
    let resolved = buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC);
    let mapped = buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
    encoder.resolve_query_set(queries, 0..count, &resolved, 0);
    encoder.copy_buffer_to_buffer(&resolved, 0, &mapped, 0, size);
    mapped
}
