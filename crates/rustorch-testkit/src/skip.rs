//! Skipping tests whose requirement is missing, visibly.

use std::fmt::{Display, Write};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The variable that names, with commas between them, what must be there: a skip for lack of it is a failure.
pub const REQUIRE: &str = "RUSTORCH_REQUIRE";

/// The variable that names a file to which a line is added for each skip: the program, and the test if its thread has its name, as the test
/// harness's threads have.
const LIST: &str = "RUSTORCH_SKIPS";

/// Begins the line of each skip.
const SKIPPED: &str = "skipped for lack of ";

macro_rules! requirements {
    ($($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)*) => {
        /// What a test may need beyond Rust and a linker; [`Requirement::word`] is its name in `RUSTORCH_REQUIRE`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Requirement {
            $($(#[doc = $doc])+ $variant,)*
        }

        impl Requirement {
            /// All of them.
            pub const ALL: &[Requirement] = &[$(Requirement::$variant),*];

            /// Its name in `RUSTORCH_REQUIRE`.
            pub fn word(self) -> &'static str {
                match self {
                    $(Requirement::$variant => $word,)*
                }
            }
        }
    };
}

requirements! {
    /// The data and models in `../shared`, beside the checkout.
    Shared = "shared",
    /// A device that wgpu finds: Vulkan's loader and a driver, on other systems Metal or Direct3D 12.
    Vulkan = "vulkan",
    /// An OpenCL loader and a device.
    OpenCl = "opencl",
    /// An NVIDIA GPU and its driver.
    Cuda = "cuda",
    /// NVIDIA's compiler for kernels.
    Nvrtc = "nvrtc",
    /// NVIDIA's BLAS library.
    CublasLt = "cublaslt",
    /// Intel's OpenCL for CPUs, which has `f16` and subgroups of chosen sizes.
    Intel = "intel",
    /// Chromium's Vulkan for CPUs.
    SwiftShader = "swiftshader",
    /// A C compiler, `cc`.
    Cc = "cc",
    /// GCC's C++ compiler, version 11 or later.
    Cxx = "cxx",
    /// The SPIR-V validator.
    SpirvVal = "spirv-val",
    /// Direct3D's shader compiler.
    Dxc = "dxc",
    /// Metadata of published models, which `RUSTORCH_CHAT_TEMPLATES` names the folder of.
    ChatTemplates = "chat-templates",
    /// The environment of the oracle of Core ML's packages, which `tools/oracle/coreml/venv.sh` makes.
    Coremltools = "coremltools",
    /// The shells that the program completes commands for.
    Shells = "shells",
    /// An ability that not every device of its family has: subgroups, timestamps, limited memory.
    Feature = "feature",
    /// An ability of the operating system: Linux's loader, sparse files.
    System = "system",
}

/// How often this process has skipped, by requirement.
static COUNTS: [AtomicUsize; Requirement::ALL.len()] =
    [const { AtomicUsize::new(0) }; Requirement::ALL.len()];

/// Says that a test, or a part of one, cannot run here. The test returns thereafter. When the test program ends, it prints one line
/// with the counts of its skips.
///
/// ```no_run
/// use rustorch_testkit::{Requirement, skip};
/// use std::path::Path;
///
/// // #[test]
/// fn reads_the_shared_models() {
///     let folder = Path::new("../shared/data/models");
///     if !folder.exists() {
///         return skip(Requirement::Shared, format!("{} does not exist", folder.display()));
///     }
///     // ..
/// }
/// # reads_the_shared_models();
/// ```
///
/// # Panics
/// If `RUSTORCH_REQUIRE` names the requirement, or something that is none.
#[track_caller]
pub fn skip(requirement: Requirement, reason: impl Display) {
    static REQUIRED: OnceLock<Result<Vec<Requirement>, String>> = OnceLock::new();
    let required = REQUIRED.get_or_init(|| parse(&std::env::var(REQUIRE).unwrap_or_default()));
    skip_unless(required, requirement, &reason.to_string());
}

#[track_caller]
#[allow(
    clippy::print_stdout,
    reason = "shown with the test's other output, and read by the parent of a child process"
)]
fn skip_unless(required: &Result<Vec<Requirement>, String>, requirement: Requirement, reason: &str) {
    match required {
        Ok(required) => assert!(
            !required.contains(&requirement),
            "{REQUIRE} names {}, but it is not here: {reason}",
            requirement.word()
        ),
        Err(wrong) => panic!("{wrong}"),
    }
    println!("{SKIPPED}{}: {reason}", requirement.word());
    count(requirement);
}

impl FromStr for Requirement {
    type Err = String;

    fn from_str(word: &str) -> Result<Requirement, String> {
        Requirement::ALL.iter().copied().find(|requirement| requirement.word() == word).ok_or_else(|| {
            let valid: Vec<&str> = Requirement::ALL.iter().map(|requirement| requirement.word()).collect();
            format!("unknown word {word:?}; the valid ones are {}", valid.join(", "))
        })
    }
}

/// What `RUSTORCH_REQUIRE` asks for.
fn parse(list: &str) -> Result<Vec<Requirement>, String> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_err(|wrong| format!("{REQUIRE}: {wrong}"))).collect()
}

