//! Tests in child processes whose environment decides which libraries are found.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::print_stdout,
    reason = "each test file uses its own part; skipped tests say so"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Set in child processes, to the name of the test.
const CHILD: &str = "RUSTORCH_TEST_CUDA_CHILD";

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

/// Runs `body` in a child process, with variables set.
///
/// The test of this name does nothing but this call: the child runs it again.
pub fn in_child(name: &str, variables: &[(&str, &str)], body: fn()) {
    if std::env::var_os(CHILD).is_some_and(|child| child == name) {
        body();
        println!("{name} is through");
        return;
    }
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args([name, "--exact", "--nocapture"]).env(CHILD, name);
    // What the machine has must not matter.
    for name in LIBRARIES {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    let output = command.output().expect("a test can run itself");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains(&format!("{name} is through")),
        "{}\n{text}\n{said}",
        output.status
    );
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
    if std::env::var_os(CHILD).is_some() {
        return in_child(name, variables, body);
    }
    static FAKES: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let fakes = match FAKES.get_or_init(build) {
        Ok(folder) => folder.to_str().expect("target folders have plain names"),
        Err(reason) => {
            println!("skipped: {reason}");
            return;
        }
    };
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

/// Builds the fakes.
fn build() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-cuda");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    // The last one calls the first.
    for name in ["cuda", "nvrtc", "cublasLt"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fake/{name}.c"));
        let output = Command::new("cc")
            .args([
                "-std=c11",
                "-D_GNU_SOURCE",
                "-O1",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-shared",
                "-fPIC",
                "-pthread",
                "-o",
            ])
            .arg(folder.join(format!("lib{name}.so")))
            .arg(source)
            .args((name == "cublasLt").then(|| format!("-L{}", folder.display())))
            .args((name == "cublasLt").then_some(["-lcuda", "-lm"]).into_iter().flatten())
            .output()
            .map_err(|error| format!("there is no C compiler: {error}"))?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(folder)
}
