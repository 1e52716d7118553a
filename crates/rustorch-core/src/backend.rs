//! The `Backend` trait: what a device implements for the executor.

use crate::{
    Buffer, Compiler, CostModel, DType, Decline, Device, DeviceCapability, Error, Extensions, Fault, Op,
    TensorMeta, View, ViewMut,
};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;

/// A device as a plug-in. Everything above the executor is the same whatever implements this.
///
/// Planning (`supports`, `cost`) is separate from running: what a device declines in planning is no failure, and what it
/// accepts it must run, or report a [`Fault`].
///
/// # Safety
/// Tensors' memory safety rests on these promises:
///
/// - [`device`](Self::device) is always the same, and no two backends of one executor share it;
/// - a buffer of [`alloc`](Self::alloc) has at least the bytes asked for, is on that device, belongs to nobody else and may be
///   written; its host address, if it has one, is aligned to [`HOST_ALIGN`](crate::HOST_ALIGN). (The executor checks what can be
///   checked of that.)
/// - when [`run`](Self::run) returns `Ok`, every element of every output is written with a valid value of its dtype, or will be
///   before anything can read it through this backend; likewise [`copy_in`](Self::copy_in) and
///   [`copy_from_peer`](Self::copy_from_peer) for their destination, [`run_together`](Self::run_together) for each operation, and
///   [`run_packed`](Self::run_packed) where it returns `true`;
/// - all of them read and write only what the views they are given reach, whatever the views' layouts and values, and all but
///   [`run`](Self::run), [`run_together`](Self::run_together) and [`run_packed`](Self::run_packed) whatever they are called with;
/// - no method accesses a view's memory from the host after it has returned, and work that the device does later is ordered
///   before whatever it is asked for afterwards on the same memory, its release included.
pub unsafe trait Backend: Send + Sync {
    /// Which device this is.
    fn device(&self) -> Device;

    /// What it can do.
    fn capability(&self) -> &DeviceCapability;

    /// How long it takes, where that is given; `None`, the default, has the executor measure it through this interface
    /// when the first choice depends on it.
    fn cost(&self) -> Option<&CostModel> {
        None
    }

    /// Whether it runs this operation on these arguments, which [`Op::infer`] has accepted.
    ///
    /// Cheap and total: runs nothing, allocates nothing on the device. By default the capability table decides.
    fn supports(&self, op: &Op, args: &[TensorMeta<'_>]) -> Result<(), Decline> {
        self.capability().check(op, args)
    }

    /// Whether it writes results of this operation over arguments where [`Op::may_overwrite`] allows that; if not, the executor has
    /// them computed apart and copied. By default the capability says so of all operations.
    fn overwrites(&self, _op: &Op) -> bool {
        self.capability().in_place
    }

    /// New memory, contents unspecified.
    fn alloc(&self, bytes: usize) -> Result<Buffer, Fault>;

    /// New memory whose bytes are zero, where that takes less than writing them: the system gives pages when they are first touched. `None` where
    /// it does not, and [`alloc`](Self::alloc) is asked.
    fn alloc_zeroed(&self, _bytes: usize) -> Option<Buffer> {
        None
    }

    /// Runs the operation. Arguments are on this device or one that it reaches; outputs have the dtypes and shapes
    /// that [`Op::infer`] gave, contiguous unless the caller asked for a place in an existing buffer. On success every output
    /// element is written; only a [`Op::Scatter`] or [`Op::SliceUpdate`] over its first argument leaves those alone that no index names.
    ///
    /// Outputs overlap no argument, with one exception: where [`overwrites`](Self::overwrites) and [`Op::may_overwrite`] allow it,
    /// an output may have the memory, dtype and layout of an argument, whose view then is [aliased](View::is_aliased).
    ///
    /// # Safety
    /// [`Op::infer`] accepts the arguments and gives the dtypes and shapes of the outputs, and views are aliased only where that
    /// is allowed. [`run_checked`] makes sure of it.
    unsafe fn run(&self, op: &Op, args: &[View<'_>], outs: &mut [ViewMut<'_>]) -> Result<(), Fault>;

    /// Runs operations whose first arguments are one view, and none of which reads or writes what another writes: what depends on that
    /// argument alone may be computed once. By default one after the other. After a fault, outputs hold anything.
    ///
    /// # Safety
    /// As of [`run`](Self::run), for each; and they are as said.
    unsafe fn run_together(&self, calls: &mut [Call<'_, '_>]) -> Result<(), Fault> {
        // SAFETY: this function's contract.
        calls.iter_mut().try_for_each(|call| unsafe { self.run(call.op, call.args, call.outs) })
    }

    /// Makes an operation ready to run again and again on operands of these dtypes and layouts, so that what
    /// [`run`](Self::run) finds out each time is found out once. `None`, the default, where that saves nothing or cannot be.
    ///
    /// [`supports`](Self::supports) accepts the operation.
    fn prepare(&self, _request: &PrepareRequest<'_>) -> Option<PreparedOp> {
        None
    }

    /// Runs what [`prepare`](Self::prepare) of this backend has made, as [`run`](Self::run) does.
    ///
    /// # Safety
    /// As of [`run`](Self::run), for the operation that was prepared; and dtypes, layouts and aliasing of the operands are those that it was
    /// prepared for.
    unsafe fn run_prepared(
        &self,
        prepared: &PreparedOp,
        _args: &[View<'_>],
        _outs: &mut [ViewMut<'_>],
    ) -> Result<(), Fault> {
        let message = format!("{prepared:?} is not this backend's");
        Err(Fault::Backend { device: self.device(), message })
    }

    /// Runs a pointwise op ([`Op::elementwise_output`]) on a few contiguous elements in host
    /// memory, without the views that [`run`](Self::run) takes: those cost more than a few elements do. Returns whether that
    /// is done; if not, [`run`](Self::run) does it or says what is wrong.
    ///
    /// # Safety
    /// The operation has a result for arguments of `dtype`. Each of `args` points to `n` of them, `out` to room for `n`
    /// results, which overlaps no argument; all are aligned, and nobody else writes the arguments or uses the room meanwhile.
    unsafe fn run_packed(
        &self,
        _op: &Op,
        _dtype: DType,
        _args: &[*const u8],
        _out: *mut u8,
        _n: usize,
    ) -> bool {
        false
    }

    /// Copies from host memory to a contiguous view on this device of the same size.
    fn copy_in(&self, src: &[u8], dst: &mut ViewMut<'_>) -> Result<(), Fault>;

    /// Copies a contiguous view on this device to host memory of the same size.
    fn copy_out(&self, src: &View<'_>, dst: &mut [u8]) -> Result<(), Fault>;

    /// Copies a contiguous view on another device directly to one on this device; `None` where there is no direct way
    /// and the executor goes through host memory. The other device has finished what makes the data
    /// ([`synchronize`](Self::synchronize)); the copy is done when this returns, so that the other device may write there again.
    fn copy_from_peer(&self, _src: &View<'_>, _dst: &mut ViewMut<'_>) -> Option<Result<(), Fault>> {
        None
    }

    /// Waits until everything submitted has finished.
    fn synchronize(&self) -> Result<(), Fault>;

    /// What makes one program of parts of graphs; nothing by default.
    fn compiler(&self) -> Option<&dyn Compiler> {
        None
    }

    /// What it offers beside: streams, a vendor's BLAS library, a profiler, metrics, remarks. Nothing by default.
    fn extensions(&self) -> Extensions<'_> {
        Extensions::default()
    }
}

/// An operation and its operands, as [`Backend::run`] takes them: see [`Backend::run_together`].
pub struct Call<'a, 'v> {
    /// The operation.
    pub op: &'a Op,
    /// Its arguments.
    pub args: &'a [View<'v>],
    /// Where its results go.
    pub outs: &'a mut [ViewMut<'v>],
}

/// An operation to make ready: see [`Backend::prepare`].
#[derive(Clone, Copy, Debug)]
pub struct PrepareRequest<'a> {
    /// The operation.
    pub op: &'a Op,
    /// Its arguments.
    pub args: &'a [TensorMeta<'a>],
    /// By argument: whether a result overwrites it, as [`Backend::run`] allows.
    pub aliased: &'a [bool],
    /// Its results.
    pub outs: &'a [TensorMeta<'a>],
    /// By result: whether its elements, contiguous, are all that is in its buffer.
    pub fresh: &'a [bool],
    /// Whether all operands are likely to be in the same memory each time, so that it pays to keep what depends on it.
    pub stays: bool,
}

