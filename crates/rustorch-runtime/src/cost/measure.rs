//! Measuring a device through its `Backend`.

use super::busy::LoadMeter;
use super::calibration::Calibration;
use super::corner::Corner;
use super::plausible::implausible;
use super::probe::{self, Arg, Case, Limit, Of, PROBES, Probe};
use super::values::values;
use crate::memory::allocate;
use rustorch_core::{
    Backend, Buffer, CostModel, DType, Decline, Fault, Layout, Link, OpKind, OpType, Rate, RateOf, Shape,
    TensorMeta, View, ViewMut, Work, packed_bytes,
};
use std::time::{Duration, Instant};

/// A run of so many seconds is long enough to be timed.
const ENOUGH: f64 = 1e-3;
/// As is one of so many times the start of an operation.
const STARTS: f64 = 20.0;
/// No buffer is larger.
const MOST_BYTES: usize = 64 << 20;
/// Seconds of repeated runs between two looks at the clock.
const BATCH: f64 = 1e-3;
/// A net time is at least this part of the gross one: differences of nearly equal times are noise.
const LEAST_NET: f64 = 0.1;
/// Runs are repeated until the second best takes at most this many times as long as the best.
const AGREEMENT: f64 = 1.1;
/// But not more often than this.
const MOST_BATCHES: usize = 8;
/// Probes between two looks at how busy the machine is.
const PROBES_PER_LOOK: usize = 6;
/// The time for measuring an implausible rate again.
const SECOND_TRY: Duration = Duration::from_millis(300);

/// Why a probe ended.
enum Stop {
    /// The device does not do it.
    Declined,
    /// The operands are larger than buffers may be.
    TooLarge,
    /// The device failed.
    Failed(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Failed(fault)
    }
}

impl From<Decline> for Stop {
    fn from(_: Decline) -> Stop {
        Stop::Declined
    }
}

/// How long a run took, and how much work it was.
#[derive(Clone, Copy)]
struct Sample {
    seconds: f64,
    work: Work,
    /// What the first run took beyond the second: compiling its kernel.
    compiling: Duration,
    /// Whether the two best times agree.
    settled: bool,
}

/// The two best times of repeated runs.
#[derive(Clone, Copy)]
struct BestTwo(f64, f64);

impl BestTwo {
    const NONE: BestTwo = BestTwo(f64::INFINITY, f64::INFINITY);

    fn add(&mut self, seconds: f64) {
        if seconds < self.0 {
            *self = BestTwo(seconds, self.0);
        } else {
            self.1 = self.1.min(seconds);
        }
    }

    fn agree(self) -> bool {
        self.1 <= AGREEMENT * self.0
    }
}

impl Sample {
    /// The time without the start.
    fn net(&self, launch: f64) -> f64 {
        (self.seconds - launch).max(LEAST_NET * self.seconds).max(1e-9)
    }

    fn flops(&self, launch: f64) -> f64 {
        self.work.flops as f64 / self.net(launch)
    }

    fn bandwidth(&self, launch: f64) -> f64 {
        self.work.bytes as f64 / self.net(launch)
    }
}

impl Corner {
    fn set(&mut self, limit: Limit, sample: Sample, launch: f64) {
        match limit {
            Limit::Arithmetic => self.flops = Some(sample.flops(launch)),
            Limit::Memory => self.bandwidth = Some(sample.bandwidth(launch)),
        }
    }
}

/// Memory on the device with a layout.
struct Block {
    buffer: Buffer,
    dtype: DType,
    layout: Layout,
}

struct Meter<'a> {
    backend: &'a dyn Backend,
    /// The time for all probes.
    budget: Duration,
    /// When it is up.
    end: Instant,
}

