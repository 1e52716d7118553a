//! Warnings and diagnostics of the libraries on standard error.
//!
//! Warnings and errors are printed, each distinct one once. `-v`, `-vv` and `-vvv` add what is told at the levels info, debug and trace;
//! `RUST_LOG` sets levels for all or by target, as in `RUST_LOG=warn,rustorch_opencl=debug`.

use crate::output;
use std::collections::HashSet;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// Prints events from now on; `verbosity` is the number of `-v`.
pub(crate) fn install(verbosity: u8) {
    let variable = std::env::var("RUST_LOG").unwrap_or_default();
    let (filter, rejected) = Filter::new(verbosity, &variable);
    for directive in rejected {
        output::note(format_args!(
            "warning: RUST_LOG: `{directive}` is neither LEVEL nor TARGET=LEVEL with LEVEL one of off, error, warn, info, debug, trace; \
             it is ignored"
        ));
    }
    // Nobody else sets a subscriber in this program; if one did, its output is as good.
    let _ = tracing::subscriber::set_global_default(Console { filter, printed: Mutex::default() });
}

/// The most verbose level that is printed, by the beginning of the target.
#[derive(Debug, PartialEq)]
struct Filter {
    /// For targets that `targets` does not list.
    default: LevelFilter,
    /// The longest one that a target begins with decides.
    targets: Vec<(String, LevelFilter)>,
}

impl Filter {
    /// The filter for a number of `-v` and the value of `RUST_LOG`, and the directives of the latter that mean nothing.
    fn new(verbosity: u8, variable: &str) -> (Filter, Vec<&str>) {
        let asked = match verbosity {
            0 => LevelFilter::OFF,
            1 => LevelFilter::INFO,
            2 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        };
        let mut filter = Filter { default: LevelFilter::WARN, targets: Vec::new() };
        let mut rejected = Vec::new();
        for directive in variable.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
            let (target, level) = directive.rsplit_once('=').unwrap_or(("", directive));
            match level.trim().parse() {
                Ok(level) if target.is_empty() => filter.default = level,
                Ok(level) => filter.targets.push((target.trim().to_owned(), level)),
                Err(_) => rejected.push(directive),
            }
        }
        filter.default = filter.default.max(asked);
        (filter, rejected)
    }

    fn level(&self, target: &str) -> LevelFilter {
        let listed = self.targets.iter().filter(|(prefix, _)| target.starts_with(prefix.as_str()));
        listed.max_by_key(|(prefix, _)| prefix.len()).map_or(self.default, |(_, level)| *level)
    }

    /// The most verbose level of any target.
    fn most(&self) -> LevelFilter {
        self.targets.iter().map(|(_, level)| *level).fold(self.default, LevelFilter::max)
    }
}

/// Prints events as lines on standard error.
struct Console {
    filter: Filter,
    /// Warnings and errors that were printed.
    printed: Mutex<HashSet<String>>,
}

impl Subscriber for Console {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.filter.level(metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.most())
    }

    fn event(&self, event: &Event<'_>) {
        let line = line(event);
        let is_warning = *event.metadata().level() <= Level::WARN;
        // The set is valid whatever happened under the lock.
        let printed = || self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_warning || printed().insert(line.clone()) {
            output::note(line);
        }
    }

    // Spans are never enabled.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// `warning: MESSAGE (NAME=VALUE, ..)`; less important events name their target, by which `RUST_LOG` selects them.
fn line(event: &Event<'_>) -> String {
    #[derive(Default)]
    struct Fields {
        message: String,
        others: Vec<String>,
    }
    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            match field.name() {
                // Writing to a string does not fail.
                "message" => _ = write!(self.message, "{value:?}"),
                name => self.others.push(format!("{name}={value:?}")),
            }
        }
    }
    let mut fields = Fields::default();
    event.record(&mut fields);
    let (level, target) = (*event.metadata().level(), event.metadata().target());
    let mut line = match level {
        Level::ERROR => "error: ".to_owned(),
        Level::WARN => "warning: ".to_owned(),
        _ => format!("{}: {target}: ", level.as_str().to_ascii_lowercase()),
    };
    line += &fields.message;
    if !fields.others.is_empty() {
        line += &format!(" ({})", fields.others.join(", "));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_target_decides_and_flags_raise_the_default() {
        let (filter, rejected) = Filter::new(0, "");
        assert_eq!((filter.level("rustorch_wgpu"), rejected), (LevelFilter::WARN, vec![]));
        let (filter, rejected) =
            Filter::new(0, "error, rustorch_opencl=debug,rustorch_opencl::memory = trace,a=b,loud");
        assert_eq!(rejected, ["a=b", "loud"]);
        assert_eq!(filter.level("rustorch_wgpu"), LevelFilter::ERROR);
        assert_eq!(filter.level("rustorch_opencl::driver"), LevelFilter::DEBUG);
        assert_eq!(filter.level("rustorch_opencl::memory"), LevelFilter::TRACE);
        assert_eq!(filter.most(), LevelFilter::TRACE);
        let (filter, _) = Filter::new(2, "off,rustorch_opencl=error");
        assert_eq!(filter.level("rustorch_wgpu"), LevelFilter::DEBUG);
        assert_eq!(filter.level("rustorch_opencl"), LevelFilter::ERROR);
    }
}
