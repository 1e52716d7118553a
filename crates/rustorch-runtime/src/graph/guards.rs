//! Keeping others out during a run.

use super::program::Run;
use crate::storage::{ReadGuard, Storage, WriteClaim, WriteGuard};
use crate::sync::Backoff;
use smallvec::SmallVec;

/// What keeps others out during a run. Writing ends before the claims do.
pub(super) struct Guards<'a> {
    _reading: SmallVec<[ReadGuard<'a>; 8]>,
    writing: SmallVec<[WriteGuard<'a>; 8]>,
    _claims: SmallVec<[WriteClaim<'a>; 8]>,
}

impl Guards<'_> {
    /// Ends a run that has written to no state.
    pub(super) fn leave_unchanged(self) {
        self.writing.into_iter().for_each(WriteGuard::leave_unchanged);
    }
}

impl<'a> Run<'a> {
    /// Guards for the whole run: everybody else is kept from writing what it reads, and from what it writes.
    ///
    /// There is no deadlock, by the rules of [`Storage`]'s guard: claims are taken first and in the order of addresses, all guards or none are
    /// held while it waits, and a run calls nothing that takes another one.
    pub(super) fn guards(&self) -> Guards<'a> {
        let mut states: SmallVec<[&Storage; 4]> = self.states.iter().collect();
        states.sort_unstable_by_key(|storage| storage.identity());
        let claims: SmallVec<[WriteClaim<'_>; 8]> = states.iter().map(|storage| storage.claim()).collect();
        let read = || self.constants.iter().chain(self.inputs.iter().map(|input| input.storage));
        let mut wait = Backoff::default();
        loop {
            // Writers take all or nothing, so that nobody waits for one who waits.
            let writing: SmallVec<[WriteGuard<'_>; 8]> =
                states.iter().map_while(|storage| storage.try_write()).collect();
            if writing.len() == states.len()
                && let Some(reading) =
                    read().map(Storage::try_read).collect::<Option<SmallVec<[ReadGuard<'_>; 8]>>>()
            {
                return Guards { _reading: reading, writing, _claims: claims };
            }
            writing.into_iter().for_each(WriteGuard::leave_unchanged);
            wait.pause();
        }
    }
}
