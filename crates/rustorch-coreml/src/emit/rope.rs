//! Rotary position embedding, of slices, sines and cosines.

use super::{Emit, Emitter};
use crate::builder::{Data, Var};
use crate::float::FloatDtype;
use crate::support::Condition;
use rustorch_core::{DType, Node, RopeParams, RopeStyle};

impl Emitter<'_> {
    pub(super) fn rope(&mut self, params: &RopeParams, node: &Node) -> Emit {
        if params.yarn.is_some() {
            return Err(Condition::NoYarn.into());
        }
        let (x, positions) = (self.arg(node, 0)?, self.arg(node, 1)?);
        let factors = self.optional_arg(node, 2)?.map(|factors| self.as_f32(&factors));
        let (seq, half) = (positions.numel(), params.rotated / 2);
        if half > super::MAX_MADE {
            return Err(Condition::MadeConstant.into());
        }
        // By repeated multiplication, as on the CPU, so that they are rounded as there.
        let step = params.base.powf(-2.0 / params.rotated as f32);
        let powers = std::iter::successors(Some(1.0f32), |power| Some(power * step));
        let values = powers.take(half).map(|power| power * params.scale).collect();
        let mut frequencies = self.b.tensor(Data::Float(FloatDtype::F32, values), &[1, half]);
        if let Some(factors) = factors {
            frequencies = self.bin("real_div", &frequencies, &factors);
        }
        // Angles are `f32` in every program: positions above 2048 have no form in `f16`.
        let positions = self.convert(&positions, DType::F32, "fp32");
        let positions = self.reshape(&positions, &[seq, 1]);
        let angles = self.bin("mul", &positions, &frequencies);
        let (cos, sin) = (self.un("cos", &angles), self.un("sin", &angles));
        let (cos, sin) = (self.float_as(&cos, x.dtype), self.float_as(&sin, x.dtype));

        let last = x.ndim() - 1;
        let rotated = self.narrow(&x, last, 0, params.rotated);
        let first = |i: usize| match params.style {
            RopeStyle::Halves => (i * half, half, 1),
            RopeStyle::Adjacent => (i, half, 2),
        };
        let pair: Vec<Var> = (0..2)
            .map(|i| {
                let mut slices: Vec<_> = rotated.dims.iter().map(|&dim| (0, dim, 1)).collect();
                slices[last] = first(i);
                self.slice(&rotated, &slices)
            })
            .collect();
        let mut product = |i: usize, factor: &Var| self.bin("mul", &pair[i], factor);
        let (a, b) = (product(0, &cos), product(1, &sin));
        let (c, d) = (product(1, &cos), product(0, &sin));
        let (a, b) = (self.bin("sub", &a, &b), self.bin("add", &c, &d));
        let mut parts = vec![self.pairs(&a, &b, params.style)];
        if params.rotated < x.dims[last] {
            parts.push(self.narrow(&x, last, params.rotated, x.dims[last] - params.rotated));
        }
        Ok(self.joined(&parts, last))
    }

    /// The two elements of each pair in their places.
    fn pairs(&mut self, a: &Var, b: &Var, style: RopeStyle) -> Var {
        let last = a.ndim() - 1;
        if style == RopeStyle::Halves {
            return self.joined(&[a.clone(), b.clone()], last);
        }
        // Not `interleave`, which coremltools has another idea of than its documentation.
        let half = a.dims[last];
        let mut apart = |x: &Var| self.reshape(x, &[x.numel() / half, half, 1]);
        let pair = [apart(a), apart(b)];
        let joined = self.joined(&pair, 2);
        let mut dims = a.dims.clone();
        dims[last] = 2 * half;
        self.reshape(&joined, &dims)
    }

    /// Values that differ in the length of one axis, along it.
    fn joined(&mut self, parts: &[Var], axis: usize) -> Var {
        if let [part] = parts {
            return part.clone();
        }
        let mut dims = parts[0].dims.clone();
        dims[axis] = parts.iter().map(|part| part.dims[axis]).sum();
        let (axis, no) = (self.b.int(axis), self.b.bool(false));
        let mut inputs: Vec<(&'static str, &Var)> = parts.iter().map(|part| ("values", part)).collect();
        inputs.extend([("axis", &axis), ("interleave", &no)]);
        self.b.op("concat", &inputs, parts[0].dtype, &dims)
    }
}
