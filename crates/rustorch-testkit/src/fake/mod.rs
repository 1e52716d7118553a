//! `FakeDevice`: computes by another backend, in memory of its own, and fails by script.

mod compiler;
mod memory;
mod prepared;
mod script;
mod timeline;

pub use compiler::FakeCompiler;
pub use script::{Act, Call, Point, Rule};

use compiler::OfDevice;
use memory::{FakeMemory, Reach};
use prepared::FakePrepared;
use script::Script;

use rustorch_core::profile::{DeviceProfiler, GpuBenchmarkMetrics, SpanKind};
use rustorch_core::{
    Backend, Buffer, C64, C128, Compiler, CostModel, DType, Decline, Device, DeviceCapability, DeviceMetrics,
    Element, Extensions, Fault, Link, Op, PrepareRequest, PreparedOp, Streams, TensorMeta, VendorBlas, View,
    ViewMut, bf16, copy_mismatch, f16,
};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use timeline::Timeline;

/// A device in the eyes of the executor; see the [crate's documentation](crate).
pub struct FakeDevice {
    device: Device,
    inner: Arc<dyn Backend>,
    capability: DeviceCapability,
    cost: Option<CostModel>,
    peers: bool,
    most_streams: usize,
    streams: AtomicUsize,
    limit: usize,
    used: Arc<AtomicUsize>,
    script: Arc<Script>,
    compiler: Option<OfDevice>,
    timeline: Option<Timeline>,
    metrics: GpuBenchmarkMetrics,
    pci_address: Option<&'static str>,
    /// How much longer matmuls take that are not the library's.
    library: Option<Duration>,
    /// Runs of operations that it made ready, if it makes any.
    prepared_runs: Option<AtomicUsize>,
}

impl FakeDevice {
    /// A device that can do all that `inner`, a backend on the CPU, can, as fast as a typical GPU.
    pub fn new(device: Device, inner: Arc<dyn Backend>) -> FakeDevice {
        FakeDevice {
            device,
            capability: DeviceCapability::complete(format!("fake {device}")),
            inner,
            cost: Some(CostModel {
                launch_us: 5.0,
                flops: 1e13,
                bandwidth: 5e11,
                rates: Vec::new(),
                upload: Link { start_us: 10.0, bandwidth: 1e10 },
                download: Link { start_us: 10.0, bandwidth: 1e10 },
            }),
            peers: false,
            most_streams: 1,
            streams: AtomicUsize::new(1),
            limit: usize::MAX,
            used: Arc::default(),
            script: Arc::new(Script::new(device)),
            compiler: None,
            timeline: None,
            metrics: GpuBenchmarkMetrics::default(),
            pci_address: None,
            library: None,
            prepared_runs: None,
        }
    }

    /// Lets it have a clock and tell when it ran what: as if it worked by itself, one thing after another, each taking
    /// what `time` says for its name (`copy in` and the like for copies).
    pub fn with_timestamps(mut self, time: impl Fn(&str) -> Duration + Send + Sync + 'static) -> FakeDevice {
        self.timeline = Some(Timeline::new(Box::new(time)));
        self
    }

    /// Lets it say how busy it is.
    pub fn with_metrics(mut self, metrics: GpuBenchmarkMetrics) -> FakeDevice {
        self.metrics = metrics;
        self
    }

    /// Lets it say where it is plugged in.
    pub fn with_pci_address(mut self, address: &'static str) -> FakeDevice {
        self.pci_address = Some(address);
        self
    }

    /// Lets it have a BLAS library: those whose order is fixed take longer, by so much.
    pub fn with_blas_library(mut self, gain: Duration) -> FakeDevice {
        self.library = Some(gain);
        self
    }

    /// Whether somebody measures it.
    pub fn is_measured(&self) -> bool {
        self.timeline.as_ref().is_some_and(Timeline::is_measured)
    }

    /// Notes that something occupies it, if somebody measures that.
    fn occupy(&self, label: &'static str, kind: SpanKind) {
        if let Some(timeline) = &self.timeline {
            timeline.submit(label, kind);
        }
    }

    /// Changes what it can do.
    pub fn capability(mut self, change: impl FnOnce(&mut DeviceCapability)) -> FakeDevice {
        change(&mut self.capability);
        self
    }

    /// Changes how long it says that it takes.
    pub fn cost(mut self, change: impl FnOnce(&mut CostModel)) -> FakeDevice {
        if let Some(cost) = &mut self.cost {
            change(cost);
        }
        self
    }

    /// Lets it say nothing about how long it takes, so that it is measured.
    pub fn measured(mut self) -> FakeDevice {
        self.cost = None;
        self
    }

    /// Lets it have so many bytes of memory.
    pub fn memory_limit(mut self, bytes: usize) -> FakeDevice {
        self.limit = bytes;
        self
    }

    /// Lets it read other fake devices' memory directly.
    pub fn with_peers(mut self) -> FakeDevice {
        self.peers = true;
        self
    }

    /// Lets it have so many streams, though it does one thing after another.
    pub fn with_streams(mut self, most: usize) -> FakeDevice {
        self.most_streams = most;
        self
    }

