//! How long launches take on the device.
//!
//! While profiling, every launch is a pass of its own between two timestamps, which keeps launches apart that the device
//! might otherwise overlap: the sum of spans is an upper bound of what the same launches take when not profiled.

use crate::encoder::LAUNCHES;

/// One launch on the device's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The label of the launch.
    pub label: String,
    /// When it began, in nanoseconds. Only differences have a meaning: the clock is the device's.
    pub start_ns: u64,
    /// When it ended, in nanoseconds.
    pub end_ns: u64,
}

/// The timestamps of launches, batch by batch.
#[derive(Default)]
pub(crate) struct Timeline {
    on: bool,
    /// The queries of the batch under way.
    queries: Option<wgpu::QuerySet>,
    labels: Vec<String>,
    /// Batches that were submitted.
    submitted: Vec<Stamps>,
}

/// The timestamps of a submitted batch.
pub(crate) struct Stamps {
    /// Two `u64` for each label, mappable.
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) labels: Vec<String>,
}

impl Timeline {
    /// Begins or ends recording.
    pub(crate) fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// Whether launches are recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// The queries for a launch and the index of its first, when recording.
    pub(crate) fn next(&mut self, wgpu: &wgpu::Device, label: &str) -> Option<(&wgpu::QuerySet, u32)> {
        if !self.on {
            return None;
        }
        let queries = self.queries.get_or_insert_with(|| {
            wgpu.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count: 2 * LAUNCHES as u32,
            })
        });
        let first = 2 * self.labels.len() as u32;
        self.labels.push(label.to_owned());
        Some((queries, first))
    }

    /// Ends a batch: its timestamps are copied to where the host reads them.
    pub(crate) fn resolve(&mut self, wgpu: &wgpu::Device, encoder: &mut wgpu::CommandEncoder) {
        let Some(queries) = self.queries.take() else { return };
        let labels = std::mem::take(&mut self.labels);
        let size = labels.len() as u64 * 16;
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
        encoder.resolve_query_set(&queries, 0..2 * labels.len() as u32, &resolved, 0);
        encoder.copy_buffer_to_buffer(&resolved, 0, &mapped, 0, size);
        self.submitted.push(Stamps { buffer: mapped, labels });
    }

    /// The timestamps of submitted batches, oldest first; they are forgotten here.
    pub(crate) fn take(&mut self) -> Vec<Stamps> {
        std::mem::take(&mut self.submitted)
    }
}

impl Stamps {
    /// The spans of `ticks`, the contents of the buffer, of `period` nanoseconds each.
    pub(crate) fn spans(self, ticks: &[u8], period: f64) -> impl Iterator<Item = Span> {
        let ns: Vec<u64> = ticks
            .chunks_exact(8)
            .map(|tick| {
                // Chunks of 8 bytes are arrays of 8 bytes.
                let tick = u64::from_le_bytes(tick.try_into().unwrap_or_default());
                if period == 1.0 { tick } else { (tick as f64 * period) as u64 }
            })
            .collect();
        self.labels.into_iter().enumerate().map(move |(at, label)| Span {
            label,
            start_ns: ns[2 * at],
            // Some devices report an end before its start when a launch is shorter than the clock's step.
            end_ns: ns[2 * at + 1].max(ns[2 * at]),
        })
    }
}
