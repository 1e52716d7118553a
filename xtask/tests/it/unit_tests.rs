//! A library with `test = false` in its manifest is compiled once, for what depends on it, and not a second time with unit tests.
//! No test may stand in its `src` then, except in modules that `tests/it` includes by their path.

use crate::sources::{code, crates, files, module};
use std::path::{Path, PathBuf};

/// Whether a manifest says that the library has no unit tests.
fn has_no_unit_tests(manifest: &str) -> bool {
    let mut section = "";
    manifest.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            section = line;
        }
        section == "[lib]" && line == "test = false"
    })
}

/// Files below `src` with tests that no test program compiles: neither the file nor a module around it is included in `tests/it`.
fn left_out(src: &[(PathBuf, String)], tests: &[(PathBuf, String)]) -> Vec<PathBuf> {
    let included: Vec<Vec<String>> = tests
        .iter()
        .flat_map(|(_, text)| text.split("#[path = \"../../src/").skip(1))
        .map(|rest| module(Path::new(&rest[..rest.find('"').unwrap()])))
        .collect();
    let is_left_out = |(path, text): &&(PathBuf, String)| {
        let own = module(path);
        // At the beginning of a line: elsewhere they are of a macro, for others.
        let is_test =
            |line: &str| ["#[cfg(test)]", "#[test]"].iter().any(|begin| line.trim().starts_with(begin));
        code(text).lines().any(is_test) && !included.iter().any(|module| own.starts_with(module))
    };
    src.iter().filter(is_left_out).map(|(path, _)| path.clone()).collect()
}

#[test]
fn every_unit_test_is_compiled() {
    let mut libraries = 0;
    for entry in std::fs::read_dir(crates()).unwrap() {
        let folder = entry.unwrap().path();
        if has_no_unit_tests(&std::fs::read_to_string(folder.join("Cargo.toml")).unwrap()) {
            libraries += 1;
            let tests = folder.join("tests/it");
            let tests = if tests.is_dir() { files(&tests) } else { Vec::new() };
            let left_out = left_out(&files(&folder.join("src")), &tests);
            assert!(left_out.is_empty(), "no test program compiles the tests in {left_out:?} of {folder:?}");
        }
    }
    assert!(libraries > 1, "manifests are not read as they are written");
}

#[test]
fn planted_unit_tests_are_found() {
    let file = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    let src = [
        file("lib.rs", "mod pool;\n// #[test]"),
        file("pool/mod.rs", "#[cfg(test)]\nmod tests;"),
        file("pool/tests.rs", "#[test]\nfn f() {}"),
        file("pooling.rs", "#[cfg(test)]\nmod tests {}"),
    ];
    let including = |paths: &[&str]| {
        let lines: Vec<String> =
            paths.iter().map(|path| format!("#[path = \"../../src/{path}\"]\nmod m;\n")).collect();
        left_out(&src, &[file("main.rs", &lines.concat())])
    };
    assert_eq!(including(&["pool/mod.rs", "pooling.rs"]), Vec::<PathBuf>::new());
    assert_eq!(including(&["pool/mod.rs"]), [Path::new("pooling.rs")]);
    assert_eq!(including(&["pool/tests.rs", "pooling.rs"]), [Path::new("pool/mod.rs")]);
    assert_eq!(including(&[]).len(), 3);
}

#[test]
fn manifests_are_read_by_sections() {
    assert!(has_no_unit_tests(
        "[package]\nname = \"a\"\n\n[lib]\n# No tests.\ntest = false\n\n[dependencies]"
    ));
    assert!(!has_no_unit_tests("[lib]\nbench = false\n\n[[bin]]\ntest = false"));
}
