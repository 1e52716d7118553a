//! Weighted sums of elements at indices: a thread per sum.

use crate::family::{Kernels, Plan, StepBuilder};
use crate::plan::parameters::parameters;
use crate::plan::{Place, Request, line};
use crate::table::{DTypes, Row, row};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, device_assert};
use rustorch_core::{DType, Decline, GatherSum as Operation, GatherSumBackward, OpKind, OpType};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GatherSum {
    dtype: DType,
    index: DType,
}

parameters! {
    /// Kernel parameters.
    struct Params() {
        sums: usize,
        channels: usize,
        points: usize,
        terms: usize,
        /// Elements of a row.
        len: usize,
        /// Of the elements, the indices, the weights and the sums.
        starts: [u32; 4],
        strides: [[usize; 3]; 4],
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] =
    &[row(OpType::Indexing, &[OpKind::GatherSum], DTypes::always(&[DType::F32]).with_f64(&[DType::F64]))
        .beside(&[DType::I32, DType::I64])];

impl Kernels for Operation {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        let [x, index, weight] = [0, 1, 2].map(|i| request.arg(i));
        let out = request.out(0);
        let kernel = GatherSum { dtype: x.dtype, index: index.dtype };
        let mut step = StepBuilder::new(request.hardware, kernel);
        let starts = [step.read(&x)?, step.read(&index)?, step.read(&weight)?, step.write(&out)?];
        step.bytes(Place::AssertLog, 0..4 * device_assert::WORDS as u64, true)?;
        let sums = out.layout.numel();
        step.parameters(&Params {
            sums,
            channels: x.layout.dims()[1],
            points: index.layout.dims()[2],
            terms: index.layout.dims()[1],
            len: x.layout.dims()[2],
            starts,
            strides: [x, index, weight, out].map(|x| {
                let strides = x.layout.strides();
                [strides[0], strides[1], strides[2]]
            }),
        })?;
        plan.step(step, line(sums.div_ceil(WORKGROUP as usize), request.hardware)?);
        Ok(())
    }
}

impl Kernels for GatherSumBackward {}

impl GatherSum {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let mut module = Module::new();
        let x = module.elements("x", self.dtype, false, hardware);
        let ids = module.elements("ids", self.index, false, hardware);
        let weight = module.elements("weight", self.dtype, false, hardware);
        let y = module.elements("y", self.dtype, true, hardware);
        module.asserts();
        let Params { sums, channels, points, terms, len, starts, strides } = module.parameters::<Params>(());
        let place = |which: usize, middle: &str, last: &str| {
            let ([a, b, c], start) = (&strides[which], &starts[which]);
            format!("{start} + batch * {a} + {middle} * {b} + {last} * {c}")
        };
        let body = format!(
            "let element = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if element >= {sums} {{ return; }}
            let point = element % {points};
            let channel = element / {points} % {channels};
            let batch = element / {points} / {channels};
            var sum = {ty}();
            for (var term = 0u; term < {terms}; term++) {{
                let id_at = {id_at};
                {words}
                // −1: the term has no element.
                if (id_l & id_h) == 0xffffffffu {{ continue; }}
                if id_h != 0u || id_l >= {len} {{
                    device_assert({code}u, id_l, id_h, {len});
                    continue;
                }}
                sum += {value} * {factor};
            }}
            {store}",
            ty = x.value(),
            id_at = place(1, "term", "point"),
            words = ids.index_words("id", "id_at"),
            code = device_assert::code(OpKind::GatherSum),
            value = x.load(&place(0, "channel", "id_l")),
            factor = weight.load(&place(2, "term", "point")),
            store = y.store(&place(3, "channel", "point"), &["sum".to_owned()]),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
