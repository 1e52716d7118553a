//! Rows of a block-quantized table, chosen by indices and decoded: four values to a thread.

use super::decode;
use super::format::{Format, format};
use crate::family::strided;
use crate::library;
use crate::plan::{Chosen, Place, Plan, Request, StepBuilder, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, Mistake};
use rustorch_core::{DType, Decline, QuantType};

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rows {
    quant: QuantType,
    index: DType,
    /// Whether only some of the rows are here.
    part: bool,
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
    let (ids_from, to) = (launch.read(&ids)?, launch.write(&out)?);
    launch.bytes(Place::Mistakes, 0..4 * crate::mistake::WORDS as u64, true)?;
    let address = |byte: u64| u32::try_from(byte).map_err(|_| Decline::Attr("a table of more than 4 GiB"));
    address(bytes.end - start)?;
    let quads = out.layout.elements() / 4;
    launch.number(quads)?.word(address(bytes.start - start)?).word(ids_from).word(to);
    let rows = part.map_or(table.layout.dims()[0], |chosen| chosen.whole);
    launch.number(rows)?.number(table.layout.dims()[1] / 4)?;
    launch.word(address(reach(table.layout.strides()[0]))?);
    if let Some(Chosen { first, len, .. }) = part {
        launch.number(first)?.number(len)?;
    }
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
        module.mistakes();
        let (n, from, ids_from, to) = (module.word(), module.word(), module.word(), module.word());
        let (rows, row_quads, row_bytes) = (module.word(), module.word(), module.word());
        let here = self.part.then(|| [module.word(), module.word()]);
        let of_another_part = here.map_or_else(String::new, |[first, len]| strided::chosen("id", first, len));
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
            let at = {from} + id * {row_bytes} + quad / {quads}u * {bytes}u;
            let g = quad % {quads}u / 8u;
            let i = quad % 8u;
            let q = weight_quad(weight_scale(at, {}), levels(at, g, i));
            let place = {to} + t * 4u;
            y[place] = q.x;
            y[place + 1u] = q.y;
            y[place + 2u] = q.z;
            y[place + 3u] = q.w;",
            ids.load_index("id", &format!("{ids_from} + number"), &rows.to_string(), Mistake::Embedding),
            decode::group(format, "g", "i"),
            quads = format.len() / 4,
            bytes = format.bytes(),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
