//! Which states a run has written to when it fails.

use crate::storage::Storage;
use rustorch_core::Error;

/// The states that a run may have written to where they are.
pub(super) struct StateWrites<'a> {
    states: &'a [Storage],
    /// By state: its version before the run came to write to it.
    before: Vec<Option<u64>>,
}

impl<'a> StateWrites<'a> {
    /// Of a run that has written to none of these yet.
    pub(super) fn new(states: &'a [Storage]) -> StateWrites<'a> {
        StateWrites { states, before: vec![None; states.len()] }
    }

    /// Notes that the run is about to write to a state.
    pub(super) fn expect(&mut self, state: usize) {
        self.before[state].get_or_insert_with(|| self.states[state].version());
    }

    /// The states that were written to, wholly or in part.
    pub(super) fn written(&self) -> Vec<usize> {
        let is_written =
            |&state: &usize| self.before[state].is_some_and(|before| self.states[state].version() != before);
        (0..self.states.len()).filter(is_written).collect()
    }

    /// The error of a run that failed so.
    pub(super) fn after(&self, error: Error) -> Error {
        after(error, self.written())
    }
}

/// The error of a run that failed when it had written to these states.
pub(super) fn after(error: Error, states: Vec<usize>) -> Error {
    match states.is_empty() {
        true => error,
        false => Error::StatesWritten { states, error: Box::new(error) },
    }
}
