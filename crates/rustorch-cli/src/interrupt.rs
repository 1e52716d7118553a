//! Ctrl-C stops a generation, not the program; a second one, before the first was heard, ends it.

use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a program that Ctrl-C ended.
pub(crate) const EXIT_CODE: u8 = 130;

static PRESSED: AtomicBool = AtomicBool::new(false);

/// From now on, Ctrl-C only sets a flag, unless it is set. If the system refuses the handler, Ctrl-C keeps ending the program.
pub(crate) fn install() {
    let _ = ctrlc::set_handler(|| {
        if PRESSED.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(EXIT_CODE));
        }
    });
}

/// Whether Ctrl-C was pressed since the last call.
pub(crate) fn take() -> bool {
    PRESSED.swap(false, Ordering::Relaxed)
}
