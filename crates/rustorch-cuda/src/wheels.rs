//! Where NVRTC may be besides the folders that the system searches: toolkits and Python packages.

use std::path::{Path, PathBuf};

/// The folders to search, the user's first. Those that do not exist are among them.
pub(crate) fn folders() -> Vec<PathBuf> {
    folders_of(|name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute()))
}

/// [`folders`] in an environment.
fn folders_of(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let toolkits = ["CUDA_PATH", "CUDA_HOME"].iter().filter_map(|name| variable(name));
    for toolkit in toolkits.chain([PathBuf::from("/usr/local/cuda")]) {
        folders.extend(["lib64", "lib", "bin"].map(|part| toolkit.join(part)));
    }
    for environment in ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|name| variable(name)) {
        // lib/python3.11/site-packages on Linux, Lib/site-packages on Windows.
        let mut packages = vec![environment.join("Lib").join("site-packages")];
        packages.extend(
            entries(&environment.join("lib"))
                .into_iter()
                .filter(|path| name(path).starts_with("python3"))
                .map(|path| path.join("site-packages")),
        );
        for package in packages {
            for part in ["cu13", "cuda_nvrtc"] {
                folders.extend(["lib", "bin"].map(|kind| package.join("nvidia").join(part).join(kind)));
            }
        }
        folders.push(environment.join("lib"));
    }
    folders
}

/// The files in a folder that are NVRTC by their names, the newest version first. Its companions are not: `builtins` is
/// loaded by it, `alt` is another build of it.
pub(crate) fn nvrtc_in(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = entries(folder)
        .into_iter()
        .filter(|path| {
            let name = name(path);
            let library = name.starts_with("libnvrtc.so")
                || name == "libnvrtc.dylib"
                || name.starts_with("nvrtc64_") && name.ends_with(".dll");
            library && !name.contains("alt") && !name.contains("builtins")
        })
        .collect();
    files.sort_by(|a, b| b.cmp(a));
    files
}

/// What is in a folder, in order; nothing if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_packages_are_searched() {
        let root = tempfile::tempdir().unwrap();
        let wheel = root.path().join("lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib");
        std::fs::create_dir_all(&wheel).unwrap();
        for name in ["libnvrtc.so.12", "libnvrtc.alt.so.12", "libnvrtc-builtins.so.12.9", "libother.so"] {
            std::fs::write(wheel.join(name), b"").unwrap();
        }
        let found: Vec<PathBuf> =
            folders_of(|name| (name == "VIRTUAL_ENV").then(|| root.path().to_path_buf()))
                .iter()
                .flat_map(|folder| nvrtc_in(folder))
                .filter(|path| path.starts_with(root.path()))
                .collect();
        assert_eq!(found, [wheel.join("libnvrtc.so.12")]);
    }

    #[test]
    fn the_users_toolkit_goes_first() {
        let folders = folders_of(|name| (name == "CUDA_HOME").then(|| PathBuf::from("/opt/cuda")));
        assert_eq!(folders[0], Path::new("/opt/cuda/lib64"));
        assert!(folders.contains(&PathBuf::from("/usr/local/cuda/lib64")));
    }
}
