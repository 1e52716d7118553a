//! What can go wrong between tensors and files.

/// The result of loading or saving tensors.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of loading or saving tensors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor could not be made of what a file holds, or its values could not be had.
    #[error(transparent)]
    Tensor(#[from] crate::Error),
    /// A Core ML package.
    #[cfg(feature = "coreml")]
    #[error(transparent)]
    CoreMl(#[from] rustorch_coreml::Error),
    /// An IDX file.
    #[cfg(feature = "idx")]
    #[error(transparent)]
    Idx(#[from] rustorch_formats::idx::Error),
    /// A `.npy` or `.npz` file.
    #[cfg(feature = "numpy")]
    #[error(transparent)]
    Numpy(#[from] rustorch_formats::numpy::Error),
    /// A safetensors file.
    #[cfg(feature = "safetensors")]
    #[error(transparent)]
    Safetensors(#[from] rustorch_formats::safetensors::Error),
    /// A checkpoint that is damaged, or a file that is none.
    #[cfg(all(feature = "nn", feature = "safetensors"))]
    #[error("{}: {what}", path.display())]
    Checkpoint {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A graph in a safetensors file.
    #[cfg(feature = "safetensors")]
    #[error(transparent)]
    Graph(#[from] rustorch_formats::graph::Error),
    /// A PyTorch file.
    #[cfg(feature = "torch")]
    #[error(transparent)]
    Torch(#[from] rustorch_formats::torch::Error),
}
