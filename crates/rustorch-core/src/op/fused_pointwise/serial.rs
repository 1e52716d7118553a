//! Fused ops as data: they are put together again by their builder, so that they are valid.

use super::{FusedConstant, FusedPointwise, FusedValue, wrong};
use crate::{Op, Result};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use smallvec::SmallVec;
use std::borrow::Cow;

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Data<'a> {
    inputs: usize,
    #[serde(default, skip_serializing_if = "is_empty")]
    constants: Cow<'a, [FusedConstant]>,
    steps: Vec<Step<'a>>,
}

fn is_empty(constants: &[FusedConstant]) -> bool {
    constants.is_empty()
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Step<'a> {
    op: Cow<'a, Op>,
    args: SmallVec<[FusedValue; 3]>,
}

impl Serialize for FusedPointwise {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let steps = self.steps().iter();
        let steps = steps.map(|step| Step { op: Cow::Borrowed(step.op()), args: step.args().into() });
        let constants = Cow::Borrowed(self.constants());
        Data { inputs: self.inputs(), constants, steps: steps.collect() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FusedPointwise {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FusedPointwise, D::Error> {
        Data::deserialize(deserializer)?.build().map_err(de::Error::custom)
    }
}

impl Data<'_> {
    fn build(self) -> Result<FusedPointwise> {
        // The builder looks for each among those before it.
        let most_constants = FusedPointwise::MAX_STEPS * 3;
        if self.constants.len() > most_constants {
            return Err(wrong(format!(
                "has {most_constants} constants at most, not {}",
                self.constants.len()
            )));
        }
        let mut fused = FusedPointwise::builder(self.inputs)?;
        let mut constants = Vec::with_capacity(self.constants.len());
        for constant in self.constants.iter() {
            constants.push(fused.constant(constant.value, constant.dtype)?);
        }
        // The builder's own numbers, which are others where a step or a constant is there twice.
        let mut steps = Vec::new();
        for step in self.steps {
            let args = step.args.iter().map(|&arg| {
                let known = match arg {
                    FusedValue::Input(i) => return fused.input(i),
                    FusedValue::Constant(i) => constants.get(i),
                    FusedValue::Step(i) => steps.get(i),
                };
                known.copied().ok_or_else(|| {
                    wrong(format!("step {} reads {arg:?}, which is not before it", steps.len()))
                })
            });
            let args = args.collect::<Result<SmallVec<[FusedValue; 3]>>>()?;
            steps.push(fused.step(step.op.into_owned(), &args)?);
            if steps.len() > FusedPointwise::MAX_STEPS {
                return Err(wrong(format!("has {} steps at most", FusedPointwise::MAX_STEPS)));
            }
        }
        match steps.last() {
            Some(&last) => fused.finish(last),
            None => Err(wrong("has no step".into())),
        }
    }
}
