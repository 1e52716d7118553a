//! Noting what happens while somebody profiles; nothing is measured otherwise.

use super::HybridExecutor;
use crate::profile::{Measured, Profile, Profiler};
use crate::record::{Interval, MemorySample, TransferRecord, next_sequence, thread_number};
use crate::transfers::TransferMethod;
use rustorch_core::Device;
use rustorch_core::profile::{SequenceScope, current_sequence, host_ns};
use smallvec::SmallVec;
use std::time::Duration;

impl HybridExecutor {
    /// Runs `f` with this as the current executor, and measures everything that this thread dispatched meanwhile. See
    /// [`profile`](crate::profile) for what can be done with the result, and [`Profiler`] for all threads.
    ///
    /// ```
    /// use rustorch_core::{BinaryOp, DType, Device, Op, Shape};
    /// use rustorch_runtime::HybridExecutor;
    ///
    /// let exec = HybridExecutor::builder().build()?;
    /// let x = exec.upload(&[0; 16], DType::F32, &Shape::new([4].as_slice())?, Device::CPU)?;
    /// let (sum, profile) = exec.profile(|| exec.run(&Op::Binary(BinaryOp::Add), &[x.operand(), x.operand()]));
    /// sum?;
    /// assert_eq!(profile.operations().len(), 1);
    /// println!("{profile}");
    /// # Ok::<(), rustorch_core::Error>(())
    /// ```
    pub fn profile<R>(&self, f: impl FnOnce() -> R) -> (R, Profile) {
        let profiler = Profiler::of_this_thread(self);
        let result = self.scope(f);
        (result, profiler.finish())
    }

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

    /// Begins to measure, for one thread or all.
    pub(crate) fn begin_profile(&self, thread: Option<u32>) -> u64 {
        let shared = &self.0.shared;
        shared.spans.enter(&shared.devices.open());
        let id = shared.recorder.open(thread, true);
        self.sample_memory();
        id
    }

    /// Ends what [`begin_profile`](Self::begin_profile) began.
    pub(crate) fn end_profile(&self, id: u64) -> Measured {
        let shared = &self.0.shared;
        self.sample_memory();
        let trace = shared.recorder.close(id);
        let open = shared.devices.open();
        let (spans, notes) = shared.spans.leave(&open);
        let devices = open.iter().map(|state| (state.device, state.backend.capability().name.clone()));
        Measured { trace, spans, notes, devices: devices.collect() }
    }
}
