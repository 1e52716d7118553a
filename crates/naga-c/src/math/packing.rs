//! Small numbers in a `u32`, and dot products of bytes.

use naga::{MathFunction as Mf, Scalar, VectorSize};

use crate::Error;
use crate::program::Program;
use crate::scalars::{COMPONENTS, Operand, Shape};

impl Program<'_> {
    pub(super) fn pack(&mut self, fun: Mf, operands: &[Operand]) -> Result<String, Error> {
        let result = self.scalar(Scalar::U32)?;
        let i32_ty = self.scalar(Scalar::I32)?;
        if let Mf::Dot4I8Packed | Mf::Dot4U8Packed = fun {
            let signed = fun == Mf::Dot4I8Packed;
            let (name, result) = if signed { ("nc_dot4_i8", i32_ty) } else { ("nc_dot4_u8", result) };
            let body = self.target.dot4(signed);
            self.helper(name, "u32 a, u32 b", &result, body);
            return Ok(format!("{name}({}, {})", operands[0].text, operands[1].text));
        }
        let ty = self.shape(operands[0].shape)?;
        let (bits, name) = match fun {
            Mf::Pack4x8snorm => (8, "nc_pack4x8snorm"),
            Mf::Pack4x8unorm => (8, "nc_pack4x8unorm"),
            Mf::Pack2x16snorm => (16, "nc_pack2x16snorm"),
            Mf::Pack2x16unorm => (16, "nc_pack2x16unorm"),
            Mf::Pack2x16float => (16, "nc_pack2x16float"),
            Mf::Pack4xI8 => (8, "nc_pack4x_i8"),
            Mf::Pack4xU8 => (8, "nc_pack4x_u8"),
            Mf::Pack4xI8Clamp => (8, "nc_pack4x_i8_clamp"),
            _ => (8, "nc_pack4x_u8_clamp"),
        };
        let mut parts = Vec::new();
        for (index, component) in COMPONENTS[..32 / bits].iter().enumerate() {
            let x = format!("v.{component}");
            let word = match fun {
                Mf::Pack4x8snorm => self.normalized(&x, -1, 127)?,
                Mf::Pack4x8unorm => self.normalized(&x, 0, 255)?,
                Mf::Pack2x16snorm => self.normalized(&x, -1, 32767)?,
                Mf::Pack2x16unorm => self.normalized(&x, 0, 65535)?,
                Mf::Pack2x16float => self.half_bits(&x)?,
                Mf::Pack4xI8Clamp => {
                    let above = self.maximum(Scalar::I32, &x, "-128")?;
                    format!("(u32){}", self.minimum(Scalar::I32, &above, "127")?)
                }
                Mf::Pack4xU8Clamp => self.minimum(Scalar::U32, &x, "255u")?,
                _ => format!("(u32){x}"),
            };
            let mask = if bits == 8 { "0xffu" } else { "0xffffu" };
            parts.push(match index {
                0 => format!("({word} & {mask})"),
                _ => format!("(({word} & {mask}) << {})", index * bits),
            });
        }
        self.helper(name, &format!("{ty} v"), &result, &format!("return {};", parts.join(" | ")));
        Ok(format!("{name}({})", operands[0].text))
    }

    /// `floor(0.5 + scale * clamp(x, low, 1))` as the bits of an integer.
    fn normalized(&mut self, x: &str, low: i32, scale: u32) -> Result<String, Error> {
        let target = self.target;
        let low = if low < 0 { "-1.0f" } else { "0.0f" };
        let above = target.float_function("fmax", Scalar::F32, &[x, low]);
        let inside = target.float_function("fmin", Scalar::F32, &[&above, "1.0f"]);
        let floor = target.float_function("floor", Scalar::F32, &[&format!("0.5f + {scale}.0f * {inside}")]);
        Ok(format!("(u32)(i32){floor}"))
    }

    pub(super) fn unpack(&mut self, fun: Mf, operand: &Operand) -> Result<String, Error> {
        let parameter = self.scalar(Scalar::U32)?;
        let i32_ty = self.scalar(Scalar::I32)?;
        let (size, scalar, name) = match fun {
            Mf::Unpack4x8snorm => (VectorSize::Quad, Scalar::F32, "nc_unpack4x8snorm"),
            Mf::Unpack4x8unorm => (VectorSize::Quad, Scalar::F32, "nc_unpack4x8unorm"),
            Mf::Unpack2x16snorm => (VectorSize::Bi, Scalar::F32, "nc_unpack2x16snorm"),
            Mf::Unpack2x16unorm => (VectorSize::Bi, Scalar::F32, "nc_unpack2x16unorm"),
            Mf::Unpack2x16float => (VectorSize::Bi, Scalar::F32, "nc_unpack2x16float"),
            Mf::Unpack4xI8 => (VectorSize::Quad, Scalar::I32, "nc_unpack4x_i8"),
            _ => (VectorSize::Quad, Scalar::U32, "nc_unpack4x_u8"),
        };
        let bits = 32 / size as u32;
        let ty = self.shape(Shape { size: Some(size), scalar })?;
        let float = self.scalar(Scalar::F32)?;
        let mut parts = Vec::new();
        for index in 0..size as u32 {
            let unsigned = format!("((x >> {}) & {}u)", index * bits, (1_u32 << bits) - 1);
            // To the top and back down with the sign.
            let signed = format!("(({i32_ty})(x << {}) >> {})", 32 - bits * (index + 1), 32 - bits);
            let scale = match fun {
                Mf::Unpack4x8snorm => "127.0f",
                Mf::Unpack4x8unorm => "255.0f",
                Mf::Unpack2x16snorm => "32767.0f",
                _ => "65535.0f",
            };
            parts.push(match fun {
                Mf::Unpack4x8snorm | Mf::Unpack2x16snorm => {
                    let value = format!("({float}){signed} / {scale}");
                    self.target.float_function("fmax", Scalar::F32, &[&value, "-1.0f"])
                }
                Mf::Unpack4x8unorm | Mf::Unpack2x16unorm => format!("({float}){unsigned} / {scale}"),
                Mf::Unpack2x16float => self.half_value(&unsigned)?,
                Mf::Unpack4xI8 => signed,
                _ => unsigned,
            });
        }
        let body = format!("return {};", self.target.vector(&ty, size, &parts));
        self.helper(name, &format!("{parameter} x"), &ty, &body);
        Ok(format!("{name}({})", operand.text))
    }
}
