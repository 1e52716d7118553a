//! Lowering an expression to a `FusedPointwise` for inputs of known dtypes: promotion, as `Tensor` does it, becomes casts.

use super::expr::{Node, Term};
use crate::binary::{BinaryPromotion, Side, binary_promotion, expect_fits, promote};
use crate::pointwise::{UnaryPromotion, bounded, unary_promotion};
use rustorch_core::{
    Cast, Clamp, DType, Device, Error, FusedBuilder, FusedPointwise, FusedValue, Layout, Op,
    PromotionCategory, Result, Shape, TensorMeta, UnaryOp, Where,
};
use smallvec::SmallVec;

/// What promotion has to know of an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Input {
    pub(super) dtype: DType,
    pub(super) category: PromotionCategory,
}

/// What an expression comes to.
#[derive(Clone, Debug)]
pub(super) enum Program {
    /// Nothing but an input.
    Input(usize),
    /// An operation.
    FusedPointwise(FusedPointwise),
}

/// Which nodes a result depends on.
pub(super) fn needed(nodes: &[Node], result: usize) -> Vec<bool> {
    let mut needed = vec![false; nodes.len()];
    needed[result] = true;
    for i in (0..nodes.len()).rev().filter(|&i| i <= result) {
        if !needed[i] {
            continue;
        }
        let mut need = |term: Term| {
            if let Term::Node(i) = term {
                needed[i] = true;
            }
        };
        match nodes[i] {
            Node::Input(_) => {}
            Node::Unary(_, x) | Node::Clamp(x, _) | Node::Cast(x, _) => need(Term::Node(x)),
            Node::Binary(_, terms) | Node::Compare(_, terms) => terms.into_iter().for_each(need),
            Node::Glu(_, values) => values.into_iter().for_each(|x| need(Term::Node(x))),
            Node::Where(x, terms) => {
                need(Term::Node(x));
                terms.into_iter().for_each(need);
            }
            Node::MaskedFill(mask, _, x) => [mask, x].into_iter().for_each(|x| need(Term::Node(x))),
        }
    }
    needed
}

/// The program for inputs like these.
pub(super) fn lower(nodes: &[Node], result: usize, needed: &[bool], inputs: &[Input]) -> Result<Program> {
    let quantized = inputs.iter().map(|input| input.dtype).filter(|dtype| dtype.is_quant());
    if quantized.clone().next().is_some() {
        return Err(Error::dtype(
            "fuse",
            "takes no block-quantized tensor; use to_dtype(F32) first",
            quantized,
        ));
    }
    let mut this = Lowering { builder: FusedPointwise::builder(inputs.len())?, values: Vec::new() };
    for (node, &needed) in nodes.iter().zip(needed) {
        // Nodes that are not needed have a value that nobody asks for.
        let value = if needed { this.node(*node, inputs)? } else { this.input(0, inputs)? };
        this.values.push(value);
    }
    Ok(match this.values[result].at {
        FusedValue::Input(i) => Program::Input(i),
        at => Program::FusedPointwise(this.builder.finish(at)?),
    })
}

/// A value of the fused op under construction.
#[derive(Clone, Copy)]
struct Value {
    at: FusedValue,
    dtype: DType,
    category: PromotionCategory,
}

struct Lowering {
    builder: FusedBuilder,
    /// Of each node so far.
    values: Vec<Value>,
}

