//! The policy whether kernels use subgroups.

use crate::{Hardware, Subgroups};
use rustorch_core::{Error, Result};

/// The variable that says it.
const VARIABLE: &str = "RUSTORCH_SUBGROUPS";

/// Whether kernels use subgroups on devices that have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SubgroupUse {
    /// On hardware, but not on software renderers, where shuffles go through memory.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl SubgroupUse {
    /// Reads the environment variable `RUSTORCH_SUBGROUPS`: `on` (or `1`), `off` (or `0`) or `auto`, the default.
    ///
    /// # Errors
    /// If it has another value.
    pub fn from_env() -> Result<SubgroupUse> {
        match std::env::var_os(VARIABLE) {
            None => Ok(SubgroupUse::Auto),
            Some(value) => SubgroupUse::parse(&value.to_string_lossy()),
        }
    }

    fn parse(value: &str) -> Result<SubgroupUse> {
        match value.trim() {
            "" | "auto" => Ok(SubgroupUse::Auto),
            "on" | "1" => Ok(SubgroupUse::On),
            "off" | "0" => Ok(SubgroupUse::Off),
            other => {
                let message = format!("{VARIABLE} is `{other}`; it takes auto, on or off");
                Err(Error::argument("environment", message))
            }
        }
    }

    /// The subgroups that kernels use of those that a device has.
    pub(crate) fn of(self, hardware: &Hardware) -> Option<Subgroups> {
        hardware.subgroups.filter(|_| match self {
            SubgroupUse::Auto => !hardware.software,
            SubgroupUse::On => true,
            SubgroupUse::Off => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read() {
        let parsed = |text| SubgroupUse::parse(text).map_err(|error| error.to_string());
        assert_eq!(parsed(" on "), Ok(SubgroupUse::On));
        assert_eq!(parsed("0"), Ok(SubgroupUse::Off));
        assert_eq!(parsed(""), Ok(SubgroupUse::Auto));
        let error = parsed("maybe").unwrap_err();
        assert!(error.contains("RUSTORCH_SUBGROUPS") && error.contains("auto, on or off"), "{error}");
    }
}
