//! Ctrl-C stops a generation, not the program.

use std::sync::atomic::{AtomicBool, Ordering};

static PRESSED: AtomicBool = AtomicBool::new(false);

/// From now on, Ctrl-C only sets a flag. If the system refuses the handler, Ctrl-C keeps ending the program.
pub(crate) fn install() {
    let _ = ctrlc::set_handler(|| PRESSED.store(true, Ordering::Relaxed));
}

/// Whether Ctrl-C was pressed since the last call.
pub(crate) fn take() -> bool {
    PRESSED.swap(false, Ordering::Relaxed)
}
