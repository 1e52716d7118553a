//! Writing to people and programs: text to standard output, everything else to standard error.

use crate::failure::Failure;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Prints text to standard output at once.
pub(crate) fn stream(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints a line to standard output.
pub(crate) fn line(text: impl Display) -> Result<(), Failure> {
    writeln!(io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Prints a value as JSON to standard output.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Prints a line for the person at the terminal to standard error. Where that fails nobody is listening.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints how far something is to standard error, without a newline. Where that fails nobody is listening.
pub(crate) fn progress(text: impl Display) {
    let mut out = io::stderr().lock();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

/// Whether escape sequences may be written to a terminal: `TERM=dumb` has none.
pub(crate) fn has_escapes(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && anstyle_query::term_supports_ansi_color()
}

/// Whether text may be coloured or dimmed there: not with `NO_COLOR`.
pub(crate) fn has_styles(stream: &impl IsTerminal) -> bool {
    has_escapes(stream) && !anstyle_query::no_color()
}

/// A text on one line, without control characters: what comes from a file may move the cursor or change colours.
pub(crate) fn escaped(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

/// Replaces the status line of the person at the terminal; an empty text clears it. Nothing where there is no terminal.
pub(crate) fn status(text: &str) {
    let mut out = io::stderr().lock();
    if has_escapes(&out) {
        // Where it cannot be shown nothing is lost.
        let _ = write!(out, "\r\x1b[K{text}").and_then(|()| out.flush());
    }
}

/// Whether a person reads both the text and what is told besides.
pub(crate) fn interactive() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Prints an error to standard error.
pub(crate) fn error(text: impl Display) {
    let mut out = io::stderr().lock();
    let _ = match has_styles(&out) {
        true => writeln!(out, "\x1b[1;31merror:\x1b[0m {text}"),
        false => writeln!(out, "error: {text}"),
    };
}

/// A table with aligned columns: the first to the left, all others to the right.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let head: Vec<String> = head.iter().map(|h| (*h).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut text = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            text += &format!("  {cell:>width$}");
        }
        line(text.trim_end())?;
    }
    Ok(())
}

/// Bytes in a unit that people read.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.2} {}", UNITS[unit]) }
}

/// A count in a unit that people read.
pub(crate) fn count(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{:.2} K", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} M", n as f64 / 1e6),
        _ => format!("{:.2} B", n as f64 / 1e9),
    }
}

/// Seconds in a unit that people read.
pub(crate) fn seconds(s: f64) -> String {
    match s {
        _ if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        _ if s < 1.0 => format!("{:.2} ms", s * 1e3),
        _ => format!("{s:.2} s"),
    }
}

/// Refuses to write a file over the one that it is made of.
pub(crate) fn refuse_same_file(source: &Path, target: &Path) -> Result<(), Failure> {
    let canonical = |path: &Path| path.canonicalize().ok();
    match canonical(source).is_some_and(|source| canonical(target) == Some(source)) {
        true => Err(Failure::Usage(format!("{} would be written over itself", target.display()))),
        false => Ok(()),
    }
}

/// Writes a file that the user named.
pub(crate) fn file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let written = std::fs::File::create(path).and_then(|file| {
        let mut file = io::BufWriter::new(file);
        write(&mut file)?;
        file.flush()
    });
    written.map_err(|error| Failure::Other(format!("cannot write {}: {error}", path.display())))
}
