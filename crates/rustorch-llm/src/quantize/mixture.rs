//! llama.cpp's mixtures: which types a quantized model is made of.

use rustorch_core::{DType, QuantType};
use std::fmt;

macro_rules! mixtures {
    ($($variant:ident = $name:literal, id $id:literal, $dtype:expr, $doc:literal;)*) => {
        /// How a model is quantized, by the names of `llama-quantize`: most matrices get the mixture's own dtype, and those whose errors weigh more get a larger one.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Mixture { $(#[doc = $doc] $variant,)* }

        impl Mixture {
            /// Every mixture, in the order of their file types.
            pub const ALL: &'static [Mixture] = &[$(Mixture::$variant),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Mixture::$variant => $name,)* }
            }

            /// What `general.file_type` says of a file in this mixture.
            pub const fn file_type(self) -> u32 {
                match self { $(Mixture::$variant => $id,)* }
            }

            /// The dtype of most matrices.
            pub const fn dtype(self) -> DType {
                match self { $(Mixture::$variant => $dtype,)* }
            }
        }
    };
}

/// A block type as a dtype.
const fn q(quant: QuantType) -> DType {
    DType::Quant(quant)
}

mixtures! {
    F32 = "F32", id 0, DType::F32, "All in `f32`.";
    F16 = "F16", id 1, DType::F16, "Matrices in `f16`.";
    Q4_0 = "Q4_0", id 2, q(QuantType::Q4_0), "4.5 bits.";
    Q4_1 = "Q4_1", id 3, q(QuantType::Q4_1), "5 bits.";
    Q8_0 = "Q8_0", id 7, q(QuantType::Q8_0), "8.5 bits.";
    Q5_0 = "Q5_0", id 8, q(QuantType::Q5_0), "5.5 bits.";
    Q5_1 = "Q5_1", id 9, q(QuantType::Q5_1), "6 bits.";
    Q2_K = "Q2_K", id 10, q(QuantType::Q2_K), "2.6 bits, more for values, outputs of attention and down projections.";
    Q3_K_S = "Q3_K_S", id 11, q(QuantType::Q3_K), "3.4 bits.";
    Q3_K_M = "Q3_K_M", id 12, q(QuantType::Q3_K), "3.4 bits, more for values, outputs of attention and down projections.";
    Q3_K_L = "Q3_K_L", id 13, q(QuantType::Q3_K), "3.4 bits, still more for these.";
    Q4_K_S = "Q4_K_S", id 14, q(QuantType::Q4_K), "4.5 bits, more in the first blocks.";
    Q4_K_M = "Q4_K_M", id 15, q(QuantType::Q4_K), "4.5 bits, more for half of the values and down projections.";
    Q5_K_S = "Q5_K_S", id 16, q(QuantType::Q5_K), "5.5 bits.";
    Q5_K_M = "Q5_K_M", id 17, q(QuantType::Q5_K), "5.5 bits, more for half of the values and down projections.";
    Q6_K = "Q6_K", id 18, q(QuantType::Q6_K), "6.6 bits.";
    IQ2_XXS = "IQ2_XXS", id 19, q(QuantType::IQ2_XXS), "2.1 bits; needs an importance matrix.";
    IQ2_XS = "IQ2_XS", id 20, q(QuantType::IQ2_XS), "2.3 bits; needs an importance matrix.";
    Q2_K_S = "Q2_K_S", id 21, q(QuantType::Q2_K), "2.6 bits; needs an importance matrix.";
    IQ3_XS = "IQ3_XS", id 22, q(QuantType::IQ3_S), "3.3 bits.";
    IQ3_XXS = "IQ3_XXS", id 23, q(QuantType::IQ3_XXS), "3.1 bits; needs an importance matrix.";
    IQ1_S = "IQ1_S", id 24, q(QuantType::IQ1_S), "1.6 bits; needs an importance matrix.";
    IQ4_NL = "IQ4_NL", id 25, q(QuantType::IQ4_NL), "4.5 bits, non-linear levels.";
    IQ3_S = "IQ3_S", id 26, q(QuantType::IQ3_S), "3.4 bits.";
    IQ3_M = "IQ3_M", id 27, q(QuantType::IQ3_S), "3.4 bits, more for values and outputs of attention.";
    IQ2_S = "IQ2_S", id 28, q(QuantType::IQ2_XS), "2.3 bits, more for some; needs an importance matrix.";
    IQ2_M = "IQ2_M", id 29, q(QuantType::IQ2_S), "2.6 bits, more for some; needs an importance matrix.";
    IQ4_XS = "IQ4_XS", id 30, q(QuantType::IQ4_XS), "4.3 bits, non-linear levels.";
    IQ1_M = "IQ1_M", id 31, q(QuantType::IQ1_M), "1.8 bits; needs an importance matrix.";
    BF16 = "BF16", id 32, DType::BF16, "Matrices in `bf16`.";
    TQ1_0 = "TQ1_0", id 36, q(QuantType::TQ1_0), "1.7 bits, for ternary weights.";
    TQ2_0 = "TQ2_0", id 37, q(QuantType::TQ2_0), "2.1 bits, for ternary weights.";
    MXFP4_MOE = "MXFP4_MOE", id 38, q(QuantType::MXFP4), "4.3 bits for experts, 8.5 for all others.";
    Q1_0 = "Q1_0", id 40, q(QuantType::Q1_0), "1.1 bits, for binary weights.";
    Q2_0 = "Q2_0", id 41, q(QuantType::Q2_0), "2.3 bits.";
}

impl Mixture {
    /// The mixture of this name, ignoring ASCII case; `Q3_K`, `Q4_K` and `Q5_K` are the medium ones.
    pub fn from_name(name: &str) -> Option<Mixture> {
        let medium = [("Q3_K", Mixture::Q3_K_M), ("Q4_K", Mixture::Q4_K_M), ("Q5_K", Mixture::Q5_K_M)];
        let medium = medium.into_iter().find(|(short, _)| short.eq_ignore_ascii_case(name));
        let named = Self::ALL.iter().copied().find(|mixture| mixture.name().eq_ignore_ascii_case(name));
        named.or(medium.map(|(_, mixture)| mixture))
    }
}

impl fmt::Display for Mixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
