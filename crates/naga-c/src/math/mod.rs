//! naga's mathematical functions: which family each belongs to.

mod bits;
mod float;
mod geometry;
mod integer;
mod packing;
mod parts;

use naga::{Expression, Handle, MathFunction as Mf};

use crate::Error;
use crate::expr::Body;

impl Body<'_, '_> {
    /// `result` is the call itself: `modf` and `frexp` have struct types of their own.
    pub(crate) fn math(
        &mut self,
        result: Handle<Expression>,
        fun: Mf,
        arguments: &[Handle<Expression>],
    ) -> Result<String, Error> {
        if matches!(fun, Mf::Outer | Mf::Inverse | Mf::Transpose | Mf::Determinant) {
            return Err(Error::UnsupportedMath(fun));
        }
        let mut operands = Vec::with_capacity(arguments.len());
        for argument in arguments {
            operands.push(self.operand(*argument)?);
        }
        if operands.len() != fun.argument_count() {
            return Err(Error::Inconsistent("a function with another number of arguments than it has"));
        }
        match fun {
            Mf::Abs | Mf::Min | Mf::Max | Mf::Clamp | Mf::Sign => self.program.comparison(fun, &operands),
            Mf::Dot
            | Mf::Cross
            | Mf::Distance
            | Mf::Length
            | Mf::Normalize
            | Mf::FaceForward
            | Mf::Reflect
            | Mf::Refract => self.program.geometry(fun, &operands),
            Mf::Modf | Mf::Frexp => {
                let ty = self.info[result]
                    .ty
                    .handle()
                    .ok_or(Error::Inconsistent("a result of an unnamed type"))?;
                self.program.parts(fun, &operands[0], ty)
            }
            Mf::CountTrailingZeros
            | Mf::CountLeadingZeros
            | Mf::CountOneBits
            | Mf::ReverseBits
            | Mf::ExtractBits
            | Mf::InsertBits
            | Mf::FirstTrailingBit
            | Mf::FirstLeadingBit => self.program.bits(fun, &operands),
            Mf::Dot4I8Packed
            | Mf::Dot4U8Packed
            | Mf::Pack4x8snorm
            | Mf::Pack4x8unorm
            | Mf::Pack2x16snorm
            | Mf::Pack2x16unorm
            | Mf::Pack2x16float
            | Mf::Pack4xI8
            | Mf::Pack4xU8
            | Mf::Pack4xI8Clamp
            | Mf::Pack4xU8Clamp => self.program.pack(fun, &operands),
            Mf::Unpack4x8snorm
            | Mf::Unpack4x8unorm
            | Mf::Unpack2x16snorm
            | Mf::Unpack2x16unorm
            | Mf::Unpack2x16float
            | Mf::Unpack4xI8
            | Mf::Unpack4xU8 => self.program.unpack(fun, &operands[0]),
            _ => self.program.float(fun, &operands),
        }
    }
}
