//! The cache of Hugging Face's programs: `blobs/HASH` are contents, `snapshots/COMMIT/PATH` links to them, and `refs/main` is a commit.

use crate::client::RemoteFile;
use crate::{Error, Result};
use hf_hub::{CacheRepo, Repo};
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

/// The part of the cache that belongs to one repository.
pub(crate) struct RepositoryCache {
    /// The cache as a whole.
    root: PathBuf,
    repo: Repo,
    cached: CacheRepo,
}

impl RepositoryCache {
    pub(crate) fn new(root: &Path, repository: &str) -> RepositoryCache {
        let repo = Repo::model(repository.to_owned());
        let cached = hf_hub::Cache::new(root.to_owned()).repo(repo.clone());
        RepositoryCache { root: root.to_owned(), repo, cached }
    }

    /// The files of the commit that the main branch was at when it was last looked at, by their paths in the repository, sorted.
    pub(crate) fn files(&self) -> Option<(String, Vec<String>)> {
        let main = self.root.join(self.repo.folder_name()).join("refs").join(self.repo.revision());
        let commit = fs::read_to_string(main).ok()?.trim().to_owned();
        let mut files = Vec::new();
        collect(&self.cached.pointer_path(&commit), "", &mut files);
        files.sort();
        Some((commit, files))
    }

    /// Notes which commit the main branch is at.
    pub(crate) fn set_commit(&self, commit: &str) -> Result<()> {
        let path = self.root.join(self.repo.folder_name()).join("refs").join(self.repo.revision());
        self.cached.create_ref(commit).map_err(|source| Error::File { path, source })
    }

    /// Where a file of a commit is, once it is there. `None` for a path that leads out of the repository.
    pub(crate) fn snapshot(&self, commit: &str, path: &str) -> Option<PathBuf> {
        let is_sound = |text: &str| {
            !text.contains('\\')
                && Path::new(text).components().all(|part| matches!(part, Component::Normal(_)))
        };
        let sound = is_sound(path) && is_sound(commit) && !commit.contains('/') && !commit.is_empty();
        sound.then(|| self.cached.pointer_path(commit).join(path))
    }

    /// Where a content is, once it is there.
    pub(crate) fn blob(&self, file: &RemoteFile) -> PathBuf {
        self.root.join(self.repo.folder_name()).join("blobs").join(&file.etag)
    }

    /// Where it is until then.
    pub(crate) fn incomplete(&self, file: &RemoteFile) -> PathBuf {
        self.blob(file).with_file_name(format!("{}.incomplete", file.etag))
    }

    /// Waits until nobody else downloads this content, and keeps others from it while the result lives.
    pub(crate) fn lock(&self, file: &RemoteFile) -> Result<File> {
        let path = self.root.join(".locks").join(self.repo.folder_name()).join(format!("{}.lock", file.etag));
        make_folder_of(&path)?;
        let locked = File::create(&path).and_then(|file| file.lock().map(|()| file));
        locked.map_err(|source| Error::File { path, source })
    }
}

/// Makes `link` lead to `blob`, by a path that stays true where the cache is moved; where the system has no links for this user, the content itself
/// goes there.
pub(crate) fn link(blob: &Path, link: &Path, depth: usize) -> Result<()> {
    make_folder_of(link)?;
    let failed = |source| Error::File { path: link.to_owned(), source };
    if fs::symlink_metadata(link).is_ok() {
        // It led to a content that is no longer there, or to that of another time.
        fs::remove_file(link).map_err(failed)?;
    }
    let name = blob.file_name().unwrap_or_default();
    let target = PathBuf::from("../".repeat(depth)).join("blobs").join(name);
    match make_link(&target, link) {
        // Another process was faster.
        Err(_) if link.is_file() => Ok(()),
        Err(error) if cfg!(unix) => Err(failed(error)),
        Err(_) => fs::rename(blob, link).map_err(failed),
        Ok(()) => Ok(()),
    }
}

#[cfg(unix)]
fn make_link(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn make_link(target: &Path, link: &Path) -> io::Result<()> {
    let target: PathBuf = target.components().collect();
    std::os::windows::fs::symlink_file(target, link)
}

#[cfg(not(any(unix, windows)))]
fn make_link(_target: &Path, _link: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes the folder that a file is to be in.
pub(crate) fn make_folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|source| Error::File { path: folder.to_owned(), source })
}

/// The files that are there below a folder, as paths with `/`.
fn collect(folder: &Path, prefix: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(name) = entry.file_name().to_str().map(|name| format!("{prefix}{name}")) else { continue };
        if path.is_dir() {
            collect(&path, &format!("{name}/"), files);
        } else if path.is_file() {
            files.push(name);
        }
    }
}
