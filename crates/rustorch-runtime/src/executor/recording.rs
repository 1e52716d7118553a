//! Recording transfers, memory and times while records or profiles are taken; nothing is measured otherwise.

use super::HybridExecutor;
use crate::record::{Interval, MemorySample, TransferRecord, next_sequence, thread_number};
use crate::transfers::TransferMethod;
use rustorch_core::Device;
use rustorch_core::profile::{SequenceScope, current_sequence, host_ns};
use smallvec::SmallVec;
use std::time::Duration;

impl HybridExecutor {
    /// The time, if somebody wants to know what happens.
    #[inline]
    pub(super) fn clock(&self) -> Option<u64> {
        self.0.shared.recorder.is_watched().then(host_ns)
    }

    /// Marks what this thread submits as belonging together, if somebody wants to know what happens and it is not part of
    /// something larger.
    pub(super) fn sequence(&self) -> Option<SequenceScope> {
        (self.0.shared.recorder.is_watched() && current_sequence() == 0)
            .then(|| SequenceScope::enter(next_sequence()))
    }

    /// Counts a transfer that began at `start_ns` and is over, and notes it if somebody wants to know.
    pub(super) fn transferred(
        &self,
        from: Device,
        to: Device,
        method: TransferMethod,
        bytes: usize,
        start_ns: u64,
    ) {
        let time = Interval::since(start_ns);
        self.transfers().add(from, to, method, bytes, Duration::from_nanos(time.end_ns - time.start_ns));
        if self.0.shared.recorder.is_watched() {
            self.0.shared.recorder.push_transfer(TransferRecord {
                sequence: current_sequence(),
                thread: thread_number(),
                from,
                to,
                method,
                bytes: bytes as u64,
                time,
            });
        }
    }

    /// Notes how much memory is in use, if somebody wants to know.
    pub(super) fn sample_memory(&self) {
        let recorder = &self.0.shared.recorder;
        if !recorder.samples_memory() {
            return;
        }
        let memory = &self.0.shared.memory;
        let at_ns = host_ns();
        let samples: SmallVec<[MemorySample; 4]> = memory
            .devices()
            .into_iter()
            .filter_map(|device| {
                let stats = memory.stats(device)?;
                Some(MemorySample { at_ns, device, allocated: stats.allocated, reserved: stats.reserved })
            })
            .collect();
        recorder.push_memory(&samples);
    }
}
