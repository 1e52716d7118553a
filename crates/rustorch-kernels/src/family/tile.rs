//! Tiled GEMM: a workgroup computes a tile from strips of two operands, whatever their element type and addressing.
//!
//! Each result is one chain of multiply-adds over the inner dimension, in order, or the sum of such chains, independent of the
//! tile size.

use crate::library::Ring;
use crate::wgsl::Module;
use std::fmt::Write;

/// What a workgroup makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Tile {
    /// Sixteen results of one row; the threads are more, to read the strips.
    Row,
    /// Eight rows of 32.
    Thin,
    /// 32 by 32, four to a thread.
    Small,
    /// 64 by 64, sixteen to a thread.
    Large,
}

/// Numbers of a tile.
struct Sizes {
    /// Threads that sum: columns, rows.
    threads: [usize; 2],
    /// Columns and rows of each.
    each: [usize; 2],
    /// Threads of the workgroup.
    workgroup: usize,
    /// Inner elements at a time.
    depth: usize,
}

impl Tile {
    /// For `m` rows of `n` results.
    pub(super) fn choose(m: usize, n: usize, ring: Ring) -> Tile {
        match m {
            0..=1 => Tile::Row,
            2..=8 => Tile::Thin,
            _ if ring.size == 4 && m >= 48 && n >= 48 => Tile::Large,
            _ => Tile::Small,
        }
    }

    /// Rows and columns.
    pub(super) fn shape(self) -> [usize; 2] {
        let Sizes { threads, each, .. } = self.sizes(4);
        [threads[1] * each[1], threads[0] * each[0]]
    }

    /// How many of them `m` rows of `n` results take: across, and in all.
    pub(super) fn count(self, m: usize, n: usize) -> [usize; 2] {
        let [rows, columns] = self.shape();
        let across = n.div_ceil(columns);
        [across, across * m.div_ceil(rows)]
    }

    /// The strips of numbers of `size` bytes take less than 16 KiB.
    fn sizes(self, size: usize) -> Sizes {
        let of = |threads: [usize; 2], each: [usize; 2], workgroup, bytes| Sizes {
            threads,
            each,
            workgroup,
            depth: bytes / size,
        };
        match self {
            Tile::Row => of([16, 1], [1, 1], 64, 256),
            Tile::Thin => of([32, 8], [1, 1], 256, 128),
            Tile::Small => of([16, 16], [2, 2], 256, 64),
            Tile::Large => of([16, 16], [4, 4], 256, 64),
        }
    }
}

/// One operand of a matmul.
pub(super) struct Side<'a> {
    /// Statements that leave in `v` the factor of row (or column) `j` and inner element `i`.
    pub(super) load: &'a str,
    /// How many rows (or columns) there are, an expression.
    pub(super) count: &'a str,
    /// Whether neighbours in memory are neighbours along the inner dimension.
    pub(super) inner: bool,
    /// Whether `load` leaves four factors, of `i` and those after it, in `v: vec4<f32>`. The length of the inner dimension
    /// is a multiple of four then, and the factors are `f32`.
    pub(super) quads: bool,
}

/// A matmul of rows of `left` with columns of `right`.
pub(super) struct TiledGemm<'a> {
    pub(super) tile: Tile,
    pub(super) ring: Ring,
    pub(super) left: Side<'a>,
    pub(super) right: Side<'a>,
    /// The length of the inner dimension, an expression.
    pub(super) len: &'a str,
    /// If a result is more than one chain: how many inner elements each has, a multiple of every tile's depth. They are
    /// added in order.
    pub(super) segment: Option<usize>,
}

