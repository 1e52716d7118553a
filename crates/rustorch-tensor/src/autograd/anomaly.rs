//! Where the first NaN of a backward pass comes from.

use super::node::{Meta, Node};
use crate::Tensor;
use rustorch_core::{Error, Result};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread looks for NaN.
#[inline(always)]
pub(crate) fn is_enabled() -> bool {
    ENABLED.get()
}

/// While it lives, operations of this thread note where they are called, and its backward passes stop at the first gradient with a NaN:
/// the error names the operation, its shapes, and the line that called it. Slow: to find a fault, not to train with.
///
/// ```
/// use rustorch_tensor::{Tensor, autograd::DetectAnomaly};
/// let _detect = DetectAnomaly::new();
/// let x = Tensor::new([0.0f32, 4.0])?;
/// x.requires_grad_(true)?;
/// // The root's derivative at 0 is infinite, and 0·∞ is no number.
/// let error = x.sqrt()?.mul(0)?.sum_all()?.backward().unwrap_err();
/// assert!(error.to_string().contains("gradient of argument 0 of sqrt(f32[2]) is NaN"));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[must_use = "the scope ends when the guard is dropped"]
pub struct DetectAnomaly {
    before: bool,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl DetectAnomaly {
    /// Looks from now on.
    pub fn new() -> DetectAnomaly {
        DetectAnomaly { before: ENABLED.replace(true), _thread: PhantomData }
    }
}

impl Default for DetectAnomaly {
    fn default() -> DetectAnomaly {
        DetectAnomaly::new()
    }
}

impl Drop for DetectAnomaly {
    fn drop(&mut self) {
        let _ = ENABLED.try_with(|enabled| enabled.set(self.before));
    }
}

/// The line outside of this library that called it, as far as the program's debug information tells.
pub(crate) fn caller() -> String {
    let trace = Backtrace::force_capture().to_string();
    let folder = std::env::current_dir().unwrap_or_default();
    // Inlined functions come without their paths, and files relative to the folder of the process.
    let is_ours = |function: &str, place: &str| {
        let file = folder.join(place.trim_start_matches("./")).to_string_lossy().replace('\\', "/");
        let root = file.rsplit_once("/src/").map_or("", |(root, _)| root);
        let package = root.rsplit('/').next().unwrap_or_default();
        let ours = ["rustorch-tensor", "rustorch-runtime"].iter().any(|name| package.starts_with(name));
        let names = ["rustorch_tensor::", "rustorch_runtime::", "std::", "core::", "alloc::"];
        ours || file.contains("/rustc/")
            || names.iter().any(|name| function.trim_start_matches('<').starts_with(name))
    };
    // Of each frame the number and the function, and behind them the line.
    let mut function = "";
    for line in trace.lines().map(str::trim) {
        if let Some(place) = line.strip_prefix("at ") {
            // The system's own libraries may have lines where the program has none.
            if place.contains(".rs:") && !is_ours(function, place) {
                return place.to_owned();
            }
        } else if let Some((_, name)) = line.split_once(": ") {
            function = name;
        }
    }
    "a line that the program has no debug information of".into()
}

/// Checks a gradient that a node gave.
pub(crate) fn expect_number(node: &Node, argument: usize, grad: &Tensor) -> Result<()> {
    if !super::no_grad(|| grad.isnan()?.any_all()?.item())?.to_bool() {
        return Ok(());
    }
    let shapes: Vec<String> = (0..node.inputs.len())
        .map(|i| node.input(i))
        .map(|Meta { dtype, shape, .. }| format!("{dtype}{shape}"))
        .collect();
    let line = node
        .hooks()
        .and_then(|hooks| hooks.caller())
        .unwrap_or("a line that was not noted: the scope began later");
    Err(Error::argument(
        "backward",
        format!(
            "the gradient of argument {argument} of {}({}) is NaN; called at {line}",
            node.name(),
            shapes.join(", ")
        ),
    ))
}
