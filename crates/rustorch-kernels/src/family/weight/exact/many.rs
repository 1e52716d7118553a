//! Many rows of activations: tiles, whose strips of the weight are decoded into the memory of the workgroup.

use super::SEGMENT;
use crate::Hardware;
use crate::family::strided;
use crate::family::tile::{Product, Side, Tile};
use crate::family::weight::{decode, format};
use crate::library::{self, Ring};
use crate::wgsl::{LINEAR_GROUP, Module, Wgsl};
use rustorch_core::{DType, QuantType};

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Many {
    pub(super) quant: QuantType,
    pub(super) tile: Tile,
    /// Whether neighbours in a row of activations are neighbours in memory.
    pub(super) inner: bool,
    /// Dimensions of the rows of activations.
    pub(super) rank: usize,
    /// Whether a vector is added.
    pub(super) bias: bool,
}

/// For `m` rows of `n` results.
pub(super) fn tile(m: usize, n: usize) -> Tile {
    if m >= 48 && n >= 48 { Tile::Large } else { Tile::Small }
}

impl Many {
    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Many { quant, tile, inner, rank, bias } = *self;
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
        let (n, m, k, from) = (module.word(), module.word(), module.word(), module.word());
        let (row_bytes, to, x_from, step) = (module.word(), module.word(), module.word(), module.word());
        let extra = module.take(4);
        let to_next = module.word();
        let grid = strided::parameters(&mut module, rank, 1);
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
            "var x_at = {x_from};\n{}v = {};",
            grid.positions("j", &["x_at"]),
            x.load(&format!("x_at + i * {step}"))
        );
        let w_load = format!(
            "let at = {from} + j * {row_bytes} + i / {len}u * {bytes}u;
            let g = i % {len}u / 32u;
            let quad = i % 32u / 4u;
            v = weight_quad(weight_scale(at, {}), levels(at, g, quad));",
            decode::group(format, "g", "quad"),
            len = format.len(),
            bytes = format.bytes(),
        );
        let (m, n, k) = (m.to_string(), n.to_string(), k.to_string());
        let product = Product {
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
            y.store(&format!("{to} + r * {to_next} + c"), &[value])
        });
        module.finish(product.workgroup(), &body)
    }
}
