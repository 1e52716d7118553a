//! What a program's states hold between predictions.

use super::{ArgumentError, Feature, RuntimeError, Signature};
use std::any::Any;
use std::fmt;

/// What the states of a loaded function hold, from one prediction to the next: [`LoadedModel::new_state`](super::LoadedModel::new_state) makes it. It stays where
/// the runtime has it. Other functions of the package that have the same states take it, too: `prompt_64` and `decode` of a language model share a cache.
pub struct ModelState {
    features: Vec<Feature>,
    held: Box<dyn Any + Send>,
    /// Whether a prediction failed that may have changed it.
    is_spoiled: bool,
}

impl ModelState {
    /// What a runtime has of the states of a function with this signature.
    pub fn new(signature: &Signature, held: impl Any + Send) -> ModelState {
        ModelState { features: signature.states.clone(), held: Box::new(held), is_spoiled: false }
    }

    /// Whether a function has these states, in whatever order.
    pub(super) fn is_of(&self, states: &[Feature]) -> bool {
        self.features.len() == states.len() && states.iter().all(|state| self.features.contains(state))
    }

    /// Gives a prediction, or what reads or writes a state, what the runtime has, which is a `T`. Where it fails, nobody knows what the states hold, and no other one is given them.
    ///
    /// # Errors
    /// That of the prediction; [`ArgumentError::OtherState`] if it is no `T`, or [`ArgumentError::SpoiledState`].
    pub fn update<T: Any, R>(
        &mut self,
        predict: impl FnOnce(&mut T) -> Result<R, RuntimeError>,
    ) -> Result<R, RuntimeError> {
        if self.is_spoiled {
            return Err(ArgumentError::SpoiledState.into());
        }
        let held = self.held.downcast_mut().ok_or(ArgumentError::OtherState)?;
        let result = predict(held);
        self.is_spoiled = result.as_ref().is_err_and(|error| !matches!(error, RuntimeError::Arguments(_)));
        result
    }
}

impl fmt::Debug for ModelState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelState").field("is_spoiled", &self.is_spoiled).finish_non_exhaustive()
    }
}
