//! Subgroup operations.

use naga::{
    BinaryOperator, CollectiveOperation, Direction, Expression, GatherMode, Handle, Literal, Scalar,
    ScalarKind, SubgroupOperation,
};

use crate::Error;
use crate::dialect::{Collective, Gather};
use crate::expr::Body;
use crate::literals::literal;
use crate::program::Program;

/// The index that a mode names.
pub(crate) fn index_of(mode: GatherMode) -> Option<Handle<Expression>> {
    match mode {
        GatherMode::BroadcastFirst | GatherMode::QuadSwap(_) => None,
        GatherMode::Broadcast(index)
        | GatherMode::Shuffle(index)
        | GatherMode::ShuffleDown(index)
        | GatherMode::ShuffleUp(index)
        | GatherMode::ShuffleXor(index)
        | GatherMode::QuadBroadcast(index) => Some(index),
    }
}

impl Body<'_, '_> {
    pub(crate) fn subgroup_ballot(
        &mut self,
        result: Handle<Expression>,
        predicate: Option<Handle<Expression>>,
    ) -> Result<(), Error> {
        self.program.needs.subgroups = true;
        let predicate = match predicate {
            Some(predicate) => self.value(predicate)?,
            None => "true".into(),
        };
        self.expression_type(result)?;
        let text = self.program.target.ballot(&predicate, &mut self.program.needs);
        self.result(result, &text)
    }

    pub(crate) fn subgroup_gather(
        &mut self,
        mode: GatherMode,
        argument: Handle<Expression>,
        result: Handle<Expression>,
    ) -> Result<(), Error> {
        self.program.needs.subgroups = true;
        self.program.scalar(Scalar::U32)?;
        let (gather, label) = match mode {
            GatherMode::BroadcastFirst => (Gather::First, "first"),
            GatherMode::Broadcast(_) => (Gather::Broadcast, "broadcast"),
            GatherMode::Shuffle(_) => (Gather::Shuffle, "shuffle"),
            GatherMode::ShuffleDown(_) => (Gather::Down, "shuffle_down"),
            GatherMode::ShuffleUp(_) => (Gather::Up, "shuffle_up"),
            GatherMode::ShuffleXor(_) | GatherMode::QuadSwap(_) => (Gather::Xor, "shuffle_xor"),
            GatherMode::QuadBroadcast(_) => (Gather::Quad, "quad"),
        };
        let mut operands = vec![self.operand(argument)?];
        let scalar = operands[0].shape.scalar;
        let index = match (index_of(mode), mode) {
            (Some(index), _) => Some(self.value(index)?),
            (None, GatherMode::QuadSwap(direction)) => Some(
                match direction {
                    Direction::X => "1u",
                    Direction::Y => "2u",
                    Direction::Diagonal => "3u",
                }
                .into(),
            ),
            _ => None,
        };
        if let Some(index) = index {
            operands.push(crate::scalars::Operand::new(index, crate::scalars::Shape::scalar(Scalar::U32)));
        }
        let text = self.program.map(label, &operands, scalar, &mut |program, a| {
            let index = a.get(1).copied().unwrap_or("");
            Ok(program.target.gather(gather, scalar, a[0], index, &mut program.needs))
        })?;
        self.result(result, &text)
    }

    pub(crate) fn subgroup_collective(
        &mut self,
        op: SubgroupOperation,
        scope: CollectiveOperation,
        argument: Handle<Expression>,
        result: Handle<Expression>,
    ) -> Result<(), Error> {
        self.program.needs.subgroups = true;
        let operand = self.operand(argument)?;
        if let SubgroupOperation::All | SubgroupOperation::Any = op {
            let all = op == SubgroupOperation::All;
            let text = self.program.target.vote(all, &operand.text, &mut self.program.needs);
            return self.result(result, &text);
        }
        let scalar = operand.shape.scalar;
        let collective = Collective { op, scope };
        let label = label(collective);
        let text = self.program.map(&label, &[operand], scalar, &mut |program, a| {
            program.collective(collective, &label, scalar, a[0])
        })?;
        self.result(result, &text)
    }
}

