//! Causal depthwise convolutions: a thread per element of the result, and of the next state.

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library;
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use crate::table::{DTypes, Row, row};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{CausalConv1d as Operation, DType, Decline, OpKind, OpType};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CausalConv1d {
    bias: bool,
    silu: bool,
}

parameters! {
    /// Kernel parameters.
    struct Params(bias: bool) {
        /// Elements of the result, and of the next state.
        counts: [usize; 2],
        seq: usize,
        channels: usize,
        kernel: usize,
        /// Of the sequence, the state, the result and the next state, by sequence, position and channel.
        starts: [u32; 4],
        strides: [[usize; 3]; 4],
        weight_start: u32,
        /// By channel and element of the kernel.
        weight_strides: [usize; 2],
        bias_at: Option<[usize; 2]> = bias.then_some(()),
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(OpType::Convolution, &[OpKind::CausalConv1d], DTypes::always(&[DType::F32]))];

impl Kernels for Operation {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        let [x, weight, state] = [0, 1, 2].map(|i| request.arg(i));
        let bias = (request.args.len() > 3).then(|| request.arg(3));
        let (out, next) = (request.out(0), request.out(1));
        let kernel = CausalConv1d { bias: bias.is_some(), silu: self.silu };
        let mut step = StepBuilder::new(request.hardware, kernel);
        let (x_start, weight_start, state_start) = (step.read(&x)?, step.read(&weight)?, step.read(&state)?);
        let bias_at = match &bias {
            Some(bias) => Some([step.read(bias)? as usize, bias.layout.strides()[0]]),
            None => None,
        };
        let starts = [x_start, state_start, step.write(&out)?, step.write(&next)?];
        let counts = [out.layout.numel(), next.layout.numel()];
        let dims = x.layout.dims();
        step.parameters(&Params {
            counts,
            seq: dims[1],
            channels: dims[2],
            kernel: weight.layout.dims()[1],
            starts,
            strides: [x, state, out, next].map(|x| {
                let strides = x.layout.strides();
                [strides[0], strides[1], strides[2]]
            }),
            weight_start,
            weight_strides: [weight.layout.strides()[0], weight.layout.strides()[1]],
            bias_at,
        })?;
        plan.step(step, line((counts[0] + counts[1]).div_ceil(WORKGROUP as usize), request.hardware)?);
        Ok(())
    }
}

impl CausalConv1d {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let mut module = Module::new();
        let mut buffer = |name: &str, writes| module.elements(name, DType::F32, writes, hardware);
        let (x, weight, state) = (buffer("x", false), buffer("weight", false), buffer("state", false));
        let bias = self.bias.then(|| buffer("bias", false));
        let (y, next) = (buffer("y", true), buffer("next", true));
        let p = module.parameters::<Params>(self.bias);
        let place = |which: usize, position: &str| {
            let ([a, b, c], start) = (&p.strides[which], &p.starts[which]);
            format!("{start} + sequence * {a} + ({position}) * {b} + channel * {c}")
        };
        let [by_channel, by_element] = &p.weight_strides;
        let [results, states] = &p.counts;
        let result = match self.silu {
            true => "silu(sum)",
            false => "sum",
        };
        module.add(&library::called(result, hardware));
        let added = match (&bias, &p.bias_at) {
            (Some(bias), Some([start, stride])) => {
                format!("sum += {};", bias.load(&format!("{start} + channel * {stride}")))
            }
            _ => String::new(),
        };
        let body = format!(
            "var element = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if element >= {results} + {states} {{ return; }}
            let before = {kernel} - 1u;
            let is_state = element >= {results};
            element = select(element, element - {results}, is_state);
            let rows = select({seq}, before, is_state);
            let channel = element % {channels};
            let row = element / {channels} % rows;
            let sequence = element / {channels} / rows;
            if is_state {{
                let at = {seq} + row;
                if at < before {{ {keep} }} else {{ {move_on} }}
                return;
            }}
            var sum = 0.0;
            for (var i = 0u; i < {kernel}; i++) {{
                let at = row + i;
                var value = 0.0;
                if at < before {{ value = {of_state}; }} else {{ value = {of_x}; }}
                sum += value * {tap};
            }}
            {added}
            {store}",
            kernel = p.kernel,
            seq = p.seq,
            channels = p.channels,
            keep = next.store(&place(3, "row"), &[state.load(&place(1, "at"))]),
            move_on = next.store(&place(3, "row"), &[x.load(&place(0, "at - before"))]),
            of_state = state.load(&place(1, "at")),
            of_x = x.load(&place(0, "at - before")),
            tap = weight.load(&format!("{} + channel * {by_channel} + i * {by_element}", p.weight_start)),
            store = y.store(&place(2, "row"), &[result.to_owned()]),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
