//! `cargo xtask words`: private words where the field has a term of its own.
//!
//! A line is wrong if it has a word of the left column in a place where it meant the old thing. Words that have a common meaning,
//! too ("product", "number"), are left to readers.

use crate::{oracle::note, root};
use std::path::Path;
use std::process::Command;

/// A private word, and the term that stands for it.
struct Word {
    old: &'static str,
    new: &'static str,
    /// The paths, by their beginnings, in which it is looked for.
    within: &'static [&'static str],
}

const ALL: &[&str] = &[""];
const CORE: &[&str] =
    &["crates/rustorch-core/", "crates/rustorch-tensor/", "crates/rustorch-runtime/", "crates/rustorch-llm/"];
const CPU: &[&str] = &["crates/rustorch-cpu/"];
const RUNTIME: &[&str] = &["crates/rustorch-runtime/"];
const DEVICES: &[&str] = &[
    "crates/rustorch-kernels/",
    "crates/rustorch-wgpu/",
    "crates/rustorch-opencl/",
    "crates/rustorch-cuda/",
];
const NATIVE: &[&str] = &["crates/rustorch-opencl/", "crates/rustorch-cuda/"];

const fn word(old: &'static str, new: &'static str, within: &'static [&'static str]) -> Word {
    Word { old, new, within }
}

const WORDS: &[Word] = &[
    // Operations and their parameters.
    word("Chain", "FusedPointwise", CORE),
    word("ChainStep", "FusedStep", ALL),
    word("ExpertMatMul", "MulMatId", ALL),
    word("expert_matmul", "mul_mat_id", CORE),
    word("GateOp", "GluOp", ALL),
    word("silu_gate", "swiglu", ALL),
    word("Triangle", "Tri", CORE),
    word("order_is_free", "allows_reassociation", ALL),
    word("elements()", "numel()", CORE),
    word("rank()", "ndim()", CORE),
    // The executor.
    word("Receive", "FromOutput", ALL),
    word(
        "Found",
        "DiscoveredDevice",
        &["crates/rustorch/", "crates/rustorch-cli/", "crates/rustorch-runtime/"],
    ),
    word("Wish", "OutputDevice", RUNTIME),
    word("Done", "DispatchOutcome", RUNTIME),
    word("bring", "move_to", RUNTIME),
    word("Pool", "ThreadPool", CPU),
    word("Pool", "CachingAllocator", RUNTIME),
    word("npu_below", "nothing: it goes", ALL),
    // Matmul on the CPU.
    word("Problem", "GemmArgs", CPU),
    word("Job", "GroupedGemm", CPU),
    word("Companion", "ActivationQuant", ALL),
    // Kernels and drivers of GPUs.
    word("Aside", "StagedOperand", DEVICES),
    word("Piece", "Chunk", DEVICES),
    word("Cut", "SplitPlan", DEVICES),
    word("Angles", "RopeCosSin", DEVICES),
    word("Rotate", "ApplyRope", DEVICES),
    word("Rounded", "QuantizedActivations", DEVICES),
    word("Loss", "DeviceLossFlag", DEVICES),
    word("Lane", "Stream or CommandQueue", NATIVE),
    word("Session", "Context or OpenDevice", NATIVE),
    word("Mistake", "DeviceAssert", DEVICES),
    word("Notes", "AssertLog", DEVICES),
    word("Detour", "StagedOutput", DEVICES),
    word("granule", "alignment", DEVICES),
    // Language models.
    word("Hyperparameters", "ModelConfig", ALL),
    word("network()", "model()", ALL),
    // Prose.
    word("processor", "CPU", ALL),
    word("processors", "CPUs", ALL),
    word("lie side by side", "are contiguous", ALL),
    word("in disguise", "software device", ALL),
];

/// Reports every private word among the files that git tracks.
pub(crate) fn run() -> Result<(), String> {
    let listed = Command::new("git")
        .args(["ls-files", "*.rs", "*.wgsl", "*.md", "*.toml", "*.sh"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    let files = String::from_utf8(listed.stdout).map_err(|error| format!("git ls-files: {error}"))?;
    let mut found = 0;
    for file in files.lines().filter(|file| !is_left_out(file)) {
        // A file that is listed and gone is a deletion that is not committed yet.
        let Ok(text) = std::fs::read_to_string(root().join(file)) else { continue };
        for (number, line) in text.lines().enumerate() {
            for word in private_words(file, line) {
                note(format_args!("{file}:{}: `{}`: say `{}`", number + 1, word.old, word.new));
                found += 1;
            }
        }
    }
    if found == 0 {
        Ok(())
    } else {
        Err(format!("{found} private words; STYLE of names and prose: CONTRIBUTING.md"))
    }
}

/// This table, the history, and the list of terms.
fn is_left_out(file: &str) -> bool {
    Path::new(file) == Path::new("xtask/src/words.rs") || file == "CHANGELOG.md" || file == "CONTRIBUTING.md"
}

/// The words of the table that a line has.
fn private_words<'a>(file: &'a str, line: &'a str) -> impl Iterator<Item = &'static Word> + 'a {
    let applies = move |word: &&Word| word.within.iter().any(|path| file.starts_with(path));
    WORDS.iter().filter(applies).filter(move |word| has_word(line, word.old))
}

/// Whether a line has a word that is not a part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let whole_end = !word.ends_with(part) || !line[at + word.len()..].starts_with(part);
        !line[..at].ends_with(part) && whole_end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_words_are_found_where_they_stand_for_the_old_thing() {
        let found = |file: &'static str, line: &'static str| -> Vec<&str> {
            private_words(file, line).map(|word| word.new).collect()
        };
        assert_eq!(found("docs/devices.md", "the processor and two processors"), ["CPU", "CPUs"]);
        assert_eq!(found("README.md", "multiprocessors, Intel(R) Xeon(R) Processor"), [""; 0]);
        assert_eq!(found("crates/rustorch-cpu/src/a.rs", "let pool = Pool::new(1);"), ["ThreadPool"]);
        assert_eq!(found("crates/rustorch-cpu/src/a.rs", "ThreadPool, MaxPool, Pools"), [""; 0]);
        assert_eq!(found("crates/rustorch-tensor/src/a.rs", "x.rank(), x.max_rank()"), ["ndim()"]);
        assert_eq!(found("crates/rustorch-llm/src/a.rs", "struct Session;"), [""; 0]);
        assert_eq!(found("crates/rustorch-cuda/src/a.rs", "struct Session;"), ["Context or OpenDevice"]);
    }
}
