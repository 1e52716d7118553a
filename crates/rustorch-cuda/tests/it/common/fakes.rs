//! Tests in child processes whose environment decides which libraries are found.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::print_stdout,
    reason = "each test file uses its own part; skipped tests say so"
)]

use rustorch_testkit::{Requirement, child, is_child, skip};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Where the machine's libraries and GPUs are.
pub const LIBRARIES: [&str; 7] = [
    "NVRTC_PATH",
    "CUBLASLT_PATH",
    "CUDA_PATH",
    "CUDA_HOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CUDA_VISIBLE_DEVICES",
];

/// Runs `body` in a child process, with variables set and nothing of what the machine has.
///
/// The test of this name does nothing but this call: the child runs it again.
pub fn in_child(name: &str, variables: &[(&str, &str)], body: fn()) {
    if let Some(said) = rustorch_testkit::in_child(name, |command| prepare(command, variables), body) {
        println!("{said}");
    }
}

/// Sets the environment of a child, in which what the machine has must not matter.
fn prepare(command: &mut Command, variables: &[(&str, &str)]) {
    for name in LIBRARIES {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
}

/// What is found in the place of cuBLASLt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Blas {
    /// The fake.
    Fake,
    /// Nothing that can be loaded.
    Nothing,
    /// A library without its functions.
    Another,
}

/// Runs `body` in a child process that finds the fakes in `tests/fake` instead of NVIDIA's libraries. Skips where there is no
/// C compiler.
pub fn with_fake(name: &str, variables: &[(&str, &str)], body: fn()) {
    with_fakes(name, Blas::Fake, variables, body);
}

/// [`with_fake`], and with something else in the place of cuBLASLt.
pub fn with_fakes(name: &str, blas: Blas, variables: &[(&str, &str)], body: fn()) {
    if is_child(name) {
        return in_child(name, variables, body);
    }
    let Some(fakes) = fakes() else { return };
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let path = folder.path().to_str().expect("temporary folders have plain names");
    let compiled = folder.path().join("compiled");
    // What is found first hides the fake, and the machine's own.
    let hiding = folder.path().join("hiding");
    std::fs::create_dir(&hiding).expect("the folder is new");
    for end in ["", ".13", ".12", ".11", ".10", ".9", ".1"] {
        let file = hiding.join(format!("libcublasLt.so{end}"));
        match blas {
            Blas::Fake => continue,
            Blas::Nothing => std::fs::write(file, b"").expect("the folder can be written"),
            Blas::Another => {
                let _ = std::fs::copy(Path::new(fakes).join("libnvrtc.so"), file).expect("it was built");
            }
        }
    }
    let libraries = format!("{}:{fakes}", hiding.display());
    let log = folder.path().join("blas");
    let mut all = vec![
        ("LD_LIBRARY_PATH", &*libraries),
        ("FAKE_BLAS_LOG", log.to_str().expect("temporary folders have plain names")),
        ("FAKE_COMPILED", compiled.to_str().expect("temporary folders have plain names")),
        ("RUSTORCH_CACHE_DIR", path),
    ];
    all.extend(variables);
    in_child(name, &all, body);
}

/// Runs `body` in a child process whose GPU is the fake, with kernels compiled for the CPU from their CUDA source and run
/// by `fake/emulator.c`. Skips where there is no C++ compiler.
pub fn emulated(name: &str, variables: &[(&str, &str)], body: fn()) {
    if is_child(name) {
        assert_eq!(rustorch_cuda::discover().missing, Vec::<String>::new());
        return in_child(name, variables, body);
    }
    if let Some(all) = emulator(variables) {
        in_child(name, &all, body);
    }
}

/// As [`emulated`], where the emulator is to end the process with a message that has these words.
pub fn emulated_until(name: &str, words: &str, body: fn()) {
    if is_child(name) {
        return body();
    }
    let Some(all) = emulator(&[]) else { return };
    let mut command = child(name);
    prepare(&mut command, &all);
    let output = command.output().expect("a test can run itself");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(86) && said.contains(words), "{}\n{said}", output.status);
}

/// Runs `body` on the GPUs of this machine, and on the emulated one.
pub fn everywhere(name: &str, body: fn()) {
    if !is_child(name) {
        body();
    }
    emulated(name, &[], body);
}

/// Whether this process finds the emulated GPU.
pub fn emulates() -> bool {
    std::env::var_os("FAKE_EMULATOR").is_some()
}

