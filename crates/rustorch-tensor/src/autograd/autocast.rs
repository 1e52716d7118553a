//! Mixed precision: casts above operations, by a table that says for each operation whether it computes in 16 bits, in `F32`, or as its
//! operands are.

use crate::Tensor;
use rustorch_core::{
    BinaryOp, DType, Error, FftKind, LinalgKind, Op, OpKind, ReduceKind, Result, ScanOp, UnaryOp,
};
use rustorch_runtime::HybridExecutor;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many scopes there are in the process: what operations look at where there are none.
static SCOPES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static DTYPE: Cell<Option<DType>> = const { Cell::new(None) };
    /// Weights that this thread's outermost scope has cast.
    static CASTS: RefCell<Vec<CachedCast>> = const { RefCell::new(Vec::new()) };
}

/// A cast of a tensor, and what it was cast from: the memory, its version, and the view of it.
struct CachedCast {
    source: Tensor,
    version: u64,
    cast: Tensor,
}

/// Whether a thread has a scope: one load.
#[inline(always)]
pub(crate) fn is_anywhere() -> bool {
    SCOPES.load(Ordering::Relaxed) != 0
}

/// The 16-bit dtype of the thread's scope, if it has one.
pub(crate) fn dtype() -> Option<DType> {
    DTYPE.get()
}

/// Whether operations of this thread may have to cast.
#[inline]
pub(crate) fn is_active() -> bool {
    is_anywhere() && DTYPE.get().is_some()
}

/// What an operation computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// The scope's 16 bits.
    Lower,
    /// `F32`, for sums of many terms and functions of a large range.
    Wide,
    /// The widest dtype among its operands.
    Widest,
    /// The dtypes that it is given.
    AsGiven,
}

/// PyTorch's lists ("Autocast Op Reference", CUDA).
fn policy(op: OpKind) -> Policy {
    use OpKind as K;
    use Policy::{AsGiven, Lower, Wide, Widest};
    match op {
        K::MatMul | K::MulMatId | K::Conv | K::ConvBackwardData | K::ConvBackwardWeight | K::Attention => {
            Lower
        }
        K::Unary(
            UnaryOp::Acos
            | UnaryOp::Asin
            | UnaryOp::Cosh
            | UnaryOp::Erfinv
            | UnaryOp::Exp
            | UnaryOp::Expm1
            | UnaryOp::Log
            | UnaryOp::Log10
            | UnaryOp::Log1p
            | UnaryOp::Log2
            | UnaryOp::Reciprocal
            | UnaryOp::Rsqrt
            | UnaryOp::Sinh
            | UnaryOp::Softplus
            | UnaryOp::Tan,
        ) => Wide,
        K::Binary(BinaryOp::Pow) => Wide,
        K::Binary(BinaryOp::Atan2) => Widest,
        K::Reduce(ReduceKind::Sum | ReduceKind::Prod | ReduceKind::LogSumExp | ReduceKind::Norm) => Wide,
        K::Scan(ScanOp::Sum | ScanOp::Prod) => Wide,
        K::CausalConv1d | K::GatedDeltaRule | K::SsmScan | K::RwkvWkv7 => Wide,
        K::Softmax(_) | K::LayerNorm | K::RmsNorm | K::AddRmsNorm | K::GroupNorm | K::CrossEntropy => Wide,
        K::Concat | K::Scatter(_) | K::ScatterReduce | K::RnnGates(_) => Widest,
        K::Linalg(
            LinalgKind::Cholesky
            | LinalgKind::SolveTriangular
            | LinalgKind::Lu
            | LinalgKind::Solve
            | LinalgKind::Inverse
            | LinalgKind::Det
            | LinalgKind::SlogDet
            | LinalgKind::Qr
            | LinalgKind::Svd
            | LinalgKind::Eigh
            | LinalgKind::Eig,
        ) => Wide,
        K::Fft(FftKind::ComplexToComplex | FftKind::RealToComplex | FftKind::ComplexToReal) => Wide,
        K::Unary(_) | K::Binary(_) | K::Compare(_) | K::Glu(_) | K::Where | K::Clamp | K::Cast => AsGiven,
        K::Scan(ScanOp::Max | ScanOp::Min) => AsGiven,
        K::FusedPointwise | K::Copy | K::Reduce(_) | K::Sort | K::TopK | K::Tri(_) => AsGiven,
        K::Fill | K::Arange | K::Random(_) | K::Dropout | K::Rope | K::Pad | K::Custom(_) => AsGiven,
        K::Sample(_) | K::LogGammaGrad => AsGiven,
        K::IndexSelect | K::Gather | K::Embedding | K::IntMm => AsGiven,
        K::GatherSum => Widest,
        K::MaxPool | K::AvgPool | K::AdaptiveMaxPool | K::AdaptiveAvgPool | K::Interpolate => AsGiven,
        K::BatchNorm | K::OptimizerStep(_) | K::TotalNorm | K::ForeachMul | K::Assert => AsGiven,
        K::CachedAttention | K::SliceUpdate => AsGiven,
        // The backward pass runs without a scope: these are called by their own.
        K::SoftmaxBackward(_) | K::LayerNormBackward | K::RmsNormBackward | K::RnnGatesBackward(_) => AsGiven,
        K::BatchNormBackward | K::GroupNormBackward | K::GatherSumBackward => AsGiven,
        K::AttentionBackward | K::CrossEntropyBackward => AsGiven,
        K::MaxPoolBackward | K::AvgPoolBackward | K::AdaptiveAvgPoolBackward | K::InterpolateBackward => {
            AsGiven
        }
    }
}

