//! Files that appear whole or not at all.

use rustorch_formats::AtomicFile;
use std::fs;
use std::io::Write;
use std::path::Path;

#[test]
fn replaces_on_commit_and_leaves_nothing_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("f");
    fs::write(&target, "old").unwrap();

    let mut file = AtomicFile::create(&target).unwrap();
    file.write_all(b"dropped").unwrap();
    drop(file);
    assert_eq!(fs::read(&target).unwrap(), b"old");

    let mut file = AtomicFile::create(&target).unwrap();
    file.write_all(b"new").unwrap();
    file.commit().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"new");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert!(AtomicFile::create(Path::new("/")).is_err());
}
