//! The source of gradients in tiles. Statements are written out for each row and column of a thread, as in the forward kernel.

use super::tiled::{Params, Rows, Side, TiledBackward};
use crate::Hardware;
use crate::family::attention::CAP;
use crate::family::attention::chunks::{
    ACROSS, CHUNK, ChunkLayout, DEPTH, DOWN, KEY_PITCH, KEYS, KEYS_EACH, LOADS, PARTS, Quads, THREADS,
    add_dots, add_weighted, fetch, pairs, store as store_chunk, store_quad,
};
use crate::plan::parameters::Names;
use crate::wgsl::{Elements, LINEAR_GROUP, Module, Wgsl};
use rustorch_core::DType;
use std::fmt::Write;

/// Names and sizes that the parts of the source share.
struct Source<'a> {
    kernel: TiledBackward,
    params: &'a Params<Names>,
    lse: Elements,
    delta: Option<Elements>,
    /// Statements that add the mask's element to `score`.
    masked: String,
}

/// One pass over a tile of the other side, in chunks.
struct Pass {
    /// Statements before it.
    before: String,
    /// Whether rows are those of queries and keys, else of gradients and values.
    scored: bool,
    layout: ChunkLayout,
    chunks: usize,
    /// Times that four columns or rows of a chunk are added.
    steps: usize,
    add: String,
}

pub(super) fn wgsl(kernel: &TiledBackward, hardware: &Hardware) -> Wgsl {
    let TiledBackward { side, dtype, softcap, rows, quads, rank, .. } = *kernel;
    let mut module = Module::new();
    let declare = |module: &mut Module, name, aligned| Quads::declare(module, name, dtype, aligned, hardware);
    let q = declare(&mut module, "q", quads[0]);
    let k = declare(&mut module, "k", quads[1]);
    let grad = declare(&mut module, "grad", quads[3]);
    let lse = module.elements("lse", DType::F32, false, hardware);
    let (v, delta) = match side.needs_score_gradients() {
        true => {
            let v = declare(&mut module, "v", quads[2]);
            (Some(v), Some(module.elements("delta", DType::F32, false, hardware)))
        }
        false => (None, None),
    };
    let mask = kernel.mask.map(|dtype| (dtype, module.elements("mask", dtype, false, hardware)));
    let y = side.needs_score_gradients().then(|| module.elements("y", dtype, true, hardware));
    let z = side.makes_values().then(|| module.elements("z", dtype, true, hardware));
    let params = module.parameters::<Params>((rank, 5 + usize::from(mask.is_some())));
    for (quads, Rows { stride, .. }, width) in [
        (Some(&q), &params.q, &params.d),
        (Some(&k), &params.k, &params.d),
        (Some(&grad), &params.grad, &params.e),
        (v.as_ref(), &params.v, &params.e),
    ] {
        if let Some(quads) = quads {
            module.add(&quads.function(stride, width));
        }
    }
    if softcap {
        module.add(CAP);
    }
    let masked = match &mask {
        None => String::new(),
        Some((dtype, elements)) => {
            let load = elements.load(&format!("mask_row + key * {}", params.mask.stride));
            match dtype {
                DType::Bool => format!("if !({load}) {{ score = bitcast<f32>(none); }}"),
                _ => format!("score += {load};"),
            }
        }
    };
    let source = Source { kernel: *kernel, params: &params, lse, delta, masked };
    let tile_rows = rows * DOWN;
    let [own, beside] = source.depths().map(|width| tile_rows * width / 4);
    module.add(&format!(
        "const NONE: u32 = 0xff800000u;
        var<workgroup> own: array<vec4<f32>, {own}>;
        var<workgroup> chunk: array<vec4<f32>, {}>;
        var<workgroup> weights: array<vec4<f32>, {}>;",
        KEYS * KEY_PITCH,
        tile_rows * ACROSS,
    ));
    if side.needs_score_gradients() {
        module.add(&format!("var<workgroup> beside: array<vec4<f32>, {beside}>;"));
    }
    let mut body = source.begin();
    body += &source.others();
    if let Some(y) = y {
        body += &source.end(&y, "y", &params.y_start.to_string(), &params.d.to_string(), kernel.widths[0]);
    }
    if let Some(z) = z {
        body += &source.end(&z, "z", &params.z_start.to_string(), &params.e.to_string(), kernel.widths[1]);
    }
    module.finish([THREADS as u32, 1, 1], &body)
}

