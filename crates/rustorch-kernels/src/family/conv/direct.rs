//! Convolution without tiles: a thread per result or, for weight gradients, a workgroup per result.

use super::sum::{self, Carry, ConvPass, Form, Function, Sum, SumParams};
use crate::Hardware;
use crate::family::{Plan, StepBuilder};
use crate::library::{Parts, WorkgroupReduce};
use crate::plan::parameters::parameters;
use crate::plan::{Place, Request, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word};
use rustorch_core::Decline;
use std::fmt::Write;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Direct {
    form: Form,
    function: Function,
    carry: Carry,
}

parameters! {
    /// Kernel parameters.
    struct Params() {
        sum: SumParams,
        n: usize,
    }
}

/// Adds the launch. Sums that are carried are each thread's own.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    sum: &Sum,
    carry: Carry,
    sums: Option<Place>,
) -> Result<(), Decline> {
    let out = request.out(0);
    let function = Function::of(request);
    let mut step = StepBuilder::new(request.hardware, Direct { form: sum.form, function, carry });
    let elements = out.layout.numel();
    let bytes = elements * WORKGROUP as usize * super::accumulator(function.dtype).block_bytes();
    let sums = sums.filter(|_| carry.any()).map(|place| (place, bytes as u64));
    let params = Params { sum: sum.bind(&mut step, request, carry, sums)?, n: elements };
    step.parameters(&params)?;
    let words = elements.div_ceil(per_word(out.dtype));
    let groups = match sum.form.pass {
        ConvPass::Weight => words,
        _ => words.div_ceil(WORKGROUP as usize),
    };
    plan.step(step, line(groups, request.hardware)?);
    Ok(())
}

impl Direct {
    pub(in super::super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Direct { form, function, carry } = *self;
        let mut module = Module::new();
        let output = |module: &mut Module| module.elements("y", function.dtype, true, hardware);
        let (Params { sum: words, n }, y) =
            sum::declare::<_, Params>(&mut module, form, function, hardware, carry, output, |params| {
                &params.sum
            });
        let per_word = per_word(function.dtype);
        // Many threads to a sum, or one.
        let together = form.pass == ConvPass::Weight;
        let (start, step) = if together { ("local", WORKGROUP) } else { ("0u", 1) };
        module.add(&format!(
            "fn part(i: u32, local: u32) -> Number {{
                let planes = i / {plane};
                let lead = planes / {channels};
                let channel = planes - lead * {channels};
                let g = channel / {rows};
                let row = channel - g * {rows};
                let column = column_parts(lead * {plane} + i - planes * {plane});
                var sum = {begin};
                for (var at = {start}; at < {depth}; at += {step}u) {{
                    let k = depth_parts(at);
                    sum += kernel_at(g, row, k) * source_at(g, column, k);
                }}
                return sum;
            }}
            fn channel(i: u32) -> u32 {{ return i / {plane} % {channels}; }}",
            plane = words.plane,
            channels = words.channels,
            rows = words.rows,
            depth = words.depth,
            begin =
                if carry.from { format!("sums[i * {WORKGROUP}u + local]") } else { "Number()".to_owned() },
        ));
        let mut body = String::new();
        let mut values = Vec::new();
        if together {
            let mut together = WorkgroupReduce::new(&mut module, "Number", Parts::Whole, 1, hardware);
            let _ = writeln!(
                body,
                "let word = {LINEAR_GROUP};\nlet first = word * {per_word}u;\nif first >= {n} {{ return; }}"
            );
            for e in 0..per_word {
                let _ = writeln!(
                    body,
                    "let i{e} = min(first + {e}u, {n} - 1u);
                    var v{e} = part(i{e}, local);"
                );
            }
            if carry.on {
                // One sum may be here twice: both are read by now.
                for e in 0..per_word {
                    let _ = writeln!(body, "sums[i{e} * {WORKGROUP}u + local] = v{e};");
                }
                return module.finish([WORKGROUP, 1, 1], &body);
            }
            for e in 0..per_word {
                let _ = writeln!(body, "{}", together.reduce(&[&format!("v{e}")], "a + b"));
                values.push(format!("finish(v{e}, channel(i{e}))"));
            }
            body.push_str("if local != 0u { return; }\n");
        } else {
            let _ = writeln!(
                body,
                "let word = {LINEAR_GROUP} * {WORKGROUP}u + local;\nlet first = word * {per_word}u;\n\
                 if first >= {n} {{ return; }}"
            );
            for e in 0..per_word {
                // The last word may extend past the end.
                let _ = writeln!(body, "let i{e} = min(first + {e}u, {n} - 1u);");
                values.push(format!("finish(part(i{e}, local), channel(i{e}))"));
            }
        }
        if let Some(y) = y {
            body.push_str(&y.store(&format!("{} / {per_word}u + word", words.y_start), &values));
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
