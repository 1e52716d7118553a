//! Keeping others out during a run.

use super::program::Run;
use crate::storage::{ReadGuard, Storage, WriteClaim, WriteGuard};
use crate::sync::Backoff;
use smallvec::SmallVec;

/// What keeps others out during a run. Writing ends before the claims do.
#[derive(Default)]
pub(super) struct Guards<'a> {
    reading: SmallVec<[ReadGuard<'a>; 4]>,
    writing: SmallVec<[WriteGuard<'a>; 4]>,
    claims: SmallVec<[WriteClaim<'a>; 4]>,
}

impl<'a> Guards<'a> {
    /// Takes the guards for the whole run: everybody else is kept from writing what it reads, and from what it writes. These are none yet.
    ///
    /// There is no deadlock, by the rules of [`Storage`]'s guard: claims are taken first and in the order of addresses, all guards or none are
    /// held while it waits, and a run calls nothing that takes another one.
    #[inline]
    pub(super) fn take(&mut self, run: &Run<'a>) {
        let mut states: SmallVec<[&Storage; 4]> = SmallVec::new();
        if !run.states.is_empty() {
            states.extend(run.states);
            states.sort_unstable_by_key(|storage| storage.identity());
            self.claims.extend(states.iter().map(|storage| storage.claim()));
        }
        let mut wait = Backoff::default();
        while !self.try_take(run, &states) {
            // Writers take all or nothing, so that nobody waits for one who waits.
            self.reading.clear();
            self.writing.drain(..).for_each(WriteGuard::leave_unchanged);
            wait.pause();
        }
    }

    /// Takes guards as far as nobody is in the way: whether that was all of them.
    #[inline]
    fn try_take(&mut self, run: &Run<'a>, states: &[&'a Storage]) -> bool {
        for state in states {
            let Some(guard) = state.try_write() else { return false };
            self.writing.push(guard);
        }
        for storage in run.constants.iter().chain(run.inputs.iter().map(|input| input.storage)) {
            let Some(guard) = storage.try_read() else { return false };
            self.reading.push(guard);
        }
        true
    }

    /// Ends a run that has written to no state.
    pub(super) fn leave_unchanged(self) {
        self.writing.into_iter().for_each(WriteGuard::leave_unchanged);
    }
}
