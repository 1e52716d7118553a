//! Gradient of max pooling: gradients added where the indices say.
//!
//! A workgroup takes a plane, and each of its threads a range of the plane's elements. Every thread reads all of the plane's
//! indices and adds what falls into its range, so that no two threads add to one element, and the order is fixed.

use crate::family::{Plan, StepBuilder};
use crate::library::strided::Grid;
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Place, Request, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word};
use crate::{Hardware, device_assert};
use rustorch_core::{DType, Decline, Layout, OpKind, Shape};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scatter {
    dtype: DType,
    /// Dimensions of gradients and indices.
    rank: usize,
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize) {
        first_plane: usize,
        planes: usize,
        len: usize,
        pooled: usize,
        grad_start: u32,
        indices_start: u32,
        y_start: u32,
        grid: Grid = (rank, 2),
    }
}

/// Whether there is a kernel.
pub(super) fn supports(dtype: DType, spatial: &[usize]) -> Result<(), Decline> {
    match spatial.iter().product::<usize>().is_multiple_of(per_word(dtype)) {
        true => Ok(()),
        false => Err(Decline::Layout("planes of 16-bit numbers must be of even size")),
    }
}

/// Plans the launches.
pub(super) fn plan(plan: &mut Plan, request: &Request<'_>, spatial: &[usize]) -> Result<(), Decline> {
    let (grad, indices, out) = (request.arg(0), request.arg(1), request.out(0));
    let grid = Grid::new(&[grad.layout, indices.layout]);
    let elements = out.layout.numel();
    let len: usize = spatial.iter().product();
    let planes = elements / len;
    let kernel = Scatter { dtype: grad.dtype, rank: grid.ndim() };
    // 16-bit floats are rounded once, at the end; of sums, kernels may see fewer than of results.
    let halves = per_word(grad.dtype) == 2;
    let most = (request.hardware.max_binding as usize / (4 * len)).clamp(1, planes);
    let at_once = if halves { most } else { planes };
    let sums = halves.then(|| plan.scratch(at_once * len * 4));
    for first in (0..planes).step_by(at_once) {
        let count = at_once.min(planes - first);
        let mut step = StepBuilder::new(request.hardware, kernel);
        let (grad_start, indices_start) = (step.read(&grad)?, step.read(&indices)?);
        let y_start = step.write(&out)?;
        if let Some(place) = sums {
            let large = |_| Decline::Attr("too large");
            let layout = Layout::contiguous(Shape::new([at_once * len].as_slice()).map_err(large)?);
            step.write(&Operand { place, dtype: DType::F32, layout: &layout })?;
        }
        let words = 4 * crate::device_assert::WORDS as u64;
        step.bytes(Place::AssertLog, 0..words, true)?;
        step.parameters(&Params {
            first_plane: first,
            planes: count,
            len,
            pooled: grad.layout.numel() / planes,
            grad_start,
            indices_start,
            y_start,
            grid: grid.clone(),
        })?;
        plan.step(step, line(count, request.hardware)?);
    }
    Ok(())
}

impl Scatter {
    pub(in super::super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Scatter { dtype, rank } = *self;
        let mut module = Module::new();
        let grad = module.elements("grad", dtype, false, hardware);
        let indices = module.elements("indices", DType::I64, false, hardware);
        let y = module.elements("y", dtype, true, hardware);
        let per_word = y.per_word();
        if per_word == 2 {
            module.elements("sums", DType::F32, true, hardware);
        }
        module.asserts();
        let Params { first_plane, planes, len, pooled, grad_start, indices_start, y_start, grid } =
            module.parameters::<Params>(rank);
        let number = if dtype == DType::F64 { "f64" } else { "f32" };
        let (sums, origin) = match per_word {
            2 => ("sums", "number * len".to_owned()),
            _ => ("y", format!("{y_start} + plane * len")),
        };
        let round = match per_word {
            2 => format!(
                "for (var i = first; i < last; i += 2u) {{ {} }}",
                y.store(
                    &format!("({y_start} + plane * len + i) / 2u"),
                    &["sums[origin + i]".to_owned(), "sums[origin + i + 1u]".to_owned()]
                )
            ),
            _ => String::new(),
        };
        let body = format!(
            "let number = {LINEAR_GROUP};
            if number >= {planes} {{ return; }}
            let plane = {first_plane} + number;
            let len = {len};
            let origin = {origin};
            let share = (len / {per_word}u + {WORKGROUP}u - 1u) / {WORKGROUP}u * {per_word}u;
            let first = min(local * share, len);
            let last = min(first + share, len);
            for (var i = first; i < last; i++) {{ {sums}[origin + i] = {number}(); }}
            for (var j = 0u; j < {pooled}; j++) {{
                var a = {grad_start};
                var b = {indices_start};
                {}
                {}
                if place_h == 0u && place_l < len {{
                    if place_l >= first && place_l < last {{ {sums}[origin + place_l] += {}; }}
                }} else if local == 0u && (place_h & place_l) != 0xffffffffu {{
                    device_assert({}u, place_l, place_h, len);
                }}
            }}
            {round}",
            grid.positions(&format!("(plane * {pooled} + j)"), &["a", "b"]),
            indices.index_words("place", "b"),
            grad.load("a"),
            device_assert::code(OpKind::MaxPoolBackward),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
