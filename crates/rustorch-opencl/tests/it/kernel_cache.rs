//! Compiled programs are kept in files.

use crate::common::{kernel, launch, memory, numbers, window};
use rustorch_kernels::KernelCache;
use rustorch_opencl::OpenCl;
use rustorch_testkit::{Requirement, skip};
use std::path::Path;

/// A kernel that gives a number.
fn source(number: u32) -> String {
    format!("__kernel void run(__global uint* y) {{ y[get_global_id(0)] = {number}u; }}")
}

/// What a driver has a kernel give.
fn run(driver: &OpenCl, source: &str) -> u32 {
    let kernel = kernel(driver, source, 1, 1, 0);
    let y = memory(driver, &[0]);
    launch(driver, &kernel, &[window(&y, 1)], &[], 1);
    numbers(driver, &y, 1)[0]
}

/// The key under which the cache in a folder has the program of a source, which is its end.
fn key(folder: &Path, source: &str) -> Option<String> {
    // A file is a magic number, the length of the key, two numbers more, and the key.
    let key = |file: Vec<u8>| {
        let len = u64::from_le_bytes(file[8..16].try_into().unwrap()) as usize;
        String::from_utf8(file[32..32 + len].to_vec()).unwrap()
    };
    let files = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    files.map(key).find(|key| key.ends_with(source))
}

#[test]
fn what_was_built_is_found_again() {
    let found = rustorch_opencl::discover();
    if found.devices.is_empty() {
        skip(Requirement::OpenCl, found.missing.join("; "));
    }
    for candidate in &found.devices {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::open(folder.path());
        let driver = candidate.open_with(Some(cache.clone())).unwrap();
        let sources = [source(1), source(2)];
        assert!(sources.iter().all(|source| key(folder.path(), source).is_none()));
        assert_eq!(sources.each_ref().map(|source| run(&driver, source)), [1, 2]);
        let [one, two] = sources.each_ref().map(|source| key(folder.path(), source).unwrap());
        let (first, second) = (cache.load(&one).unwrap(), cache.load(&two).unwrap());

        // That the file is used shows when it is another's.
        cache.store(&one, &second);
        assert_eq!(run(&driver, &sources[0]), 2);
        // In another process too: nothing of this is in the driver.
        let again = candidate.open_with(Some(cache.clone())).unwrap();
        assert_eq!(run(&again, &sources[0]), 2);

        // What the driver does not take is built again and replaced.
        cache.store(&one, b"no binary of any driver");
        assert_eq!(run(&driver, &sources[0]), 1);
        assert_ne!(cache.load(&one).unwrap(), b"no binary of any driver");
        cache.store(&one, &first);
        assert_eq!(run(&driver, &sources[0]), 1);
    }
}
