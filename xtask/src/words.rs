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
const CPU: &[&str] = &["crates/rustorch-cpu/", "loom/"];
/// Where a thread pool's jobs are not.
const CPU_KERNELS: &[&str] = &["crates/rustorch-cpu/src/kernels/"];
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
    word("Chain", "FusedPointwise or FallbackOrder", ALL),
    word("ChainStep", "FusedStep", ALL),
    word("ChainBuilder", "FusedBuilder", ALL),
    word("fused chain", "fused pointwise op", ALL),
    word("fused chains", "fused pointwise ops", ALL),
    word("device chain", "fallback order", ALL),
    word("ExpertMatMul", "MulMatId", ALL),
    word("expert_matmul", "mul_mat_id", ALL),
    word("GateOp", "GluOp", ALL),
    word("Gate", "Glu", ALL),
    word("silu_gate", "swiglu", ALL),
    word("gelu_gate", "geglu", ALL),
    word("relu_gate", "reglu", ALL),
    word("Triangle", "Tri", CORE),
    word("Triangle", "Tri", DEVICES),
    word(
        "Weight",
        "PromotionCategory",
        &["crates/rustorch-core/src/promote.rs", "crates/rustorch-tensor/src/"],
    ),
    word("order_is_free", "allows_reassociation", ALL),
    word(".elements()", "numel()", CORE),
    word(".rank()", "ndim()", ALL),
    // The executor.
    word("Receive", "FromOutput", ALL),
    word(
        "Found",
        "DiscoveredDevice",
        &["crates/rustorch/", "crates/rustorch-cli/", "crates/rustorch-runtime/"],
    ),
    word("Wish", "OutputDevice", RUNTIME),
    word("Whereto", "TargetDevice", ALL),
    word("Done", "DispatchOutcome", RUNTIME),
    word("bring", "move_to", RUNTIME),
    word("executor/tiny.rs", "executor/fast_path.rs", ALL),
    word("Pool", "ThreadPool", CPU),
    word("Pool", "CachingAllocator", RUNTIME),
    word("npu_below", "nothing: it goes", ALL),
    // Promotion.
    word("Meeting", "BinaryPromotion", &["crates/rustorch-tensor/"]),
    // Matmul on the CPU.
    word("Problem", "GemmArgs", CPU_KERNELS),
    word("Job", "GroupedGemm", CPU_KERNELS),
    word("Companion", "ActivationQuant", ALL),
    word("Angles", "RopeCosSin", CPU_KERNELS),
    word("Choices", "ExpertRows", CPU_KERNELS),
    word("level_products", "code_products", ALL),
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
    word("lies side by side", "is contiguous", ALL),
    word("in disguise", "software device", ALL),
    word("truth value", "boolean", ALL),
    word("truth values", "booleans", ALL),
    word("functions of pairs", "binary ops", ALL),
    word("function of pairs", "binary op", ALL),
    word("matrix product", "matmul", ALL),
    word("matrix products", "matmuls", ALL),
    word("quantized product", "quantized matmul", ALL),
    word("quantized products", "quantized matmuls", ALL),
];

/// Reports every private word among the files that git tracks.
pub(crate) fn run() -> Result<(), String> {
    let listed = Command::new("git")
        .args(["ls-files", "*.rs", "*.wgsl", "*.md", "*.toml", "*.sh"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    let files = String::from_utf8(listed.stdout).map_err(|error| format!("git ls-files: {error}"))?;
    let found = search(&root(), files.lines());
    for line in &found {
        note(format_args!("{line}"));
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(format!("{} private words; STYLE of names and prose: CONTRIBUTING.md", found.len()))
    }
}

/// A line for each private word in files of a folder: where it is, and what to say instead.
fn search<'a>(folder: &Path, files: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.filter(|file| !is_left_out(file)) {
        // A file that is listed and gone is a deletion that is not committed yet.
        let Ok(text) = std::fs::read_to_string(folder.join(file)) else { continue };
        for (i, line) in text.lines().enumerate() {
            found.extend(
                private_words(file, line)
                    .map(|word| format!("{file}:{}: `{}`: say `{}`", i + 1, word.old, word.new)),
            );
        }
    }
    found
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

/// Whether a line has a word that is not a part of a longer one, nor all of a string: a key of somebody else's file.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let whole_start = !word.starts_with(part) || !before.ends_with(part);
        let whole_end = !word.ends_with(part) || !after.starts_with(part);
        whole_start && whole_end && !(before.ends_with('"') && after.starts_with('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_word_is_found_in_its_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("lib.rs"), "fn main() {}\n/// The processor.\n").unwrap();
        std::fs::write(folder.path().join("CHANGELOG.md"), "The processor.\n").unwrap();
        let found = search(folder.path(), ["lib.rs", "CHANGELOG.md", "deleted.rs"].into_iter());
        assert_eq!(found, ["lib.rs:2: `processor`: say `CPU`"]);
    }

    #[test]
    fn private_words_are_found_where_they_stand_for_the_old_thing() {
        let found = |file: &'static str, line: &'static str| -> Vec<&str> {
            private_words(file, line).map(|word| word.new).collect()
        };
        assert_eq!(found("docs/devices.md", "the processor and two processors"), ["CPU", "CPUs"]);
        assert_eq!(found("src/lib.rs", "json.get(\"processors\")"), [""; 0]);
        assert_eq!(found("README.md", "multiprocessors, Intel(R) Xeon(R) Processor"), [""; 0]);
        assert_eq!(found("crates/rustorch-cpu/src/a.rs", "let pool = Pool::new(1);"), ["ThreadPool"]);
        assert_eq!(found("crates/rustorch-cpu/src/a.rs", "ThreadPool, MaxPool, Pools"), [""; 0]);
        assert_eq!(found("crates/rustorch-tensor/src/a.rs", "x.rank(), x.max_rank()"), ["ndim()"]);
        assert_eq!(found("crates/rustorch-llm/src/a.rs", "struct Session;"), [""; 0]);
        assert_eq!(found("crates/rustorch-cuda/src/a.rs", "struct Session;"), ["Context or OpenDevice"]);
    }
}
