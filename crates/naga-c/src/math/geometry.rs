//! Functions on whole vectors. Sums run from the first component to the last.

use naga::{MathFunction as Mf, Scalar, VectorSize};

use crate::Error;
use crate::expr::bare;
use crate::program::Program;
use crate::scalars::{COMPONENTS, Operand, Shape};

impl Program<'_> {
    pub(super) fn geometry(&mut self, fun: Mf, operands: &[Operand]) -> Result<String, Error> {
        let shape = operands[0].shape;
        let scalar = shape.scalar;
        let Some(size) = shape.size else {
            // Length and distance of scalars.
            let difference = match fun {
                Mf::Length => operands[0].text.clone(),
                Mf::Distance => format!("({} - {})", operands[0].text, operands[1].text),
                other => return Err(Error::UnsupportedMath(other)),
            };
            return Ok(self.target.float_function("fabs", scalar, &[&difference]));
        };
        let ty = self.shape(shape)?;
        let one = self.scalar(scalar)?;
        let texts: Vec<_> = operands.iter().map(|operand| bare(&operand.text)).collect();
        let arguments = texts.join(", ");
        match fun {
            Mf::Dot => {
                let dot = self.dot(size, scalar)?;
                Ok(format!("{dot}({arguments})"))
            }
            Mf::Length => {
                let length = self.length(size, scalar)?;
                Ok(format!("{length}({arguments})"))
            }
            Mf::Distance => {
                let length = self.length(size, scalar)?;
                let difference = self.each(size, scalar, |c| format!("a.{c} - b.{c}"))?;
                let name = format!("nc_distance_{ty}");
                self.helper(
                    &name,
                    &format!("{ty} a, {ty} b"),
                    &one,
                    &format!("return {length}({difference});"),
                );
                Ok(format!("{name}({arguments})"))
            }
            Mf::Normalize => {
                let length = self.length(size, scalar)?;
                let result = self.each(size, scalar, |c| format!("a.{c} / l"))?;
                let name = format!("nc_normalize_{ty}");
                self.helper(
                    &name,
                    &format!("{ty} a"),
                    &ty,
                    &format!("{one} l = {length}(a);\n    return {result};"),
                );
                Ok(format!("{name}({arguments})"))
            }
            Mf::Cross => {
                let parts = ["a.y * b.z - a.z * b.y", "a.z * b.x - a.x * b.z", "a.x * b.y - a.y * b.x"];
                let result = self.target.vector(&ty, size, &parts.map(String::from));
                let name = format!("nc_cross_{ty}");
                self.helper(&name, &format!("{ty} a, {ty} b"), &ty, &format!("return {result};"));
                Ok(format!("{name}({arguments})"))
            }
            Mf::FaceForward => {
                let dot = self.dot(size, scalar)?;
                let zero = self.number(0, scalar)?;
                let negative = self.each(size, scalar, |c| format!("-a.{c}"))?;
                let name = format!("nc_face_forward_{ty}");
                let body = format!("if ({dot}(b, c) < {zero}) return a;\n    return {negative};");
                self.helper(&name, &format!("{ty} a, {ty} b, {ty} c"), &ty, &body);
                Ok(format!("{name}({arguments})"))
            }
            Mf::Reflect => {
                let dot = self.dot(size, scalar)?;
                let two = self.number(2, scalar)?;
                let result = self.each(size, scalar, |c| format!("a.{c} - d * b.{c}"))?;
                let name = format!("nc_reflect_{ty}");
                let body = format!("{one} d = {two} * {dot}(b, a);\n    return {result};");
                self.helper(&name, &format!("{ty} a, {ty} b"), &ty, &body);
                Ok(format!("{name}({arguments})"))
            }
            Mf::Refract => {
                let dot = self.dot(size, scalar)?;
                let (zero, unit) = (self.number(0, scalar)?, self.number(1, scalar)?);
                let nothing = self.each(size, scalar, |_| zero.clone())?;
                let root = self.target.float_function("sqrt", scalar, &["k"]);
                let result = self.each(size, scalar, |c| format!("e * a.{c} - f * b.{c}"))?;
                let name = format!("nc_refract_{ty}");
                let body = format!(
                    "{one} d = {dot}(b, a);\n    {one} k = {unit} - e * e * ({unit} - d * d);\n    \
                     if (k < {zero}) return {nothing};\n    {one} f = e * d + {root};\n    return {result};"
                );
                self.helper(&name, &format!("{ty} a, {ty} b, {one} e"), &ty, &body);
                Ok(format!("{name}({arguments})"))
            }
            other => Err(Error::UnsupportedMath(other)),
        }
    }

    /// A vector of what `part` says for each component.
    fn each(
        &mut self,
        size: VectorSize,
        scalar: Scalar,
        part: impl Fn(&str) -> String,
    ) -> Result<String, Error> {
        let parts: Vec<_> = COMPONENTS[..size as usize].iter().map(|c| part(c)).collect();
        let ty = self.shape(Shape { size: Some(size), scalar })?;
        Ok(self.target.vector(&ty, size, &parts))
    }

    /// The name of the dot product of two vectors.
    fn dot(&mut self, size: VectorSize, scalar: Scalar) -> Result<String, Error> {
        let ty = self.shape(Shape { size: Some(size), scalar })?;
        let result = self.scalar(scalar)?;
        let mut sum = String::new();
        for component in &COMPONENTS[..size as usize] {
            let (a, b) = (format!("a.{component}"), format!("b.{component}"));
            let product = self.scalar_binary(naga::BinaryOperator::Multiply, scalar, false, &a, &b)?;
            sum = if sum.is_empty() {
                product
            } else {
                self.scalar_binary(naga::BinaryOperator::Add, scalar, false, &sum, &product)?
            };
        }
        let name = format!("nc_dot_{ty}");
        self.helper(&name, &format!("{ty} a, {ty} b"), &result, &format!("return {};", bare(&sum)));
        Ok(name)
    }

    /// The name of the length of a vector.
    fn length(&mut self, size: VectorSize, scalar: Scalar) -> Result<String, Error> {
        let dot = self.dot(size, scalar)?;
        let ty = self.shape(Shape { size: Some(size), scalar })?;
        let result = self.scalar(scalar)?;
        let root = self.target.float_function("sqrt", scalar, &[&format!("{dot}(a, a)")]);
        let name = format!("nc_length_{ty}");
        self.helper(&name, &format!("{ty} a"), &result, &format!("return {root};"));
        Ok(name)
    }
}
