//! A download that goes on where it broke off, and is verified.

use crate::cache::{RepositoryCache, make_folder_of};
use crate::client::{Client, RemoteFile};
use crate::{Error, Result};
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How far a download is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file, by its path in the repository.
    pub file: &'a str,
    /// The bytes that are there.
    pub done: u64,
    /// All of them.
    pub total: u64,
}

/// Attempts in a row that bring nothing, after which it is given up.
const ATTEMPTS: u32 = 5;
/// Bytes between two reports.
const CHUNK: usize = 1 << 20;

/// Makes a content be there under its final name.
pub(crate) fn download(
    client: &Client,
    cache: &RepositoryCache,
    file: &RemoteFile,
    path: &str,
    pause: Duration,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<()> {
    let blob = cache.blob(file);
    let _lock = cache.lock(file)?;
    if blob.metadata().is_ok_and(|found| found.len() == file.bytes) {
        return Ok(());
    }
    make_folder_of(&blob)?;
    let incomplete = cache.incomplete(file);
    let failed = |source| Error::File { path: incomplete.clone(), source };
    let mut target = Target::open(&incomplete, file).map_err(failed)?;
    let resumed = target.len > 0;
    target.fetch(client, path, pause, progress)?;
    match target.verify() {
        // What an earlier attempt left may be what is wrong.
        Err(_) if resumed => {
            target.restart().map_err(failed)?;
            target.fetch(client, path, pause, progress)?;
            target.verify()
        }
        verified => verified,
    }
    .map_err(|found| {
        // It is of no use to anyone; if it cannot be removed, the next attempt does.
        let _ = fs::remove_file(&incomplete);
        Error::Hash { file: path.to_owned(), expected: file.etag.clone(), found }
    })?;
    target.data.sync_all().map_err(failed)?;
    drop(target);
    fs::rename(&incomplete, &blob).map_err(|source| Error::File { path: blob.clone(), source })
}

/// The file that a content is written to.
struct Target<'a> {
    file: &'a RemoteFile,
    path: &'a Path,
    data: File,
    len: u64,
    /// Of what is in it.
    hash: Sha256,
}

impl<'a> Target<'a> {
    /// What earlier attempts left, or an empty file.
    fn open(path: &'a Path, file: &'a RemoteFile) -> io::Result<Target<'a>> {
        let data = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut target = Target { file, path, data, len: 0, hash: Sha256::new() };
        let mut buffer = vec![0; CHUNK];
        loop {
            match target.data.read(&mut buffer)? {
                0 => break,
                n => target.count(&buffer[..n]),
            }
        }
        if target.len > file.bytes {
            target.restart()?;
        }
        Ok(target)
    }

    fn count(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.len += bytes.len() as u64;
    }

    fn restart(&mut self) -> io::Result<()> {
        self.data.set_len(0)?;
        self.data.rewind()?;
        (self.len, self.hash) = (0, Sha256::new());
        Ok(())
    }

    /// Reads until all is there, over as many connections as it takes.
    fn fetch(
        &mut self,
        client: &Client,
        path: &str,
        pause: Duration,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<()> {
        let total = self.file.bytes;
        let mut report = |done| progress(Progress { file: path, done, total });
        let mut in_vain = 0;
        report(self.len);
        while self.len < total {
            let before = self.len;
            let Err(error) = self.fetch_once(client, &mut report) else { continue };
            in_vain = if self.len > before { 0 } else { in_vain + 1 };
            if !error.is_transient() || in_vain == ATTEMPTS {
                return Err(error);
            }
            thread::sleep(pause * 2u32.pow(in_vain));
        }
        Ok(())
    }

    /// Reads over one connection, as much as comes.
    fn fetch_once(&mut self, client: &Client, report: &mut dyn FnMut(u64)) -> Result<()> {
        let (url, total, path) = (&self.file.url, self.file.bytes, self.path);
        let failed = |source| Error::File { path: path.to_owned(), source };
        let broken = |message: String| Error::Connection { url: url.clone(), message };
        let mut content = client.open(self.file, self.len)?;
        if content.start != self.len {
            self.restart().map_err(failed)?;
        }
        let mut reader = content.reader();
        let mut buffer = vec![0; CHUNK];
        while self.len < total {
            let wanted = buffer.len().min(usize::try_from(total - self.len).unwrap_or(usize::MAX));
            let n = match reader.read(&mut buffer[..wanted]) {
                Ok(0) => {
                    return Err(broken(format!("the connection ended after {} of {total} bytes", self.len)));
                }
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(broken(error.to_string())),
            };
            self.data.write_all(&buffer[..n]).map_err(failed)?;
            self.count(&buffer[..n]);
            report(self.len);
        }
        Ok(())
    }

    /// Fails, with the hash that was found, if it is not the one that the hub names. Small files have another kind of etag, and no hash here.
    fn verify(&self) -> Result<(), String> {
        let expected = &self.file.etag;
        if expected.len() != 64 || !expected.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(());
        }
        let found: String = self.hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if found.eq_ignore_ascii_case(expected) { Ok(()) } else { Err(found) }
    }
}
