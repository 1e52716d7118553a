//! Statements.

use std::collections::HashSet;

use naga::{Block, Expression, Handle, Scalar, Statement, SwitchCase, SwitchValue, TypeInner};

use crate::Error;
use crate::expr::{Body, bare};

impl Body<'_, '_> {
    /// A block's statements; what they compute is forgotten at its end, as C forgets the variables.
    pub(crate) fn block(&mut self, block: &Block) -> Result<(), Error> {
        let before: HashSet<_> = self.named.keys().copied().collect();
        self.statements(block)?;
        self.named.retain(|handle, _| before.contains(handle));
        Ok(())
    }

    fn indented(&mut self, block: &Block) -> Result<(), Error> {
        self.indent += 1;
        self.block(block)?;
        self.indent -= 1;
        Ok(())
    }

    fn statements(&mut self, block: &Block) -> Result<(), Error> {
        block.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Error> {
        match *statement {
            Statement::Emit(ref range) => self.emit(range),
            Statement::Block(ref block) => {
                self.line("{");
                self.indented(block)?;
                self.line("}");
                Ok(())
            }
            Statement::If { condition, ref accept, ref reject } => {
                let condition = self.value(condition)?;
                if accept.is_empty() {
                    self.line(&format!("if (!{}) {{", crate::expr::postfix(&condition)));
                    self.indented(reject)?;
                    self.line("}");
                    return Ok(());
                }
                self.line(&format!("if ({}) {{", bare(&condition)));
                self.indented(accept)?;
                if !reject.is_empty() {
                    self.line("} else {");
                    self.indented(reject)?;
                }
                self.line("}");
                Ok(())
            }
            Statement::Switch { selector, ref cases } => self.switch(selector, cases),
            Statement::Loop { ref body, ref continuing, break_if } => self.loop_(body, continuing, break_if),
            Statement::Break => {
                self.line("break;");
                Ok(())
            }
            Statement::Continue => {
                let text = match self.loops.last() {
                    Some(Some(label)) => format!("goto {label};"),
                    _ => "continue;".into(),
                };
                self.line(&text);
                Ok(())
            }
            Statement::Return { value } => {
                let text = match value {
                    Some(value) => format!("return {};", bare(&self.value(value)?)),
                    None => "return;".into(),
                };
                self.line(&text);
                Ok(())
            }
            Statement::ControlBarrier(barrier) => self.barrier(barrier, true),
            Statement::MemoryBarrier(barrier) => self.barrier(barrier, false),
            Statement::Store { pointer, value } => self.store(pointer, value),
            Statement::Atomic { pointer, ref fun, value, result } => self.atomic(pointer, fun, value, result),
            Statement::WorkGroupUniformLoad { pointer, result } => {
                self.barrier(naga::Barrier::WORK_GROUP, true)?;
                let text = self.load(pointer)?;
                self.bake(result, &text)?;
                self.barrier(naga::Barrier::WORK_GROUP, true)
            }
            Statement::Call { function, ref arguments, result } => {
                let mut texts = Vec::new();
                for argument in arguments {
                    texts.push(bare(&self.value(*argument)?).to_string());
                }
                texts.extend(self.passed_globals(function)?);
                let name = &self.program.names[&naga::proc::NameKey::Function(function)];
                let call = format!("{name}({})", texts.join(", "));
                match result {
                    Some(result) => self.bake(result, &call),
                    None => {
                        self.line(&format!("{call};"));
                        Ok(())
                    }
                }
            }
            Statement::SubgroupBallot { result, predicate } => self.subgroup_ballot(result, predicate),
            Statement::SubgroupGather { mode, argument, result } => {
                self.subgroup_gather(mode, argument, result)
            }
            Statement::SubgroupCollectiveOperation { op, collective_op, argument, result } => {
                self.subgroup_collective(op, collective_op, argument, result)
            }
            Statement::Kill => Err(Error::UnsupportedStatement("discard")),
            Statement::ImageStore { .. } => Err(Error::UnsupportedStatement("textureStore")),
            Statement::ImageAtomic { .. } => Err(Error::UnsupportedStatement("textureAtomic")),
            Statement::RayQuery { .. } => Err(Error::UnsupportedStatement("ray query")),
            Statement::RayPipelineFunction(_) => Err(Error::UnsupportedStatement("traceRay")),
            Statement::CooperativeStore { .. } => {
                Err(Error::UnsupportedStatement("cooperative matrix store"))
            }
        }
    }

    fn barrier(&mut self, barrier: naga::Barrier, control: bool) -> Result<(), Error> {
        if barrier.contains(naga::Barrier::TEXTURE) && !barrier.intersects(!naga::Barrier::TEXTURE) {
            return Err(Error::UnsupportedStatement("textureBarrier"));
        }
        self.program.needs.subgroups |= barrier.contains(naga::Barrier::SUB_GROUP);
        for line in self.program.target.barrier(barrier, control) {
            self.line(line);
        }
        Ok(())
    }

    fn store(&mut self, pointer: Handle<Expression>, value: Handle<Expression>) -> Result<(), Error> {
        let inner = self.pointee_type(pointer)?;
        let value = self.value(value)?;
        let value = self.program.stored(&inner, value)?;
        let place = self.place(pointer)?;
        let place = match inner {
            TypeInner::Atomic(scalar) => {
                let space = self.space(pointer)?;
                self.volatile(&place, scalar, space)?
            }
            _ => place,
        };
        let place = if place.starts_with("(*(") { bare(&place) } else { &place };
        let place = if place.starts_with("(*") && !place[1..].contains('(') { bare(place) } else { place };
        self.line(&format!("{place} = {};", bare(&value)));
        Ok(())
    }

    fn switch(&mut self, selector: Handle<Expression>, cases: &[SwitchCase]) -> Result<(), Error> {
        let selector = self.value(selector)?;
        self.line(&format!("switch ({}) {{", bare(&selector)));
        self.indent += 1;
        for case in cases {
            let label = match case.value {
                SwitchValue::Default => "default:".to_string(),
                SwitchValue::I32(value) => {
                    format!(
                        "case {}:",
                        crate::literals::literal(self.program.target, naga::Literal::I32(value))?
                    )
                }
                SwitchValue::U32(value) => format!("case {value}u:"),
            };
            if case.body.is_empty() && case.fall_through {
                self.line(&label);
                continue;
            }
            self.line(&format!("{label} {{"));
            self.indented(&case.body)?;
            let ends = case.body.last().is_some_and(|statement| {
                matches!(statement, Statement::Break | Statement::Continue | Statement::Return { .. })
            });
            if !case.fall_through && !ends {
                self.line("    break;");
            }
            self.line("}");
        }
        self.indent -= 1;
        self.line("}");
        Ok(())
    }

    /// `for (;;) { body continuing if (break_if) break; }`.
    ///
    /// If something in `body` continues the loop, it jumps to a label before `continuing`. Then `body` has a scope of its own,
    /// so that the jump passes no declarations (C++ forbids it), and what `continuing` needs of it is declared ahead.
    fn loop_(
        &mut self,
        body: &Block,
        continuing: &Block,
        break_if: Option<Handle<Expression>>,
    ) -> Result<(), Error> {
        let jumps = (!continuing.is_empty() || break_if.is_some()) && continues(body);
        let before: HashSet<_> = self.named.keys().copied().collect();
        match self.program.options.bounds_checks {
            true => {
                let ty = self.program.scalar(Scalar::U64)?;
                self.line(&format!("for ({ty} nc_turn = 0u; ++nc_turn != 0u;) {{"));
            }
            false => self.line("for (;;) {"),
        }
        self.indent += 1;
        if jumps {
            self.labels += 1;
            let label = format!("nc_continue_{}", self.labels);
            self.hoist(body, continuing, break_if)?;
            self.loops.push(Some(label.clone()));
            self.line("{");
            self.indent += 1;
            self.statements(body)?;
            self.indent -= 1;
            self.line("}");
            self.line(&format!("{label}:;"));
        } else {
            self.loops.push(None);
            self.statements(body)?;
        }
        self.statements(continuing)?;
        if let Some(condition) = break_if {
            let condition = self.value(condition)?;
            self.line(&format!("if ({}) {{\n    break;\n}}", bare(&condition)));
        }
        self.loops.pop();
        self.indent -= 1;
        self.line("}");
        self.named.retain(|handle, _| before.contains(handle));
        Ok(())
    }

    /// Declares the variables of `body` that `continuing` and `break_if` use.
    fn hoist(
        &mut self,
        body: &Block,
        continuing: &Block,
        break_if: Option<Handle<Expression>>,
    ) -> Result<(), Error> {
        let mut wanted = HashSet::new();
        let mut open: Vec<_> = break_if.into_iter().collect();
        used_by(continuing, &mut open);
        while let Some(handle) = open.pop() {
            if wanted.insert(handle) {
                operands(&self.function.expressions[handle], &mut open);
            }
        }
        for handle in computed_in(body) {
            if wanted.contains(&handle) && self.inner(handle).pointer_space().is_none() {
                let ty = self.expression_type(handle)?;
                let name = self.variable_name(handle);
                self.line(&format!("{ty} {name};"));
                self.hoisted.insert(handle, name);
            }
        }
        Ok(())
    }

    /// A declaration of a variable for a subgroup's or an atomic's result.
    pub(crate) fn result(&mut self, result: Handle<Expression>, text: &str) -> Result<(), Error> {
        self.program.scalar(Scalar::U32)?;
        self.bake(result, text)
    }
}

/// Whether a `continue` in the block belongs to the loop around it.
fn continues(block: &Block) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Continue => true,
        Statement::Loop { .. } => false,
        other => crate::program::inner_blocks(other).into_iter().any(continues),
    })
}

