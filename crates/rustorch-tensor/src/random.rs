//! Random numbers.

use crate::dispatch::{create, run};
use crate::graph::guard::refuse;
use crate::{IntoShape, Tensor, TensorOptions};
use rustorch_core::{DType, Distribution, Dropout, Error, Op, PhiloxKey, Random, Result, Shape};
use rustorch_runtime::{DeviceGuard, HybridExecutor};
use std::cell::RefCell;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A source of random numbers: a seed and a place in its stream.
///
/// Numbers come from Philox, a function of seed and place, so they are the same whatever the thread count and the
/// device. Every call takes the next part of the stream.
///
/// ```
/// use rustorch_tensor::{DType, Generator};
/// let a = Generator::new(42).randn([3], DType::F32)?;
/// let b = Generator::new(42).randn([3], DType::F32)?;
/// assert_eq!(a.to_vec::<f32>()?, b.to_vec::<f32>()?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Generator(Mutex<PhiloxKey>);

static DEFAULT: Generator = Generator::new(0);

/// Seeds the process's own generator, from which `Tensor::rand` and its like draw. Unseeded, it starts from seed 0.
pub fn manual_seed(seed: u64) {
    DEFAULT.manual_seed(seed);
}

/// The process's own generator, whose state a checkpoint keeps.
pub fn default_generator() -> &'static Generator {
    &DEFAULT
}

thread_local! {
    /// The keys that scopes of this thread drew from the process's generator, the innermost last.
    static LOGS: RefCell<Vec<Vec<PhiloxKey>>> = const { RefCell::new(Vec::new()) };
    /// The keys that scopes of this thread draw again.
    static REPLAYS: RefCell<Vec<std::vec::IntoIter<PhiloxKey>>> = const { RefCell::new(Vec::new()) };
}

/// Ends a scope, also by a panic.
struct Pop<F: FnMut()>(F);

impl<F: FnMut()> Drop for Pop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs a closure, and returns the keys that it drew from the process's generator.
pub(crate) fn logged<R>(f: impl FnOnce() -> R) -> (R, Vec<PhiloxKey>) {
    LOGS.with_borrow_mut(|logs| logs.push(Vec::new()));
    let mut keys = Vec::new();
    let result = {
        let _end = Pop(|| keys = LOGS.with_borrow_mut(|logs| logs.pop().unwrap_or_default()));
        f()
    };
    (result, keys)
}

/// Runs a closure that draws these keys from the process's generator, and then fresh ones.
pub(crate) fn replayed<R>(keys: Vec<PhiloxKey>, f: impl FnOnce() -> R) -> R {
    REPLAYS.with_borrow_mut(|replays| replays.push(keys.into_iter()));
    let _end = Pop(|| drop(REPLAYS.with_borrow_mut(Vec::pop)));
    f()
}

impl Generator {
    /// The generator of this seed, at its start.
    pub const fn new(seed: u64) -> Generator {
        Generator(Mutex::new(PhiloxKey { seed, offset: 0 }))
    }

    /// Begins again with a seed.
    pub fn manual_seed(&self, seed: u64) {
        self.refuse_captured("manual_seed");
        *self.lock() = PhiloxKey { seed, offset: 0 };
    }

    /// The seed and the place in the stream, from which [`set_state`](Self::set_state) goes on.
    pub fn state(&self) -> PhiloxKey {
        self.refuse_captured("Generator::state");
        *self.lock()
    }

    /// Goes on from a state.
    pub fn set_state(&self, state: PhiloxKey) {
        self.refuse_captured("Generator::set_state");
        *self.lock() = state;
    }

    /// Of the process's own generator, whose stream belongs to the runs of captured functions.
    fn refuse_captured(&self, what: &'static str) {
        if ptr::eq(self, &DEFAULT) {
            refuse(what);
        }
    }

