//! Compute units: which Core ML may use, and which it says that it prefers.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The compute units that Core ML is allowed to use. Which it uses is its own choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComputeUnits {
    /// All that there are.
    #[default]
    All,
    /// The CPU.
    Cpu,
    /// The CPU and the GPU.
    CpuAndGpu,
    /// The CPU and the Neural Engine.
    CpuAndNeuralEngine,
}

impl ComputeUnits {
    /// All of them, in the order of [`names`](Self::names).
    pub const ALL: [ComputeUnits; 4] =
        [ComputeUnits::All, ComputeUnits::Cpu, ComputeUnits::CpuAndGpu, ComputeUnits::CpuAndNeuralEngine];

    /// Its name, as `--coreml-units` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            ComputeUnits::All => "all",
            ComputeUnits::Cpu => "cpu",
            ComputeUnits::CpuAndGpu => "cpu-and-gpu",
            ComputeUnits::CpuAndNeuralEngine => "cpu-and-neural-engine",
        }
    }

    /// Every name.
    pub fn names() -> [&'static str; 4] {
        ComputeUnits::ALL.map(ComputeUnits::name)
    }
}

impl fmt::Display for ComputeUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ComputeUnits {
    type Err = String;

    fn from_str(text: &str) -> Result<ComputeUnits, String> {
        let found =
            ComputeUnits::ALL.into_iter().find(|units| units.name().eq_ignore_ascii_case(text.trim()));
        found.ok_or_else(|| {
            format!("`{text}` names no compute units; there is {}", ComputeUnits::names().join(", "))
        })
    }
}

/// Which part of a program's estimated cost each compute unit is preferred for, by Core ML's own plan. It says nothing of where operations
/// run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanShares {
    /// Of the CPU, from 0 to 1.
    pub cpu: f64,
    /// Of the GPU.
    pub gpu: f64,
    /// Of the Neural Engine.
    pub neural_engine: f64,
}

impl fmt::Display for PlanShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| (100.0 * share).round();
        write!(
            f,
            "CPU {} %, GPU {} %, Neural Engine {} %",
            percent(self.cpu),
            percent(self.gpu),
            percent(self.neural_engine)
        )
    }
}
