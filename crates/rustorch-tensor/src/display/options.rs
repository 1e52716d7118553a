//! How tensors are printed.

use super::write_tensor;
use crate::Tensor;
use std::fmt;

/// How [`Tensor::display`] prints: the options of `torch.set_printoptions`, for one text and not for the process.
///
/// ```
/// # use rustorch_tensor::{PrintOptions, Tensor};
/// let x = Tensor::new([1.23456f32, 10.0])?;
/// assert_eq!(format!("{x:.2}"), "tensor([ 1.23, 10.00])");
/// let options = PrintOptions { precision: 1, sci_mode: Some(true), ..Default::default() };
/// assert_eq!(x.display(options).to_string(), "tensor([1.2e+00, 1.0e+01])");
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// Digits after the point: 4. Also given by a format, as in `{x:.2}`.
    pub precision: usize,
    /// Tensors of more elements are summarised: 1000. `usize::MAX` prints all of every tensor.
    pub threshold: usize,
    /// How many elements at each end of a dimension a summary has, 1 at least: 3.
    pub edge_items: usize,
    /// Where lines break, in columns: 80.
    pub line_width: usize,
    /// Whether floats have exponents; if not given, their sizes decide.
    pub sci_mode: Option<bool>,
}

impl Default for PrintOptions {
    fn default() -> PrintOptions {
        PrintOptions { precision: 4, threshold: 1000, edge_items: 3, line_width: 80, sci_mode: None }
    }
}

impl PrintOptions {
    /// No number has more digits than this behind the point.
    const MOST_DIGITS: usize = 1074;

    /// With what has bounds inside them.
    pub(super) fn bounded(self) -> PrintOptions {
        PrintOptions {
            precision: self.precision.min(Self::MOST_DIGITS),
            edge_items: self.edge_items.max(1),
            ..self
        }
    }
}

/// A tensor and how it is printed, by [`Tensor::display`].
#[derive(Clone)]
pub struct Printed<'a> {
    tensor: &'a Tensor,
    options: PrintOptions,
}

impl Tensor {
    /// The tensor, to be printed with options; see [`PrintOptions`].
    pub fn display(&self, options: PrintOptions) -> Printed<'_> {
        Printed { tensor: self, options }
    }
}

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precision = f.precision().unwrap_or(self.options.precision);
        write_tensor(f, self.tensor, PrintOptions { precision, ..self.options }.bounded())
    }
}

impl fmt::Debug for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.display(PrintOptions::default()), f)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
