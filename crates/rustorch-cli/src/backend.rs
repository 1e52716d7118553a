//! From `--backend` and `--threads` to an executor.

use crate::args::DeviceArgs;
use crate::failure::Failure;
use rustorch::runtime::HybridExecutor;

/// The executor that the options ask for.
pub(crate) fn executor(args: &DeviceArgs) -> Result<HybridExecutor, Failure> {
    rustorch::devices::executor(args.backend, args.threads).map_err(|e| Failure::Backend(e.to_string()))
}
