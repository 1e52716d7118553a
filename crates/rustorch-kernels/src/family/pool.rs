//! Pooling over the trailing, spatial dimensions: a thread for each result.

use super::conv::split;
use super::strided::{self, Grid};
use crate::Hardware;
use crate::library::Order;
use crate::plan::{Plan, Request, StepBuilder, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl, Word};
use rustorch_core::{DType, Decline, Layout, Op, OpType, PoolWindow, Shape};
use std::fmt::Write;

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    dtype: DType,
    task: Task,
    /// Whether windows part the input evenly, else they slide.
    adaptive: bool,
    /// Spatial dimensions, and the others.
    ranks: [usize; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Task {
    /// The largest of each window and where it is.
    Max,
    /// The mean of each window.
    Mean(Divisor),
    /// The gradient of its input.
    MeanBackward(Divisor),
}

/// By what the sum of a window is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Divisor {
    /// Elements of the input.
    Inside,
    /// Those and the padding's.
    Padded,
    /// A parameter.
    Given,
}

/// What it pools.
pub const ROWS: &[Row] = &[
    row(OpType::Pooling, &["max_pool", "adaptive_max_pool"], sets::ORDERED)
        .beside(&[DType::I64])
        .check(check),
    row(
        OpType::Pooling,
        &["avg_pool", "avg_pool_backward", "adaptive_avg_pool", "adaptive_avg_pool_backward"],
        sets::FLOAT,
    )
    .check(check),
];

