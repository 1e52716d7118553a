//! What has to hold of a node besides its dtypes and ranks.

use super::Source;
use super::table::{CONV, POOL};
use std::fmt;

/// A condition on which an operation has a form. Displayed as the reason for which a node declines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Condition {
    /// Of an activation, or a step of a fused operation.
    HasForm,
    /// Of integers.
    SumFits,
    /// Of parameters that are written as `int32`.
    ParametersFit,
    /// Of a constant that is made for the program.
    MadeConstant,
    /// Of a reduction.
    ReducesAnAxis,
    /// Of a variance.
    FiniteVariance,
    /// Of a matmul with weights, or attention over a cache, of fewer bits.
    ExactNumerics,
    /// Of a norm that can train.
    Evaluation,
    /// Of attention.
    NoDropout,
    /// Of attention.
    NoLogSumExp,
    /// Of rotary position embedding.
    NoYarn,
    /// Of a convolution.
    DilatedWeightIsConstant,
    /// Of a transposed convolution.
    WeightIsConstant,
    /// Of a transposed convolution.
    NoOutputPadding,
    /// Of pooling.
    NoIndices,
    /// Of pooling.
    NoDilation,
    /// Of mean pooling.
    WindowsInside,
    /// Of adaptive pooling.
    EqualWindows,
}

impl Condition {
    /// What has to hold.
    pub fn requirement(self) -> &'static str {
        self.texts().0
    }

    /// What to do, if there is something.
    pub fn remedy(self) -> Option<&'static str> {
        self.texts().1
    }

    fn texts(self) -> (&'static str, Option<&'static str>) {
        const EVALUATE: Option<&str> = Some("switch the model to evaluation");
        match self {
            Condition::HasForm => ("its activation, or each of its steps, has a form", None),
            Condition::SumFits => (
                "the sum of integers is known to fit i32",
                Some("cast to f32 before, or sum what has known bounds"),
            ),
            Condition::ParametersFit => ("its parameters fit i32", None),
            Condition::MadeConstant => {
                ("the values, mask or frequencies that become a constant are at most 2²⁰", None)
            }
            Condition::ReducesAnAxis => ("an axis is reduced", None),
            Condition::FiniteVariance => ("there are more elements than the correction", None),
            Condition::ExactNumerics => {
                ("it does not round as ggml does", Some("capture with `Numerics::F32`"))
            }
            Condition::Evaluation => ("it is not in training", EVALUATE),
            Condition::NoDropout => ("there is no dropout", EVALUATE),
            Condition::NoLogSumExp => (
                "the log-sum-exp of gradients is not asked for",
                Some("capture the function without gradients"),
            ),
            Condition::NoYarn => ("there is no YaRN", None),
            Condition::DilatedWeightIsConstant => ("the weight is a constant, or there is no dilation", None),
            Condition::WeightIsConstant => ("the weight is a constant", None),
            Condition::NoOutputPadding => ("there is no output padding", None),
            Condition::NoIndices => ("nobody reads the indices of the largest", None),
            Condition::NoDilation => ("windows are not dilated", None),
            Condition::WindowsInside => (
                "no window sticks out (`ceil_mode`), or padding is not counted and there is no divisor",
                None,
            ),
            Condition::EqualWindows => ("all windows have one size", None),
        }
    }

    /// Where it is said, if it is a limit of Core ML.
    pub fn source(self) -> Option<Source> {
        match self {
            Condition::DilatedWeightIsConstant | Condition::WeightIsConstant => Some(CONV),
            Condition::NoIndices | Condition::NoDilation => Some(POOL),
            _ => None,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "has a form only if {}", self.requirement())?;
        self.remedy().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}
