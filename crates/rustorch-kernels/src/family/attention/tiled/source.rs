//! The source of tiled attention. What a thread has for each of its rows, keys and columns are variables of their own, and
//! statements are written out for them: arrays would leave registers.

use super::super::CAP;
use super::super::chunks::{
    ACROSS, ChunkLayout, DEPTH, DOWN, KEY_PITCH, KEYS, KEYS_EACH, LOADS, PARTS, Quads, THREADS, add_dots,
    add_weighted, fetch, pairs, store as store_chunk, store_quad,
};
use super::super::operands::{Params as OperandParams, declare_position, more};
use super::shape::{EXCHANGE_PITCH, Shape};
use super::{Params, Tiled};
use crate::plan::parameters::Names;
use crate::wgsl::{Elements, LINEAR_GROUP, Module, Wgsl};
use crate::{Hardware, library};
use rustorch_core::DType;
use std::fmt::Write;

/// Names and sizes that the parts of the source share.
struct Source<'a> {
    shape: Shape,
    params: &'a Params<Names>,
    /// Statements that add the mask's element to `score`.
    masked: String,
    /// Statements that say how many keys query 0 sees.
    more: String,
}

pub(super) fn wgsl(kernel: &Tiled, hardware: &Hardware) -> Wgsl {
    let Tiled { kind, shape, quads, split } = *kernel;
    let mut module = Module::new();
    let q = module.elements("q", kind.queries, false, hardware);
    let [k, v] = [("k", quads[0]), ("v", quads[1])]
        .map(|(name, aligned)| Quads::declare(&mut module, name, kind.keys, aligned, hardware));
    let mask = kind.mask.map(|(dtype, _)| (dtype, module.elements("mask", dtype, false, hardware)));
    let position = declare_position(&mut module, &kind, hardware);
    let y_dtype = if split { DType::F32 } else { kind.queries };
    let y = module.elements("y", y_dtype, true, hardware);
    let lse = (kind.lse && !split).then(|| module.elements("lse", DType::F32, true, hardware));
    let params = module.parameters::<Params>((kind.ranks, kind.mask.map(|(_, rank)| rank)));
    let o = &params.operands;
    let log = if lse.is_some() { "log_of()" } else { "" };
    module.add(&library::called(log, hardware));
    if kind.softcap {
        module.add(CAP);
    }
    module.add(&k.function(&o.k_stride, &o.d));
    module.add(&v.function(&o.v_stride, &o.e));
    let rows = shape.tile_rows();
    module.add(&format!(
        "const NONE: u32 = 0xff800000u;
        var<workgroup> queries: array<vec4<f32>, {}>;
        var<workgroup> chunk: array<vec4<f32>, {}>;
        var<workgroup> weights: array<vec4<f32>, {}>;
        var<workgroup> exchange: array<f32, {}>;
        var<workgroup> largest: array<f32, {rows}>;
        var<workgroup> shrinks: array<f32, {rows}>;
        // The first key that a row sees, and how many it sees.
        var<workgroup> seen: array<vec2<u32>, {rows}>;
        var<workgroup> places: array<u32, {rows}>;
        var<workgroup> mask_places: array<u32, {rows}>;",
        rows * shape.d / 4,
        KEYS * KEY_PITCH,
        rows * ACROSS,
        rows * EXCHANGE_PITCH,
    ));
    let masked = match &mask {
        None => String::new(),
        Some((dtype, elements)) => {
            let load = elements.load(&format!("mask_places[row] + key * {}", o.mask_stride));
            match dtype {
                DType::Bool => format!("if !({load}) {{ score = bitcast<f32>(none); }}"),
                _ => format!("score += {load};"),
            }
        }
    };
    let more = more(position.as_ref(), &params.operands);
    let source = Source { shape, params: &params, masked, more };
    let mut body = source.begin(&q, kind.half);
    body += &source.keys(kind.softcap);
    let finish = match (split, lse) {
        (true, _) => {
            let at = format!("{} + 2u * (row * {} + split)", params.lse_start, params.splits);
            let store = |at: &str, value: &str| y.store(at, &[value.to_owned()]);
            format!("{}\n{}", store(&at, "largest[local]"), store(&format!("{at} + 1u"), "total"))
        }
        (false, None) => String::new(),
        (false, Some(lse)) => {
            let store = lse.store(&format!("{} + row", params.lse_start), &["value".to_owned()]);
            format!(
                "var value = bitcast<f32>(none);
                if total != 0.0 {{ value = largest[local] + log_of(total); }}
                {store}"
            )
        }
    };
    body += &source.end(&y, split, &finish);
    module.finish([THREADS as u32, 1, 1], &body)
}

