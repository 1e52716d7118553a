//! What a prediction is given, and what is wrong with it.

use super::{Feature, ModelState, Signature};
use rustorch_core::DType;
use std::fmt;

/// An input of a prediction: a contiguous array.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    /// `F16`, `F32` or `I32`.
    pub dtype: DType,
    /// One dimension at least.
    pub dims: &'a [usize],
    /// The elements in row-major order and the machine's byte order.
    pub bytes: &'a [u8],
}

/// Where a prediction writes an output.
#[derive(Debug)]
pub struct ArrayMut<'a> {
    /// As of [`Array`].
    pub dtype: DType,
    /// As of [`Array`].
    pub dims: &'a [usize],
    /// As of [`Array`].
    pub bytes: &'a mut [u8],
}

impl ArrayMut<'_> {
    fn as_array(&self) -> Array<'_> {
        Array { dtype: self.dtype, dims: self.dims, bytes: self.bytes }
    }
}

impl Feature {
    /// An array that has its dtype and shape.
    pub fn array<'a>(&'a self, bytes: &'a [u8]) -> Array<'a> {
        Array { dtype: self.dtype, dims: &self.dims, bytes }
    }

    /// As [`array`](Self::array), to be written.
    pub fn array_mut<'a>(&'a self, bytes: &'a mut [u8]) -> ArrayMut<'a> {
        ArrayMut { dtype: self.dtype, dims: &self.dims, bytes }
    }
}

/// What is wrong with the arguments of a prediction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// There are more or fewer than the program has.
    #[error("{given} {what} are given, and the program has {}: {}; give one for each, in this order", wanted.len(), wanted.join(", "))]
    Count {
        /// `inputs` or `outputs`.
        what: &'static str,
        /// How many are given.
        given: usize,
        /// The names of those that the program has.
        wanted: Vec<String>,
    },
    /// The dtype is another one.
    #[error("{name} is given as {given}, and the program has {wanted}; convert it before")]
    DType {
        /// Of which input or output.
        name: String,
        /// Its dtype.
        given: DType,
        /// That of the program.
        wanted: DType,
    },
    /// The shape is another one.
    #[error(
        "{name} is given with shape {given:?}, and the program has {wanted:?}; reshape or pad it, or export the function for this shape"
    )]
    Shape {
        /// Of which input or output.
        name: String,
        /// Its shape.
        given: Vec<usize>,
        /// That of the program.
        wanted: Vec<usize>,
    },
    /// The bytes are not those of the dtype and shape.
    #[error("{name} takes {wanted} bytes, and {given} are given; arrays are contiguous")]
    Bytes {
        /// Of which input or output.
        name: String,
        /// How many are given.
        given: usize,
        /// How many dtype and shape take.
        wanted: usize,
    },
    /// The program has states, and is given none.
    #[error("the program has states ({}), and is given none; give what `new_state` makes, and the same again in the next prediction", .0.join(", "))]
    MissingState(Vec<String>),
    /// The program has no states, and is given some.
    #[error("the program has no states, and is given some; give none")]
    UnexpectedState,
    /// The states are another package's, or those of a function that has other ones.
    #[error(
        "the states are those of another package, of a function with other states, or of other compute units; give what `new_state` of this program makes"
    )]
    OtherState,
    /// A prediction with the states failed.
    #[error("a prediction with these states failed and may have changed them; begin with new ones")]
    SpoiledState,
    /// The program has no state of this number.
    #[error("there is no state {number}; the program has {count}")]
    NoSuchState {
        /// The number that is given.
        number: usize,
        /// How many states there are.
        count: usize,
    },
    /// A value is beyond those that the program was made for.
    #[error("{name} holds {value}, and the program is for 0 to {}; {}", below.saturating_sub(1), Remedy(name))]
    Value {
        /// Of which input.
        name: String,
        /// The value.
        value: i32,
        /// Values are below this.
        below: u32,
    },
}

/// What to do about a value of an input of a language model, or of another program.
struct Remedy<'a>(&'a str);

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            "position" => "begin with position 0 and new states, or export the model with a larger --context",
            "token" => "tokenize by the model's own tokenizer",
            _ => "give smaller values, or export the function for them",
        })
    }
}

impl Signature {
    /// That an array of the right dtype and shape is given for each input and output, no value that the program is not made for, and states where it has
    /// some. A program itself raises no errors: it would compute something else, or NaN.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn check(
        &self,
        inputs: &[Array<'_>],
        state: Option<&ModelState>,
        outputs: &[ArrayMut<'_>],
    ) -> Result<(), ArgumentError> {
        match (state, &self.states[..]) {
            (None, [_, ..]) => return Err(ArgumentError::MissingState(names(&self.states))),
            (Some(_), []) => return Err(ArgumentError::UnexpectedState),
            (Some(state), own) if !state.is_of(own) => return Err(ArgumentError::OtherState),
            _ => {}
        }
        count("inputs", inputs.len(), &self.inputs)?;
        count("outputs", outputs.len(), &self.outputs)?;
        for (feature, given) in self.inputs.iter().zip(inputs) {
            fits(feature, *given)?;
            values_fit(feature, given.bytes)?;
        }
        self.outputs.iter().zip(outputs).try_for_each(|(feature, given)| fits(feature, given.as_array()))
    }

    /// The state of a number, which takes so many bytes.
    ///
    /// # Errors
    /// If there is none, it takes others, or the states are another program's.
    pub fn check_state(
        &self,
        state: &ModelState,
        number: usize,
        bytes: usize,
    ) -> Result<&Feature, ArgumentError> {
        let count = self.states.len();
        let feature = self.states.get(number).ok_or(ArgumentError::NoSuchState { number, count })?;
        if !state.is_of(&self.states) {
            return Err(ArgumentError::OtherState);
        }
        if bytes != feature.bytes() {
            let (name, wanted) = (feature.name.clone(), feature.bytes());
            return Err(ArgumentError::Bytes { name, given: bytes, wanted });
        }
        Ok(feature)
    }
}

fn count(what: &'static str, given: usize, features: &[Feature]) -> Result<(), ArgumentError> {
    if given == features.len() {
        return Ok(());
    }
    Err(ArgumentError::Count { what, given, wanted: names(features) })
}

fn names(features: &[Feature]) -> Vec<String> {
    features.iter().map(|feature| feature.name.clone()).collect()
}

fn fits(feature: &Feature, given: Array<'_>) -> Result<(), ArgumentError> {
    let name = feature.name.clone();
    if given.dtype != feature.dtype {
        return Err(ArgumentError::DType { name, given: given.dtype, wanted: feature.dtype });
    }
    if given.dims != feature.dims {
        return Err(ArgumentError::Shape { name, given: given.dims.to_vec(), wanted: feature.dims.clone() });
    }
    if given.bytes.len() != feature.bytes() {
        return Err(ArgumentError::Bytes { name, given: given.bytes.len(), wanted: feature.bytes() });
    }
    Ok(())
}

/// That integers are below the bound of their input.
fn values_fit(feature: &Feature, bytes: &[u8]) -> Result<(), ArgumentError> {
    let (Some(below), DType::I32) = (feature.below, feature.dtype) else { return Ok(()) };
    let mut values = crate::float::words(bytes, i32::from_ne_bytes).into_iter();
    match values.find(|&value| u32::try_from(value).map_or(true, |value| value >= below)) {
        Some(value) => Err(ArgumentError::Value { name: feature.name.clone(), value, below }),
        None => Ok(()),
    }
}
