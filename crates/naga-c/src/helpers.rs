//! Small functions that the source needs, each defined once, before its first use.

use std::collections::HashSet;

use naga::{Scalar, VectorSize};

use crate::Error;
use crate::program::Program;
use crate::scalars::{COMPONENTS, Operand, Shape};

/// How a function on scalars is written, given its arguments.
type ScalarText<'f, P> = &'f mut dyn FnMut(&mut P, &[&str]) -> Result<String, Error>;

/// Definitions collected so far.
#[derive(Default)]
pub(crate) struct Helpers {
    known: HashSet<String>,
    pub(crate) text: String,
}

impl Program<'_> {
    /// Defines `result name(parameters) { body }` unless that was done. Helpers that `body` calls must be defined before.
    pub(crate) fn helper(&mut self, name: &str, parameters: &str, result: &str, body: &str) {
        if self.helpers.known.insert(format!("{name}({parameters})")) {
            let prefix = self.target.helper();
            self.helpers.text += &format!("{prefix}{result} {name}({parameters}) {{\n    {body}\n}}\n");
        }
    }

    /// A helper on scalars of one type: parameters `a`, `b`, ... as many as there are arguments; called with them.
    ///
    /// `body` may use the type's name as `T`.
    pub(crate) fn scalar_helper(
        &mut self,
        label: &str,
        scalar: Scalar,
        result: Scalar,
        arguments: &[&str],
        body: &str,
    ) -> Result<String, Error> {
        let ty = self.scalar(scalar)?;
        let result = self.scalar(result)?;
        let name = format!("nc_{label}_{ty}");
        let parameters: Vec<_> =
            ["a", "b", "c", "d"].iter().take(arguments.len()).map(|p| format!("{ty} {p}")).collect();
        self.helper(&name, &parameters.join(", "), &result, body);
        Ok(format!("{name}({})", arguments.join(", ")))
    }

    /// A vector of the given components, or of one component in all places.
    pub(crate) fn vector(
        &mut self,
        size: VectorSize,
        scalar: Scalar,
        components: &[String],
    ) -> Result<String, Error> {
        let shape = Shape { size: Some(size), scalar };
        let ty = self.shape(shape)?;
        if components.len() == 1 && !self.target.native_vectors() {
            let element = self.scalar(scalar)?;
            let all = vec!["x".to_string(); size as usize];
            let body = format!("return {};", self.target.vector(&ty, size, &all));
            self.helper(&format!("nc_splat_{ty}"), &format!("{element} x"), &ty, &body);
            return Ok(format!("nc_splat_{ty}({})", components[0]));
        }
        Ok(self.target.vector(&ty, size, components))
    }

    /// Applies a scalar function to each component: in place for scalars, in a helper for vectors. Scalar operands beside
    /// vector ones are used for each component.
    pub(crate) fn map(
        &mut self,
        label: &str,
        operands: &[Operand],
        result: Scalar,
        scalar: ScalarText<'_, Self>,
    ) -> Result<String, Error> {
        let size = operands.iter().find_map(|operand| operand.shape.size);
        let Some(size) = size else {
            let texts: Vec<_> = operands.iter().map(|operand| operand.text.as_str()).collect();
            return scalar(self, &texts);
        };
        let mut name = format!("nc_{label}");
        let mut parameters = Vec::new();
        let mut distinct = None;
        for (operand, letter) in operands.iter().zip(["a", "b", "c", "d"]) {
            let ty = self.shape(operand.shape)?;
            // The first operand names the helper, others only where they differ.
            if distinct.as_ref() != Some(&ty) {
                name += &format!("_{ty}");
                distinct = Some(ty.clone());
            }
            parameters.push(format!("{ty} {letter}"));
        }
        let mut components = Vec::new();
        for component in &COMPONENTS[..size as usize] {
            let arguments: Vec<_> = operands
                .iter()
                .zip(["a", "b", "c", "d"])
                .map(|(operand, letter)| match operand.shape.size {
                    Some(_) => format!("{letter}.{component}"),
                    None => letter.to_string(),
                })
                .collect();
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            components.push(scalar(self, &arguments)?);
        }
        let ty = self.shape(Shape { size: Some(size), scalar: result })?;
        let body = format!("return {};", self.vector(size, result, &components)?);
        self.helper(&name, &parameters.join(", "), &ty, &body);
        let texts: Vec<_> = operands.iter().map(|operand| operand.text.as_str()).collect();
        Ok(format!("{name}({})", texts.join(", ")))
    }

    /// `a op b` of two operands of the same shape, whose components are computed by that operator alone.
    pub(crate) fn infix(&mut self, op: &str, left: &Operand, right: &Operand) -> Result<String, Error> {
        if let Some(size) = left.shape.size
            && !self.target.native_vectors()
        {
            let ty = self.shape(left.shape)?;
            let components: Vec<_> =
                COMPONENTS[..size as usize].iter().map(|c| format!("a.{c} {op} b.{c}")).collect();
            let body = format!("return {};", self.target.vector(&ty, size, &components));
            self.helper(&format!("operator{op}"), &format!("{ty} a, {ty} b"), &ty, &body);
        }
        Ok(format!("({} {op} {})", left.text, right.text))
    }
}
