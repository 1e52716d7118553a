//! Combining what workgroups made of splits of the keys: a workgroup per query adds their results, weighted by the exponentials of
//! their maxima.

use crate::family::{Plan, StepBuilder};
use crate::plan::parameters::parameters;
use crate::plan::{Place, Request, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, library};
use rustorch_core::{DType, Decline};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Combine {
    dtype: DType,
    lse: bool,
}

/// What splits leave in scratch memory, as `f32`: `[rows, splits, e]` weighted sums of values, then `[rows, splits, 2]` maxima and
/// sums of weights.
#[derive(Clone, Copy)]
pub(super) struct Partial {
    pub(super) rows: usize,
    pub(super) splits: usize,
    pub(super) e: usize,
}

impl Partial {
    /// Where maxima and sums begin.
    pub(super) fn stats(self) -> usize {
        self.rows * self.splits * self.e
    }

    pub(super) fn bytes(self) -> usize {
        4 * (self.stats() + 2 * self.rows * self.splits)
    }
}

parameters! {
    /// Kernel parameters.
    struct Params() {
        rows: usize,
        splits: usize,
        e: usize,
        stats: usize,
        y_start: u32,
        lse_start: u32,
    }
}

/// Plans the launch.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    scratch: Place,
    partial: Partial,
    lse: bool,
) -> Result<(), Decline> {
    let Partial { rows, splits, e } = partial;
    let mut launch = StepBuilder::new(request.hardware, Combine { dtype: request.outs[0].dtype, lse });
    launch.bytes(scratch, 0..partial.bytes() as u64, false)?;
    let y_start = launch.write(&request.out(0))?;
    let lse_start = if lse { launch.write(&request.out(1))? } else { 0 };
    launch.parameters(&Params { rows, splits, e, stats: partial.stats(), y_start, lse_start })?;
    plan.step(launch, line(rows, request.hardware)?);
    Ok(())
}

impl Combine {
    pub(crate) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let mut module = Module::new();
        let x = module.elements("x", DType::F32, false, hardware);
        let y = module.elements("y", self.dtype, true, hardware);
        let log_sum = self.lse.then(|| module.elements("lse", DType::F32, true, hardware));
        let Params { rows, splits, e, stats, y_start, lse_start } = module.parameters::<Params>(());
        module.add("const NONE: u32 = 0xff800000u;");
        let lse = match log_sum {
            None => String::new(),
            Some(lse) => {
                module.add(&library::called("log_of()", hardware));
                let store = lse.store(&format!("{lse_start} + row"), &["value".to_owned()]);
                format!(
                    "if local == 0u {{
                        var value = bitcast<f32>(none);
                        if total != 0.0 {{ value = largest + log_of(total); }}
                        {store}
                    }}"
                )
            }
        };
        let maximum = x.load("at + 2u * split");
        let weight = format!(
            "let own = {maximum};
            let weight = select(exp(own - largest), 0.0, bitcast<u32>(own) == none);"
        );
        // A thread makes whole words.
        let each = y.per_word();
        let values: Vec<String> = (0..each).map(|c| format!("sum{c} * factor")).collect();
        let sums: String = (0..each)
            .map(|c| {
                let load = x.load(&format!("(row * {splits} + split) * {e} + column + {c}u"));
                format!(
                    "var sum{c} = 0.0;
                    for (var split = 0u; split < {splits}; split++) {{
                        {weight}
                        sum{c} = fma(weight, {load}, sum{c});
                    }}"
                )
            })
            .collect();
        let body = format!(
            "let row = {LINEAR_GROUP};
            if row >= {rows} {{ return; }}
            var none = NONE;
            let at = {stats} + 2u * row * {splits};
            var largest = bitcast<f32>(none);
            for (var split = 0u; split < {splits}; split++) {{ largest = max(largest, {maximum}); }}
            var total = 0.0;
            for (var split = 0u; split < {splits}; split++) {{
                {weight}
                total = fma(weight, {}, total);
            }}
            {lse}
            var factor = 0.0;
            if total != 0.0 {{ factor = 1.0 / total; }}
            for (var column = local * {each}u; column < {e}; column += {}u) {{
                {sums}
                {}
            }}",
            x.load("at + 2u * split + 1u"),
            WORKGROUP as usize * each,
            y.store(&format!("({y_start} + row * {e} + column) / {each}u"), &values),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
