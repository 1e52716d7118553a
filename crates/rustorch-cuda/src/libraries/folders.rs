//! What libraries are called, and where they may be besides the folders that the system searches: in toolkits and Python
//! packages.

use std::path::{Path, PathBuf};

/// How a library is called.
pub(crate) struct Names {
    /// The folder of its Python package in `nvidia`, for CUDA 12; for CUDA 13 all are in one.
    package: &'static str,
    /// Its file without the suffix, but on Windows.
    unix: &'static str,
    /// How its file begins on Windows, where the version follows.
    windows: &'static str,
    /// What the system is asked for, but on Windows: as it is linked to, and each version, the newest first.
    unix_versions: &'static [&'static str],
    /// What the system is asked for on Windows.
    windows_versions: &'static [&'static str],
    /// Files with these in their names are others.
    companions: &'static [&'static str],
}

/// Of its companions, `builtins` is loaded by it, and `alt` is another build of it. The files of CUDA 11 stand for 11.2 and
/// later.
pub(crate) const NVRTC: Names = Names {
    package: "cuda_nvrtc",
    unix: "libnvrtc",
    windows: "nvrtc64_",
    unix_versions: &["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"],
    windows_versions: &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"],
    companions: &["alt", "builtins"],
};

pub(crate) const CUBLASLT: Names = Names {
    package: "cublas",
    unix: "libcublasLt",
    windows: "cublasLt64_",
    unix_versions: &["libcublasLt.so", "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"],
    windows_versions: &["cublasLt64_13.dll", "cublasLt64_12.dll", "cublasLt64_11.dll"],
    companions: &[],
};

impl Names {
    /// The names by which to ask the system.
    pub(crate) fn in_system(&self) -> &'static [&'static str] {
        if cfg!(windows) { self.windows_versions } else { self.unix_versions }
    }

    /// The folders to search, the user's first. Those that do not exist are among them.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        self.folders_of(|name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute()))
    }

    /// [`folders`](Self::folders) in an environment.
    fn folders_of(&self, variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        let toolkits = ["CUDA_PATH", "CUDA_HOME"].iter().filter_map(|name| variable(name));
        for toolkit in toolkits.chain([PathBuf::from("/usr/local/cuda")]) {
            // On Windows, bin/x64 since CUDA 13.
            folders.extend(["lib64", "lib", "bin/x64", "bin"].map(|part| toolkit.join(part)));
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
                for part in ["cu13", self.package] {
                    // On Windows, bin/x86_64 since CUDA 13.
                    let kinds = ["lib", "bin/x86_64", "bin"];
                    folders.extend(kinds.map(|kind| package.join("nvidia").join(part).join(kind)));
                }
            }
            folders.push(environment.join("lib"));
        }
        folders
    }

    /// The file that the system finds in its folders, as the library is asked for; one that is empty cannot be loaded.
    pub(crate) fn file_in_system(&self, folders: &[PathBuf]) -> Option<PathBuf> {
        let first = |name: &&str| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
        self.in_system().iter().filter_map(first).find(|file| length(file) > 0)
    }

    /// The files in a folder that are the library by their names, the newest version first.
    pub(crate) fn files_in(&self, folder: &Path) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = entries(folder)
            .into_iter()
            .filter(|path| {
                let name = name(path);
                let unix = name.strip_prefix(self.unix);
                let library = unix.is_some_and(|rest| rest.starts_with(".so") || rest == ".dylib")
                    || name.starts_with(self.windows) && name.ends_with(".dll");
                library && !self.companions.iter().any(|other| name.contains(other))
            })
            .collect();
        files.sort_by(|a, b| b.cmp(a));
        files
    }
}

/// The folders where the system itself searches, as far as its settings tell: on Linux, what the loader is configured with, and on
/// Windows the search path.
pub(crate) fn of_system() -> Vec<PathBuf> {
    let listed = |name: &str| -> Vec<PathBuf> {
        let text = std::env::var_os(name).unwrap_or_default();
        std::env::split_paths(&text).filter(|folder| folder.is_absolute()).collect()
    };
    if cfg!(windows) {
        return listed("PATH");
    }
    let mut folders = listed("LD_LIBRARY_PATH");
    folders.extend(configured(Path::new("/")));
    folders
}

/// The folders of Linux's loader, by its settings (`ld.so(8)`, `ldconfig(8)`), and then those that it always searches.
fn configured(root: &Path) -> Vec<PathBuf> {
    let mut files = vec![root.join("etc/ld.so.conf")];
    files.extend(
        entries(&root.join("etc/ld.so.conf.d")).into_iter().filter(|file| name(file).ends_with(".conf")),
    );
    let texts = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let stated = lines.filter_map(|line| Some(root.join(line.trim().strip_prefix('/')?)));
    let always = ["lib64", "usr/lib64", "lib", "usr/lib"].map(|folder| root.join(folder));
    stated.chain(always).collect()
}

