//! A line that tells how a training goes: steps, loss, rate and the time that is left.

use indicatif::{ProgressBar, ProgressStyle};
use rustorch::{DType, Result, Tensor};
use std::io::IsTerminal;

/// The line, on standard error; nothing where that is no terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// The line of a training of so many steps.
    pub(crate) fn new(steps: u64) -> Progress {
        let bar =
            if std::io::stderr().is_terminal() { ProgressBar::new(steps) } else { ProgressBar::hidden() };
        let template = "step {pos}/{len}  {bar:24}  loss {msg}  {per_sec}  {eta} left";
        // The template is a constant of ours; a mistake in it shows at once.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// Tells that a step is done, and its loss, which is the result.
    pub(crate) fn step(&self, loss: &Tensor) -> Result<f64> {
        let loss = f64::from(loss.detach().to_dtype(DType::F32)?.to_vec::<f32>()?[0]);
        self.0.set_message(format!("{loss:.4}"));
        self.0.inc(1);
        Ok(loss)
    }

    /// Writes a line to standard output, above this one.
    #[allow(dead_code, reason = "not all examples have something to tell between steps")]
    pub(crate) fn tell(&self, line: &str) {
        self.0.suspend(|| println!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
