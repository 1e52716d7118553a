//! Tiled convolution: a workgroup per tile, with chunks of kernel and source in workgroup memory.

use super::sum::{self, Carry, Form, Function, Sum, SumParams};
use crate::Hardware;
use crate::family::{Plan, StepBuilder};
use crate::plan::parameters::parameters;
use crate::plan::{Place, Request, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word};
use rustorch_core::{DType, Decline};
use std::fmt::Write;

/// Columns of a tile: each thread brings the source of one.
const COLUMNS: usize = WORKGROUP as usize;
/// How much of the depth is in memory at a time.
pub(super) const DEPTH: usize = 16;
/// Threads side by side along the columns, and along the rows.
const ACROSS: usize = 16;
const DOWN: usize = COLUMNS / ACROSS;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiled {
    form: Form,
    function: Function,
    /// Rows of a tile, a multiple of [`DOWN`].
    rows: usize,
    /// Whether results of 16 bits share a word with those of another thread.
    shared: bool,
    carry: Carry,
}

parameters! {
    /// Kernel parameters.
    struct Params() {
        sum: SumParams,
        down: usize,
        across: usize,
        tiles: usize,
    }
}

/// Adds the launch. Sums that are carried lie as results do.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    sum: &Sum,
    carry: Carry,
    sums: Option<Place>,
) -> Result<(), Decline> {
    let rows = sum.rows.next_power_of_two().clamp(DOWN, 32);
    let shared = !sum.plane.is_multiple_of(per_word(request.outs[0].dtype));
    let function = Function::of(request);
    let kernel = Tiled { form: sum.form, function, rows, shared, carry };
    let mut step = StepBuilder::new(request.hardware, kernel);
    let bytes = request.out(0).layout.numel() * super::accumulator(function.dtype).block_bytes();
    let sums = sums.filter(|_| carry.any()).map(|place| (place, bytes as u64));
    let (down, across) = (sum.rows.div_ceil(rows), sum.columns.div_ceil(COLUMNS));
    let tiles = down * across * sum.groups;
    let params = Params { sum: sum.bind(&mut step, request, carry, sums)?, down, across, tiles };
    step.parameters(&params)?;
    plan.step(step, line(tiles, request.hardware)?);
    Ok(())
}

