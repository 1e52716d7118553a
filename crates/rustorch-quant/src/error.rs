use rustorch_core::QuantType;

/// Why blocks could not be read or written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantError {
    /// The byte slice is not a whole number of blocks.
    #[error("{bytes} bytes are no whole number of {quant} blocks, which take {} bytes each", quant.block_bytes())]
    PartialBlock {
        /// The block type.
        quant: QuantType,
        /// The length of the slice in bytes.
        bytes: usize,
    },
    /// The byte slice and the value slice do not belong together.
    #[error("{bytes} bytes of {quant} hold {held} values, but the slice of values has {values}")]
    LengthMismatch {
        /// The block type.
        quant: QuantType,
        /// The length of the byte slice.
        bytes: usize,
        /// The number of values that many bytes hold.
        held: usize,
        /// The length of the slice of values.
        values: usize,
    },
}
