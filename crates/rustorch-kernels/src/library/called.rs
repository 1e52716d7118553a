//! Library functions by name: a kernel gets those that its source calls, with their dependencies.

use super::{exact, exact_double, polynomial, quick_exp, wide, wide_number};
use crate::{Hardware, Language};
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

/// Each a file of functions, one idea each.
const FILES: &[&str] = &[
    include_str!("math/numbers.wgsl"),
    include_str!("math/exponential.wgsl"),
    include_str!("math/logarithm.wgsl"),
    include_str!("math/circular.wgsl"),
    include_str!("math/arcs.wgsl"),
    include_str!("math/power.wgsl"),
    include_str!("math/complex.wgsl"),
    include_str!("math/complex_arcs.wgsl"),
    include_str!("math/integers.wgsl"),
    include_str!("math/random.wgsl"),
    include_str!("math/double/numbers.wgsl"),
    include_str!("math/double/rounding.wgsl"),
    include_str!("math/double/exponential.wgsl"),
    include_str!("math/double/logarithm.wgsl"),
    include_str!("math/double/circular.wgsl"),
    include_str!("math/double/arcs.wgsl"),
    include_str!("math/double/power.wgsl"),
    include_str!("math/double/error.wgsl"),
    include_str!("math/double/complex.wgsl"),
    include_str!("math/double/complex_arcs.wgsl"),
];

/// Functions by name.
type Functions = HashMap<&'static str, String>;

/// The functions of some files.
fn functions(files: &[&'static str]) -> Functions {
    let mut functions = Functions::new();
    for file in files {
        let mut name = "";
        for line in file.lines().filter(|line| !line.starts_with("//")) {
            if let Some((start, _)) = line.strip_prefix("fn ").and_then(|rest| rest.split_once('(')) {
                name = start;
            }
            let text: &mut String = functions.entry(name).or_default();
            text.push_str(line);
            text.push('\n');
        }
    }
    functions
}

/// Those that are others with CUDA.
static CUDA: LazyLock<Functions> = LazyLock::new(|| functions(&[include_str!("math/cuda.wgsl")]));

static FUNCTIONS: LazyLock<Functions> = LazyLock::new(|| {
    let mut functions = functions(FILES);
    let series = polynomial((0..=12).rev().map(|n| 1.0 / super::factorial(n)));
    functions.insert(
        "wide_exp_near_zero",
        format!("fn wide_exp_near_zero(x: Wide) -> Wide {{\n{series}    return p;\n}}\n"),
    );
    let log_two = wide_number(std::f64::consts::LN_2);
    functions.insert("wide_log_two", format!("fn wide_log_two() -> Wide {{ return {log_two}; }}\n"));
    functions.insert("quick_exp", quick_exp());
    functions
});

/// A function of the library for a device.
fn function(name: &str, hardware: &Hardware) -> Option<(&'static str, &'static str)> {
    let cuda = (hardware.language == Language::CudaC).then(|| CUDA.get_key_value(name)).flatten();
    cuda.or_else(|| FUNCTIONS.get_key_value(name)).map(|(name, text)| (*name, text.as_str()))
}

/// The functions that `text` calls by name, and those that they need in turn.
pub fn called(text: &str, hardware: &Hardware) -> String {
    let mut taken = BTreeSet::new();
    let (mut needs_exact, mut needs_wide, mut needs_exact_double) = (false, false, false);
    let mut rest = vec![text];
    while let Some(text) = rest.pop() {
        for name in calls(text) {
            match name {
                "kept" | "fused" | "divide" | "root" => needs_exact = true,
                "divide_double" | "root_double" => {
                    if !std::mem::replace(&mut needs_exact_double, true) {
                        rest.push(exact_double(hardware));
                    }
                }
                "wide" | "wide_of" | "wide_add" | "wide_mul" | "narrow" => needs_wide = true,
                _ => {
                    if let Some((name, text)) = function(name, hardware)
                        && taken.insert((name, text))
                    {
                        rest.push(text);
                    }
                }
            }
        }
    }
    let mut library = String::new();
    if needs_exact || needs_wide {
        library.push_str(&exact(hardware));
    }
    if needs_wide {
        library.push_str(wide(hardware));
    }
    if needs_exact_double {
        library.push_str(exact_double(hardware));
    }
    taken.iter().for_each(|(_, text)| library.push_str(text));
    library
}

/// Names before an opening parenthesis.
fn calls(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('(').map(|(end, _)| {
        let head = &text[..end];
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        &head[head.trim_end_matches(name).len()..]
    })
}