impl Tiled {
    pub(in super::super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Tiled { form, function, rows, shared, carry } = *self;
        let dtype = function.dtype;
        let mut module = Module::new();
        let output = |module: &mut Module| match shared {
            true => {
                module.buffer("y", "array<atomic<u32>>", true);
                None
            }
            false => Some(module.elements("y", dtype, true, hardware)),
        };
        let (Params { sum: words, down, across, tiles }, output) =
            sum::declare::<_, Params>(&mut module, form, function, hardware, carry, output, |params| {
                &params.sum
            });
        // A line more than there are rows, so that threads write to different banks.
        let pitch = rows + 1;
        module.add(&format!(
            "var<workgroup> left: array<Number, {}>;
            var<workgroup> right: array<Number, {}>;
            fn place(column: u32, channel: u32) -> u32 {{
                let lead = column / {plane};
                return {} + (lead * {} + channel) * {plane} + column - lead * {plane};
            }}",
            DEPTH * pitch,
            DEPTH * COLUMNS,
            words.y_start,
            words.channels,
            plane = words.plane,
        ));
        let output = output.flatten();
        if shared && !carry.on {
            let bits = if dtype == DType::F16 { "f16_bits" } else { "bf16_bits" };
            module.add(&format!(
                "fn put(at: u32, v: f32) {{
                    let shift = (at & 1u) * 16u;
                    atomicAnd(&y[at >> 1u], ~(65535u << shift));
                    atomicOr(&y[at >> 1u], {bits}(v) << shift);
                }}"
            ));
        }
        let [d, h, w] = &words.depth_dims;
        let mut body = format!(
            "let tile = {LINEAR_GROUP};
            if tile >= {tiles} {{ return; }}
            let rest = tile / {down};
            let first_row = (tile - rest * {down}) * {rows}u;
            let g = rest / {across};
            let first_column = (rest - g * {across}) * {COLUMNS}u;
            let column = column_parts(min(first_column + local, {columns} - 1u));
            let lane = local & {}u;
            let line = local / {ACROSS}u;
            // The parts of the depth that comes next.
            var k0 = 0u;
            var k1 = 0u;
            var k2 = 0u;
            var k3 = 0u;\n",
            ACROSS - 1,
            columns = words.columns,
        );
        let held = rows / DOWN;
        for r in 0..held {
            let _ = writeln!(body, "var sum{r} = vec4<Number>();");
        }
        let pairs = per_word(dtype) == 2;
        let offset = |c: usize| match pairs {
            false => format!("lane + {}u", c * ACROSS),
            true => format!("lane * 2u + {}u", c / 2 * 2 * ACROSS + c % 2),
        };
        // Of row `line + r · DOWN` and every column, text by the place of the sum and its number among four.
        let carried = |r: usize, text: &dyn Fn(&str, &str) -> String| {
            let each = |c: usize| {
                let at = format!(
                    "place(first_column + {}, g * {} + row) - {}",
                    offset(c),
                    words.rows,
                    words.y_start
                );
                let text = text(&format!("sums[{at}]"), ["x", "y", "z", "w"][c]);
                format!("if first_column + {} < {} {{ {text} }}\n", offset(c), words.columns)
            };
            let all: String = (0..4).map(each).collect();
            format!(
                "{{ let row = first_row + line + {}u;\nif row < {} {{ {all} }} }}\n",
                r * DOWN,
                words.rows
            )
        };
        if carry.from {
            for r in 0..held {
                body.push_str(&carried(r, &|sum, part| format!("sum{r}.{part} = {sum};")));
            }
        }
        let _ = writeln!(
            body,
            "for (var start = 0u; start < {depth}; start += {DEPTH}u) {{
                let own = start + lane;
                let own_parts = depth_parts(min(own, {depth} - 1u));
                for (var r = line; r < {rows}u; r += {DOWN}u) {{
                    var v = Number();
                    if own < {depth} && first_row + r < {row_count} {{ v = kernel_at(g, first_row + r, own_parts); }}
                    left[lane * {pitch}u + r] = v;
                }}
                for (var j = 0u; j < {DEPTH}u; j++) {{
                    var v = Number();
                    if start + j < {depth} {{ v = source_at(g, column, vec4<u32>(k0, k1, k2, k3)); }}
                    right[j * {COLUMNS}u + local] = v;
                    k3++;
                    if k3 == {w} {{
                        k3 = 0u;
                        k2++;
                        if k2 == {h} {{
                            k2 = 0u;
                            k1++;
                            if k1 == {d} {{ k1 = 0u; k0++; }}
                        }}
                    }}
                }}
                workgroupBarrier();
                for (var j = 0u; j < {DEPTH}u; j++) {{
                    let at = j * {COLUMNS}u;
                    let b = vec4<Number>(right[at + {}], right[at + {}], right[at + {}], right[at + {}]);",
            offset(0),
            offset(1),
            offset(2),
            offset(3),
            depth = words.depth,
            row_count = words.rows,
        );
        for r in 0..held {
            let a = format!("left[j * {pitch}u + line + {}u]", r * DOWN);
            let _ = match dtype {
                DType::F64 => writeln!(body, "sum{r} += {a} * b;"),
                _ => writeln!(body, "sum{r} = fma(vec4<f32>({a}), b, sum{r});"),
            };
        }
        body.push_str("}\nworkgroupBarrier();\n}\n");
        if carry.on {
            for r in 0..held {
                body.push_str(&carried(r, &|sum, part| format!("{sum} = sum{r}.{part};")));
            }
            return module.finish([WORKGROUP, 1, 1], &body);
        }
        for r in 0..held {
            let _ = writeln!(
                body,
                "{{ let row = first_row + line + {}u;\nif row < {} {{\nlet channel = g * {} + row;",
                r * DOWN,
                words.rows,
                words.rows
            );
            let value = |c: usize| format!("finish(sum{r}.{}, channel)", ["x", "y", "z", "w"][c]);
            for c in (0..4).step_by(if pairs && !shared { 2 } else { 1 }) {
                let store = match &output {
                    None => format!("put(place(at, channel), {});", value(c)),
                    Some(y) if pairs => y.store("place(at, channel) / 2u", &[value(c), value(c + 1)]),
                    Some(y) => y.store("place(at, channel)", &[value(c)]),
                };
                let _ = writeln!(
                    body,
                    "{{ let at = first_column + {}; if at < {} {{ {store} }} }}",
                    offset(c),
                    words.columns
                );
            }
            body.push_str("} }\n");
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