impl Source<'_> {
    /// What the workgroup has to do, the rows that it has, and their queries.
    fn begin(&self, q: &Elements, half: bool) -> String {
        let Params { operands, heads, tiles, splits, each, groups, .. } = self.params;
        let OperandParams { m, group, n, d, q_start, q_stride, k_start, v_start, .. } = operands;
        let OperandParams { mask_start, window, causal, q_grid, k_grid, v_grid, mask_grid, .. } = operands;
        let more = &self.more;
        let rows = self.shape.tile_rows();
        let row_quads = self.shape.d / 4;
        let mask_place = match mask_grid {
            Some(grid) => format!(
                "var mask_at = {mask_start};\n{}mask_places[local] = mask_at;",
                grid.positions("row", &["mask_at"])
            ),
            None => String::new(),
        };
        let quad: String = PARTS
            .into_iter()
            .enumerate()
            .map(|(c, part)| {
                let x = q.load(&format!("places[row] + (column + {c}u) * {q_stride}"));
                let x = if half { format!("f16_value(f16_bits({x}))") } else { x };
                format!("if column + {c}u < {d} {{ x.{part} = {x}; }}\n")
            })
            .collect();
        format!(
            "let number = {LINEAR_GROUP};
            if number >= {groups} {{ return; }}
            var none = NONE;
            let split = number % {splits};
            let head = number / {splits} % {heads};
            // Later queries see more keys: they begin first.
            let first = ({tiles} - 1u - number / {splits} / {heads}) * {rows}u;
            let row_count = min({rows}u, {group} * {m} - first);
            let across = local % {ACROSS}u;
            let down = local / {ACROSS}u;
            var k_at = {k_start};
            {}
            var v_at = {v_start};
            {}
            {more}
            let late = (first + row_count - 1u) / {group} + more;
            let last = min(select({n}, min(late, {n}), {causal} != 0u), (split + 1u) * {each});
            let early = first / {group} + more;
            let begin = max(select(0u, early - {window}, early > {window}) / {KEYS}u * {KEYS}u, split * {each});
            if local < {rows}u {{
                var view = vec2<u32>();
                if local < row_count {{
                    {}
                    var q_at = {q_start};
                    {}
                    places[local] = q_at;
                    {mask_place}
                    let here = (first + local) / {group} + more;
                    let end = select({n}, min(here, {n}), {causal} != 0u);
                    view.x = min(select(0u, here - {window}, here > {window}), end);
                    view.y = end - view.x;
                }}
                seen[local] = view;
                largest[local] = bitcast<f32>(none);
            }}
            workgroupBarrier();
            for (var f = local; f < {}u; f += {THREADS}u) {{
                let row = f / {row_quads}u;
                let column = f % {row_quads}u * 4u;
                var x = vec4<f32>();
                if row < row_count {{
                    {quad}
                }}
                queries[f] = x;
            }}\n",
            k_grid.positions("head", &["k_at"]),
            v_grid.positions("head", &["v_at"]),
            self.number("local"),
            q_grid.positions("row", &["q_at"]),
            rows * row_quads,
        )
    }

    /// The number of the query of a row of the tile among all, as `row`.
    fn number(&self, row: &str) -> String {
        let OperandParams { m, group, .. } = &self.params.operands;
        format!("let row = (head * {group} + (first + {row}) % {group}) * {m} + (first + {row}) / {group};")
    }

    /// The loop over tiles of keys.
    fn keys(&self, softcap: bool) -> String {
        let Shape { rows, d, e } = self.shape;
        let columns = self.shape.column_quads();
        let value_keys = self.shape.value_keys();
        let (key_chunks, value_chunks) = (d / DEPTH, KEYS / value_keys);
        let mut text = String::new();
        for load in 0..LOADS {
            let _ = writeln!(text, "var staged{load}: vec4<f32>;");
        }
        for i in 0..rows {
            let _ = writeln!(text, "var total{i} = 0.0;");
            for c in 0..columns {
                let _ = writeln!(text, "var sum{i}_{c} = vec4<f32>();");
            }
        }
        text += &self.fetch_keys("begin", "0u");
        let _ = writeln!(text, "for (var keys = begin; keys < last; keys += {KEYS}u) {{");
        for (i, j) in pairs(rows, KEYS_EACH) {
            let _ = writeln!(text, "var dot{i}_{j} = 0.0;");
        }
        let _ = writeln!(
            text,
            "for (var part = 0u; part < {key_chunks}u; part++) {{
                {}
                workgroupBarrier();
                if part + 1u < {key_chunks}u {{ {} }} else {{ {} }}
                for (var c = 0u; c < {}u; c++) {{ {} }}
                workgroupBarrier();
            }}
            {}
            for (var part = 0u; part < {value_chunks}u; part++) {{
                {}
                workgroupBarrier();
                if part + 1u < {value_chunks}u {{ {} }} else {{ {} }}
                for (var c = 0u; c < {}u; c++) {{ {} }}
                workgroupBarrier();
            }}
            }}",
            store_chunk(ChunkLayout::Deep),
            self.fetch_keys("keys", "part + 1u"),
            self.fetch_values("keys", "0u"),
            DEPTH / 4,
            add_dots(rows, "dot", "queries", d / 4),
            self.softmax(softcap),
            store_chunk(ChunkLayout::Wide { width: e }),
            self.fetch_values("keys", "part + 1u"),
            self.fetch_keys(&format!("keys + {KEYS}u"), "0u"),
            value_keys / 4,
            add_weighted(rows, "sum", e),
        );
        text
    }

    fn fetch_keys(&self, keys: &str, part: &str) -> String {
        let at = format!("k_at + key * {}", self.params.operands.k_row);
        fetch(ChunkLayout::Deep, [keys, part, "last"], "k", &at)
    }

    fn fetch_values(&self, keys: &str, part: &str) -> String {
        let at = format!("v_at + key * {}", self.params.operands.v_row);
        fetch(ChunkLayout::Wide { width: self.shape.e }, [keys, part, "last"], "v", &at)
    }

    /// Makes weights of the scores, and brings sums to the new maxima.
    fn softmax(&self, softcap: bool) -> String {
        let OperandParams { scale, cap, .. } = &self.params.operands;
        let (rows, tile_rows) = (self.shape.rows, self.shape.tile_rows());
        let mut text = String::new();
        let capped = match softcap {
            true => format!("score = smooth_tanh(score / {cap}) * {cap};"),
            false => String::new(),
        };
        for i in 0..rows {
            let _ = writeln!(text, "{{ let row = down + {}u; let view = seen[row];", i * DOWN);
            for j in 0..KEYS_EACH {
                let _ = writeln!(
                    text,
                    "{{ let key = keys + across * {KEYS_EACH}u + {j}u;
                    var score = bitcast<f32>(none);
                    if key - view.x < view.y {{ score = dot{i}_{j} * {scale}; {capped} {} }}
                    dot{i}_{j} = score; }}",
                    self.masked
                );
            }
            let most = (1..KEYS_EACH).fold(format!("dot{i}_0"), |most, j| format!("max({most}, dot{i}_{j})"));
            let _ = writeln!(text, "exchange[row * {EXCHANGE_PITCH}u + across] = {most}; }}");
        }
        let _ = writeln!(
            text,
            "workgroupBarrier();
            if local < {tile_rows}u {{
                let before = largest[local];
                var most = before;
                for (var t = 0u; t < {ACROSS}u; t++) {{ most = max(most, exchange[local * {EXCHANGE_PITCH}u + t]); }}
                largest[local] = most;
                // A row whose maximum stays is left as it is, to the last bit.
                var shrink = 1.0;
                if most > before {{ shrink = select(exp(before - most), 0.0, bitcast<u32>(before) == none); }}
                shrinks[local] = shrink;
            }}
            workgroupBarrier();"
        );
        for i in 0..rows {
            let weights: Vec<String> = (0..KEYS_EACH)
                .map(|j| format!("select(exp(dot{i}_{j} - most), 0.0, bitcast<u32>(dot{i}_{j}) == none)"))
                .collect();
            let _ = writeln!(
                text,
                "{{ let row = down + {}u; let most = largest[row]; let shrink = shrinks[row];
                let weight = vec4<f32>({});
                weights[row * {ACROSS}u + across] = weight;
                total{i} = fma(total{i}, shrink, weight.x + weight.y + weight.z + weight.w);",
                i * DOWN,
                weights.join(", "),
            );
            for c in 0..self.shape.column_quads() {
                let _ = writeln!(text, "sum{i}_{c} *= shrink;");
            }
            text += "}\n";
        }
        text
    }

    /// Stores results, and what `finish` stores of each row.
    fn end(&self, y: &Elements, split: bool, finish: &str) -> String {
        let Params { operands: OperandParams { e, .. }, y_start, splits, .. } = self.params;
        let mut text = String::new();
        for i in 0..self.shape.rows {
            let _ =
                writeln!(text, "exchange[(down + {}u) * {EXCHANGE_PITCH}u + across] = total{i};", i * DOWN);
        }
        let _ = writeln!(
            text,
            "workgroupBarrier();
            if local < row_count {{
                var total = 0.0;
                for (var t = 0u; t < {ACROSS}u; t++) {{ total += exchange[local * {EXCHANGE_PITCH}u + t]; }}
                shrinks[local] = select(0.0, {}, total != 0.0);
                {}
                {finish}
            }}
            workgroupBarrier();",
            // Splits are divided by the sum of all of them.
            if split { "1.0" } else { "1.0 / total" },
            self.number("local"),
        );
        let row = if split { format!("row * {splits} + split") } else { "row".to_owned() };
        for i in 0..self.shape.rows {
            let _ = writeln!(
                text,
                "if down + {0}u < row_count {{
                    {1}
                    let factor = shrinks[down + {0}u];
                    let y_at = {y_start} + ({row}) * {e};",
                i * DOWN,
                self.number(&format!("down + {}u", i * DOWN)),
            );
            for c in 0..self.shape.column_quads() {
                let values = PARTS.map(|part| format!("sum{i}_{c}.{part} * factor"));
                let _ = writeln!(
                    text,
                    "{{ let column = ({}u + across) * 4u; {} }}",
                    c * ACROSS,
                    store_quad(y, "y_at + column", "column", e, &values)
                );
            }
            text += "}\n";
        }
        text
    }
}