    /// Lets it make operations ready.
    pub fn preparing(mut self) -> FakeDevice {
        self.prepared_runs = Some(AtomicUsize::new(0));
        self
    }

    /// How often it ran operations that it had made ready.
    pub fn prepared_runs(&self) -> usize {
        self.prepared_runs.as_ref().map_or(0, |runs| runs.load(Ordering::Relaxed))
    }

    /// Lets it compile regions of graphs. What it can do and reach is what was said before.
    pub fn with_compiler(mut self, compiler: FakeCompiler) -> FakeDevice {
        let (script, inner) = (Arc::clone(&self.script), Arc::clone(&self.inner));
        self.compiler = Some(OfDevice { compiler, script, inner, reach: self.reach() });
        self
    }

    /// Adds a line to its script.
    pub fn script(&self, rule: Rule) {
        self.script.add(rule);
    }

    /// Everything that it was asked to do so far.
    pub fn calls(&self) -> Vec<Call> {
        self.script.calls()
    }

    /// How often it was asked to run an operation.
    pub fn runs(&self, op: &str) -> usize {
        let calls = self.script.calls();
        calls.iter().filter(|call| call.point == Point::Run && call.op == Some(op)).count()
    }

    /// How often it was asked to do something at a point.
    pub fn calls_at(&self, point: Point) -> usize {
        self.script.calls().iter().filter(|call| call.point == point).count()
    }

    /// The bytes that it has given out and not got back.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn enter(&self, point: Point, op: Option<&'static str>) -> Result<Option<Act>, Fault> {
        self.script.enter(point, op)
    }

    fn reach(&self) -> Reach {
        let others = self.capability.reaches.clone();
        Reach { device: self.device, used: Arc::clone(&self.used), others }
    }

    fn view<'a>(&self, view: &View<'a>) -> Result<View<'a>, Fault> {
        self.reach().view(view)
    }

    fn place<'a>(&self, place: &ViewMut<'a>) -> Result<ViewMut<'a>, Fault> {
        self.reach().place(place)
    }
}

// SAFETY: memory is the inner backend's or host memory of the size asked for, and work is the inner backend's. What a script has
// it do wrong are faults and values, never accesses.
unsafe impl Backend for FakeDevice {
    fn device(&self) -> Device {
        self.device
    }

    fn capability(&self) -> &DeviceCapability {
        &self.capability
    }

    fn cost(&self) -> Option<&CostModel> {
        self.cost.as_ref()
    }