/// What is in a folder, in order; nothing if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// How many bytes a file has; none if it cannot be read.
pub(crate) fn length(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |about| about.len())
}

/// The last part of a path.
pub(crate) fn name(path: &Path) -> String {
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
        let found: Vec<PathBuf> = NVRTC
            .folders_of(|name| (name == "VIRTUAL_ENV").then(|| root.path().to_path_buf()))
            .iter()
            .flat_map(|folder| NVRTC.files_in(folder))
            .filter(|path| path.starts_with(root.path()))
            .collect();
        assert_eq!(found, [wheel.join("libnvrtc.so.12")]);
    }

    #[test]
    fn the_products_of_both_versions_are_found() {
        let root = tempfile::tempdir().unwrap();
        let packages = root.path().join("lib/python3.12/site-packages/nvidia");
        let files = [("cublas", "libcublasLt.so.12"), ("cu13", "libcublasLt.so.13")]
            .map(|(package, name)| packages.join(package).join("lib").join(name));
        for file in &files {
            let folder = file.parent().unwrap();
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(file, b"").unwrap();
            std::fs::write(folder.join("libcublas.so.12"), b"").unwrap();
        }
        let folders = CUBLASLT.folders_of(|name| (name == "VIRTUAL_ENV").then(|| root.path().to_path_buf()));
        let found: Vec<PathBuf> = folders
            .iter()
            .flat_map(|folder| CUBLASLT.files_in(folder))
            .filter(|path| path.starts_with(root.path()))
            .collect();
        assert_eq!(found, [files[1].clone(), files[0].clone()]);
    }

    #[test]
    fn the_folders_of_windows_are_searched() {
        let root = tempfile::tempdir().unwrap();
        let variable = |name: &str| match name {
            "CUDA_PATH" => Some(root.path().join("toolkit")),
            "VIRTUAL_ENV" => Some(root.path().join("environment")),
            _ => None,
        };
        let nvidia = "environment/Lib/site-packages/nvidia";
        let files = [
            "toolkit/bin/x64/nvrtc64_130_0.dll".to_owned(),
            "toolkit/bin/nvrtc64_120_0.dll".to_owned(),
            format!("{nvidia}/cu13/bin/x86_64/nvrtc64_130_0.dll"),
            format!("{nvidia}/cuda_nvrtc/bin/nvrtc64_112_0.dll"),
        ]
        .map(|file| root.path().join(file));
        for file in &files {
            let folder = file.parent().unwrap();
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(file, b"").unwrap();
            for other in ["nvrtc64_130_0.alt.dll", "nvrtc-builtins64_130.dll", "cudart64_13.dll"] {
                std::fs::write(folder.join(other), b"").unwrap();
            }
        }
        let found: Vec<PathBuf> = NVRTC
            .folders_of(variable)
            .iter()
            .flat_map(|folder| NVRTC.files_in(folder))
            .filter(|path| path.starts_with(root.path()))
            .collect();
        assert_eq!(found, files);
    }

    #[cfg(not(windows))]
    #[test]
    fn the_systems_folders_are_searched() {
        let root = tempfile::tempdir().unwrap();
        let place = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        place("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n");
        place("etc/ld.so.conf.d/cuda.conf", "# of the toolkit\n /opt/cuda/lib64 \n");
        place("etc/ld.so.conf.d/cuda.old", "/opt/old/lib64\n");
        place("opt/old/lib64/libcublasLt.so", "old");
        let found = || CUBLASLT.file_in_system(&configured(root.path()));
        assert_eq!(found(), None);
        let packaged = place("usr/lib/libcublasLt.so.12", "12");
        assert_eq!(found(), Some(packaged));
        // Names count before folders, and in a folder that comes first, a file that is none hides others of its name.
        let newer = place("usr/lib/libcublasLt.so.13", "13");
        assert_eq!(found(), Some(newer.clone()));
        place("opt/cuda/lib64/libcublasLt.so", "");
        assert_eq!(found(), Some(newer));
        let own = place("opt/cuda/lib64/libcublasLt.so", "own");
        assert_eq!(found(), Some(own));
    }

    #[test]
    fn the_users_toolkit_goes_first() {
        let folders = NVRTC.folders_of(|name| (name == "CUDA_HOME").then(|| PathBuf::from("/opt/cuda")));
        assert_eq!(folders[0], Path::new("/opt/cuda/lib64"));
        assert!(folders.contains(&PathBuf::from("/usr/local/cuda/lib64")));
    }
}
