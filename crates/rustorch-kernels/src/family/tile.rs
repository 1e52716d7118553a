//! Tiles of products: what a workgroup makes of strips of two operands, wherever their elements come from.
//!
//! Each result is one chain of multiply-adds over the inner dimension, in order: it does not depend on the tile.

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

/// One operand of a product.
pub(super) struct Side<'a> {
    /// Statements that leave in `v` the factor of row (or column) `j` and inner element `i`.
    pub(super) load: &'a str,
    /// How many rows (or columns) there are, an expression.
    pub(super) count: &'a str,
    /// Whether neighbours in memory are neighbours along the inner dimension.
    pub(super) inner: bool,
}

/// A product of rows of `left` with columns of `right`.
pub(super) struct Product<'a> {
    pub(super) tile: Tile,
    pub(super) ring: Ring,
    pub(super) left: Side<'a>,
    pub(super) right: Side<'a>,
    /// The length of the inner dimension, an expression.
    pub(super) len: &'a str,
}

impl Product<'_> {
    /// The shape of the workgroup.
    pub(super) fn workgroup(&self) -> [u32; 3] {
        [self.tile.sizes(self.ring.size).workgroup as u32, 1, 1]
    }

    /// Statements that make the tile from `first_row` and `first_column` on, and give each result within bounds to
    /// `store`, which finds row `r` and column `c`. `one` is an expression of the value 1 that compilers do not know.
    pub(super) fn text(&self, module: &mut Module, one: &str, store: impl Fn(&str) -> String) -> String {
        let Product { tile, ring, left, right, len } = self;
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
        }
        let _ = writeln!(body, "for (var start = 0u; start < {len}; start += {depth}u) {{");
        for (name, side, width, first) in
            [("lefts", left, rows, "first_row"), ("rights", right, columns, "first_column")]
        {
            let (inner, outer) = match side.inner {
                true => (format!("e % {depth}u"), format!("e / {depth}u")),
                false => (format!("e / {width}u"), format!("e % {width}u")),
            };
            let _ = writeln!(
                body,
                "for (var e = local; e < {}u; e += {workgroup}u) {{
                    let inner = {inner};
                    let outer = {outer};
                    let i = start + inner;
                    let j = {first} + outer;
                    var v = {element}();
                    if i < {len} && j < {} {{ {} }}
                    {name}[inner * {}u + outer] = v;
                }}",
                width * depth,
                side.count,
                side.load,
                width + 1,
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
        let _ = writeln!(body, "}} }}\nworkgroupBarrier();\n}}\nif row >= {ty}u {{ return; }}");
        for (i, j) in pairs(ey, ex) {
            let _ = writeln!(
                body,
                "{{ let r = first_row + row + {}u; let c = first_column + column + {}u;
                if r < {} && c < {} {{ {} }} }}",
                i * ty,
                j * tx,
                left.count,
                right.count,
                store(&format!("ring_end(sum{i}_{j})"))
            );
        }
        body
    }
}

fn pairs(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |i| (0..columns).map(move |j| (i, j)))
}
