//! Profiles of an executor.

use super::HybridExecutor;
use crate::profile::{Measured, Profile, Profiler};

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
