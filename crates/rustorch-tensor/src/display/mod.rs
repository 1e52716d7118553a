//! Printing tensors as PyTorch does.
//!
//! The text is PyTorch's but for the names of dtypes and devices, which are ours (`dtype=f16`). Numbers get four digits, all in one
//! width; more than 1000 elements are summarised, with three at each end of every dimension; lines break at 80 columns: all of which
//! [`PrintOptions`] change. Tensors of block types print the numbers that they stand for.

mod excerpt;
mod number;
mod options;

pub use options::{PrintOptions, Printed};

use crate::Tensor;
use excerpt::{Excerpt, Values};
use number::Format;
use rustorch_core::{DType, Device};
use std::fmt;

const PREFIX: &str = "tensor(";

/// Writes a tensor as options that are in their bounds say.
fn write_tensor(f: &mut fmt::Formatter<'_>, x: &Tensor, options: PrintOptions) -> fmt::Result {
    let default = matches!(x.dtype(), DType::F32 | DType::C64 | DType::I64 | DType::Bool);
    let device = (x.device() != Device::CPU).then(|| format!("device='{}'", x.device()));
    if x.numel() == 0 {
        // Nothing shows what an empty tensor would hold, so shape and dtype are spelled out.
        let size = (x.ndim() != 1).then(|| format!("size={}", tuple(x.dims())));
        let dtype = (x.dtype() != DType::F32).then(|| format!("dtype={}", x.dtype()));
        let suffixes = [device, size, dtype, history(x)];
        let text = with_suffixes("tensor([]".into(), suffixes.into_iter().flatten(), options.line_width);
        return f.write_str(&text);
    }
    let excerpt = match Excerpt::new(x, &options) {
        Ok(excerpt) => excerpt,
        Err(error) => return write!(f, "tensor(<unreadable {}{}: {error}>)", x.dtype(), x.shape()),
    };
    let format = |values: &[f64]| Format::of(values, options.precision, options.sci_mode);
    let elements = match &excerpt.values {
        Values::Bool(values) => aligned(values.iter().map(|&b| if b { "True" } else { "False" })),
        Values::Int(values) => aligned(values.iter().map(i64::to_string)),
        Values::Float(values) => {
            let format = format(values);
            (values.iter().map(|&number| format.show(number)).collect(), format.width())
        }
        Values::Complex(values) => {
            let (re, im): (Vec<f64>, Vec<f64>) = values.iter().map(|z| (z.re, z.im)).unzip();
            let (first, second) = (format(&re), format(&im));
            let text = values.iter().map(|z| {
                let imaginary = second.show(z.im).trim_start().to_owned();
                let sign = if imaginary.starts_with(['+', '-']) { "" } else { "+" };
                format!("{}{sign}{imaginary}j", first.show(z.re))
            });
            // The sign between the parts counts with neither, the j with the second.
            (text.collect(), first.width() + second.width() + 1)
        }
    };
    let mut text = PREFIX.to_owned();
    let line_width = options.line_width;
    Writer { excerpt: &excerpt, elements: elements.0, width: elements.1, line_width }.write(
        &mut text,
        0,
        0,
        PREFIX.len(),
    );
    let dtype = (!default).then(|| format!("dtype={}", x.dtype()));
    f.write_str(&with_suffixes(text, [device, dtype, history(x)].into_iter().flatten(), line_width))
}

/// What made the tensor, or that it requires a gradient.
fn history(x: &Tensor) -> Option<String> {
    match x.grad_fn() {
        Some(made_by) => Some(format!("grad_fn={made_by:?}")),
        None => x.requires_grad().then(|| "requires_grad=True".into()),
    }
}

/// Texts padded on the left to one width, and that width.
fn aligned<T: AsRef<str>>(texts: impl Iterator<Item = T>) -> (Vec<String>, usize) {
    let texts: Vec<T> = texts.collect();
    let width = texts.iter().map(|t| t.as_ref().len()).max().unwrap_or(1);
    (texts.iter().map(|t| format!("{:>width$}", t.as_ref())).collect(), width)
}

/// Lengths as Python writes a tuple.
fn tuple(dims: &[usize]) -> String {
    match dims {
        [one] => format!("({one},)"),
        many => format!("({})", many.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Appends `, suffix` each, or on a new line where the last one would grow too long, and the closing parenthesis.
fn with_suffixes(mut text: String, suffixes: impl Iterator<Item = String>, line_width: usize) -> String {
    let mut last_line = text.len() - text.rfind('\n').map_or(0, |at| at + 1);
    for suffix in suffixes {
        if last_line + suffix.len() + 2 > line_width {
            text.push_str(&format!(",\n{:indent$}{suffix}", "", indent = PREFIX.len()));
            last_line = PREFIX.len() + suffix.len();
        } else {
            text.push_str(", ");
            text.push_str(&suffix);
            last_line += suffix.len() + 2;
        }
    }
    text.push(')');
    text
}

/// Writes elements that are text already, in the brackets of their dimensions.
struct Writer<'a> {
    excerpt: &'a Excerpt,
    elements: Vec<String>,
    width: usize,
    line_width: usize,
}

impl Writer<'_> {
    /// Writes what lies below dimension `axis` from element `start` on.
    fn write(&self, text: &mut String, axis: usize, start: usize, indent: usize) {
        let dims = &self.excerpt.dims;
        let Some(&len) = dims.get(axis) else {
            text.push_str(&self.elements[start]);
            return;
        };
        text.push('[');
        let below: usize = dims[axis + 1..].iter().product();
        if axis + 1 == dims.len() {
            self.write_row(text, &self.elements[start..start + len], axis, indent);
        } else {
            let separator = format!(",{}{:pad$}", "\n".repeat(dims.len() - axis - 1), "", pad = indent + 1);
            for i in 0..len {
                if i != 0 {
                    text.push_str(&separator);
                }
                if self.excerpt.gap(axis) == Some(i) {
                    text.push_str("...");
                    text.push_str(&separator);
                }
                self.write(text, axis + 1, start + i * below, indent + 1);
            }
        }
        text.push(']');
    }

    fn write_row(&self, text: &mut String, row: &[String], axis: usize, indent: usize) {
        let per_line = (self.line_width.saturating_sub(indent) / (self.width + 2)).max(1);
        let gap = self.excerpt.gap(axis);
        let mut items: Vec<&str> = row.iter().map(String::as_str).collect();
        if let Some(at) = gap {
            items.insert(at, " ...");
        }
        for (i, item) in items.iter().enumerate() {
            match i {
                0 => {}
                i if i.is_multiple_of(per_line) => {
                    text.push_str(&format!(",\n{:pad$}", "", pad = indent + 1));
                }
                _ => text.push_str(", "),
            }
            text.push_str(item);
        }
    }
}
