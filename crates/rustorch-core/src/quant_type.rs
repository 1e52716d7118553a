//! The block-quantized storage types of ggml.

use std::fmt;

macro_rules! quant_types {
    ($($variant:ident = $name:literal, id $id:literal, $block:literal values in $bytes:literal bytes, $doc:literal;)*) => {
        /// A block-quantized storage type: a fixed number of values packed into a fixed number of bytes.
        ///
        /// Names, ids and layouts are ggml's. Blocks run along the innermost dimension, whose length is therefore a
        /// multiple of [`block_len`](Self::block_len).
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum QuantType { $(#[doc = $doc] $variant,)* }

        impl QuantType {
            /// Every block type, in ggml's order.
            pub const ALL: &'static [QuantType] = &[$(QuantType::$variant),*];

            /// The number of values in one block.
            #[inline]
            pub const fn block_len(self) -> usize {
                match self { $(QuantType::$variant => $block,)* }
            }

            /// The number of bytes that one block takes.
            #[inline]
            pub const fn block_bytes(self) -> usize {
                match self { $(QuantType::$variant => $bytes,)* }
            }

            /// ggml's name of the type, for example `"Q4_K"`.
            pub const fn name(self) -> &'static str {
                match self { $(QuantType::$variant => $name,)* }
            }

            /// The number by which GGUF files name the type.
            pub const fn ggml_id(self) -> u32 {
                match self { $(QuantType::$variant => $id,)* }
            }

            /// The type that GGUF files name by `id`, if it is a block type.
            pub const fn from_ggml_id(id: u32) -> Option<QuantType> {
                match id { $($id => Some(QuantType::$variant),)* _ => None }
            }
        }
    };
}

quant_types! {
    Q4_0 = "Q4_0", id 2, 32 values in 18 bytes, "4 bits, one f16 scale per 32.";
    Q4_1 = "Q4_1", id 3, 32 values in 20 bytes, "4 bits, f16 scale and minimum per 32.";
    Q5_0 = "Q5_0", id 6, 32 values in 22 bytes, "5 bits, one f16 scale per 32.";
    Q5_1 = "Q5_1", id 7, 32 values in 24 bytes, "5 bits, f16 scale and minimum per 32.";
    Q8_0 = "Q8_0", id 8, 32 values in 34 bytes, "8 bits, one f16 scale per 32.";
    Q8_1 = "Q8_1", id 9, 32 values in 36 bytes, "8 bits, f16 scale and scaled sum per 32: an activation format.";
    Q2_K = "Q2_K", id 10, 256 values in 84 bytes, "2 bits, 4-bit scales and minima per 16.";
    Q3_K = "Q3_K", id 11, 256 values in 110 bytes, "3 bits, 6-bit scales per 16.";
    Q4_K = "Q4_K", id 12, 256 values in 144 bytes, "4 bits, 6-bit scales and minima per 32.";
    Q5_K = "Q5_K", id 13, 256 values in 176 bytes, "5 bits, 6-bit scales and minima per 32.";
    Q6_K = "Q6_K", id 14, 256 values in 210 bytes, "6 bits, 8-bit scales per 16.";
    Q8_K = "Q8_K", id 15, 256 values in 292 bytes, "8 bits, one f32 scale per 256: an activation format.";
    IQ2_XXS = "IQ2_XXS", id 16, 256 values in 66 bytes, "2.06 bits by an E8 lattice codebook.";
    IQ2_XS = "IQ2_XS", id 17, 256 values in 74 bytes, "2.31 bits by an E8 lattice codebook.";
    IQ3_XXS = "IQ3_XXS", id 18, 256 values in 98 bytes, "3.06 bits by a D4 lattice codebook.";
    IQ1_S = "IQ1_S", id 19, 256 values in 50 bytes, "1.56 bits by a ternary codebook.";
    IQ4_NL = "IQ4_NL", id 20, 32 values in 18 bytes, "4 bits, non-linear levels, one f16 scale per 32.";
    IQ3_S = "IQ3_S", id 21, 256 values in 110 bytes, "3.44 bits by a codebook.";
    IQ2_S = "IQ2_S", id 22, 256 values in 82 bytes, "2.56 bits by a codebook.";
    IQ4_XS = "IQ4_XS", id 23, 256 values in 136 bytes, "4 bits, non-linear levels, 6-bit scales per 32.";
    IQ1_M = "IQ1_M", id 29, 256 values in 56 bytes, "1.75 bits by a ternary codebook.";
    TQ1_0 = "TQ1_0", id 34, 256 values in 54 bytes, "Ternary, 1.69 bits (base 3).";
    TQ2_0 = "TQ2_0", id 35, 256 values in 66 bytes, "Ternary, 2.06 bits.";
    MXFP4 = "MXFP4", id 39, 32 values in 17 bytes, "OCP microscaling FP4 (E2M1), one E8M0 scale per 32.";
    NVFP4 = "NVFP4", id 40, 64 values in 36 bytes, "FP4 (E2M1), one unsigned E4M3 scale per 16.";
    Q1_0 = "Q1_0", id 41, 128 values in 18 bytes, "1 bit (a sign), one f16 scale per 128.";
    Q2_0 = "Q2_0", id 42, 64 values in 18 bytes, "2 bits (-1, 0, 1, 2), one f16 scale per 64.";
}

impl QuantType {
    /// The bytes that `values` consecutive values take, or `None` where they do not fill whole blocks.
    #[inline]
    pub const fn bytes_for(self, values: usize) -> Option<usize> {
        if !values.is_multiple_of(self.block_len()) {
            None
        } else {
            (values / self.block_len()).checked_mul(self.block_bytes())
        }
    }

    /// The type with ggml's name `name`, ignoring ASCII case.
    pub fn from_name(name: &str) -> Option<QuantType> {
        Self::ALL.iter().copied().find(|q| q.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for QuantType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