    fn supports(&self, op: &Op, args: &[TensorMeta<'_>]) -> Result<(), Decline> {
        // A device that is gone does not know it before it is used.
        if let Ok(Some(Act::Decline(decline))) = self.enter(Point::Supports, Some(op.name())) {
            return Err(decline);
        }
        self.capability.check(op, args)?;
        self.inner.supports(op, args)
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer, Fault> {
        self.enter(Point::Alloc, None)?;
        if self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > self.limit {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Fault::OutOfMemory { device: self.device, requested: bytes });
        }
        let buffer = Buffer::host(bytes)?;
        if let Some(address) = buffer.host_address() {
            // What is not written shows as nonsense.
            // SAFETY: fresh memory of this size.
            unsafe { address.as_ptr().write_bytes(0xA5, bytes) };
        }
        let host = buffer.host_address().filter(|_| self.device.kind().info().shares_host_memory);
        let memory = FakeMemory { buffer, used: Arc::clone(&self.used) };
        // SAFETY: the address, if given, is that of the buffer inside `memory`, which has this size.
        Ok(unsafe { Buffer::device(self.device, bytes, host, Box::new(memory)) })
    }

    unsafe fn run(&self, op: &Op, args: &[View<'_>], outs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        let act = match self.enter(Point::Run, Some(op.name())) {
            Ok(act) => act,
            Err(fault) => {
                // A kernel that fails may have written anything.
                for out in outs.iter_mut() {
                    spoil(&mut self.place(out)?);
                }
                return Err(fault);
            }
        };
        if !self.capability.strided && args.iter().any(|x| !x.layout().is_contiguous()) {
            let message = format!("{} was given a strided argument, which it declines", op.name());
            return Err(Fault::Backend { device: self.device, message });
        }
        let args: SmallVec<[View<'_>; 4]> =
            args.iter().map(|x| self.view(x)).collect::<Result<_, Fault>>()?;
        let mut places: SmallVec<[ViewMut<'_>; 2]> =
            outs.iter().map(|x| self.place(x)).collect::<Result<_, Fault>>()?;
        self.occupy(op.name(), SpanKind::Compute);
        if let (Some(gain), Op::MatMul(op)) = (self.library, op)
            && !op.allows_reassociation(args[0].dtype(), args[1].dtype())
        {
            std::thread::sleep(gain);
        }
        // SAFETY: this function's contract, for the same dtypes and layouts.
        unsafe { self.inner.run(op, &args, &mut places)? };
        match act {
            Some(Act::Nan) => places.iter_mut().for_each(|place| plant(place, f64::NAN)),
            Some(Act::Err(error)) => places.iter_mut().for_each(|place| plant(place, error)),
            _ => {}
        }
        Ok(())
    }

    fn prepare(&self, request: &PrepareRequest<'_>) -> Option<PreparedOp> {
        self.prepared_runs.as_ref().map(|_| PreparedOp::new(FakePrepared::new(request)))
    }

    unsafe fn run_prepared(
        &self,
        prepared: &PreparedOp,
        args: &[View<'_>],
        outs: &mut [ViewMut<'_>],
    ) -> Result<(), Fault> {
        let message = "it did not make this ready".to_owned();
        let foreign = Fault::Backend { device: self.device, message };
        let prepared = prepared.get::<FakePrepared>().ok_or(foreign)?;
        prepared.check(args, outs);
        if let Some(runs) = &self.prepared_runs {
            runs.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: this function's contract.
        unsafe { self.run(&prepared.op, args, outs) }
    }

    fn copy_in(&self, src: &[u8], dst: &mut ViewMut<'_>) -> Result<(), Fault> {
        self.enter(Point::CopyIn, None)?;
        self.occupy("copy in", SpanKind::Copy);
        if self.place(dst)?.write_bytes(src) { Ok(()) } else { Err(copy_mismatch()) }
    }

    fn copy_out(&self, src: &View<'_>, dst: &mut [u8]) -> Result<(), Fault> {
        self.enter(Point::CopyOut, None)?;
        self.occupy("copy out", SpanKind::Copy);
        let src = self.view(src)?;
        let bytes = src.as_bytes().filter(|bytes| bytes.len() == dst.len()).ok_or_else(copy_mismatch)?;
        dst.copy_from_slice(bytes);
        Ok(())
    }

    fn copy_from_peer(&self, src: &View<'_>, dst: &mut ViewMut<'_>) -> Option<Result<(), Fault>> {
        if !self.peers {
            return None;
        }
        let memory = src.buffer().memory::<FakeMemory>()?;
        Some((|| {
            self.enter(Point::CopyFromPeer, None)?;
            self.occupy("copy from peer", SpanKind::Copy);
            // SAFETY: the same window onto the same bytes.
            let src = unsafe { View::new(&memory.buffer, src.dtype(), src.layout()) };
            let bytes = src.as_bytes().ok_or_else(copy_mismatch)?;
            if self.place(dst)?.write_bytes(bytes) { Ok(()) } else { Err(copy_mismatch()) }
        })())
    }

    fn synchronize(&self) -> Result<(), Fault> {
        self.enter(Point::Synchronize, None).map(drop)
    }

    fn compiler(&self) -> Option<&dyn Compiler> {
        self.compiler.as_ref().map(|compiler| compiler as &dyn Compiler)
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            streams: Some(self),
            blas: Some(self),
            profiler: self.timeline.as_ref().map(|timeline| timeline as &dyn DeviceProfiler),
            metrics: Some(self),
            remarks: None,
        }
    }
}

impl Streams for FakeDevice {
    fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    fn set_streams(&self, wanted: usize) -> usize {
        let streams = wanted.clamp(1, self.most_streams);
        self.streams.store(streams, Ordering::Relaxed);
        streams
    }
}

impl VendorBlas for FakeDevice {
    fn has_blas_library(&self) -> bool {
        self.library.is_some()
    }
}

impl DeviceMetrics for FakeDevice {
    fn metrics(&self) -> GpuBenchmarkMetrics {
        self.metrics
    }

    fn pci_address(&self) -> Option<&str> {
        self.pci_address
    }
}

/// Writes nonsense to the first element.
fn spoil(place: &mut ViewMut<'_>) {
    if place.layout().numel() == 0 || place.dtype() == DType::Bool {
        return;
    }
    if let Some((address, len)) = place.byte_range() {
        // SAFETY: inside the place, which is exclusive; any byte is valid for dtypes other than bool.
        unsafe { address.write_bytes(0x5A, len.min(place.dtype().block_bytes())) };
    }
}

/// Adds so much of its modulus to the first element of a floating-point or complex result.
fn plant(place: &mut ViewMut<'_>, error: f64) {
    fn change<T: Element>(place: &mut ViewMut<'_>, off: impl Fn(T) -> T) {
        if let Some(address) = place.address::<T>() {
            // SAFETY: the address of the first element of a place that is not empty, which the operation has written.
            unsafe { address.write(off(address.read())) };
        }
    }
    if place.layout().numel() == 0 {
        return;
    }
    let real = |x: f64| x + error * x.abs();
    match place.dtype() {
        DType::F16 => change::<f16>(place, |x| f16::from_f64(real(x.to_f64()))),
        DType::BF16 => change::<bf16>(place, |x| bf16::from_f64(real(x.to_f64()))),
        DType::F32 => change::<f32>(place, |x| real(x.into()) as f32),
        DType::F64 => change::<f64>(place, real),
        DType::C64 => change::<C64>(place, |x| C64::new(x.re + error as f32 * x.norm(), x.im)),
        DType::C128 => change::<C128>(place, |x| C128::new(x.re + error * x.norm(), x.im)),
        _ => {}
    }
}
