//! Imports between the top-level modules of `rustorch-kernels` go one way.

use crate::sources::{code, crate_folder, files, module};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// For each top-level module those that its files name.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn source() -> PathBuf {
    crate_folder("rustorch-kernels").join("src")
}

/// The first names of the path, or of the group of paths, that `rest` begins with.
fn first_names(rest: &str) -> Vec<&str> {
    let name = |text: &'_ str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let Some(group) = rest.strip_prefix('{') else { return vec![&rest[..name(rest)]] };
    let (mut names, mut depth, mut begins) = (Vec::new(), 0, true);
    for (i, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if begins && (c.is_alphanumeric() || c == '_') => {
                names.push(&group[i..][..name(&group[i..])]);
                begins = false;
            }
            _ => {}
        }
    }
    names
}

/// The names that follow each `prefix` in a text, where it is a path of its own.
fn named<'a>(text: &'a str, prefix: &str) -> Vec<&'a str> {
    let own = |at: &usize| !text[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let starts = text.match_indices(prefix).map(|(at, _)| at).filter(own);
    starts.flat_map(|at| first_names(&text[at + prefix.len()..])).collect()
}

/// Which top-level modules name which, by `crate::` and by as many `super::` as lead there.
fn imports(files: &[(PathBuf, String)]) -> Imports {
    let root = files.iter().find(|(path, _)| path == Path::new("lib.rs")).map_or("", |(_, text)| text);
    let modules: BTreeSet<String> =
        files.iter().filter_map(|(path, _)| module(path).into_iter().next()).collect();
    // What the root hands on of a module.
    let mut homes: BTreeMap<&str, &str> = BTreeMap::new();
    for line in root.split(';').filter_map(|part| part.trim().split("pub use ").nth(1)) {
        if let Some((home, names)) = line.split_once("::") {
            homes.extend(first_names(names).into_iter().map(|name| (name, home)));
        }
    }
    let mut imports = Imports::new();
    for (path, text) in files {
        let own = module(path);
        let Some(top) = own.first() else { continue };
        let text = code(text);
        let up = "super::".repeat(own.len());
        for name in named(&text, "crate::").into_iter().chain(named(&text, &up)) {
            let home = homes.get(name).copied().unwrap_or(name);
            if modules.contains(home) && home != top {
                imports.entry(top.clone()).or_default().insert(home.to_owned());
            }
        }
    }
    imports
}

/// Modules that import each other in a circle, in order, if there are some.
fn cycle(imports: &Imports) -> Option<Vec<String>> {
    fn visit(
        at: &str,
        imports: &Imports,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<Vec<String>> {
        if let Some(start) = path.iter().position(|name| name == at) {
            return Some(path[start..].to_vec());
        }
        if done.contains(at) {
            return None;
        }
        path.push(at.to_owned());
        for next in imports.get(at).into_iter().flatten() {
            let found = visit(next, imports, path, done);
            if found.is_some() {
                return found;
            }
        }
        path.pop();
        done.insert(at.to_owned());
        None
    }
    let mut done = BTreeSet::new();
    imports.keys().find_map(|name| visit(name, imports, &mut Vec::new(), &mut done))
}

#[test]
fn kernels_import_one_way() {
    let imports = imports(&files(&source()));
    assert_eq!(cycle(&imports), None, "of {imports:#?}");
    for (above, below) in [("engine", "family"), ("family", "splitting"), ("splitting", "plan")] {
        assert!(imports[above].contains(below), "{above} is to import {below}: {imports:#?}");
    }
}

#[test]
fn planted_cycles_are_found() {
    let planted = |path: &str, line: &str| {
        let mut files = files(&source());
        let (_, text) =
            files.iter_mut().find(|(own, _)| own == Path::new(path)).expect("a file of the crate");
        text.push_str(line);
        cycle(&imports(&files))
    };
    for (path, line) in [
        ("plan.rs", "use crate::family::conv;"),
        ("plan.rs", "use crate::{Hardware, Kernel};"),
        ("plan.rs", "use super::engine::Engine;"),
        ("splitting/copy.rs", "fn f() { super::super::family::plan(); }"),
        ("wgsl.rs", "use crate::{\n    Hardware,\n    engine::{self, Engine},\n};"),
    ] {
        assert!(planted(path, line).is_some(), "{line} in {path}");
    }
    assert_eq!(planted("plan.rs", "// crate::family\nuse crate::hardware::Hardware;"), None);
}
