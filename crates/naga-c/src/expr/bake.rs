//! Which expressions get a variable of their own.
//!
//! naga says when an expression is evaluated (`Statement::Emit`). What reads memory must be computed right there; a pure
//! expression used once may stand where it is used. Everything else gets a variable: what is used twice, what has a name in
//! the shader, and what would make lines long.

use std::collections::HashSet;

use naga::{Expression, Handle, Range};

use super::{Body, bare};
use crate::Error;

/// Length in characters from which a text gets a variable rather than being put into another.
const LONG: usize = 90;

impl Body<'_, '_> {
    /// Marks what several texts would repeat: indices of pointers that are used more than once (pointers are written out at
    /// each use), and values of which more than one component is taken.
    pub(super) fn force_repeated(&mut self) {
        let native = self.program.target.native_vectors();
        let mut repeated = HashSet::new();
        // Users stand after what they use.
        let expressions: Vec<_> = self.function.expressions.iter().collect();
        for (handle, expression) in expressions.into_iter().rev() {
            let uses = self.info[handle].ref_count;
            let twice = uses > 1 || repeated.contains(&handle);
            let is_pointer = self.inner(handle).pointer_space().is_some();
            match *expression {
                Expression::Access { base, index } => {
                    if is_pointer && twice {
                        self.forced.insert(index);
                        repeated.insert(base);
                    }
                    if !is_pointer {
                        self.forced.insert(base);
                    }
                }
                Expression::AccessIndex { base, .. } if is_pointer && twice => {
                    repeated.insert(base);
                }
                Expression::AccessIndex { base, .. } if self.program.shape_of(self.inner(base)).is_none() => {
                    self.forced.insert(base);
                }
                Expression::Swizzle { vector, .. } if !native => {
                    self.forced.insert(vector);
                }
                Expression::Compose { ref components, .. }
                    if !native && self.program.shape_of(self.inner(handle)).is_some() =>
                {
                    for component in components {
                        if self.shape(*component).is_ok_and(|shape| shape.size.is_some()) {
                            self.forced.insert(*component);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Evaluates a range of expressions: declares variables for those that need one.
    pub(crate) fn emit(&mut self, range: &Range<Expression>) -> Result<(), Error> {
        for handle in range.clone() {
            let expression = &self.function.expressions[handle];
            if self.inner(handle).pointer_space().is_some() {
                continue;
            }
            let uses = self.info[handle].ref_count;
            let given = self.function.named_expressions.get(&handle);
            if uses == 0 {
                continue;
            }
            let text = self.value(handle)?;
            let cheap = match *expression {
                // A component or member of something that has a name.
                Expression::AccessIndex { base, .. } => {
                    self.named.contains_key(&base) || self.is_argument(base)
                }
                _ => false,
            };
            let needed = given.is_some()
                || matches!(expression, Expression::Load { .. })
                || self.forced.contains(&handle)
                || self.hoisted.contains_key(&handle)
                || (uses > 1 && !cheap)
                || text.len() > LONG
                || self.program.shape_of(self.inner(handle)).is_none();
            if needed {
                self.bake(handle, &text)?;
            }
        }
        Ok(())
    }

    fn is_argument(&self, handle: Handle<Expression>) -> bool {
        matches!(self.function.expressions[handle], Expression::FunctionArgument(_))
    }

    /// Names of expressions: the shader's, else a number.
    pub(crate) fn variable_name(&mut self, handle: Handle<Expression>) -> String {
        match self.function.named_expressions.get(&handle) {
            Some(name) => self.program.namer.call(name),
            None => format!("_e{}", handle.index()),
        }
    }

    /// Declares a variable for an expression and remembers it.
    pub(crate) fn bake(&mut self, handle: Handle<Expression>, text: &str) -> Result<(), Error> {
        if let Some(name) = self.hoisted.remove(&handle) {
            self.line(&format!("{name} = {};", bare(text)));
            self.named.insert(handle, name);
            return Ok(());
        }
        let ty = self.expression_type(handle)?;
        let name = self.variable_name(handle);
        self.line(&format!("const {ty} {name} = {};", bare(text)));
        self.named.insert(handle, name);
        Ok(())
    }

    /// The C type of an expression's value.
    pub(crate) fn expression_type(&mut self, handle: Handle<Expression>) -> Result<String, Error> {
        let info = self.info;
        self.program.resolved_type(&info[handle].ty)
    }
}