impl Lowering {
    fn node(&mut self, node: Node, inputs: &[Input]) -> Result<Value> {
        match node {
            Node::Input(i) => self.input(i, inputs),
            Node::Unary(op, x) => self.unary(op, self.values[x]),
            Node::Binary(op, terms) => {
                let BinaryPromotion { compute, result } =
                    binary_promotion(op, terms.map(|term| self.side(term)))?;
                let args = self.terms(op.name(), terms, compute)?;
                let value = self.step(Op::Binary(op), &args)?;
                self.cast(value, result)
            }
            Node::Compare(op, terms) => {
                let dtype = promote(op.name(), &terms.map(|term| self.side(term).with_category()))?;
                let args = self.terms(op.name(), terms, dtype)?;
                self.step(Op::Compare(op), &args)
            }
            Node::Glu(op, values) => self.step(Op::Glu(op), &values.map(|x| self.values[x])),
            Node::Clamp(x, [min, max]) => {
                let x = self.values[x];
                let dtype = bounded(x.dtype, x.category, [min, max])?;
                let x = self.cast(x, dtype)?;
                self.step(Op::Clamp(Clamp { min, max }), &[x])
            }
            Node::Cast(x, dtype) => self.cast(self.values[x], dtype),
            Node::Where(condition, terms) => {
                let dtype = promote("where", &terms.map(|term| self.side(term).with_category()))?;
                let [a, b] = self.terms("where", terms, dtype)?;
                self.step(Op::Where(Where), &[self.values[condition], a, b])
            }
            Node::MaskedFill(mask, number, x) => {
                let (mask, x) = (self.values[mask], self.values[x]);
                let number = self.term("masked_fill", Term::Number(number), x.dtype)?;
                self.step(Op::Where(Where), &[mask, number, x])
            }
        }
    }

    fn input(&self, i: usize, inputs: &[Input]) -> Result<Value> {
        let Input { dtype, category } = inputs[i];
        Ok(Value { at: self.builder.input(i)?, dtype, category })
    }

    fn unary(&mut self, op: UnaryOp, x: Value) -> Result<Value> {
        match unary_promotion(op, x.dtype) {
            UnaryPromotion::Direct => self.step(Op::Unary(op), &[x]),
            UnaryPromotion::Same => Ok(x),
            UnaryPromotion::Float => {
                let x = self.cast(x, DType::F32)?;
                self.step(Op::Unary(op), &[x])
            }
        }
    }

    fn cast(&mut self, x: Value, dtype: DType) -> Result<Value> {
        if x.dtype == dtype { Ok(x) } else { self.step(Op::Cast(Cast { to: dtype }), &[x]) }
    }

    /// Adds a step, of arguments that it takes.
    fn step(&mut self, op: Op, args: &[Value]) -> Result<Value> {
        let layout = Layout::contiguous(Shape::scalar());
        let metas: SmallVec<[TensorMeta<'_>; 3]> = args
            .iter()
            .map(|x| TensorMeta { dtype: x.dtype, layout: &layout, device: Device::CPU })
            .collect();
        // A block type cannot be cast to inside a fused op, which says so itself.
        let dtype = match &op {
            Op::Cast(Cast { to }) => *to,
            op => op.infer(&metas)?[0].dtype,
        };
        let places: SmallVec<[FusedValue; 3]> = args.iter().map(|x| x.at).collect();
        let at = self.builder.step(op, &places)?;
        // A result has dimensions as soon as an operand has some; scalars count less than tensors of none.
        let category = args
            .iter()
            .map(|x| x.category)
            .max()
            .unwrap_or(PromotionCategory::ZeroDim)
            .max(PromotionCategory::ZeroDim);
        Ok(Value { at, dtype, category })
    }

    fn side(&self, term: Term) -> Side {
        match term {
            Term::Node(i) => Side::Tensor(self.values[i].dtype, self.values[i].category),
            Term::Number(number) => Side::Number(number),
        }
    }

    /// Operands in a dtype.
    fn terms(&mut self, op: &'static str, terms: [Term; 2], dtype: DType) -> Result<[Value; 2]> {
        let [a, b] = terms;
        Ok([self.term(op, a, dtype)?, self.term(op, b, dtype)?])
    }

    fn term(&mut self, op: &'static str, term: Term, dtype: DType) -> Result<Value> {
        match term {
            Term::Node(i) => self.cast(self.values[i], dtype),
            Term::Number(number) => {
                expect_fits(op, number, dtype)?;
                Ok(Value {
                    at: self.builder.constant(number, dtype)?,
                    dtype,
                    category: PromotionCategory::Scalar,
                })
            }
        }
    }
}
