//! The cache folder, for compiled kernels and calibrations.

use std::env;
use std::path::PathBuf;

/// The folder for files that may be deleted at any time: `RUSTORCH_CACHE_DIR` if set, else the platform's cache folder
/// (`$XDG_CACHE_HOME` or `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`) and `rustorch` in it.
///
/// `None` where nothing is to be cached: `RUSTORCH_CACHE_DIR` is set and empty, or the platform has no such folder. The
/// folder need not exist. Each use has a folder of its own in it.
pub fn cache_dir() -> Option<PathBuf> {
    resolve(|name| env::var_os(name).map(PathBuf::from))
}

/// [`cache_dir`] in an environment.
fn resolve(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(dir) = variable("RUSTORCH_CACHE_DIR") {
        return (!dir.as_os_str().is_empty()).then_some(dir);
    }
    let absolute = |name: &str| variable(name).filter(|dir| dir.is_absolute());
    let base = if cfg!(windows) {
        absolute("LOCALAPPDATA")
    } else if cfg!(target_vendor = "apple") {
        absolute("HOME").map(|home| home.join("Library").join("Caches"))
    } else {
        absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
    };
    base.map(|base| base.join("rustorch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set: &[(&str, &str)]) -> Option<PathBuf> {
        resolve(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| PathBuf::from(value)))
    }

    #[test]
    fn what_the_user_sets_goes_first() {
        assert_eq!(with(&[("RUSTORCH_CACHE_DIR", "here"), ("HOME", "/home/a")]), Some("here".into()));
        assert_eq!(with(&[("RUSTORCH_CACHE_DIR", ""), ("HOME", "/home/a")]), None);
        assert_eq!(with(&[]), None);
    }

    #[cfg(all(unix, not(target_vendor = "apple")))]
    #[test]
    fn the_platforms_folder_is_next() {
        assert_eq!(with(&[("HOME", "/home/a")]), Some("/home/a/.cache/rustorch".into()));
        assert_eq!(with(&[("HOME", "/home/a"), ("XDG_CACHE_HOME", "/c")]), Some("/c/rustorch".into()));
        // The XDG specification has relative paths ignored.
        assert_eq!(
            with(&[("HOME", "/home/a"), ("XDG_CACHE_HOME", "c")]),
            Some("/home/a/.cache/rustorch".into())
        );
    }
}
