//! Temporary data that outlives its operation, because the next one may need the same: activations that are rounded for one
//! weight serve those beside it, and cosines of positions serve every layer of a model.
//!
//! A plan says of which launches this is worth remembering ([`Step::kept`]). Such a launch is a function of the memory that it
//! reads, its kernel and its parameters, so what it made is found again by these: a [`Key`]. In it stands not the memory but
//! its [`Stamp`](super::order::Stamp), which is one of all memories and changes before anything is written there. Hence
//! memory that was written since, and memory that was freed and has come back, are found no more. Nobody writes memory while
//! an operation reads it, by the contract of views, so that a stamp does not change between key and launch. Where the parts of
//! an operation make something each in one piece of memory, nothing of it is kept, unless all make the same.
//!
//! Each stream has its own, one for each kernel, and whoever uses a piece has it alone: it is taken out of the table and put
//! back when the work that uses it is given. What is replaced goes to other temporary memory, whose next user comes after it
//! in the stream.

use super::memory::{Memory, Piece};
use super::order::{Stamp, Turn};
use crate::plan::{Place, Plan, Step};
use crate::{Driver, Kernel};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the result of a launch depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    kernel: Kernel,
    parameters: SmallVec<[u32; 32]>,
    groups: [u32; 3],
    /// What it reads: the state of the memory, and which of its bytes.
    read: SmallVec<[(Stamp, u64, u64); 2]>,
}

impl Key {
    /// For each piece of temporary memory of a plan, the key of what it is to hold, if it is worth keeping: if a step that is
    /// [kept](Step::kept) writes there, and no other one writes anything else.
    pub(super) fn of_plan<D: Driver>(plan: &Plan, args: &[&Memory<D>]) -> SmallVec<[Option<Key>; 2]> {
        let mut keys: SmallVec<[Option<Key>; 2]> = plan.scratch.iter().map(|_| None).collect();
        if !plan.steps.iter().any(|step| step.kept) {
            return keys;
        }
        let mut written: SmallVec<[bool; 2]> = SmallVec::from_elem(false, keys.len());
        for step in &plan.steps {
            let key = Key::of(step, args);
            for binding in step.bindings.iter().filter(|binding| binding.writes) {
                let Place::Scratch(i) = binding.place else { continue };
                if !std::mem::replace(&mut written[i], true) {
                    keys[i] = key.clone();
                } else if keys[i] != key {
                    keys[i] = None;
                }
            }
        }
        keys
    }

    /// The key of a step that is [kept](Step::kept). It writes one piece of temporary memory, and nothing else.
    fn of<D: Driver>(step: &Step, args: &[&Memory<D>]) -> Option<Key> {
        if !step.kept {
            return None;
        }
        let (mut read, mut writes) = (SmallVec::new(), 0);
        for binding in &step.bindings {
            match binding.place {
                Place::Arg(i) if !binding.writes => {
                    read.push((args[i].uses.stamp(), binding.start, binding.end));
                }
                Place::Scratch(_) if binding.writes && writes == 0 => writes += 1,
                // It depends on more than arguments, or makes more than one piece of memory.
                _ => return None,
            }
        }
        let (kernel, parameters) = (step.kernel.clone(), step.parameters.clone());
        Some(Key { kernel, parameters, groups: step.groups, read })
    }
}

/// The pieces that launches have made.
pub(super) struct Kept<D: Driver>(Mutex<Pieces<D>>);

/// Pieces by stream and kernel.
type Pieces<D> = HashMap<(usize, Kernel), (Key, Piece<D>)>;

impl<D: Driver> Default for Kept<D> {
    fn default() -> Kept<D> {
        Kept(Mutex::default())
    }
}

impl<D: Driver> Kept<D> {
    /// What a launch with this key has made on the turn's stream, if it is there.
    pub(super) fn take(&self, turn: &Turn<'_>, key: &Key) -> Option<Piece<D>> {
        let mut pieces = self.lock();
        let place = (turn.stream(), key.kernel.clone());
        if pieces.get(&place)?.0 != *key {
            return None;
        }
        pieces.remove(&place).map(|(_, piece)| piece)
    }

    /// Keeps what a launch makes that the turn's stream was given; returns what it replaces.
    pub(super) fn put(&self, turn: &Turn<'_>, key: Key, piece: Piece<D>) -> Option<Piece<D>> {
        let place = (turn.stream(), key.kernel.clone());
        self.lock().insert(place, (key, piece)).map(|(_, piece)| piece)
    }

    /// Forgets everything; whether there was something.
    pub(super) fn clear(&self) -> bool {
        let pieces = std::mem::take(&mut *self.lock());
        !pieces.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Pieces<D>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
