//! Cache of scratch buffers that several operations need: quantized activations, used by all weights they are multiplied with,
//! and the RoPE cos/sin table, used by every layer.
//!
//! A plan marks such launches ([`Step::cached`]). Their result depends on the kernel, the parameters and the memory that is
//! read, which the [`Key`] names by [`WriteVersion`](super::stream_sync::WriteVersion): versions are unique among all memories and
//! change before each write, so that rewritten or reallocated memory never matches. Nobody writes memory while an operation
//! reads it (the contract of views), so a version does not change between key and launch. If steps of one plan write different
//! things to one buffer, it is not cached.
//!
//! Each stream has its own cache with one entry per kernel. An entry in use is taken out and put back once the work that uses
//! it is submitted. Replaced buffers become scratch memory, whose next user follows in stream order.

use super::memory::{Memory, SizedMemory};
use super::stream_sync::{Submission, WriteVersion};
use crate::family::Plan;
use crate::plan::{Place, Step};
use crate::{Driver, Kernel};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Everything that the result of a launch depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    kernel: Kernel,
    parameters: SmallVec<[u32; 32]>,
    groups: [u32; 3],
    /// The memory it reads: version and byte range.
    read: SmallVec<[(WriteVersion, u64, u64); 2]>,
}

impl Key {
    /// The key of each scratch buffer of a plan that is to be cached: a [cached](Step::cached) step writes it, and no other
    /// writes anything else.
    pub(super) fn of_plan<D: Driver>(plan: &Plan, args: &[&Memory<D>]) -> SmallVec<[Option<Key>; 2]> {
        let mut keys: SmallVec<[Option<Key>; 2]> = plan.scratch.iter().map(|_| None).collect();
        if !plan.steps.iter().any(|step| step.cached) {
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

    /// The key of a [cached](Step::cached) step, which writes one scratch buffer and nothing else.
    fn of<D: Driver>(step: &Step<Kernel>, args: &[&Memory<D>]) -> Option<Key> {
        if !step.cached {
            return None;
        }
        let (mut read, mut writes) = (SmallVec::new(), 0);
        for binding in &step.bindings {
            match binding.place {
                Place::Arg(i) if !binding.writes => {
                    read.push((args[i].history.stamp(), binding.start, binding.end));
                }
                Place::Scratch(_) if binding.writes && writes == 0 => writes += 1,
                // It depends on more than arguments, or makes more than one buffer.
                _ => return None,
            }
        }
        let (kernel, parameters) = (step.kernel.clone(), step.parameters.clone());
        Some(Key { kernel, parameters, groups: step.groups, read })
    }
}

/// Cached scratch buffers.
pub(super) struct ScratchCache<D: Driver>(Mutex<Pieces<D>>);

/// Buffers by stream and kernel.
type Pieces<D> = HashMap<(usize, Kernel), (Key, SizedMemory<D>)>;

impl<D: Driver> Default for ScratchCache<D> {
    fn default() -> ScratchCache<D> {
        ScratchCache(Mutex::default())
    }
}

impl<D: Driver> ScratchCache<D> {
    /// Takes the buffer with this key, if the submission's stream has it.
    pub(super) fn take(&self, submission: &Submission<'_>, key: &Key) -> Option<SizedMemory<D>> {
        let mut pieces = self.lock();
        let place = (submission.stream(), key.kernel.clone());
        if pieces.get(&place)?.0 != *key {
            return None;
        }
        pieces.remove(&place).map(|(_, piece)| piece)
    }

    /// Stores the result of a launch of the submission's stream; returns what it replaces.
    pub(super) fn put(
        &self,
        submission: &Submission<'_>,
        key: Key,
        piece: SizedMemory<D>,
    ) -> Option<SizedMemory<D>> {
        let place = (submission.stream(), key.kernel.clone());
        self.lock().insert(place, (key, piece)).map(|(_, piece)| piece)
    }

    /// Removes everything; whether there was anything.
    pub(super) fn clear(&self) -> bool {
        let pieces = std::mem::take(&mut *self.lock());
        !pieces.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Pieces<D>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
