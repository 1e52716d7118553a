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
    /// A value to be written is infinite or NaN.
    #[error("value {index} is {value}, which no block can hold; quantize finite values only")]
    NotFinite {
        /// Where it stands in the source.
        index: usize,
        /// The value.
        value: f32,
    },
    /// The values of a block are too large for its half-precision scales.
    #[error(
        "the values from {index} on reach {largest}, too large for the scales of {quant}; scale the tensor down"
    )]
    OutOfRange {
        /// The block type.
        quant: QuantType,
        /// The index of the block's first value in the source.
        index: usize,
        /// The largest magnitude in the block.
        largest: f32,
    },
    /// The importances are not those of the columns of a row.
    #[error(
        "{columns} importances do not fit {values} values of {quant}: give one for each column, columns a multiple of \
         {} that divides the number of values", quant.block_len()
    )]
    ImportanceLength {
        /// The block type.
        quant: QuantType,
        /// The number of importances.
        columns: usize,
        /// The number of values to be written.
        values: usize,
    },
    /// An importance is negative or not finite.
    #[error("the importance of column {column} is {value}; importances are finite and not negative")]
    BadImportance {
        /// The column.
        column: usize,
        /// Its importance.
        value: f32,
    },
}