/// Times a device. A single run that takes longer than the budget, such as one that compiles its kernel, may exceed it;
/// nothing is begun after it.
pub(super) fn calibrate(backend: &dyn Backend, budget: Duration) -> Result<Calibration, Fault> {
    let begun = Instant::now();
    let meter = Meter { backend, budget, end: begun + budget };
    let mut load = LoadMeter::default();
    load.look();
    let launch = match meter.once(&probe::least(), meter.end) {
        Ok(sample) => sample.seconds,
        Err(Stop::Failed(fault)) => return Err(fault),
        Err(Stop::Declined | Stop::TooLarge) => {
            let message = "it declines the addition by which devices are measured".to_owned();
            return Err(Fault::Backend { device: backend.device(), message });
        }
    };
    let (upload, download) = meter.links()?;
    let mut corners: Vec<Corner> = Vec::new();
    let mut complete = true;
    let library = backend.extensions().has_blas_library();
    let probes: Vec<&Probe> = PROBES.iter().filter(|probe| library || !probe.by_library).collect();
    for (i, probe) in probes.iter().enumerate() {
        let left = meter.end.saturating_duration_since(Instant::now());
        // The first two are what a model cannot do without.
        if left.is_zero() && i >= 2 {
            complete = false;
            break;
        }
        if i % PROBES_PER_LOOK == PROBES_PER_LOOK - 1 {
            load.look();
        }
        // What one leaves, the others have; the first, which matter most, may take more.
        let until = Instant::now() + left / (probes.len() - i).min(12) as u32;
        let Some(sample) = meter.largest(probe, launch, until)? else { continue };
        complete &= sample.settled;
        let corner = match corners.iter_mut().position(|c| c.of == probe.of && c.dtype == probe.dtype) {
            Some(known) => &mut corners[known],
            None => {
                corners.push(Corner { of: probe.of, dtype: probe.dtype, flops: None, bandwidth: None });
                corners.last_mut().expect("pushed right here")
            }
        };
        corner.set(probe.limit, sample, launch);
    }
    load.look();
    let refused = meter.without_implausible(&mut corners, &probes, launch)?;
    let model = assemble(launch, upload, download, &corners).ok_or_else(|| Fault::Backend {
        device: backend.device(),
        message: "it ran none of the operations by which devices are measured".to_owned(),
    })?;
    let busy = load.is_busy().then(|| "other programs kept the CPU busy".to_owned());
    tracing::debug!(device = %backend.device(), took = ?begun.elapsed(), complete, "calibrated");
    Ok(Calibration { disturbed: refused.or(busy), ..Calibration::of(backend, model, complete) })
}

/// The model that the corners make; `None` without the rates of a sum, on which the others fall back.
fn assemble(launch: f64, upload: Link, download: Link, corners: &[Corner]) -> Option<CostModel> {
    let general = corners.iter().find(|c| c.of == Of::All)?;
    let bandwidth = general.bandwidth?;
    // Where functions could not be timed: a sum's one operation for twelve bytes is what was seen.
    let flops = general.flops.unwrap_or(bandwidth / 12.0);
    let rates = corners
        .iter()
        .filter_map(|corner| {
            let of = match corner.of {
                Of::All => return None,
                Of::Op(op) => RateOf::Op(op),
                Of::Class(class) => RateOf::Class(class),
            };
            // Memory alone decides for what was timed by its bytes; matmuls always have both sides.
            let products = Of::Class(OpType::LinearAlgebra);
            let by_library = corner.of == Of::Op(OpKind::MatMul);
            let flops = corner.flops.unwrap_or(if by_library || corner.of == products {
                flops
            } else {
                f64::INFINITY
            });
            // A library reads as fast as own kernels, where that was not measured.
            let own = corners.iter().find(|c| by_library && c.of == products && c.dtype == corner.dtype);
            let bandwidth = corner.bandwidth.or(own.and_then(|own| own.bandwidth)).unwrap_or(bandwidth);
            Some(Rate { of, dtype: corner.dtype, flops, bandwidth })
        })
        .collect();
    Some(CostModel { launch_us: launch * 1e6, flops, bandwidth, rates, upload, download })
}

