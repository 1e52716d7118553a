//! Timing a device.

use super::Options;
use rustorch_core::{
    Backend, Cast, DType, Device, Distribution, Layout, Op, PhiloxKey, Random, Result, Shape, TensorMeta,
    Work,
};
use rustorch_runtime::{HybridExecutor, Operand, Output, Placement};
use std::time::{Duration, Instant};

/// The median time of one run in seconds, and the number of runs.
pub(super) type Timing = (f64, usize);

/// A device that is being measured.
pub(super) struct Bench<'a> {
    pub(super) executor: &'a HybridExecutor,
    pub(super) backend: &'a dyn Backend,
    pub(super) device: Device,
    pub(super) options: &'a Options,
}

/// An operation and its arguments on the device.
pub(super) struct Case {
    /// The sizes, for people.
    pub(super) size: String,
    pub(super) op: Op,
    pub(super) args: Vec<Argument>,
}

/// Data on the device, and how the operation sees it.
pub(super) struct Argument {
    data: Output,
    layout: Layout,
}

impl Argument {
    fn operand(&self) -> Operand<'_> {
        Operand { storage: &self.data.storage, dtype: self.data.dtype, layout: &self.layout }
    }

    /// The last two dimensions exchanged: a view.
    pub(super) fn transposed(mut self) -> Result<Argument> {
        let ndim = self.layout.ndim();
        self.layout = self.layout.transpose(ndim - 2, ndim - 1)?;
        Ok(self)
    }
}

impl Case {
    fn metas(&self) -> Vec<TensorMeta<'_>> {
        self.args.iter().map(|arg| arg.operand().meta()).collect()
    }

    /// What the operation has to do.
    pub(super) fn work(&self) -> Result<Work> {
        let metas = self.metas();
        Ok(self.op.work(&metas, &self.op.infer(&metas)?))
    }
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        executor: &'a HybridExecutor,
        backend: &'a dyn Backend,
        options: &'a Options,
    ) -> Bench<'a> {
        Bench { executor, backend, device: backend.device(), options }
    }

    /// Random numbers of a dtype on the device, made by the CPU.
    pub(super) fn random(&self, dims: &[usize], dtype: DType) -> Result<Argument> {
        let random = Random {
            distribution: Distribution::Uniform { low: -1.0, high: 1.0 },
            shape: Shape::new(dims)?,
            dtype: DType::F32,
            key: PhiloxKey { seed: 1, offset: 0 },
        };
        // The executor keeps everything on the measured device, which may know nothing of this dtype.
        let host = self.executor.with_policy(Placement::CpuOnly)?;
        let mut data = host.run_on(Device::CPU, &Op::Random(random), &[])?.remove(0);
        if dtype != DType::F32 {
            data = host.run(&Op::Cast(Cast { to: dtype }), &[data.operand()])?.remove(0);
        }
        if !self.device.is_cpu() {
            data = self.executor.transfer(&data.operand(), self.device)?;
        }
        Ok(Argument { layout: data.layout.clone(), data })
    }

    /// Why the device does not run it; none if it does.
    pub(super) fn declines(&self, case: &Case) -> Option<String> {
        self.backend.supports(&case.op, &case.metas()).err().map(|decline| decline.to_string())
    }

    /// The shortest time of one run after a first one, to see whether the size is large enough: what else the machine does
    /// must not make a size look large.
    pub(super) fn once(&self, case: &Case) -> Result<Duration> {
        self.runs(case, 1)?;
        let runs = [self.runs(case, 1)?, self.runs(case, 1)?, self.runs(case, 1)?];
        Ok(runs.into_iter().min().unwrap_or_default())
    }

    /// The median time of one run, in seconds, and the number of runs.
    pub(super) fn time(&self, case: &Case) -> Result<Timing> {
        self.median(&mut |n| self.runs(case, n))
    }

    /// The median of samples, each of as many runs as take a millisecond, for as long as the options say.
    pub(super) fn median(&self, run: &mut dyn FnMut(usize) -> Result<Duration>) -> Result<Timing> {
        let first = run(1)?.as_secs_f64().max(1e-9);
        let batch = (1e-3 / first).ceil().clamp(1.0, 1e4) as usize;
        let started = Instant::now();
        let mut samples = Vec::new();
        while samples.len() < 3 || (started.elapsed() < self.options.time && samples.len() < 1000) {
            samples.push(run(batch)?.as_secs_f64() / batch as f64);
        }
        samples.sort_by(f64::total_cmp);
        Ok((samples[samples.len() / 2], batch * samples.len()))
    }

    /// Several runs, one after another, until the device has done them all.
    fn runs(&self, case: &Case, n: usize) -> Result<Duration> {
        let args: Vec<Operand<'_>> = case.args.iter().map(Argument::operand).collect();
        let started = Instant::now();
        for _ in 0..n {
            self.executor.run_on(self.device, &case.op, &args)?;
        }
        self.executor.synchronize(self.device)?;
        Ok(started.elapsed())
    }
}
