//! What a program is given and returns: inputs, outputs, states.

use super::{Emit, Emitter, at_least_one, expressible, is_float, known};
use crate::builder::Var;
use rustorch_core::{DType, GraphOperand, ValueId};

impl Emitter<'_> {
    pub(super) fn input(&mut self, i: usize, id: ValueId) -> Emit<()> {
        let value = &self.graph.values[id.index()];
        expressible(value.dtype, value.shape.dims())?;
        let name = self.options.input_name(i);
        let dims = at_least_one(value.shape.dims());
        let var = match value.dtype {
            DType::Bool => {
                let given = self.b.input(name, DType::I32, dims.clone());
                let zero = self.int(0);
                self.b.op("not_equal", &[("x", &given), ("y", &zero)], DType::Bool, &dims)
            }
            // It is `int32` at the border.
            DType::I64 => {
                let range = match self.options.below.get(&name) {
                    Some(&below) => (0, (i64::from(below) - 1).min(i64::from(i32::MAX))),
                    None => (i64::from(i32::MIN), i64::from(i32::MAX)),
                };
                self.b.input(name, DType::I64, dims).with_range(Some(range))
            }
            // What is no float of Core ML's is `f32` at the border.
            DType::F32 | DType::BF16 => {
                let given = self.b.input(name, DType::F32, dims);
                let to = self.program_dtype(value.dtype);
                self.float_as(&given, to)
            }
            dtype => self.b.input(name, dtype, dims),
        };
        self.values[id.index()] = Some(var);
        Ok(())
    }

    pub(super) fn output(&mut self, i: usize, output: &GraphOperand) -> Emit<()> {
        let mut var = self.operand(output)?;
        known(&var, "the result")?;
        // The border has the graph's dtypes, whatever is computed in.
        if var.dtype.is_float() && output.dtype != DType::F16 {
            var = self.as_f32(&var);
        }
        self.b.output(&var, self.options.output_name(i));
        Ok(())
    }

    /// The value of a state when a run begins.
    pub(super) fn state(&mut self, i: usize, first: ValueId) -> Emit<()> {
        let value = &self.graph.values[first.index()];
        expressible(value.dtype, value.shape.dims())?;
        if self.program_dtype(value.dtype) != DType::F16 {
            let what = "Core ML's states are f16";
            return Err(match is_float(value.dtype) {
                true => format!("{what}, and this one is {:?}; keep it in f16, or allow f16", value.dtype),
                false => format!(
                    "{what}, and this one is {:?}; give it as an argument and return the new value",
                    value.dtype
                ),
            }
            .into());
        }
        // In the shape in which operations see it, so that updating it takes no reshape, if they agree.
        let sees = self.graph.nodes.iter().flat_map(|node| &node.args).find(|operand| operand.value == first);
        let whole = sees.filter(|operand| {
            operand.layout.is_contiguous() && operand.layout.numel() == value.shape.numel()
        });
        let dims = at_least_one(whole.map_or(value.shape.dims(), |operand| operand.layout.dims()));
        expressible(DType::F16, &dims)?;
        let var = self.b.state(self.state_name(i), &dims);
        self.values[first.index()] = Some(var);
        Ok(())
    }

    /// Writes the last value of a state, and reads it again: only so does Core ML update its memory in place.
    pub(super) fn written(&mut self, id: ValueId, var: Var) -> Emit {
        let Some(i) = self.graph.states.iter().position(|state| state.last == id) else { return Ok(var) };
        let Some(first) = &self.values[self.graph.states[i].first.index()] else { return Ok(var) };
        let dims = first.dims.clone();
        let var = self.reshape(&var, &dims);
        Ok(self.b.write_state(&self.state_name(i), &var))
    }

    fn state_name(&self, i: usize) -> String {
        format!("state_{}", self.function.states[i])
    }
}
