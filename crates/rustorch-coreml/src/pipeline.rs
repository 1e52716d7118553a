//! A file that is hashed, written and flushed to the disk by threads of their own, while who writes it makes the next bytes.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

/// The bytes of a buffer.
const BUFFER: usize = 1 << 18;
/// How many buffers wait for a thread.
const WAITING: usize = 8;
/// After so many bytes the disk is asked to have them, so that little is left to wait for at the end.
const SYNCED: usize = 64 << 20;

/// Writes a file of what `make` makes, and returns its SHA-256 when the disk has it.
///
/// # Errors
/// That of the file, or of `make`, into which `from_io` turns the former.
pub(crate) fn write_hashed<E>(
    file: &File,
    from_io: impl Fn(io::Error) -> E,
    make: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    scope(|scope| {
        let (to_hash, hashed) = sync_channel(WAITING);
        let (to_write, written) = sync_channel(WAITING);
        let (give_back, spare) = channel();
        let (to_sync, synced) = sync_channel(1);
        let hasher = spawn(scope, "hash", move || hash(&hashed, &to_write)).map_err(&from_io)?;
        let writer = spawn(scope, "write", move || write(file, &written, &give_back, &to_sync));
        let syncer = spawn(scope, "sync", move || synced.iter().try_for_each(|()| file.sync_data()));
        let (writer, syncer) = (writer.map_err(&from_io)?, syncer.map_err(&from_io)?);
        let mut out = Buffers { buffer: Vec::with_capacity(BUFFER), to_hash, spare };
        let made = make(&mut out);
        let sent = out.flush();
        drop(out);
        let (hash, written, synced) = (join(hasher), join(writer), join(syncer));
        // If the disk fails, that is why `make` did.
        written.and(synced).map_err(&from_io)?;
        made?;
        sent.and_then(|()| file.sync_all()).map_err(&from_io)?;
        Ok(hash)
    })
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    what: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().name(format!("rustorch-coreml-{what}")).spawn_scoped(scope, work)
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn hash(buffers: &Receiver<Vec<u8>>, next: &SyncSender<Vec<u8>>) -> Vec<u8> {
    let mut hash = Sha256::new();
    for buffer in buffers {
        hash.update(&buffer);
        if next.send(buffer).is_err() {
            break;
        }
    }
    hash.finalize().to_vec()
}

fn write(
    mut file: &File,
    buffers: &Receiver<Vec<u8>>,
    give_back: &Sender<Vec<u8>>,
    sync: &SyncSender<()>,
) -> io::Result<()> {
    let mut since = 0;
    for mut buffer in buffers {
        file.write_all(&buffer)?;
        since += buffer.len();
        // While it is at it already, later ones will do.
        if since >= SYNCED && sync.try_send(()).is_ok() {
            since = 0;
        }
        buffer.clear();
        // At the end nobody takes it.
        let _ = give_back.send(buffer);
    }
    Ok(())
}

/// Gathers what is written, and hands it on.
struct Buffers {
    buffer: Vec<u8>,
    to_hash: SyncSender<Vec<u8>>,
    /// Those that have been written.
    spare: Receiver<Vec<u8>>,
}

impl Write for Buffers {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(BUFFER - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == BUFFER {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let next = self.spare.try_recv().unwrap_or_else(|_| Vec::with_capacity(BUFFER));
        let full = mem::replace(&mut self.buffer, next);
        self.to_hash.send(full).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
