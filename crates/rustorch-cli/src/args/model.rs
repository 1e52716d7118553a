//! Which model, and where it runs.

use super::backend::{BackendName, backend, compute_units, numerics};
use super::values::{layers, size, threads};
use clap::Args;
use rustorch::Numerics;
use rustorch::coreml::runtime::ComputeUnits;
use rustorch_hub::ModelName;
use std::path::PathBuf;

/// Which model.
#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    /// The model file; of a split model, any part; or a folder of Hugging Face's transformers [default: the embedded model]
    #[arg(short, long, value_name = "FILE.gguf")]
    pub(crate) model: Option<PathBuf>,
    /// A model of Hugging Face's hub, downloaded unless it is in the cache; also -hf
    #[arg(long, value_name = "REPO[:QUANT]", conflicts_with = "model")]
    pub(crate) hf_repo: Option<ModelName>,
    /// Read the whole file into memory instead of mapping it: where it may change while the program runs. Also done where the CPU
    /// computes on Linux and half of the free memory holds the file, since memory that is read has larger pages
    #[arg(long)]
    pub(crate) no_mmap: bool,
    /// Map the file whatever memory is free: processes share it, and the first token comes before all of it is read
    #[arg(long, conflicts_with = "no_mmap")]
    pub(crate) mmap: bool,
}

impl ModelArgs {
    /// Whether nothing else is named.
    pub(crate) fn is_embedded(&self) -> bool {
        self.model.is_none() && self.hf_repo.is_none()
    }
}

/// Where it runs.
#[derive(Args, Debug)]
pub(crate) struct DeviceArgs {
    /// The device to compute on: a name, with an index where there are several (cuda:1)
    #[arg(short, long, value_name = "DEVICE", default_value = "auto", value_parser = backend())]
    pub(crate) backend: BackendName,
    /// How a model rounds: as llama.cpp, to its bits on the CPU (ggml); activations as llama.cpp, sums in the fastest order, which
    /// reads prompts faster on the CPU (fast); not at all beyond f32 (f32) [default: ggml]
    #[arg(long, value_name = "NUMERICS", value_parser = numerics())]
    pub(crate) numerics: Option<Numerics>,
    /// Threads that compute on the CPU, at most as many as the system runs at once [default: one for each physical core]
    #[arg(short, long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Layers whose weights go to the device, from the first; the rest stays on the CPU [default: all that fit]
    #[arg(long, value_name = "N", aliases = ["n-gpu-layers", "gpu-layers"], value_parser = layers, allow_negative_numbers = true)]
    pub(crate) layers_on_device: Option<usize>,
    /// Memory of the device for weights, such as 6G or 500M [default: all of it]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) device_memory: Option<u64>,
    /// Which compute units Core ML may use, where it is among the devices [default: all]
    #[arg(long, value_name = "UNITS", value_parser = compute_units())]
    pub(crate) coreml_units: Option<ComputeUnits>,
    /// Let Core ML compute in f16, without which its programs do not reach the Neural Engine
    #[arg(long)]
    pub(crate) allow_f16: bool,
    /// Decode by the plain decoder, one operation after another, instead of a captured graph: the same tokens, to compare with
    #[arg(long)]
    pub(crate) eager: bool,
}