/// An operation that a backend has made ready: see [`Backend::prepare`].
pub struct PreparedOp(Box<dyn Any + Send + Sync>);

impl PreparedOp {
    /// Of whatever the backend keeps.
    pub fn new(kept: impl Any + Send + Sync) -> PreparedOp {
        PreparedOp(Box::new(kept))
    }

    /// What the backend keeps, if it is of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for PreparedOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedOp").finish_non_exhaustive()
    }
}

/// Runs an operation on a backend, for callers that have not inferred its outputs themselves.
///
/// # Errors
/// As [`Backend::run`], and if [`Op::infer`] refuses the arguments or gives other outputs.
pub fn run_checked(
    backend: &dyn Backend,
    op: &Op,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let metas: SmallVec<[TensorMeta<'_>; 4]> = args
        .iter()
        .map(|x| TensorMeta { dtype: x.dtype(), layout: x.layout(), device: x.device() })
        .collect();
    let inferred = op.infer(&metas)?;
    if inferred.len() != outs.len() {
        let message = format!("has {} results, {} outputs were given", inferred.len(), outs.len());
        return Err(Error::argument(op.name(), message).into());
    }
    let overwritten = |(i, x): (usize, &View<'_>)| {
        let allowed = || (0..outs.len()).any(|out| op.may_overwrite(i, out));
        x.is_aliased() && !(backend.overwrites(op) && allowed())
    };
    if args.iter().enumerate().any(overwritten) {
        let message = "an argument is aliased that cannot be overwritten";
        return Err(Error::argument(op.name(), message).into());
    }
    for (want, out) in inferred.iter().zip(outs.iter()) {
        if want.dtype != out.dtype() {
            let message = "an output must have the result's dtype";
            return Err(Error::dtype(op.name(), message, [want.dtype, out.dtype()]).into());
        }
        if want.shape != *out.layout().shape() {
            let message = "an output must have the result's shape";
            return Err(Error::shape(op.name(), message, [&want.shape, out.layout().shape()]).into());
        }
    }
    // SAFETY: just checked.
    unsafe { backend.run(op, args, outs) }
}

/// A [`Fault::Invalid`] for a copy whose sides differ in size or are not contiguous: what `copy_in` and `copy_out`
/// implementations return.
pub fn copy_mismatch() -> Fault {
    Error::argument("copy", "source and destination of a copy must be contiguous and of one size").into()
}