impl Meter<'_> {
    /// Measures implausible rates again, and takes those out that stay so; returns why, if there were any.
    fn without_implausible(
        &self,
        corners: &mut [Corner],
        probes: &[&Probe],
        launch: f64,
    ) -> Result<Option<String>, Fault> {
        let mut tried = Vec::new();
        let mut refused = None;
        while let Some(found) = implausible(corners) {
            let corner = &mut corners[found.corner];
            if tried.contains(&found.corner) {
                tracing::warn!(device = %self.backend.device(), "measurement refused: {}", found.why);
                (corner.flops, corner.bandwidth) = (None, None);
                refused = Some(found.why);
                continue;
            }
            tried.push(found.corner);
            let (of, dtype) = (corner.of, corner.dtype);
            for probe in probes.iter().filter(|probe| probe.of == of && probe.dtype == dtype) {
                if let Some(sample) = self.largest(probe, launch, Instant::now() + SECOND_TRY)? {
                    corner.set(probe.limit, sample, launch);
                }
            }
        }
        Ok(refused)
    }

    /// Runs of growing size, to the first that takes long enough or the last that fits into the time, and the one of them
    /// that tells the rate; `None` if the device does not do it at all.
    ///
    /// # Errors
    /// If the device is gone; other failures end the probe only.
    fn largest(&self, probe: &Probe, launch: f64, until: Instant) -> Result<Option<Sample>, Fault> {
        let (mut best, mut until): (Option<Sample>, _) = (None, until);
        for level in 0..probe.levels {
            let begun = Instant::now();
            let case = (probe.case)(probe.dtype, level);
            let sample = match self.once(&case, until) {
                Ok(sample) => sample,
                Err(Stop::Failed(fault @ Fault::DeviceLost { .. })) => return Err(fault),
                Err(_) => break,
            };
            // A device that compiles slowly is measured at the same sizes as one whose kernels are in a cache.
            until += sample.compiling;
            best = match (best, probe.limit) {
                // A larger size that shows less arithmetic was disturbed; one that shows less memory has left a cache.
                (Some(best), Limit::Arithmetic) if best.flops(launch) > sample.flops(launch) => Some(best),
                _ => Some(sample),
            };
            if sample.seconds >= ENOUGH.max(STARTS * launch) {
                break;
            }
            // Compiling happens once; preparing and running grow.
            let steady = begun.elapsed().saturating_sub(sample.compiling).as_secs_f64();
            if Instant::now() + Duration::from_secs_f64(probe.growth * steady) > until {
                break;
            }
        }
        Ok(best)
    }

    /// Prepares and runs a case a few times.
    fn once(&self, case: &Case, until: Instant) -> Result<Sample, Stop> {
        let device = self.backend.device();
        let layouts: Vec<Layout> = case.args.iter().map(|arg| self.layout(arg)).collect::<Result<_, _>>()?;
        let args = case.args.iter().zip(&layouts);
        let metas: Vec<TensorMeta<'_>> =
            args.map(|(arg, layout)| TensorMeta { dtype: arg.dtype, layout, device }).collect();
        let outs = case.op.infer(&metas).map_err(Fault::from)?;
        let work = case.op.work(&metas, &outs);
        let made = outs.iter().map(|out| packed_bytes(out.dtype, out.shape.numel()));
        if metas.iter().map(TensorMeta::packed_bytes).chain(made).any(|bytes| bytes > self.most_bytes()) {
            return Err(Stop::TooLarge);
        }
        self.backend.supports(&case.op, &metas)?;
        let args: Vec<Block> = case
            .args
            .iter()
            .zip(layouts)
            .map(|(arg, layout)| self.filled(arg, layout))
            .collect::<Result<_, _>>()?;
        let mut results: Vec<Block> = outs
            .iter()
            .map(|out| {
                let buffer = allocate(self.backend, packed_bytes(out.dtype, out.shape.numel()))?;
                let layout = Layout::contiguous(out.shape.clone());
                Ok(Block { buffer, dtype: out.dtype, layout })
            })
            .collect::<Result<_, Fault>>()?;
        let views: Vec<View<'_>> = args
            .iter()
            // SAFETY: the buffer was made for the dtype and layout, and filled with values of the dtype.
            .map(|x| unsafe { View::new(&x.buffer, x.dtype, &x.layout) })
            .collect();
        let mut run = |times: usize| -> Result<f64, Fault> {
            let mut places: Vec<ViewMut<'_>> = results
                .iter_mut()
                // SAFETY: the buffer was made for the dtype and layout, which is contiguous.
                .map(|x| unsafe { ViewMut::new(&mut x.buffer, x.dtype, &x.layout) })
                .collect();
            let begun = Instant::now();
            for _ in 0..times {
                // SAFETY: `outs`, for which the results were made, was inferred from the arguments.
                unsafe { self.backend.run(&case.op, &views, &mut places)? };
            }
            self.backend.synchronize()?;
            Ok(begun.elapsed().as_secs_f64() / times as f64)
        };
        // Compiles, wakes the device, touches fresh memory.
        let cold = run(1)?;
        let first = run(1)?;
        let compiling = Duration::from_secs_f64((cold - first).max(0.0));
        let until = until + compiling;
        let times = (BATCH / first.max(1e-9)).clamp(1.0, 1000.0) as usize;
        let mut best = BestTwo::NONE;
        // A batch tells more than a single run, whose time is that of the clock, too.
        if times == 1 {
            best.add(first);
        }
        for _ in 0..MOST_BATCHES {
            if best.agree() || Instant::now() + Duration::from_secs_f64(first * times as f64) > until {
                break;
            }
            best.add(run(times)?);
        }
        let seconds = if best.0.is_finite() { best.0 } else { first };
        Ok(Sample { seconds: seconds.max(1e-9), work, compiling, settled: best.agree() })
    }

    /// The ways to and from the CPU's memory.
    fn links(&self) -> Result<(Link, Link), Fault> {
        if self.backend.device().is_cpu() {
            return Ok((Link::NONE, Link::NONE));
        }
        // A fifth of the time for each.
        let upload = self.link(Instant::now() + self.budget / 5, |buffer, bytes| {
            let layout = flat(bytes.len() / 4)?;
            // SAFETY: the buffer has at least so many bytes, and a contiguous layout does not overlap itself.
            self.backend.copy_in(bytes, &mut unsafe { ViewMut::new(buffer, DType::F32, &layout) })?;
            self.backend.synchronize()
        })?;
        let download = self.link(Instant::now() + self.budget / 5, |buffer, bytes| {
            let layout = flat(bytes.len() / 4)?;
            // SAFETY: as above, and the buffer was written.
            self.backend.copy_out(&unsafe { View::new(buffer, DType::F32, &layout) }, bytes)
        })?;
        Ok((upload, download))
    }

    /// Times copies of growing size.
    fn link(
        &self,
        until: Instant,
        mut copy: impl FnMut(&mut Buffer, &mut [u8]) -> Result<(), Fault>,
    ) -> Result<Link, Fault> {
        let mut time = |bytes: usize, times: usize| -> Result<f64, Fault> {
            let mut block = self.filled(
                &Arg { dtype: DType::F32, dims: vec![bytes / 4], transposed: false },
                flat(bytes / 4)?,
            )?;
            let mut host = vec![0; bytes];
            let mut best = f64::INFINITY;
            for i in 0..=times {
                let begun = Instant::now();
                copy(&mut block.buffer, &mut host)?;
                // The first one may have to prepare something.
                if i > 0 {
                    best = best.min(begun.elapsed().as_secs_f64());
                }
                if Instant::now() > until && best.is_finite() {
                    break;
                }
            }
            Ok(best)
        };
        let start = time(4, 10)?;
        let (mut bytes, mut taken) = (64 << 10, time(64 << 10, 3)?);
        while taken < ENOUGH.max(STARTS * start)
            && 4 * bytes <= self.most_bytes()
            // Filling, and four copies.
            && Instant::now() + Duration::from_secs_f64(5.0 * 4.0 * taken) < until
        {
            match time(4 * bytes, 3) {
                Ok(next) => (bytes, taken) = (4 * bytes, next),
                Err(Fault::OutOfMemory { .. }) => break,
                Err(fault) => return Err(fault),
            }
        }
        let net = (taken - start).max(LEAST_NET * taken).max(1e-9);
        Ok(Link { start_us: start * 1e6, bandwidth: bytes as f64 / net })
    }

    /// No buffer may be larger.
    fn most_bytes(&self) -> usize {
        let capability = self.backend.capability();
        let limits = [capability.max_buffer, capability.memory.map(|bytes| bytes / 8)];
        let least = limits.into_iter().flatten().min().and_then(|bytes| usize::try_from(bytes).ok());
        least.unwrap_or(usize::MAX).min(MOST_BYTES)
    }

    fn layout(&self, arg: &Arg) -> Result<Layout, Fault> {
        let layout = Layout::contiguous(Shape::new(arg.dims.as_slice())?);
        if !arg.transposed {
            return Ok(layout);
        }
        let turned = layout.transpose(0, 1)?;
        if self.backend.capability().strided || arg.dtype.is_quant() {
            return Ok(turned);
        }
        // The executor would pack it before.
        Ok(Layout::contiguous(turned.shape().clone()))
    }

    fn filled(&self, arg: &Arg, layout: Layout) -> Result<Block, Fault> {
        let bytes = values(arg.dtype, packed_bytes(arg.dtype, layout.numel()));
        let mut buffer = allocate(self.backend, bytes.len())?;
        let run = flat(layout.numel())?;
        // SAFETY: the buffer was made for as many elements, and a contiguous layout does not overlap itself.
        self.backend.copy_in(&bytes, &mut unsafe { ViewMut::new(&mut buffer, arg.dtype, &run) })?;
        Ok(Block { buffer, dtype: arg.dtype, layout })
    }
}

fn flat(elements: usize) -> Result<Layout, Fault> {
    Ok(Layout::contiguous(Shape::new([elements].as_slice())?))
}
