//! Formatting of tables, times and sizes.

use std::fmt;
use std::time::Duration;

/// An aligned table. Columns for which `right` holds are aligned to the right: quantities.
pub fn table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    head: [&str; N],
    rows: &[[String; N]],
    right: impl Fn(usize) -> bool,
) -> fmt::Result {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or_default()
    });
    let mut line = |cells: [&str; N]| {
        let mut text = String::new();
        for (column, cell) in cells.into_iter().enumerate() {
            let pad = widths[column] - cell.chars().count();
            let (before, after) = if right(column) { (pad, 0) } else { (0, pad) };
            text.push_str(&format!("{:before$}{cell}{:after$}  ", "", ""));
        }
        writeln!(f, "{}", text.trim_end())
    };
    line(head)?;
    for row in rows {
        line(std::array::from_fn(|i| row[i].as_str()))?;
    }
    Ok(())
}

/// Bytes in a unit that people read.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            n if n < 1 << 10 => write!(f, "{n} B"),
            n if n < 1 << 20 => write!(f, "{:.1} KiB", n as f64 / f64::from(1 << 10)),
            n if n < 1 << 30 => write!(f, "{:.1} MiB", n as f64 / f64::from(1 << 20)),
            n => write!(f, "{:.1} GiB", n as f64 / f64::from(1 << 30)),
        }
    }
}

/// A time in a unit that people read.
pub struct Time(pub Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0.as_secs_f64() * 1e6;
        match us {
            _ if us < 1e3 => write!(f, "{us:.1} µs"),
            _ if us < 1e6 => write!(f, "{:.1} ms", us / 1e3),
            _ => write!(f, "{:.2} s", us / 1e6),
        }
    }
}