/// An operation's arguments as the scope of this thread wants them; none where they are so.
pub(crate) fn arguments(op: &Op, args: &[&Tensor]) -> Result<Option<SmallVec<[Tensor; 4]>>> {
    let Some(lower) = DTYPE.get() else { return Ok(None) };
    // f64 is somebody's wish, and block types are their own.
    let eligible = |x: &Tensor| matches!(x.dtype(), DType::F16 | DType::BF16 | DType::F32);
    let to = match policy(op.kind()) {
        Policy::AsGiven => return Ok(None),
        Policy::Lower => lower,
        Policy::Wide => DType::F32,
        Policy::Widest => {
            let Some(first) = args.iter().map(|x| x.dtype()).find(|dtype| dtype.is_float()) else {
                return Ok(None);
            };
            let differs = args.iter().any(|x| eligible(x) && x.dtype() != first);
            if differs { DType::F32 } else { first }
        }
    };
    if args.iter().all(|x| !eligible(x) || x.dtype() == to) {
        return Ok(None);
    }
    args.iter()
        .map(|x| if eligible(x) { cast(x, to) } else { Ok((*x).clone()) })
        .collect::<Result<_>>()
        .map(Some)
}

fn cast(x: &Tensor, to: DType) -> Result<Tensor> {
    if x.dtype() == to {
        return Ok(x.clone());
    }
    // Of what requires a gradient and is no result, the weights, the cast is kept for the next use.
    let is_weight = x.dtype() == DType::F32 && x.requires_grad() && super::graph::is_view_of_leaf(x);
    // A captured function casts them anew: each run finds other weights, and what it casts is nobody's outside.
    if !is_weight || HybridExecutor::with_current(HybridExecutor::is_capturing) {
        return x.to_dtype(to);
    }
    let version = x.storage().version();
    let recorded = super::is_grad_enabled();
    let same = |weight: &CachedCast| {
        weight.source.shares_memory(x)
            && weight.version == version
            && weight.cast.dtype() == to
            && weight.source.layout() == x.layout()
            && weight.cast.requires_grad() == recorded
    };
    if let Some(cast) = CASTS
        .with_borrow(|weights| weights.iter().find(|weight| same(weight)).map(|weight| weight.cast.clone()))
    {
        return Ok(cast);
    }
    let cast = x.to_dtype(to)?;
    let weight = CachedCast { source: x.clone(), version, cast: cast.clone() };
    CASTS.with_borrow_mut(|weights| {
        weights.retain(|have| !(have.source.shares_memory(x) && have.version != version));
        weights.push(weight);
    });
    Ok(cast)
}

/// Runs a closure in which matmuls, convolutions and attention compute in `BF16` or `F16`, and sums, norms and functions of a large range in
/// `F32`, PyTorch's `torch.autocast`. Weights stay `F32`, and so do their gradients; each is cast once, until it is written.
///
/// ```
/// use rustorch_tensor::{DType, Tensor, autograd::autocast};
/// let (x, w) = (Tensor::ones([2, 3], DType::F32)?, Tensor::ones([3, 4], DType::F32)?);
/// w.requires_grad_(true)?;
/// let loss = autocast(DType::BF16, || {
///     let y = x.matmul(&w)?;
///     assert_eq!(y.dtype(), DType::BF16);
///     y.softmax(-1)?.square()?.sum_all()
/// })??;
/// assert_eq!(loss.dtype(), DType::F32);
/// loss.backward()?;
/// assert_eq!(w.grad().unwrap().dtype(), DType::F32);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If the dtype is neither.
pub fn autocast<R>(dtype: DType, f: impl FnOnce() -> R) -> Result<R> {
    let _scope = Autocast::new(Some(dtype))?;
    Ok(f())
}

/// While it lives, operations of this thread cast as [`autocast`] says; or, inside of such a scope, with no dtype, they do not.
#[must_use = "the scope ends when the guard is dropped"]
pub struct Autocast {
    before: Option<DType>,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Autocast {
    /// Turns casting on, or off.
    ///
    /// # Errors
    /// If the dtype is neither `BF16` nor `F16`.
    pub fn new(dtype: Option<DType>) -> Result<Autocast> {
        if let Some(dtype) = dtype
            && !matches!(dtype, DType::F16 | DType::BF16)
        {
            return Err(Error::dtype("autocast", "lowers to bf16 or f16", [dtype]));
        }
        SCOPES.fetch_add(1, Ordering::Relaxed);
        Ok(Autocast { before: DTYPE.replace(dtype), _thread: PhantomData })
    }

    /// The dtype of this thread's scope.
    pub fn current() -> Option<DType> {
        DTYPE.get()
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        let _ = DTYPE.try_with(|dtype| dtype.set(self.before));
        if self.before.is_none() {
            let weights = CASTS.try_with(RefCell::take);
            drop(weights);
        }
        SCOPES.fetch_sub(1, Ordering::Relaxed);
    }
}