/// Positions are computed in 32 bits, products of two lengths of adaptive pooling too.
fn check(_: &Op, args: &[rustorch_core::TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    match args[0].dims().iter().any(|&len| len > 1 << 15) {
        true => Err(Decline::Attr("more than 32768 elements along a dimension")),
        false => Ok(()),
    }
}

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let divisor = |pool: &rustorch_core::AvgPool| match (pool.divisor, pool.count_include_pad) {
        (Some(_), _) => Divisor::Given,
        (None, true) => Divisor::Padded,
        (None, false) => Divisor::Inside,
    };
    let (task, spatial, window, dilation, given): (_, _, Option<&PoolWindow>, &[usize], _) = match request.op
    {
        Op::MaxPool(pool) => (Task::Max, pool.dilation.len(), Some(&pool.window), &pool.dilation, None),
        Op::AdaptiveMaxPool(pool) => (Task::Max, pool.size.len(), None, &[], None),
        Op::AvgPool(pool) => {
            let task = Task::Mean(divisor(pool));
            (task, pool.window.kernel.len(), Some(&pool.window), &[], pool.divisor)
        }
        Op::AdaptiveAvgPool(pool) => (Task::Mean(Divisor::Inside), pool.size.len(), None, &[], None),
        Op::AvgPoolBackward { pool, spatial } => {
            let task = Task::MeanBackward(divisor(pool));
            (task, spatial.len(), Some(&pool.window), &[], pool.divisor)
        }
        Op::AdaptiveAvgPoolBackward { spatial } => {
            (Task::MeanBackward(Divisor::Inside), spatial.len(), None, &[], None)
        }
        op => return Err(Decline::Op(op.name())),
    };
    let outer = x.layout.rank() - spatial;
    let large = |_| Decline::Attr("too large");
    let shape = Shape::new(&x.layout.dims()[..outer]).map_err(large)?;
    let lead = Layout::new(shape, &x.layout.strides()[..outer], 0).map_err(large)?;
    let grid = Grid::new(&[&lead]);
    let kernel = Pool { dtype: x.dtype, task, adaptive: window.is_none(), ranks: [spatial, grid.rank()] };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let (from, to) = (launch.read(&x)?, launch.write(&out)?);
    let second = if task == Task::Max { launch.write(&request.out(1))? } else { 0 };
    let elements = out.layout.elements();
    launch.number(elements)?.word(from).word(to).word(second).number(given.unwrap_or(1))?;
    let (input, output) = match task {
        Task::MeanBackward(_) => (&out, &x),
        _ => (&x, &out),
    };
    for d in 0..spatial {
        launch.number(input.layout.dims()[outer + d])?.number(output.layout.dims()[outer + d])?;
        let [kernel, stride, padding] = match window {
            Some(window) => [window.kernel[d], window.stride[d], window.padding[d]],
            None => [1, 1, 0],
        };
        launch.number(kernel)?.number(stride)?.number(padding)?;
        launch.number(dilation.get(d).copied().unwrap_or(1))?;
        launch.number(x.layout.strides()[outer + d])?;
    }
    grid.describe(&mut launch)?;
    plan.step(launch, line(elements.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

/// A spatial dimension's numbers.
struct Dimension {
    input: Word,
    output: Word,
    kernel: Word,
    stride: Word,
    padding: Word,
    dilation: Word,
    step: Word,
}

impl Pool {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Pool { dtype, task, adaptive, ranks: [spatial, rank] } = *self;
        let order = Order::of(dtype);
        let mut module = Module::new();
        let x = match task {
            Task::Max => order.elements(&mut module, "x", hardware),
            _ => module.elements("x", dtype, false, hardware),
        };
        let y = match task {
            Task::Max if dtype.size() == Some(8) => module.bit_places("y", dtype),
            _ => module.places("y", dtype, hardware),
        };
        let indices = (task == Task::Max).then(|| module.places("indices", DType::I64, hardware));
        let (n, from, to, second, given) =
            (module.word(), module.word(), module.word(), module.word(), module.word());
        let dimensions: Vec<Dimension> = (0..spatial)
            .map(|_| Dimension {
                input: module.word(),
                output: module.word(),
                kernel: module.word(),
                stride: module.word(),
                padding: module.word(),
                dilation: module.word(),
                step: module.word(),
            })
            .collect();
        let grid = strided::parameters(&mut module, rank, 1);
        let ty = x.value();
        let backward = matches!(task, Task::MeanBackward(_));
        let own = if backward { 'x' } else { 'o' };
        let lens: Vec<String> = dimensions
            .iter()
            .map(|d| if backward { d.input.to_string() } else { d.output.to_string() })
            .collect();
        let mut body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if t >= {n} {{ return; }}
            {}
            var base = {from};
            {}\n",
            split("t", "lead", own, &lens),
            grid.positions("lead", &["base"])
        );
        body += match task {
            Task::Max => "var best = order_least();\nvar best_at = 0xffffffffu;\n".to_owned(),
            _ => format!("var sum = {ty}(0.0);\n"),
        }
        .as_str();
        let mut flat = String::from("0u");
        let mut at = String::from("base");
        for (d, dimension) in dimensions.iter().enumerate() {
            let step = dimension.step;
            let _ = match backward {
                true => writeln!(body, "{}", dimension.outputs(d, adaptive)),
                false => writeln!(body, "{}", dimension.inputs(d, adaptive)),
            };
            flat = format!("({flat}) * {} + x{d}", dimension.input);
            let _ = write!(at, " + {}{d} * {step}", if backward { 'o' } else { 'x' });
        }
        let divisor = match task {
            Task::Mean(divisor) | Task::MeanBackward(divisor) => divisor,
            Task::Max => Divisor::Given,
        };
        let counts: Vec<String> = dimensions
            .iter()
            .enumerate()
            .map(|(d, dimension)| dimension.count(d, adaptive, divisor))
            .collect();
        let count = match divisor {
            Divisor::Given => format!("{ty}({given})"),
            _ => counts.iter().map(|count| format!("{ty}({count})")).collect::<Vec<_>>().join(" * "),
        };
        let load = x.load(&at);
        let end = "}\n".repeat(spatial);
        match (task, &indices) {
            (Task::Max, Some(indices)) => {
                module.add(&order.text());
                module.add(&order.least());
                let _ = writeln!(
                    body,
                    "let key = order_key({load});
                    if best_at == 0xffffffffu || order_less(best, key) || order_nan(key) {{
                        best = key;
                        best_at = {flat};
                    }}
                    {end}
                    {}",
                    y.store_one(&format!("{to} + t"), "order_value(best)")
                );
                let none = match indices.value() {
                    "i64" => "-1li",
                    _ => "vec2<u32>(0xffffffffu, 0xffffffffu)",
                };
                let _ = writeln!(
                    body,
                    "var index = {};\nif best_at == 0xffffffffu {{ index = {none}; }}\n{}",
                    indices.from_u32("best_at"),
                    indices.store_one(&format!("{second} + t"), "index")
                );
            }
            (Task::MeanBackward(_), _) => {
                let _ = writeln!(
                    body,
                    "sum += {load} / ({count});\n{end}{}",
                    y.store_one(&format!("{to} + t"), "sum")
                );
            }
            _ => {
                let _ = writeln!(
                    body,
                    "sum += {load};\n{end}{}",
                    y.store_one(&format!("{to} + t"), &format!("sum / ({count})"))
                );
            }
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

impl Dimension {
    /// The head of a loop over the positions `x{d}` of the input in window `o{d}`.
    fn inputs(&self, d: usize, adaptive: bool) -> String {
        let Dimension { input, output, kernel, stride, padding, dilation, .. } = self;
        match adaptive {
            true => format!(
                "let first{d} = o{d} * {input} / {output};
                let end{d} = ((o{d} + 1u) * {input} + {output} - 1u) / {output};
                for (var x{d} = first{d}; x{d} < end{d}; x{d}++) {{"
            ),
            // What lies before the input is a huge number.
            false => format!(
                "for (var k{d} = 0u; k{d} < {kernel}; k{d}++) {{
                let x{d} = o{d} * {stride} + k{d} * {dilation} - {padding};
                if x{d} >= {input} {{ continue; }}"
            ),
        }
    }

    /// The head of a loop over the windows `o{d}` that have position `x{d}` of the input.
    fn outputs(&self, d: usize, adaptive: bool) -> String {
        let Dimension { input, output, kernel, stride, padding, .. } = self;
        match adaptive {
            true => format!(
                "let end{d} = ((x{d} + 1u) * {output} + {input} - 1u) / {input};
                for (var o{d} = x{d} * {output} / {input}; o{d} < end{d}; o{d}++) {{"
            ),
            false => format!(
                "let place{d} = x{d} + {padding};
                var o{d} = 0u;
                if place{d} >= {kernel} {{ o{d} = (place{d} - {kernel}) / {stride} + 1u; }}
                let end{d} = min(place{d} / {stride} + 1u, {output});
                for (; o{d} < end{d}; o{d}++) {{"
            ),
        }
    }

    /// The elements of window `o{d}`.
    fn count(&self, d: usize, adaptive: bool, divisor: Divisor) -> String {
        let Dimension { input, output, kernel, stride, padding, .. } = self;
        let start = format!("(o{d} * {stride})");
        match divisor {
            _ if adaptive => {
                format!("((o{d} + 1u) * {input} + {output} - 1u) / {output} - o{d} * {input} / {output}")
            }
            Divisor::Inside => {
                // In the coordinates of the padded input; a window has at least one of its elements.
                format!("(min({start} + {kernel}, {input} + {padding}) - max({start}, {padding}))")
            }
            _ => format!("(min({start} + {kernel}, {input} + 2u * {padding}) - {start})"),
        }
    }
}