impl Program<'_> {
    fn collective(
        &mut self,
        collective: Collective,
        label: &str,
        scalar: Scalar,
        a: &str,
    ) -> Result<String, Error> {
        self.scalar(scalar)?;
        let condition = self.target.collective_condition();
        let direct = self.target.collective(
            collective,
            if condition.is_some() { "a" } else { a },
            scalar,
            &mut self.needs,
        );
        match (direct, condition) {
            (Some(text), None) => Ok(text),
            (direct, _) => {
                let general = self.by_shuffles(collective, scalar)?;
                let body = match (direct, condition) {
                    (Some(text), Some(condition)) => {
                        format!("#if {condition}\n    return {text};\n#else\n    {general}\n#endif")
                    }
                    _ => general,
                };
                self.scalar_helper(label, scalar, scalar, &[a], &body)
            }
        }
    }

    /// A reduction as a tree whose root is the first invocation, a scan by doubling distances. Invocations that do not exist
    /// (in the last subgroup) are left out; they are always the last ones.
    fn by_shuffles(&mut self, collective: Collective, scalar: Scalar) -> Result<String, Error> {
        let ty = self.scalar(scalar)?;
        let combined = match collective.op {
            SubgroupOperation::Add => self.scalar_binary(BinaryOperator::Add, scalar, false, "a", "b")?,
            SubgroupOperation::Mul => {
                self.scalar_binary(BinaryOperator::Multiply, scalar, false, "a", "b")?
            }
            SubgroupOperation::And => self.scalar_binary(BinaryOperator::And, scalar, false, "a", "b")?,
            SubgroupOperation::Or => {
                self.scalar_binary(BinaryOperator::InclusiveOr, scalar, false, "a", "b")?
            }
            SubgroupOperation::Xor => {
                self.scalar_binary(BinaryOperator::ExclusiveOr, scalar, false, "a", "b")?
            }
            SubgroupOperation::Min => self.minimum(scalar, "a", "b")?,
            SubgroupOperation::Max => self.maximum(scalar, "a", "b")?,
            SubgroupOperation::All | SubgroupOperation::Any => {
                return Err(Error::Inconsistent("a vote among arithmetic operations"));
            }
        };
        let target = self.target;
        if collective.scope == CollectiveOperation::Reduce {
            let other = target.gather(Gather::Down, scalar, "a", "d", &mut self.needs);
            let first = target.gather(Gather::First, scalar, "a", "", &mut self.needs);
            return Ok(format!(
                "for (unsigned int d = 16u; d > 0u; d >>= 1) {{\n        \
                 {ty} b = {other};\n        \
                 if (nc_lane() + d < 32u && ((nc_lanes() >> (nc_lane() + d)) & 1u)) a = {combined};\n    \
                 }}\n    return {first};"
            ));
        }
        let lower = target.gather(Gather::Up, scalar, "a", "d", &mut self.needs);
        let mut text = format!(
            "for (unsigned int d = 1u; d < 32u; d <<= 1) {{\n        \
             {ty} b = {lower};\n        \
             if (nc_lane() >= d) a = {combined};\n    }}\n    "
        );
        if collective.scope == CollectiveOperation::InclusiveScan {
            return Ok(text + "return a;");
        }
        let neutral = match collective.op {
            SubgroupOperation::Mul => self.number(1, scalar)?,
            SubgroupOperation::And => format!("({ty})~{}", self.number(0, scalar)?),
            SubgroupOperation::Min => self.extreme(scalar, true)?,
            SubgroupOperation::Max => self.extreme(scalar, false)?,
            _ => self.number(0, scalar)?,
        };
        let previous = target.gather(Gather::Up, scalar, "a", "1u", &mut self.needs);
        text += &format!("{ty} before = {previous};\n    return nc_lane() == 0u ? {neutral} : before;");
        Ok(text)
    }

    /// The highest (or lowest) value of a type.
    fn extreme(&mut self, scalar: Scalar, highest: bool) -> Result<String, Error> {
        let signed = |low: i64, high: i64| if highest { high } else { low };
        let value = match scalar {
            Scalar::I16 => Literal::I16(if highest { i16::MAX } else { i16::MIN }),
            Scalar::U16 => Literal::U16(if highest { u16::MAX } else { 0 }),
            Scalar::I32 => Literal::I32(if highest { i32::MAX } else { i32::MIN }),
            Scalar::U32 => Literal::U32(if highest { u32::MAX } else { 0 }),
            Scalar::I64 => Literal::I64(signed(i64::MIN, i64::MAX)),
            Scalar::U64 => Literal::U64(if highest { u64::MAX } else { 0 }),
            Scalar::F64 => Literal::F64(if highest { f64::INFINITY } else { f64::NEG_INFINITY }),
            Scalar::F32 => Literal::F32(if highest { f32::INFINITY } else { f32::NEG_INFINITY }),
            _ => {
                let bits = if highest { 0x7c00 } else { 0xfc00 };
                return Ok(self.target.half_literal(bits, ""));
            }
        };
        if scalar.kind == ScalarKind::Bool {
            return Err(Error::Inconsistent("a minimum of booleans"));
        }
        literal(self.target, value)
    }
}

/// The helper's name: which operation over which scope.
fn label(collective: Collective) -> String {
    let op = match collective.op {
        SubgroupOperation::Add => "add",
        SubgroupOperation::Mul => "mul",
        SubgroupOperation::Min => "min",
        SubgroupOperation::Max => "max",
        SubgroupOperation::And => "and",
        SubgroupOperation::Or => "or",
        SubgroupOperation::Xor => "xor",
        SubgroupOperation::All => "all",
        SubgroupOperation::Any => "any",
    };
    let scope = match collective.scope {
        CollectiveOperation::Reduce => "reduce",
        CollectiveOperation::InclusiveScan => "inclusive",
        CollectiveOperation::ExclusiveScan => "exclusive",
    };
    format!("subgroup_{scope}_{op}")
}
