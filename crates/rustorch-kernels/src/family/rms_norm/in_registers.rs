//! The kernel that has rows in registers.

use super::{Params, RmsNorm, factor, functions};
use crate::Hardware;
use crate::library::kind::Kind;
use crate::library::{self, Parts, RegisterRow, WorkgroupReduce};
use crate::wgsl::{LINEAR_GROUP, Module, Wgsl};

impl RmsNorm {
    /// The source with rows as in `row`.
    pub(super) fn in_registers(&self, row: RegisterRow, hardware: &Hardware) -> Wgsl {
        let RmsNorm { dtype, weight, added, rank, .. } = *self;
        let mut module = Module::new();
        let x = row.buffer(&mut module, "x", false, hardware);
        let other = added.then(|| row.buffer(&mut module, "other", false, hardware));
        let w = weight.then(|| row.buffer(&mut module, "w", false, hardware));
        let y = row.buffer(&mut module, "y", true, hardware);
        let sums = added.then(|| row.buffer(&mut module, "sums", true, hardware));
        let tensors = 1 + usize::from(added);
        let Params { rows, len, x_start, w_start, y_start, other_start, sums_start, eps, grid, .. } =
            module.parameters::<Params>((Kind::of(dtype, hardware), rank, added.then_some(()), tensors));
        functions(&mut module, dtype, &eps, hardware);
        let ty = x.value_type();
        let mut together =
            WorkgroupReduce::of(RegisterRow::THREADS, &mut module, "Wide", Parts::Whole, 1, hardware);
        let mut body = format!(
            "let row = {LINEAR_GROUP};\nif row >= {rows} {{ return; }}\nvar at = {x_start};\nvar at_other = 0u;\n"
        );
        if let Some(start) = &other_start {
            body.push_str(&format!("at_other = {start};\n"));
        }
        body.push_str(&grid.positions("row", &["at", "at_other"][..tensors]));
        body.push_str(&row.find(&len));
        body.push_str(&row.read(&x, "x", "at"));
        if let Some(other) = &other {
            body.push_str(&row.read(other, "o", "at_other"));
        }
        if let Some(w) = &w {
            body.push_str(&row.read(w, "w", &w_start.to_string()));
        }
        let element = |at: [usize; 2]| {
            let own = row.value(&x, "x", at);
            match &other {
                Some(other) => library::settled(&format!("{own} + {}", row.value(other, "o", at)), dtype),
                None => own,
            }
        };
        body.push_str(&format!("var sum = wide({ty}(0.0));\n"));
        body.push_str(
            &row.each(|at| format!("{{ let v = {}; sum = joined(sum, wide(v * v)); }}\n", element(at))),
        );
        body.push_str(&together.reduce(&["sum"], "joined(a, b)"));
        body.push_str(&factor(dtype, ty, &len, &eps));
        body.push_str(&row.write(&y, &format!("{y_start} + row * {len}"), |at| {
            let scale = w.as_ref().map_or(String::new(), |w| format!(" * {}", row.value(w, "w", at)));
            format!("{} * factor{scale}", element(at))
        }));
        if let (Some(sums), Some(start)) = (&sums, &sums_start) {
            body.push_str(&row.write(sums, &format!("{start} + row * {len}"), element));
        }
        module.finish([RegisterRow::THREADS, 1, 1], &body)
    }
}
