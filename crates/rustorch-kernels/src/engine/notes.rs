//! Where kernels note the caller's [`mistake`]s, and how they are found before any result goes to the host.

use super::Shared;
use super::memory::Memory;
use super::order::{Point, Turn};
use crate::driver::STREAMS;
use crate::{Driver, mistake};
use rustorch_core::Fault;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

const BYTES: usize = 4 * mistake::WORDS;

/// A buffer of mistakes for each stream, so that streams need not wait for each other.
pub(super) struct Notes<D: Driver> {
    streams: [OnceLock<Note<D>>; STREAMS],
    /// Held while notes are looked at: nobody gets a result while somebody else finds a mistake behind it.
    looking: Mutex<()>,
}

struct Note<D: Driver> {
    memory: Memory<D>,
    /// The first kernel that may have noted a mistake since the buffer was read.
    suspect: Mutex<Option<Point>>,
}

impl<D: Driver> Notes<D> {
    /// Notes for one stream.
    pub(super) fn new(shared: &Arc<Shared<D>>) -> Result<Notes<D>, Fault> {
        let notes = Notes { streams: Default::default(), looking: Mutex::default() };
        notes.grow(shared, 1)?;
        Ok(notes)
    }

    /// Notes for so many streams at least. No work is on its way, and none is given meanwhile.
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
    pub(super) fn memory(&self, turn: &Turn<'_>) -> &Memory<D> {
        &self.of(turn.stream()).memory
    }

    /// Notes that a kernel with the buffer was given to a turn's stream.
    pub(super) fn suspect(&self, turn: &Turn<'_>, point: Point) {
        let mut suspect = self.of(turn.stream()).lock();
        *suspect = Some(suspect.map_or(point, |first| first.earlier(point)));
    }

    /// Fails with the first mistake that was noted, since the last look, by kernels that what the turn's stream does next comes
    /// after.
    pub(super) fn check(&self, turn: &Turn<'_>) -> Result<(), Fault> {
        let suspects = || self.streams.iter().filter_map(OnceLock::get);
        if suspects().all(|note| note.lock().is_none()) {
            return Ok(());
        }
        let _looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        for note in suspects() {
            let taken = note.lock().take_if(|first| turn.follows(*first)).is_some();
            if taken {
                note.read(turn)?;
            }
        }
        Ok(())
    }

    fn of(&self, stream: usize) -> &Note<D> {
        self.streams[stream].get().expect("there are notes for every stream")
    }
}

impl<D: Driver> Note<D> {
    /// Reads the buffer, and empties it if there is something in it.
    fn read(&self, turn: &Turn<'_>) -> Result<(), Fault> {
        let mut words = [0u32; mistake::WORDS];
        let mut bytes = [0u8; BYTES];
        self.memory.read(turn, 0, &mut bytes)?;
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        match mistake::error(words) {
            None => Ok(()),
            Some(error) => {
                self.memory.write(turn, 0, &[0; BYTES])?;
                Err(error.into())
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Point>> {
        self.suspect.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
