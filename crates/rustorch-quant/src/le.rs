//! Little-endian scalars without alignment, as GGUF stores them.

use bytemuck::{Pod, Zeroable};

macro_rules! le_number {
    ($name:ident, $native:ty, $bytes:literal, $doc:literal) => {
        #[doc = $doc]
        ///
        /// Its alignment is 1, so that a block may start at any byte of a file.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $name([u8; $bytes]);

        impl $name {
            /// The value in native byte order.
            #[inline(always)]
            pub fn get(self) -> $native {
                <$native>::from_le_bytes(self.0)
            }

            /// Stores `value`.
            #[inline(always)]
            pub fn new(value: $native) -> Self {
                Self(value.to_le_bytes())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.get(), f)
            }
        }
    };
}

le_number!(U16Le, u16, 2, "A `u16` in little-endian order.");
le_number!(I16Le, i16, 2, "An `i16` in little-endian order.");
le_number!(F32Le, f32, 4, "An `f32` in little-endian order.");

/// An IEEE half-precision float in little-endian order: the scale of most blocks.
///
/// Its alignment is 1, so that a block may start at any byte of a file.
#[derive(Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct F16Le([u8; 2]);

impl F16Le {
    /// The value, exactly; subnormals included.
    #[inline(always)]
    pub fn get(self) -> f32 {
        f16_bits_to_f32(u16::from_le_bytes(self.0))
    }

    /// The nearest half to `value`, ties to even; beyond 65519 it is infinite.
    #[inline]
    pub fn new(value: f32) -> Self {
        Self(half::f16::from_f32(value).to_le_bytes())
    }

    /// The sixteen bits.
    #[inline(always)]
    pub fn to_bits(self) -> u16 {
        u16::from_le_bytes(self.0)
    }

    /// The value with these sixteen bits.
    #[inline(always)]
    pub fn from_bits(bits: u16) -> Self {
        Self(bits.to_le_bytes())
    }
}

impl std::fmt::Debug for F16Le {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.get(), f)
    }
}

/// Widens without a branch or a call, which `half` needs for its run-time choice of the F16C instruction: dequantization
/// loops inline this and vectorise around it.
#[inline(always)]
pub(crate) fn f16_bits_to_f32(h: u16) -> f32 {
    let sign = u32::from(h & 0x8000) << 16;
    let magnitude = u32::from(h & 0x7fff);
    let normal = (magnitude << 13) + (112 << 23);
    let infinite_or_nan = (magnitude << 13) | 0x7f80_0000;
    // A subnormal half is its mantissa times 2^-24, which f32 holds exactly as a normal number.
    let subnormal = (magnitude as f32 * f32::from_bits((127 - 24) << 23)).to_bits();
    let bits = if magnitude >= 0x7c00 {
        infinite_or_nan
    } else if magnitude < 0x0400 {
        subnormal
    } else {
        normal
    };
    f32::from_bits(sign | bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widens_every_half_as_the_half_crate_does() {
        for bits in 0..=u16::MAX {
            let expected = half::f16::from_bits(bits).to_f32();
            let got = f16_bits_to_f32(bits);
            assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(), "{bits:#06x}");
        }
    }
}