/// The environment in which a process finds the emulator; `None`, after a skip, where there is no compiler for it.
fn emulator<'a>(variables: &[(&'a str, &'a str)]) -> Option<Vec<(&'a str, &'a str)>> {
    if !cfg!(target_os = "linux") {
        skip(Requirement::System, "GPUs are emulated on Linux only");
        return None;
    }
    static COMPILER: OnceLock<Result<String, String>> = OnceLock::new();
    let compiler = COMPILER.get_or_init(|| {
        let name = std::env::var("CXX").unwrap_or_else(|_| "c++".to_string());
        let says = |argument| {
            let output = Command::new(&name).arg(argument).output().ok().filter(|o| o.status.success())?;
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (version, major) = (says("--version"), says("-dumpversion"));
        // Others tell of accesses to memory in other ways.
        let gcc = version.filter(|text| text.contains("Free Software Foundation"));
        let major = major.and_then(|text| text.trim().split('.').next()?.parse::<u32>().ok());
        let found = gcc.filter(|_| major >= Some(11));
        found.ok_or_else(|| {
            format!("{name} is not GCC's C++ compiler, version 11 or later, to emulate a GPU with")
        })
    });
    let compiler = compiler.as_ref().map_err(|reason| skip(Requirement::Cxx, reason)).ok()?;
    static CACHE: OnceLock<String> = OnceLock::new();
    let cache = CACHE.get_or_init(|| {
        // What kernels compile to depends on all of this.
        let mut hasher = DefaultHasher::new();
        for name in ["kernel.h", "emulator.h", "nvrtc.c"] {
            std::fs::read(Path::new(SOURCES).join(name))
                .expect("the emulator's text is there")
                .hash(&mut hasher);
        }
        compiler.hash(&mut hasher);
        #[cfg(target_arch = "x86_64")]
        std::arch::is_x86_feature_detected!("fma").hash(&mut hasher);
        format!("{}/emulated-{:016x}", env!("CARGO_TARGET_TMPDIR"), hasher.finish())
    });
    let fakes = fakes()?;
    let mut all = vec![
        ("LD_LIBRARY_PATH", fakes),
        // Matmuls are to be our kernels'.
        ("CUBLASLT_PATH", "none"),
        ("FAKE_EMULATOR", SOURCES),
        ("RUSTORCH_CACHE_DIR", cache),
    ];
    all.extend(variables);
    Some(all)
}

/// The fakes' source, for tests of this crate and of its neighbours.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rustorch-cuda/tests/fake");

/// The folder of the fakes; `None`, after a skip, where there is no C compiler.
fn fakes() -> Option<&'static str> {
    static FAKES: OnceLock<Result<String, String>> = OnceLock::new();
    FAKES.get_or_init(build).as_deref().map_err(|reason| skip(Requirement::Cc, reason)).ok()
}

/// Builds the fakes.
fn build() -> Result<String, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-cuda");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    // The last one calls the first.
    for (name, files) in [("cuda", &["cuda.c", "emulator.c"][..]), ("nvrtc", &["nvrtc.c"]), BLAS] {
        // Another process may have the one before loaded.
        let new = folder.join(format!("lib{name}.so.{}", std::process::id()));
        compile(&new, files, &folder, &[])?;
        std::fs::rename(&new, folder.join(format!("lib{name}.so"))).expect("a new file can be renamed");
    }
    Ok(folder.into_os_string().into_string().expect("target folders have plain names"))
}

const BLAS: (&str, &[&str]) = ("cublasLt", &["cublasLt.c"]);

/// Compiles a fake.
fn compile(to: &Path, files: &[&str], fakes: &Path, options: &[&str]) -> Result<(), String> {
    let output = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-U_FORTIFY_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args(["-shared", "-fPIC", "-pthread", "-o"])
        .arg(to)
        .args(files.iter().map(|file| Path::new(SOURCES).join(file)))
        .arg(format!("-L{}", fakes.display()))
        .args(["-ldl", "-lm"])
        .args((files == BLAS.1).then_some("-lcuda"))
        .args(options)
        .output()
        .map_err(|error| format!("there is no C compiler: {error}"))?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A folder with another version of a fake, `nvrtc` or `cublasLt`, under a file name and with a name of its own inside. `None`,
/// with a message, where there is no C compiler.
pub fn another(library: &str, version: u32, file: &str) -> Option<tempfile::TempDir> {
    let fakes = fakes()?;
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let options = [format!("-DVERSION={version}"), format!("-Wl,-soname,{file}")];
    let options = [&*options[0], &options[1]];
    let files = [&*format!("{library}.c")];
    compile(&folder.path().join(file), &files, Path::new(fakes), &options).expect("it was compiled before");
    Some(folder)
}
