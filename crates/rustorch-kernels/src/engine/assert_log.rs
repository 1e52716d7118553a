//! The log of failed device asserts, checked before any result reaches the host.

use super::Shared;
use super::memory::Memory;
use super::stream_sync::{Submission, TimelinePoint};
use crate::driver::STREAMS;
use crate::{Driver, device_assert};
use rustorch_core::Fault;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

const BYTES: usize = 4 * device_assert::WORDS;

/// One log buffer per stream, so that streams do not wait for each other.
pub(super) struct AssertLog<D: Driver> {
    streams: [OnceLock<Note<D>>; STREAMS],
    /// Held while the log is read: no result is returned while another thread finds an assert that precedes it.
    looking: Mutex<()>,
}

struct Note<D: Driver> {
    memory: Memory<D>,
    /// The first launch that may have failed an assert since the buffer was read.
    suspect: Mutex<Option<TimelinePoint>>,
}

impl<D: Driver> AssertLog<D> {
    /// A log for one stream.
    pub(super) fn new(shared: &Arc<Shared<D>>) -> Result<AssertLog<D>, Fault> {
        let assert_log = AssertLog { streams: Default::default(), looking: Mutex::default() };
        assert_log.grow(shared, 1)?;
        Ok(assert_log)
    }

    /// Adds buffers for more streams. No work is in flight, and none is submitted meanwhile.
    pub(super) fn grow(&self, shared: &Arc<Shared<D>>, streams: usize) -> Result<(), Fault> {
        for place in &self.streams[..streams] {
            if place.get().is_none() {
                let memory = Memory::new(shared, shared.driver.allocate(BYTES)?);
                shared.driver.write(memory.raw(), 0, &[0; BYTES])?;
                // Its uses say nothing of this write, so it must be done before another stream comes.
                shared.driver.finish()?;
                let _ = place.set(Note { memory, suspect: Mutex::default() });
            }
        }
        Ok(())
    }

    /// The buffer for kernels of a turn's stream.
    pub(super) fn memory(&self, submission: &Submission<'_>) -> &Memory<D> {
        &self.of(submission.stream()).memory
    }

    /// Records that a kernel with asserts was submitted.
    pub(super) fn suspect(&self, submission: &Submission<'_>, point: TimelinePoint) {
        let mut suspect = self.of(submission.stream()).lock();
        *suspect = Some(suspect.map_or(point, |first| first.earlier(point)));
    }

    /// Fails with the first failed assert, since the last check, of launches that precede the stream's next command.
    pub(super) fn check(&self, submission: &Submission<'_>) -> Result<(), Fault> {
        let suspects = || self.streams.iter().filter_map(OnceLock::get);
        if suspects().all(|note| note.lock().is_none()) {
            return Ok(());
        }
        let _looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        for note in suspects() {
            let taken = note.lock().take_if(|first| submission.follows(*first)).is_some();
            if taken {
                note.read(submission)?;
            }
        }
        Ok(())
    }

    fn of(&self, stream: usize) -> &Note<D> {
        self.streams[stream].get().expect("there are assert_log for every stream")
    }
}

impl<D: Driver> Note<D> {
    /// Reads the buffer, and empties it if there is something in it.
    fn read(&self, submission: &Submission<'_>) -> Result<(), Fault> {
        let mut words = [0u32; device_assert::WORDS];
        let mut bytes = [0u8; BYTES];
        self.memory.read(submission, 0, &mut bytes)?;
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        match device_assert::error(words) {
            None => Ok(()),
            Some(error) => {
                self.memory.write(submission, 0, &[0; BYTES])?;
                Err(error.into())
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<TimelinePoint>> {
        self.suspect.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
