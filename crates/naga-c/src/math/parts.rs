//! `modf` and `frexp`, whose results are structs.

use naga::proc::NameKey;
use naga::{Handle, MathFunction as Mf, Scalar, Type};

use crate::Error;
use crate::program::Program;
use crate::scalars::{COMPONENTS, Operand};

impl Program<'_> {
    pub(super) fn parts(
        &mut self,
        fun: Mf,
        operand: &Operand,
        result: Handle<Type>,
    ) -> Result<String, Error> {
        let shape = operand.shape;
        let scalar = shape.scalar;
        let ty = self.shape(shape)?;
        let struct_name = self.memory_type(result)?;
        let label = if fun == Mf::Modf { "modf" } else { "frexp" };
        // naga gives exponents the width of the float.
        let second_member = &self.module.types[self.member_type(result, 1)?].inner;
        let second =
            self.shape_of(second_member).ok_or(Error::Inconsistent("parts that are no numbers"))?.scalar;
        let second_ty = self.shape(shape.of(second))?;
        // In f32 if the dialect's functions have no other way: 16-bit floats and their parts are exact there.
        let wide = if scalar == Scalar::F16 { Scalar::F32 } else { scalar };
        let wide_ty = self.scalar(wide)?;
        let whole_ty = if fun == Mf::Modf { wide_ty.clone() } else { "int".to_string() };

        let mut body = format!("{ty} first;\n    {second_ty} second;\n    {whole_ty} part;");
        for component in &COMPONENTS[..shape.components()] {
            let dot = if shape.size.is_some() { format!(".{component}") } else { String::new() };
            let argument = self.convert(scalar, wide, &format!("v{dot}"))?;
            let call = self.target.float_function(label, wide, &[&argument, "&part"]);
            let first = self.convert(wide, scalar, &call)?;
            let part = self.convert(if fun == Mf::Modf { wide } else { Scalar::I32 }, second, "part")?;
            body += &format!("\n    first{dot} = {first};\n    second{dot} = {part};");
        }
        let types = &self.module.types;
        let inner = |program: &Self, index| -> Result<_, Error> {
            Ok(&types[program.member_type(result, index)?].inner)
        };
        let (first_inner, second_inner) = (inner(self, 0)?, inner(self, 1)?);
        let members = [0, 1].map(|index| self.names[&NameKey::StructMember(result, index)].clone());
        let first = self.stored(first_inner, "first".into())?;
        let second = self.stored(second_inner, "second".into())?;
        body += &format!(
            "\n    {struct_name} r;\n    r.{} = {first};\n    r.{} = {second};\n    return r;",
            members[0], members[1]
        );
        let name = format!("nc_{label}_{ty}");
        self.helper(&name, &format!("{ty} v"), &struct_name, &body);
        Ok(format!("{name}({})", operand.text))
    }
}