    fn lock(&self) -> MutexGuard<'_, PhiloxKey> {
        // A key is written whole, so a panic elsewhere cannot have left half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next part of the stream, of this many blocks.
    pub(crate) fn next_part(&self, blocks: u64) -> PhiloxKey {
        if ptr::eq(self, &DEFAULT) && HybridExecutor::with_current(HybridExecutor::is_capturing) {
            return self.draw_captured(blocks);
        }
        if !ptr::eq(self, &DEFAULT) || REPLAYS.with_borrow(Vec::is_empty) && LOGS.with_borrow(Vec::is_empty) {
            return self.next(blocks);
        }
        let again = REPLAYS.with_borrow_mut(|replays| replays.last_mut().and_then(Iterator::next));
        let key = again.unwrap_or_else(|| self.next(blocks));
        LOGS.with_borrow_mut(|logs| logs.iter_mut().for_each(|log| log.push(key)));
        key
    }

    /// As [`next_part`](Self::next_part), for runs of the captured graph to draw their own.
    #[cold]
    fn draw_captured(&self, blocks: u64) -> PhiloxKey {
        let again = REPLAYS.with_borrow_mut(|replays| replays.last_mut().and_then(Iterator::next));
        let key = again.unwrap_or_else(|| {
            // Where the capture has ended, the graph is not to be had any more.
            HybridExecutor::with_current(|exec| exec.record_draw(blocks))
                .unwrap_or_else(|_| self.next(blocks))
        });
        LOGS.with_borrow_mut(|logs| logs.iter_mut().for_each(|log| log.push(key)));
        key
    }

    fn next(&self, blocks: u64) -> PhiloxKey {
        let mut key = self.lock();
        let part = *key;
        key.offset = key.offset.wrapping_add(blocks);
        part
    }

    fn fill(&self, shape: Shape, options: TensorOptions, distribution: Distribution) -> Result<Tensor> {
        let key = self.next_part(Random::blocks(shape.numel()));
        create(options, &Op::Random(Random { distribution, shape, dtype: options.dtype, key }))
    }

    /// Numbers uniform in [0, 1).
    pub fn rand(&self, shape: impl IntoShape, options: impl Into<TensorOptions>) -> Result<Tensor> {
        self.uniform(0.0, 1.0, shape, options)
    }

    /// Numbers uniform in [low, high).
    ///
    /// # Errors
    /// If the bounds are not finite and in order, or the dtype is no float.
    pub fn uniform(
        &self,
        low: f64,
        high: f64,
        shape: impl IntoShape,
        options: impl Into<TensorOptions>,
    ) -> Result<Tensor> {
        self.fill(shape.into_shape()?, options.into(), Distribution::Uniform { low, high })
    }

    /// Normal numbers of mean 0 and standard deviation 1.
    pub fn randn(&self, shape: impl IntoShape, options: impl Into<TensorOptions>) -> Result<Tensor> {
        self.normal(0.0, 1.0, shape, options)
    }

    /// Normal numbers.
    ///
    /// # Errors
    /// If `mean` is not finite, `std` is negative or not finite, or the dtype is no float.
    pub fn normal(
        &self,
        mean: f64,
        std: f64,
        shape: impl IntoShape,
        options: impl Into<TensorOptions>,
    ) -> Result<Tensor> {
        self.fill(shape.into_shape()?, options.into(), Distribution::Normal { mean, std })
    }

    /// Integers uniform among `low`, …, `high − 1`, in an integer or floating-point dtype.
    ///
    /// # Errors
    /// If there are none, or the dtype cannot hold them.
    pub fn randint(
        &self,
        low: i64,
        high: i64,
        shape: impl IntoShape,
        options: impl Into<TensorOptions>,
    ) -> Result<Tensor> {
        let options = options.into();
        for bound in [low, high.saturating_sub(1)] {
            crate::binary::expect_fits("randint", bound.into(), options.dtype)?;
            if low < 0 && matches!(options.dtype, DType::U8 | DType::U32) {
                return Err(Error::argument(
                    "randint",
                    format!("{low} is outside the range of {}", options.dtype),
                ));
            }
        }
        self.fill(shape.into_shape()?, options, Distribution::Integer { low, high })
    }

    /// 1 with probability `p`, else 0, in any dtype.
    ///
    /// # Errors
    /// If `p` is no probability.
    pub fn bernoulli(
        &self,
        p: f64,
        shape: impl IntoShape,
        options: impl Into<TensorOptions>,
    ) -> Result<Tensor> {
        self.fill(shape.into_shape()?, options.into(), Distribution::Bernoulli { p })
    }

