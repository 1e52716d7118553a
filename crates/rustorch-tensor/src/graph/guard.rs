//! What a captured function read in Rust, and a run of its graph must find as it was.

use rustorch_core::{Error, Result};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

/// Something that a function read.
pub(super) struct Guard {
    what: &'static str,
    holds: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Guard {
    /// Whether it is as it was.
    pub(super) fn holds(&self) -> bool {
        (self.holds)()
    }
}

/// The guards so far, and what those are of that are there once.
#[derive(Default)]
struct Log {
    guards: Vec<Guard>,
    seen: HashSet<usize>,
}

thread_local! {
    /// What the captured function of this thread did that no graph can do.
    static REFUSED: Cell<Option<&'static str>> = const { Cell::new(None) };
    /// The guards of the function that is captured on this thread.
    static GUARDS: RefCell<Option<Log>> = const { RefCell::new(None) };
}

/// Tells the capture that runs on this thread, if one does, that the function has read something that is no tensor, such as whether a
/// module trains: its graph is right for as long as `holds` says so. A [`Program`](super::Program) refuses to run when it is not, and
/// [`compile`](super::compile()) captures again.
///
/// ```
/// use rustorch_tensor::{DType, TensorSpec, capture, guard};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
/// let doubles = Arc::new(AtomicBool::new(true));
/// let program = capture(&[], |_| {
///     let (seen, flag) = (doubles.load(Relaxed), Arc::clone(&doubles));
///     guard("whether it doubles", move || flag.load(Relaxed) == seen);
///     Ok(vec![])
/// })?;
/// assert!(program.run(&[]).is_ok());
/// doubles.store(false, Relaxed);
/// let error = program.run(&[]).unwrap_err();
/// assert!(error.to_string().contains("whether it doubles"));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub fn guard(what: &'static str, holds: impl Fn() -> bool + Send + Sync + 'static) {
    GUARDS.with_borrow_mut(|log| {
        if let Some(log) = log {
            log.guards.push(Guard { what, holds: Box::new(holds) });
        }
    });
}

/// As [`guard`], once for each thing that a capture meets: `identity` is an address that nothing else has while the function runs.
pub fn guard_once<H: Fn() -> bool + Send + Sync + 'static>(
    identity: usize,
    what: &'static str,
    holds: impl FnOnce() -> H,
) {
    let is_new = GUARDS.with_borrow_mut(|log| log.as_mut().is_some_and(|log| log.seen.insert(identity)));
    if is_new {
        guard(what, holds());
    }
}

/// Makes the capture that runs on this thread, if one does, an error: for what returns none itself.
pub(crate) fn refuse(what: &'static str) {
    if GUARDS.with_borrow(Option::is_some) {
        REFUSED.set(Some(what));
    }
}

/// While it lives, guards are kept.
pub(super) struct GuardLog(());

impl GuardLog {
    /// # Errors
    /// If a function is captured on this thread already, by whichever executor.
    pub(super) fn begin() -> Result<GuardLog> {
        if GUARDS.with_borrow(Option::is_some) {
            let message = "a capture runs on this thread already; captures do not nest";
            return Err(Error::argument("capture", message));
        }
        GUARDS.set(Some(Log::default()));
        REFUSED.set(None);
        Ok(GuardLog(()))
    }

    /// The guards so far.
    ///
    /// # Errors
    /// If the function did what no graph can do.
    pub(super) fn finish(self) -> Result<Vec<Guard>> {
        match REFUSED.take() {
            None => Ok(GUARDS.take().map(|log| log.guards).unwrap_or_default()),
            Some(what) => {
                let message = "is called in a captured function, whose graph would not do it in each run; call it outside";
                Err(Error::argument(what, message))
            }
        }
    }
}

impl Drop for GuardLog {
    fn drop(&mut self) {
        drop(GUARDS.take());
    }
}

/// # Errors
/// If something is not as it was.
pub(super) fn check(guards: &[Guard]) -> Result<()> {
    match guards.iter().find(|guard| !guard.holds()) {
        None => Ok(()),
        Some(Guard { what, .. }) => {
            let message = format!("{what} has changed since the function was captured; capture it again");
            Err(Error::argument("program", message))
        }
    }
}