impl TiledGemm<'_> {
    /// The shape of the workgroup.
    pub(super) fn workgroup(&self) -> [u32; 3] {
        [self.tile.sizes(self.ring.size).workgroup as u32, 1, 1]
    }

    /// Statements that make the tile from `first_row` and `first_column` on, and give each result within bounds to
    /// `store`, which finds row `r` and column `c`. `one` is an expression of the value 1 that compilers do not know.
    pub(super) fn text(&self, module: &mut Module, one: &str, store: impl Fn(&str) -> String) -> String {
        let TiledGemm { tile, ring, left, right, len, segment } = self;
        let Sizes { threads: [tx, ty], each: [ex, ey], workgroup, depth } = tile.sizes(ring.size);
        let [rows, columns] = tile.shape();
        let (element, sum) = (ring.ty, ring.sum());
        let (left_pitch, right_pitch) = (rows + 1, columns + 1);
        module.add(&ring.add());
        module.add(&ring.step());
        module.add(&format!(
            "var<workgroup> lefts: array<{element}, {}>;\nvar<workgroup> rights: array<{element}, {}>;",
            depth * left_pitch,
            depth * right_pitch
        ));
        let mut body = format!("let column = local % {tx}u;\nlet row = local / {tx}u;\n");
        if ring.needs_one() {
            let _ = writeln!(body, "ring_one = f64({one});");
        }
        for (i, j) in pairs(ey, ex) {
            let _ = writeln!(body, "var sum{i}_{j} = {sum}();");
            if segment.is_some() {
                let _ = writeln!(body, "var total{i}_{j} = {sum}();");
            }
        }
        let _ = writeln!(body, "for (var start = 0u; start < {len}; start += {depth}u) {{");
        for (name, side, width, first) in
            [("lefts", left, rows, "first_row"), ("rights", right, columns, "first_column")]
        {
            let each = if side.quads { 4 } else { 1 };
            let long = depth / each;
            let (inner, outer) = match side.inner {
                true => (format!("e % {long}u"), format!("e / {long}u")),
                false => (format!("e / {width}u"), format!("e % {width}u")),
            };
            let pitch = width + 1;
            let (ty, store) = match side.quads {
                true => {
                    let place = |c: usize| format!("{name}[(inner + {c}u) * {pitch}u + outer]");
                    let parts = ["x", "y", "z", "w"].into_iter().enumerate();
                    let stores = parts.map(|(c, part)| format!("{} = v.{part};\n", place(c)));
                    ("vec4<f32>", stores.collect::<String>())
                }
                false => (element, format!("{name}[inner * {pitch}u + outer] = v;")),
            };
            let _ = writeln!(
                body,
                "for (var e = local; e < {}u; e += {workgroup}u) {{
                    let inner = ({inner}) * {each}u;
                    let outer = {outer};
                    let i = start + inner;
                    let j = {first} + outer;
                    var v = {ty}();
                    if i < {len} && j < {} {{ {} }}
                    {store}
                }}",
                width * long,
                side.count,
                side.load,
            );
        }
        // Beyond the inner dimension's end both strips are zero.
        let _ =
            writeln!(body, "workgroupBarrier();\nif row < {ty}u {{ for (var i = 0u; i < {depth}u; i++) {{");
        for i in 0..ey {
            let _ = writeln!(body, "let a{i} = lefts[i * {left_pitch}u + row + {}u];", i * ty);
        }
        for j in 0..ex {
            let _ = writeln!(body, "let b{j} = rights[i * {right_pitch}u + column + {}u];", j * tx);
        }
        for (i, j) in pairs(ey, ex) {
            let _ = writeln!(body, "sum{i}_{j} = ring_step(a{i}, b{j}, sum{i}_{j});");
        }
        body.push_str("} }\nworkgroupBarrier();\n");
        if let Some(segment) = segment {
            let _ = writeln!(body, "if (start + {depth}u) % {segment}u == 0u {{");
            for (i, j) in pairs(ey, ex) {
                let _ = writeln!(
                    body,
                    "total{i}_{j} = ring_add(total{i}_{j}, sum{i}_{j}); sum{i}_{j} = {sum}();"
                );
            }
            body.push_str("}\n");
        }
        let _ = writeln!(body, "}}\nif row >= {ty}u {{ return; }}");
        for (i, j) in pairs(ey, ex) {
            let _ = writeln!(
                body,
                "{{ let r = first_row + row + {}u; let c = first_column + column + {}u;
                if r < {} && c < {} {{ {} }} }}",
                i * ty,
                j * tx,
                left.count,
                right.count,
                store(&match segment {
                    None => format!("ring_end(sum{i}_{j})"),
                    // What is left of the last one, or nothing, which changes no sum.
                    Some(_) => format!("ring_add(total{i}_{j}, sum{i}_{j})"),
                })
            );
        }
        body
    }
}

fn pairs(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |i| (0..columns).map(move |j| (i, j)))
}