    /// A tensor of floats with each element set to zero with probability `p`, and the others times `1 / (1 − p)`. The mask is not
    /// kept: the gradient draws it again.
    ///
    /// # Errors
    /// If `p` is no probability, or the dtype no float.
    pub fn dropout(&self, x: &Tensor, p: f64) -> Result<Tensor> {
        if p == 0.0 {
            return Ok(x.clone());
        }
        run(&Op::Dropout(self.dropout_mask(p, x.numel())), &[x])
    }

    /// The mask of dropout for as many elements, drawn from the stream, for operations that apply it themselves:
    /// [`Attention::dropout`](crate::Attention), of weights `[.., heads, m, n]`.
    pub fn dropout_mask(&self, p: f64, elements: usize) -> Dropout {
        Dropout { p, key: self.next_part(Dropout::blocks(elements)) }
    }

    /// The integers 0 … n − 1 in random order, as `I64`.
    pub fn randperm(&self, n: usize) -> Result<Tensor> {
        self.fill(n.into_shape()?, DType::I64.into(), Distribution::Permutation {})
    }
}

/// The next part of the stream of the process's own generator.
pub(crate) fn next_of_default(blocks: u64) -> PhiloxKey {
    DEFAULT.next(blocks)
}

/// The mask of dropout for as many elements, from the process's own generator.
pub(crate) fn dropout_mask(p: f64, elements: usize) -> Dropout {
    DEFAULT.dropout_mask(p, elements)
}

/// From the process's own generator, which [`manual_seed`] seeds; see [`Generator`] for the methods' errors.
impl Tensor {
    /// Numbers uniform in [0, 1).
    pub fn rand(shape: impl IntoShape, options: impl Into<TensorOptions>) -> Result<Tensor> {
        DEFAULT.rand(shape, options)
    }

    /// Normal numbers of mean 0 and standard deviation 1.
    pub fn randn(shape: impl IntoShape, options: impl Into<TensorOptions>) -> Result<Tensor> {
        DEFAULT.randn(shape, options)
    }

    /// Integers uniform among `low`, …, `high − 1`.
    pub fn randint(
        low: i64,
        high: i64,
        shape: impl IntoShape,
        options: impl Into<TensorOptions>,
    ) -> Result<Tensor> {
        DEFAULT.randint(low, high, shape, options)
    }

    /// 1 with probability `p`, else 0.
    pub fn bernoulli(p: f64, shape: impl IntoShape, options: impl Into<TensorOptions>) -> Result<Tensor> {
        DEFAULT.bernoulli(p, shape, options)
    }

    /// In training, the tensor with each element set to zero with probability `p`, and the others times `1 / (1 − p)`; else itself.
    /// As `torch.nn.functional.dropout`. The mask is not kept: the gradient draws it again.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let x = Tensor::ones([1000], DType::F32)?;
    /// let y = x.dropout(0.5, true)?.to_vec::<f32>()?;
    /// assert!(y.iter().all(|&y| y == 0.0 || y == 2.0));
    /// assert!((400..600).contains(&y.iter().filter(|&&y| y != 0.0).count()));
    /// assert_eq!(x.dropout(0.5, false)?.to_vec::<f32>()?, [1.0; 1000]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If `p` is no probability, or the dtype no float.
    pub fn dropout(&self, p: f64, training: bool) -> Result<Tensor> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::argument(Dropout::NAME, format!("p must be from 0 to 1, and is {p}")));
        }
        if training { DEFAULT.dropout(self, p) } else { Ok(self.clone()) }
    }

    /// The integers 0 … n − 1 in random order.
    pub fn randperm(n: usize) -> Result<Tensor> {
        DEFAULT.randperm(n)
    }

    /// Numbers uniform in [0, 1), of this tensor's shape, dtype and device.
    pub fn rand_like(&self) -> Result<Tensor> {
        let _beside = DeviceGuard::beside(self.storage());
        DEFAULT.rand(self.shape(), self.dtype())
    }

    /// Normal numbers, of this tensor's shape, dtype and device.
    pub fn randn_like(&self) -> Result<Tensor> {
        let _beside = DeviceGuard::beside(self.storage());
        DEFAULT.randn(self.shape(), self.dtype())
    }
}
