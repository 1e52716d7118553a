//! Totals over tensors, for people who look into a file.

use super::TensorRef;
use rustorch_core::DType;
use std::collections::BTreeMap;
use std::fmt;

/// Totals over the tensors of a file, in all and by dtype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The number of tensors.
    pub tensors: usize,
    /// The number of values in them: a model's parameter count.
    pub parameters: u64,
    /// The bytes that they take, without padding between them.
    pub bytes: u64,
    /// The same by dtype, largest first.
    pub by_dtype: Vec<DTypeSummary>,
}

/// Totals over the tensors of one dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DTypeSummary {
    /// The dtype.
    pub dtype: DType,
    /// The number of tensors.
    pub tensors: usize,
    /// The number of values in them.
    pub parameters: u64,
    /// The bytes that they take.
    pub bytes: u64,
}

impl Summary {
    /// The totals over `tensors`.
    pub fn of<'a>(tensors: impl IntoIterator<Item = TensorRef<'a>>) -> Self {
        let mut by_dtype = BTreeMap::new();
        for tensor in tensors {
            let dtype = tensor.dtype();
            let entry =
                by_dtype.entry(dtype).or_insert(DTypeSummary { dtype, tensors: 0, parameters: 0, bytes: 0 });
            entry.tensors += 1;
            entry.parameters += tensor.numel() as u64;
            entry.bytes += tensor.nbytes() as u64;
        }
        let mut by_dtype: Vec<_> = by_dtype.into_values().collect();
        by_dtype.sort_by_key(|entry| std::cmp::Reverse(entry.bytes));
        Self {
            tensors: by_dtype.iter().map(|entry| entry.tensors).sum(),
            parameters: by_dtype.iter().map(|entry| entry.parameters).sum(),
            bytes: by_dtype.iter().map(|entry| entry.bytes).sum(),
            by_dtype,
        }
    }

    /// Bits that a value takes on average; `None` without values.
    pub fn bits_per_parameter(&self) -> Option<f64> {
        (self.parameters > 0).then(|| self.bytes as f64 * 8.0 / self.parameters as f64)
    }
}

/// A line for the whole and one for each dtype.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} tensors, {} parameters, {}",
            self.tensors,
            with_unit(self.parameters, 1000.0, &["", " K", " M", " G", " T"]),
            with_unit(self.bytes, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"]),
        )?;
        if let Some(bits) = self.bits_per_parameter() {
            write!(f, ", {bits:.2} bits per parameter")?;
        }
        for entry in &self.by_dtype {
            write!(
                f,
                "\n  {:<8} {:>6} tensors, {:>9} parameters, {:>10}",
                entry.dtype,
                entry.tensors,
                with_unit(entry.parameters, 1000.0, &["", " K", " M", " G", " T"]),
                with_unit(entry.bytes, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"]),
            )?;
        }
        Ok(())
    }
}

/// `n` with two decimals in the largest of `units`, each `step` times the one before, that it reaches.
fn with_unit(n: u64, step: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (n as f64, 0);
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    if unit == 0 { format!("{n}{}", units[0]) } else { format!("{value:.2}{}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::with_unit;

    #[test]
    fn units() {
        let show = |n| with_unit(n, 1000.0, &["", " K", " M"]);
        assert_eq!([show(0), show(999), show(1000), show(1_234_567)], ["0", "999", "1.00 K", "1.23 M"]);
        assert_eq!(show(5_000_000_000), "5000.00 M");
    }
}