/// What the statements of the block itself, not of blocks in it, compute.
fn computed_in(block: &Block) -> Vec<Handle<Expression>> {
    let mut handles = Vec::new();
    for statement in block.iter() {
        match *statement {
            Statement::Emit(ref range) => handles.extend(range.clone()),
            Statement::Call { result, .. } | Statement::Atomic { result, .. } => handles.extend(result),
            Statement::WorkGroupUniformLoad { result, .. }
            | Statement::SubgroupBallot { result, .. }
            | Statement::SubgroupGather { result, .. }
            | Statement::SubgroupCollectiveOperation { result, .. } => handles.push(result),
            _ => {}
        }
    }
    handles
}

/// The expressions that a block's statements name.
fn used_by(block: &Block, used: &mut Vec<Handle<Expression>>) {
    for statement in block.iter() {
        match *statement {
            Statement::Emit(ref range) => used.extend(range.clone()),
            Statement::If { condition, .. } => used.push(condition),
            Statement::Switch { selector, .. } => used.push(selector),
            Statement::Loop { break_if, .. } => used.extend(break_if),
            Statement::Return { value } => used.extend(value),
            Statement::Store { pointer, value } => used.extend([pointer, value]),
            Statement::Atomic { pointer, fun, value, .. } => {
                used.extend([pointer, value]);
                if let naga::AtomicFunction::Exchange { compare } = fun {
                    used.extend(compare);
                }
            }
            Statement::WorkGroupUniformLoad { pointer, .. } => used.push(pointer),
            Statement::Call { ref arguments, .. } => used.extend(arguments),
            Statement::SubgroupBallot { predicate, .. } => used.extend(predicate),
            Statement::SubgroupGather { mode, argument, .. } => {
                used.push(argument);
                used.extend(crate::subgroups::index_of(mode));
            }
            Statement::SubgroupCollectiveOperation { argument, .. } => used.push(argument),
            _ => {}
        }
        for inner in crate::program::inner_blocks(statement) {
            used_by(inner, used);
        }
    }
}

/// The expressions that an expression names.
fn operands(expression: &Expression, out: &mut Vec<Handle<Expression>>) {
    match *expression {
        Expression::Compose { ref components, .. } => out.extend(components),
        Expression::Access { base, index } => out.extend([base, index]),
        Expression::AccessIndex { base, .. } => out.push(base),
        Expression::Splat { value, .. } => out.push(value),
        Expression::Swizzle { vector, .. } => out.push(vector),
        Expression::Load { pointer } => out.push(pointer),
        Expression::Unary { expr, .. } | Expression::As { expr, .. } => out.push(expr),
        Expression::Binary { left, right, .. } => out.extend([left, right]),
        Expression::Select { condition, accept, reject } => out.extend([condition, accept, reject]),
        Expression::Relational { argument, .. } => out.push(argument),
        Expression::Math { arg, arg1, arg2, arg3, .. } => {
            out.push(arg);
            out.extend([arg1, arg2, arg3].into_iter().flatten());
        }
        Expression::ArrayLength(array) => out.push(array),
        _ => {}
    }
}