/// Counts the skips of a child process, from what it has printed.
pub(crate) fn count_printed(said: &str) {
    for word in
        said.lines().filter_map(|line| line.split_once(SKIPPED)?.1.split_once(": ")).map(|(word, _)| word)
    {
        Requirement::ALL.iter().filter(|requirement| requirement.word() == word).for_each(|r| count(*r));
    }
}

fn count(requirement: Requirement) {
    static AT_EXIT: OnceLock<()> = OnceLock::new();
    COUNTS[requirement as usize].fetch_add(1, Ordering::Relaxed);
    // A child's skips are its parent's.
    if !crate::child::in_any_child() {
        if let Some(file) = std::env::var_os(LIST) {
            list(file.as_ref()).unwrap_or_else(|error| panic!("{LIST}: {}: {error}", file.display()));
        }
        // SAFETY: the function is there for the whole life of the process and does not unwind.
        AT_EXIT
            .get_or_init(|| assert_eq!(unsafe { libc::atexit(report) }, 0, "there is room for a function"));
    }
}

/// Adds this program and test to a list.
fn list(file: &Path) -> io::Result<()> {
    let program = std::env::current_exe()?;
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or_default();
    let mut list = OpenOptions::new().create(true).append(true).open(file)?;
    // At once, for other threads and programs write, too.
    list.write_all(format!("{} {test}\n", program.display()).as_bytes())
}

/// Prints the counts. Runs when the process ends, after the test harness has printed its own.
extern "C" fn report() {
    let counts = COUNTS.each_ref().map(|count| count.load(Ordering::Relaxed));
    if counts.iter().all(|count| *count == 0) {
        return;
    }
    // Not `eprintln!`, whose output the harness may capture; that it cannot be written is no failure of a test.
    let _ = std::io::stderr().write_all(summary(&counts).as_bytes());
}

fn summary(counts: &[usize]) -> String {
    let mut line = String::from("skipped for lack of");
    let counted = Requirement::ALL.iter().zip(counts).filter(|(_, count)| **count > 0);
    for (i, (requirement, count)) in counted.enumerate() {
        let comma = if i == 0 { "" } else { "," };
        write!(line, "{comma} {}: {count}", requirement.word()).expect("a string grows");
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{child, in_child};

    #[test]
    fn the_list_of_requirements_is_read() {
        assert_eq!(parse(""), Ok(vec![]));
        assert_eq!(parse("shared, spirv-val,"), Ok(vec![Requirement::Shared, Requirement::SpirvVal]));
        let wrong = parse("shared,volcano").unwrap_err();
        assert!(wrong.contains("\"volcano\"") && wrong.contains("shared, vulkan, opencl"), "{wrong}");
    }

    /// The words that this run requires exist, even if nothing is skipped.
    #[test]
    fn this_run_requires_what_there_is() {
        parse(&std::env::var(REQUIRE).unwrap_or_default()).unwrap();
    }

    #[test]
    #[should_panic = "RUSTORCH_REQUIRE names opencl, but it is not here: no loader"]
    fn a_skip_for_what_is_required_is_a_failure() {
        skip_unless(&parse("vulkan,opencl"), Requirement::OpenCl, "no loader");
    }

    #[test]
    #[should_panic = "unknown word \"open-cl\""]
    fn a_skip_with_an_unknown_word_is_a_failure() {
        skip_unless(&parse("open-cl"), Requirement::Shared, "no folder");
    }

    #[test]
    fn the_counts_are_one_line() {
        let mut counts = [0; Requirement::ALL.len()];
        counts[Requirement::Shared as usize] = 3;
        counts[Requirement::Cxx as usize] = 1;
        assert_eq!(summary(&counts), "skipped for lack of shared: 3, cxx: 1\n");
    }

    /// Run by [`a_program_that_skips_says_so_at_its_end`].
    #[test]
    #[ignore = "skips, as another test wants it"]
    fn skips_twice() {
        skip(Requirement::Dxc, "as an example");
        skip(Requirement::Dxc, "as an example");
    }

    #[test]
    fn a_program_that_skips_says_so_at_its_end() {
        let mut program = child("skip::tests::skips_twice");
        let output = program.env_remove(crate::child::CHILD).env_remove(REQUIRE).output().unwrap();
        let [said, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(
            said.contains("1 passed") && said.contains("skipped for lack of dxc: as an example"),
            "{said}"
        );
        assert_eq!(errors, "skipped for lack of dxc: 2\n");

        let output = program.env(REQUIRE, "dxc").output().unwrap();
        assert!(!output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 failed"));
    }

    #[test]
    fn a_child_leaves_its_counts_to_its_parent() {
        let name = "skip::tests::a_child_leaves_its_counts_to_its_parent";
        let none = |command: &mut std::process::Command| {
            command.env_remove(REQUIRE);
        };
        // In the child: the line of the skip, but none at the end.
        if let Some(said) = in_child(name, none, || skip(Requirement::System, "as an example")) {
            assert_eq!(said.matches(SKIPPED).count(), 1, "{said}");
            // None of this program's tests has skipped.
            assert_eq!(COUNTS[Requirement::System as usize].swap(0, Ordering::Relaxed), 1);
        }
    }
}
