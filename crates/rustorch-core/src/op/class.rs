//! Classes of operations.

/// The class of an operation: the grain in which devices state what they can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum OpType {
    /// Filling and counting.
    Creation,
    /// Arithmetic on each element.
    Elementwise,
    /// Activation functions, GLUs and softmax.
    Activation,
    /// Comparison and selection.
    Comparison,
    /// Sums, extrema, scans.
    Reduction,
    /// Matmuls.
    LinearAlgebra,
    /// Convolutions and their gradients.
    Convolution,
    /// Normalisation of layers, channels and groups of channels.
    Normalization,
    /// Scaled dot-product attention, rotary position embedding, and recurrences in the place of attention.
    Attention,
    /// Gather, scatter, concatenation, padding.
    Indexing,
    /// Copies and conversions between dense dtypes.
    DataMovement,
    /// Dequantization and quantization.
    Quantization,
    /// Sorting and selection of extremes.
    Sorting,
    /// Random numbers.
    Distribution,
    /// Functions that only complex numbers have.
    ComplexMath,
    /// Pooling and interpolation: windows over spatial dimensions.
    Pooling,
    /// Factors of matrices, and what follows from them: solutions, inverses, determinants.
    Decomposition,
    /// Discrete Fourier transforms.
    Fourier,
    /// Operations that are not built in.
    Custom,
}

impl OpType {
    /// Every class.
    pub const ALL: &'static [OpType] = &[
        OpType::Creation,
        OpType::Elementwise,
        OpType::Activation,
        OpType::Comparison,
        OpType::Reduction,
        OpType::LinearAlgebra,
        OpType::Convolution,
        OpType::Normalization,
        OpType::Attention,
        OpType::Indexing,
        OpType::DataMovement,
        OpType::Quantization,
        OpType::Sorting,
        OpType::Distribution,
        OpType::ComplexMath,
        OpType::Pooling,
        OpType::Decomposition,
        OpType::Fourier,
        OpType::Custom,
    ];
}
