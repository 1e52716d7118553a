//! Compiled kernels are kept in a file, and a bad file does no harm.

use super::common::*;
use rustorch_kernels::Driver;
use rustorch_testkit::{Requirement, skip};
use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder.join("wgpu"))
        .map_or(Vec::new(), |dir| dir.map(|entry| entry.unwrap().path()).collect())
}

#[test]
fn kernels_are_kept_and_damage_is_ignored() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    for adapter in adapters {
        let folder = tempfile::tempdir().unwrap();
        let run = || {
            let driver = adapter.open_with_cache(Some(folder.path())).unwrap();
            let kernel = compile(&driver, "affine", AFFINE, 1, 16);
            let memory = upload(&driver, &[1; 4]);
            affine(&driver, &kernel, &memory, 4, 2, 3);
            assert_eq!(download(&driver, &memory, 4), [5; 4]);
            driver.finish().unwrap();
        };
        run();
        let [file] = &files(folder.path())[..] else {
            eprintln!("{} has no cache", adapter.name());
            assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
            continue;
        };
        let whole = fs::read(file).unwrap();
        run();
        for damaged in [&b""[..], &whole[..whole.len() / 2], &b"RTWGPUP1 and then nonsense"[..]] {
            fs::write(file, damaged).unwrap();
            run();
            // It is whole again.
            assert!(fs::read(file).unwrap().len() >= whole.len());
        }
    }
}
