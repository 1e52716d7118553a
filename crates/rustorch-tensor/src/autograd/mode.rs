//! Whether a thread records operations.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// Whether this thread records operations on tensors that require gradients. It does unless told otherwise.
#[inline]
pub fn is_grad_enabled() -> bool {
    ENABLED.get()
}

/// Turns recording on or off for this thread until told otherwise; [`no_grad`] and [`GradMode`] restore what was before.
pub fn set_grad_enabled(enabled: bool) {
    ENABLED.set(enabled);
}

/// Runs a closure whose operations are not recorded.
///
/// ```
/// use rustorch_tensor::{DType, Tensor, autograd};
/// let w = Tensor::ones(3, DType::F32)?;
/// w.requires_grad_(true)?;
/// let y = autograd::no_grad(|| w.mul(2))?;
/// assert!(!y.requires_grad());
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    let _mode = GradMode::new(false);
    f()
}

/// Runs a closure whose operations are recorded, also inside of [`no_grad`].
pub fn enable_grad<R>(f: impl FnOnce() -> R) -> R {
    let _mode = GradMode::new(true);
    f()
}

/// While it lives, operations of this thread are recorded, or not; [`no_grad`] and [`enable_grad`] as a guard. What was before is
/// restored when it is dropped, also by a panic.
///
/// ```
/// use rustorch_tensor::autograd::{GradMode, is_grad_enabled};
/// let guard = GradMode::new(false);
/// assert!(!is_grad_enabled());
/// drop(guard);
/// assert!(is_grad_enabled());
/// ```
#[must_use = "the scope ends when the guard is dropped"]
pub struct GradMode {
    before: bool,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl GradMode {
    /// Turns recording on or off.
    pub fn new(enabled: bool) -> GradMode {
        GradMode { before: ENABLED.replace(enabled), _thread: PhantomData }
    }
}

impl Drop for GradMode {
    fn drop(&mut self) {
        // A thread that ends records nothing any more.
        let _ = ENABLED.try_with(|enabled| enabled.set(self.before));
    }
}