impl Source<'_> {
    /// The widths of rows that stay in workgroup memory.
    fn depths(&self) -> [usize; 2] {
        self.kernel.widths.map(|width| width.next_multiple_of(DEPTH))
    }

    /// Where row `key` of queries or gradients begins, of a head's.
    fn query_row(&self, name: &str, Rows { head, row, .. }: &Rows<Names>) -> String {
        let group = &self.params.group;
        format!("{name}_at + key % {group} * {head} + key / {group} * {row}")
    }

    /// The name and the beginning of row `key` of a side: of queries and keys where scores are made of them, else of gradients
    /// and values.
    fn row(&self, queries: bool, scored: bool) -> (&'static str, String) {
        let Params { q, k, v, grad, .. } = self.params;
        match (queries, scored) {
            (true, true) => ("q", self.query_row("q", q)),
            (true, false) => ("grad", self.query_row("grad", grad)),
            (false, true) => ("k", format!("k_at + key * {}", k.row)),
            (false, false) => ("v", format!("v_at + key * {}", v.row)),
        }
    }

    /// What the workgroup has to do, its rows, and which of the other side it goes over.
    fn begin(&self) -> String {
        let Params { m, group, n, q, k, v, grad, lse, mask, .. } = self.params;
        let Params { offset, window, causal, heads, tiles, groups, grid, .. } = self.params;
        let tile_rows = self.kernel.rows * DOWN;
        let mut names = vec!["q_at", "k_at", "v_at", "grad_at", "lse_at"];
        names.extend(self.kernel.mask.map(|_| "mask_at"));
        let queries = self.kernel.side == Side::Queries;
        let (first, count, range) = match queries {
            // Later queries see more keys, and earlier keys are seen by more queries: they begin first.
            true => (
                format!("{tiles} - 1u - number / {heads}"),
                format!("{group} * {m}"),
                format!(
                    "let late = (first + row_count - 1u) / {group} + more;
                    let last = select({n}, min(late, {n}), {causal} != 0u);
                    let early = first / {group} + more;
                    let begin = select(0u, early - {window}, early > {window}) / {KEYS}u * {KEYS}u;"
                ),
            ),
            false => (
                format!("number / {heads}"),
                n.to_string(),
                format!(
                    "let reach = first + row_count + {window};
                    let last = min({m}, select(0u, reach - more, reach > more)) * {group};
                    let early = select(0u, max(first + 1u, more) - more, {causal} != 0u);
                    let begin = early * {group} / {KEYS}u * {KEYS}u;"
                ),
            ),
        };
        let mut text = format!(
            "let number = {LINEAR_GROUP};
            if number >= {groups} {{ return; }}
            var none = NONE;
            let head = number % {heads};
            let first = ({first}) * {tile_rows}u;
            let row_count = min({tile_rows}u, {count} - first);
            let across = local % {ACROSS}u;
            let down = local / {ACROSS}u;
            var q_at = {};
            var k_at = {};
            var v_at = {};
            var grad_at = {};
            var lse_at = {};
            var mask_at = {};
            {}
            let more = select(0u, {offset}, {causal} != 0u) + 1u;
            {range}\n",
            q.start,
            k.start,
            v.start,
            grad.start,
            lse.start,
            mask.start,
            grid.positions("head", &names),
        );
        let mut stay = vec![("own", true, self.depths()[0])];
        if self.kernel.side.needs_score_gradients() {
            stay.push(("beside", false, self.depths()[1]));
        }
        for (array, scored, width) in stay {
            let (name, at) = self.row(queries, scored);
            let row_quads = width / 4;
            let _ = writeln!(
                text,
                "for (var f = local; f < {}u; f += {THREADS}u) {{
                    let row = f / {row_quads}u;
                    let key = first + row;
                    var x = vec4<f32>();
                    if row < row_count {{ x = {name}_quad({at}, f % {row_quads}u * 4u); }}
                    {array}[f] = x;
                }}",
                tile_rows * row_quads,
            );
        }
        text
    }

    /// The passes over a tile of the other side.
    fn passes(&self) -> Vec<Pass> {
        let TiledBackward { side, rows, widths, .. } = self.kernel;
        let [d, e] = self.depths();
        let deep = |scored: bool, width: usize, sum: &str, own: &str| Pass {
            before: String::new(),
            scored,
            layout: ChunkLayout::Deep,
            chunks: width / DEPTH,
            steps: DEPTH / 4,
            add: add_dots(rows, sum, own, width / 4),
        };
        let wide = |before: String, scored: bool, width: usize, sum: &str| Pass {
            before,
            scored,
            layout: ChunkLayout::Wide { width },
            chunks: KEYS * width / CHUNK,
            steps: CHUNK / width / 4,
            add: add_weighted(rows, sum, width),
        };
        let mut passes = vec![deep(true, d, "dot", "own")];
        if side.needs_score_gradients() {
            passes.push(deep(false, e, "along", "beside"));
        }
        let mut before = self.weights();
        if side.makes_values() {
            before += &self.store_weights("dot");
            passes.push(wide(std::mem::take(&mut before), false, widths[1], "z"));
        }
        if side.needs_score_gradients() {
            before += &self.store_weights("along");
            passes.push(wide(before, true, widths[0], "y"));
        }
        passes
    }

    /// The loop over tiles of the other side.
    fn others(&self) -> String {
        let TiledBackward { side, rows, widths, .. } = self.kernel;
        let mut text = String::new();
        for load in 0..LOADS {
            let _ = writeln!(text, "var staged{load}: vec4<f32>;");
        }
        for (sum, width, made) in
            [("y", widths[0], side.needs_score_gradients()), ("z", widths[1], side.makes_values())]
        {
            for (i, c) in pairs(if made { rows } else { 0 }, width / (4 * ACROSS)) {
                let _ = writeln!(text, "var {sum}{i}_{c} = vec4<f32>();");
            }
        }
        let passes = self.passes();
        let load = |pass: &Pass, first: &str, part: &str| {
            let (name, at) = self.row(side != Side::Queries, pass.scored);
            fetch(pass.layout, [first, part, "last"], name, &at)
        };
        text += &load(&passes[0], "begin", "0u");
        let _ = writeln!(text, "for (var others = begin; others < last; others += {KEYS}u) {{");
        for (i, j) in pairs(rows, KEYS_EACH) {
            let _ = writeln!(text, "var dot{i}_{j} = 0.0; var along{i}_{j} = 0.0;");
        }
        for (p, pass) in passes.iter().enumerate() {
            let next = match passes.get(p + 1) {
                Some(next) => load(next, "others", "0u"),
                None => load(&passes[0], &format!("others + {KEYS}u"), "0u"),
            };
            let _ = writeln!(
                text,
                "{}
                for (var part = 0u; part < {chunks}u; part++) {{
                    {}
                    workgroupBarrier();
                    if part + 1u < {chunks}u {{ {} }} else {{ {next} }}
                    for (var c = 0u; c < {}u; c++) {{ {} }}
                    workgroupBarrier();
                }}",
                pass.before,
                store_chunk(pass.layout),
                load(pass, "others", "part + 1u"),
                pass.steps,
                pass.add,
                chunks = pass.chunks,
            );
        }
        text + "}\n"
    }

    /// Makes weights of `dot`, and of `along` the gradients of scores.
    fn weights(&self) -> String {
        let Params { scale, cap, .. } = self.params;
        let queries = self.kernel.side == Side::Queries;
        let capped = match self.kernel.softcap {
            true => format!(
                "let t = smooth_tanh(score / {cap});
                score = t * {cap};
                slope *= 1.0 - t * t;"
            ),
            false => String::new(),
        };
        let rows = self.kernel.rows;
        let mut text = String::new();
        if !queries {
            for j in 0..KEYS_EACH {
                text += &self.query(&j.to_string(), &format!("others + across * {KEYS_EACH}u + {j}u"));
            }
        }
        for i in 0..rows {
            let own = format!("first + down + {}u", i * DOWN);
            text += "{\n";
            match queries {
                true => text += &self.query(&i.to_string(), &own),
                false => text += &format!("let key = {own};\n"),
            }
            for j in 0..KEYS_EACH {
                let s = if queries { i } else { j };
                let key = match queries {
                    true => format!("let key = others + across * {KEYS_EACH}u + {j}u;"),
                    false => String::new(),
                };
                let _ = writeln!(
                    text,
                    "{{ {key}
                    let mask_row = mask_row{s};
                    var weight = 0.0;
                    var factor = 0.0;
                    if key - view{s}.x < view{s}.y {{
                        var score = dot{i}_{j} * {scale};
                        var slope = {scale};
                        {capped}
                        {}
                        weight = select(exp(score - lse{s}), 0.0, bitcast<u32>(score) == none);
                        factor = weight * (along{i}_{j} - delta{s}) * slope;
                    }}
                    dot{i}_{j} = weight;
                    along{i}_{j} = factor; }}",
                    self.masked
                );
            }
            text += "}\n";
        }
        text
    }

    /// What belongs to query `row` of the head: the first key that it sees and how many, none if its sum is none; its
    /// log-sum-exp, `delta.rs`'s sum, and its row of the mask.
    fn query(&self, suffix: &str, row: &str) -> String {
        let Params { m, group, n, lse, mask, offset: _, window, causal, .. } = self.params;
        let load = self.lse.load(&format!("lse_at + shared_by * {} + query * {}", lse.head, lse.row));
        let delta = match &self.delta {
            Some(delta) => {
                let load = delta.load(&format!("(head * {group} + shared_by) * {m} + query"));
                format!("delta{suffix} = {load};")
            }
            None => String::new(),
        };
        format!(
            "var view{suffix} = vec2<u32>();
            var lse{suffix} = 0.0;
            var delta{suffix} = 0.0;
            var mask_row{suffix} = mask_at;
            if {row} < {group} * {m} {{
                let query = ({row}) / {group};
                let shared_by = ({row}) % {group};
                let here = query + more;
                let end = select({n}, min(here, {n}), {causal} != 0u);
                view{suffix}.x = min(select(0u, here - {window}, here > {window}), end);
                lse{suffix} = {load};
                view{suffix}.y = select(end - view{suffix}.x, 0u, bitcast<u32>(lse{suffix}) == none);
                {delta}
                mask_row{suffix} += shared_by * {} + query * {};
            }}\n",
            mask.head, mask.row,
        )
    }

    fn store_weights(&self, of: &str) -> String {
        let store = |i: usize| {
            let weights: Vec<String> = (0..KEYS_EACH).map(|j| format!("{of}{i}_{j}")).collect();
            format!(
                "weights[(down + {}u) * {ACROSS}u + across] = vec4<f32>({});\n",
                i * DOWN,
                weights.join(", ")
            )
        };
        (0..self.kernel.rows).map(store).collect()
    }

    /// Stores a gradient.
    fn end(&self, y: &Elements, sum: &str, start: &str, width: &str, columns: usize) -> String {
        let Params { m, group, n, .. } = self.params;
        let row = match self.kernel.side {
            Side::Queries => format!("(head * {group} + own_row % {group}) * {m} + own_row / {group}"),
            Side::Keys { .. } => format!("head * {n} + own_row"),
        };
        let mut text = String::new();
        for i in 0..self.kernel.rows {
            let _ = writeln!(
                text,
                "if down + {0}u < row_count {{
                    let own_row = first + down + {0}u;
                    let y_at = {start} + ({row}) * {width};",
                i * DOWN,
            );
            for c in 0..columns / (4 * ACROSS) {
                let values = PARTS.map(|part| format!("{sum}{i}_{c}.{part}"));
                let _ = writeln!(
                    text,
                    "{{ let column = ({}u + across) * 4u; {} }}",
                    c * ACROSS,
                    store_quad(y, "y_at + column", "column", width, &values)
                );
            }
            text += "}\n";
        }
        text
    }
}
