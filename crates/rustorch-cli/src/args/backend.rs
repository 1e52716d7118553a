//! The values of `--backend`.

use clap::builder::TypedValueParser;
use rustorch::coreml::runtime::ComputeUnits;
use rustorch::{DeviceType, Numerics};
use std::fmt;
use std::str::FromStr;

/// What `--backend` names: a device or a policy, and for `hybrid-f32` the numerics of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackendName {
    pub(crate) device: DeviceType,
    pub(crate) numerics: Option<Numerics>,
}

/// `hybrid` with [`Numerics::F32`].
const HYBRID_F32: &str = "hybrid-f32";

impl FromStr for BackendName {
    type Err = rustorch::Error;

    fn from_str(text: &str) -> Result<BackendName, rustorch::Error> {
        if [HYBRID_F32, "hybrid_f32"].iter().any(|name| text.trim().eq_ignore_ascii_case(name)) {
            return Ok(BackendName { device: DeviceType::Hybrid, numerics: Some(Numerics::F32) });
        }
        Ok(BackendName { device: text.parse()?, numerics: None })
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.numerics {
            None => self.device.fmt(f),
            Some(_) => f.pad(HYBRID_F32),
        }
    }
}

/// The values of `--numerics`.
pub(super) fn numerics() -> impl TypedValueParser<Value = Numerics> {
    // Every name is one of them.
    clap::builder::PossibleValuesParser::new(Numerics::ALL.iter().map(|numerics| numerics.name()))
        .try_map(|name| name.parse::<Numerics>())
}

/// The values of `--coreml-units`.
pub(super) fn compute_units() -> impl TypedValueParser<Value = ComputeUnits> {
    // Every name is one of them.
    clap::builder::PossibleValuesParser::new(ComputeUnits::names())
        .try_map(|name| name.parse::<ComputeUnits>())
}

pub(super) fn backend() -> impl TypedValueParser<Value = BackendName> {
    #[derive(Clone)]
    struct Parser;
    impl TypedValueParser for Parser {
        type Value = BackendName;

        fn parse_ref(
            &self,
            cmd: &clap::Command,
            arg: Option<&clap::Arg>,
            value: &std::ffi::OsStr,
        ) -> Result<BackendName, clap::Error> {
            let parse = |text: &str| text.parse::<BackendName>().map_err(|e| e.to_string());
            clap::builder::StringValueParser::new()
                .try_map(move |text| parse(&text))
                .parse_ref(cmd, arg, value)
        }

        fn possible_values(&self) -> Option<Box<dyn Iterator<Item = clap::builder::PossibleValue> + '_>> {
            let names = DeviceType::names().into_iter().chain([HYBRID_F32]);
            Some(Box::new(names.map(clap::builder::PossibleValue::new)))
        }
    }
    Parser
}
