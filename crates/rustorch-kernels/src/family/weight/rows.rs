//! Embedding lookup in a block-quantized table: rows dequantized, four values per thread.

use super::decode;
use super::format::{Format, format};
use crate::Hardware;
use crate::family::{Plan, StepBuilder};
use crate::library;
use crate::library::strided;
use crate::plan::parameters::parameters;
use crate::plan::{Chosen, Place, Request, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline, OpKind, QuantType};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rows {
    quant: QuantType,
    index: DType,
    /// Whether the chunk holds only some of the rows.
    part: bool,
}

parameters! {
    /// Kernel parameters.
    struct Params(part: Option<()>) {
        n: usize,
        table_start: u32,
        ids_start: u32,
        y_start: u32,
        rows: usize,
        row_quads: usize,
        row_bytes: u32,
        /// The range of table rows in this chunk: first and count.
        here: Option<[usize; 2]> = part,
    }
}

/// Adds the launch of an embedding.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let (table, ids, out) = (request.arg(0), request.arg(1), request.out(0));
    let format = format(table.dtype).ok_or(Decline::DType(table.dtype))?;
    if !ids.layout.is_contiguous() {
        return Err(Decline::Layout("ids must be contiguous"));
    }
    let part = request.part.chosen;
    let kernel = Rows { quant: format.quant, index: ids.dtype, part: part.is_some() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    // Blocks are addressed by bytes, which need not be aligned.
    let reach = |elements: usize| (elements / format.len() * format.bytes()) as u64;
    let bytes = reach(table.layout.offset())..reach(table.layout.end());
    let start = launch.bytes(table.place, bytes.clone(), false)?;
    let (ids_start, y_start) = (launch.read(&ids)?, launch.write(&out)?);
    launch.bytes(Place::AssertLog, 0..4 * crate::device_assert::WORDS as u64, true)?;
    let address = |byte: u64| u32::try_from(byte).map_err(|_| Decline::Attr("a table of more than 4 GiB"));
    address(bytes.end - start)?;
    let quads = out.layout.numel() / 4;
    launch.parameters(&Params {
        n: quads,
        table_start: address(bytes.start - start)?,
        ids_start,
        y_start,
        rows: part.map_or(table.layout.dims()[0], |chosen| chosen.whole),
        row_quads: table.layout.dims()[1] / 4,
        row_bytes: address(reach(table.layout.strides()[0]))?,
        here: part.map(|Chosen { first, len, .. }| [first, len]),
    })?;
    plan.step(launch, line(quads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl Rows {
    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let format: &Format =
            format(DType::Quant(self.quant)).expect("launches are planned for types that have a format");
        let mut module = Module::new();
        module.buffer("w", "array<u32>", false);
        let ids = module.elements("ids", self.index, false, hardware);
        module.buffer("y", "array<f32>", true);
        module.asserts();
        let Params { n, table_start, ids_start, y_start, rows, row_quads, row_bytes, here } =
            module.parameters::<Params>(self.part.then_some(()));
        let of_another_part = here.as_ref().map_or_else(String::new, |here| strided::chosen("id", here));
        module.add(library::BYTES);
        module.add(format.text);
        module.add(&decode::text(format));
        let body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if t >= {n} {{ return; }}
            let number = t / {row_quads};
            let quad = t % {row_quads};
            {}
            {of_another_part}
            let at = {table_start} + id * {row_bytes} + quad / {quads}u * {bytes}u;
            let g = quad % {quads}u / 8u;
            let i = quad % 8u;
            let q = weight_quad(weight_scale(at, {}), codes(at, g, i));
            let place = {y_start} + t * 4u;
            y[place] = q.x;
            y[place + 1u] = q.y;
            y[place + 2u] = q.z;
            y[place + 3u] = q.w;",
            ids.load_index("id", &format!("{ids_start} + number"), &rows.to_string(), OpKind::Embedding),
            decode::group(format, "g", "i"),
            quads = format.len() / 4,
            bytes = format.bytes(),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
