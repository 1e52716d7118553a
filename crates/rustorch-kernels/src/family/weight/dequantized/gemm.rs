//! GEMM: many rows of activations; tiles of the weight are dequantized into workgroup memory.

use super::{Params, SEGMENT};
use crate::Hardware;
use crate::family::tile::{Side, Tile, TiledGemm};
use crate::family::weight::{OperandParams, decode, format};
use crate::library::{self, Ring};
use crate::wgsl::{LINEAR_GROUP, Module, Wgsl};
use rustorch_core::{DType, QuantType};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    pub(super) quant: QuantType,
    pub(super) tile: Tile,
    /// Whether rows of activations are contiguous.
    pub(super) inner: bool,
    /// Rank of the activation rows after merging.
    pub(super) rank: usize,
    /// Whether a bias is added.
    pub(super) bias: bool,
}

/// For `m` rows of `n` results.
pub(super) fn tile(m: usize, n: usize) -> Tile {
    if m >= 48 && n >= 48 { Tile::Large } else { Tile::Small }
}

impl Gemm {
    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Gemm { quant, tile, inner, rank, bias } = *self;
        let format =
            format::format(DType::Quant(quant)).expect("launches are planned for types that have a format");
        let ring = Ring::of(DType::F32, hardware);
        let mut module = Module::new();
        module.buffer("w", "array<u32>", false);
        let x = module.elements("x", DType::F32, false, hardware);
        let y = module.elements("y", DType::F32, true, hardware);
        if bias {
            module.buffer("bias", "array<f32>", false);
        }
        let Params { n, rows: m, len: k, x_start, x_stride, operands, grid } =
            module.parameters::<Params>((None, rank));
        let OperandParams { weight, row_bytes, y_start, extra, pitch, .. } = operands;
        module.add(&library::called(&[ring.add(), ring.step()].concat(), hardware));
        module.add(library::BYTES);
        module.add(format.text);
        module.add(&decode::text(format));
        let [rows, columns] = tile.shape();
        let mut body = format!(
            "let number = {LINEAR_GROUP};
            let across = ({n} + {columns}u - 1u) / {columns}u;
            let first_column = (number % across) * {columns}u;
            let first_row = (number / across) * {rows}u;
            if first_row >= {m} {{ return; }}\n"
        );
        let x_load = format!(
            "var x_at = {x_start};\n{}v = {};",
            grid.positions("j", &["x_at"]),
            x.load(&format!("x_at + i * {x_stride}"))
        );
        let w_load = format!(
            "let at = {weight} + j * {row_bytes} + i / {len}u * {bytes}u;
            let g = i % {len}u / 32u;
            let quad = i % 32u / 4u;
            v = weight_quad(weight_scale(at, {}), codes(at, g, quad));",
            decode::group(format, "g", "quad"),
            len = format.len(),
            bytes = format.bytes(),
        );
        let (m, n, k) = (m.to_string(), n.to_string(), k.to_string());
        let product = TiledGemm {
            tile,
            ring,
            left: Side { load: &x_load, count: &m, inner, quads: false },
            right: Side { load: &w_load, count: &n, inner: true, quads: true },
            len: &k,
            segment: Some(SEGMENT),
        };
        body += &product.text(&mut module, "1.0", |sum| {
            let value = match bias {
                true => format!("{sum} + bias[{} + c * {}]", extra[0], extra[1]),
                false => sum.to_owned(),
            };
            y.store(&format!("{y_start} + r * {pitch} + c"), &[value])
        });
        module.finish(product.workgroup(), &body)
    }
}
