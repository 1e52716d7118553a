//! Counting, finding, reversing and moving bits.
//!
//! All are computed on unsigned numbers of 32 or 64 bits; those of 16 bits are widened with zeros.

use naga::{MathFunction as Mf, Scalar, ScalarKind};

use crate::Error;
use crate::program::Program;
use crate::scalars::{Operand, name, wrapping};

impl Program<'_> {
    pub(super) fn bits(&mut self, fun: Mf, operands: &[Operand]) -> Result<String, Error> {
        let scalar = operands[0].shape.scalar;
        let label = match fun {
            Mf::CountTrailingZeros => "ctz",
            Mf::CountLeadingZeros => "clz",
            Mf::CountOneBits => "popcount",
            Mf::ReverseBits => "reverse_bits",
            Mf::ExtractBits => "extract_bits",
            Mf::InsertBits => "insert_bits",
            Mf::FirstTrailingBit => "first_trailing_bit",
            _ => "first_leading_bit",
        };
        self.map(label, operands, scalar, &mut |program, a| program.bits_of_scalar(fun, label, scalar, a))
    }

    fn bits_of_scalar(&mut self, fun: Mf, label: &str, scalar: Scalar, a: &[&str]) -> Result<String, Error> {
        let ty = self.scalar(scalar)?;
        let wide = wrapping(scalar);
        let (u, count_ty) = (self.scalar(wide)?, self.scalar(Scalar::U32)?);
        let (zero, one) = (self.number(0, wide)?, self.number(1, wide)?);
        let width = u32::from(scalar.width) * 8;
        // Bits that widening added in front.
        let extra = u32::from(wide.width) * 8 - width;
        let widened =
            |x: &str| if scalar.width == 2 { format!("({u})(u16){x}") } else { format!("({u}){x}") };
        if scalar.width == 2 {
            self.scalar(Scalar::U16)?;
        }
        let start = format!("{u} x = {};\n    ", widened("a"));
        let below = self.target.popcount(wide, &format!("~x & (x - {one})"));
        let above = self.target.leading_zeros(wide, "x");
        let body = match fun {
            Mf::CountOneBits => format!("{start}return ({ty}){};", self.target.popcount(wide, "x")),
            Mf::CountLeadingZeros => format!("{start}return ({ty})({above} - {extra});"),
            // The bits below the lowest one that is set.
            Mf::CountTrailingZeros if extra > 0 => {
                format!("{start}return ({ty})(x == {zero} ? {width} : (int){below});")
            }
            Mf::CountTrailingZeros => format!("{start}return ({ty}){below};"),
            Mf::FirstTrailingBit => {
                let minus = self.all_ones(scalar)?;
                format!("{start}return x == {zero} ? {minus} : ({ty}){below};")
            }
            Mf::FirstLeadingBit => {
                let minus = self.all_ones(scalar)?;
                let start = if scalar.kind == ScalarKind::Sint {
                    format!("{u} x = {};\n    ", widened(&format!("(a < 0 ? ({ty})~a : a)")))
                } else {
                    start
                };
                format!("{start}return x == {zero} ? {minus} : ({ty})({} - {above});", width + extra - 1)
            }
            Mf::ReverseBits => {
                let reverse = self.target.reverse_bits(wide);
                self.helper(&format!("nc_reverse_{u}"), &format!("{u} x"), &u, reverse);
                format!("return ({ty})(nc_reverse_{u}({}) >> {extra});", widened("a"))
            }
            Mf::ExtractBits => {
                return self.extract_bits(scalar, &ty, &u, width, a);
            }
            _ => {
                let parameters = format!("{ty} a, {ty} b, {count_ty} offset, {count_ty} count");
                let body = format!(
                    "{count_ty} o = offset < {width}u ? offset : {width}u;\n    \
                     {count_ty} n = count < {width}u - o ? count : {width}u - o;\n    \
                     if (n == 0u) return a;\n    \
                     {u} mask = (~{zero} >> ({}u - n)) << o;\n    \
                     return ({ty})((({u})a & ~mask) | ((({u})b << o) & mask));",
                    u32::from(wide.width) * 8
                );
                let name = format!("nc_insert_bits_{ty}");
                self.helper(&name, &parameters, &ty, &body);
                return Ok(format!("{name}({})", a.join(", ")));
            }
        };
        // Labels are those of the vector helpers too, which have other types in their names.
        self.scalar_helper(label, scalar, scalar, a, &body)
    }

    /// Shifted to the top, then down again with the sign or with zeros.
    fn extract_bits(
        &mut self,
        scalar: Scalar,
        ty: &str,
        u: &str,
        width: u32,
        a: &[&str],
    ) -> Result<String, Error> {
        let bits = u32::from(wrapping(scalar).width) * 8;
        let count_ty = name(Scalar::U32)?;
        let signed = match (scalar.kind, bits) {
            (ScalarKind::Sint, 64) => self.scalar(Scalar::I64)?,
            (ScalarKind::Sint, _) => self.scalar(Scalar::I32)?,
            _ => u.to_string(),
        };
        let parameters = format!("{ty} a, {count_ty} offset, {count_ty} count");
        let body = format!(
            "{count_ty} o = offset < {width}u ? offset : {width}u;\n    \
             {count_ty} n = count < {width}u - o ? count : {width}u - o;\n    \
             if (n == 0u) return 0;\n    \
             return ({ty})((({signed})(({u})a << ({bits}u - n - o))) >> ({bits}u - n));"
        );
        let name = format!("nc_extract_bits_{ty}");
        self.helper(&name, &parameters, ty, &body);
        Ok(format!("{name}({})", a.join(", ")))
    }

    /// -1, or the highest number of an unsigned type.
    fn all_ones(&mut self, scalar: Scalar) -> Result<String, Error> {
        let ty = self.scalar(scalar)?;
        let zero = self.number(0, scalar)?;
        Ok(format!("({ty})~{zero}"))
    }
}
