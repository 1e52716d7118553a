//! Source files of crates, as text.

use std::path::{Path, PathBuf};

/// The folder of all crates.
pub(crate) fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")
}

/// The folder of a crate.
pub(crate) fn crate_folder(name: &str) -> PathBuf {
    crates().join(name)
}

/// Every Rust file below a folder, by its path there.
pub(crate) fn files(root: &Path) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((
                    path.strip_prefix(root).unwrap().to_owned(),
                    std::fs::read_to_string(&path).unwrap(),
                ));
            }
        }
    }
    found
}

/// The code of a file without its comments.
pub(crate) fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The module path of a file: `family/conv/mod.rs` is `["family", "conv"]`.
pub(crate) fn module(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        path.with_extension("").iter().map(|name| name.to_string_lossy().into_owned()).collect();
    names.pop_if(|last| last == "mod" || last == "lib");
    names
}
