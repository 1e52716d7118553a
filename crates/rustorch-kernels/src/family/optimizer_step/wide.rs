//! The kernel for large parameters: a thread updates a run of elements, which it reads and writes by vectors.

use super::{OptimizerStep, Params};
use crate::Hardware;
use crate::wgsl::vectors::{self, Vectors, WORKGROUP};
use crate::wgsl::{LINEAR_GROUP, Module, Wgsl};
use rustorch_core::DType;
use std::fmt::Write;

/// The elements of a thread. States and the copy of a 16-bit parameter are of `f32`.
fn run(dtype: DType) -> usize {
    vectors::run([dtype, DType::F32].into_iter())
}

/// Whether the kernel suits a parameter of `n` elements: tensors of these dtypes, which begin at these elements.
pub(super) fn suits(
    n: usize,
    mut tensors: impl Iterator<Item = (DType, usize)> + Clone,
    hardware: &Hardware,
) -> bool {
    let Some((dtype, _)) = tensors.clone().last() else { return false };
    let run = run(dtype);
    vectors::suit(n / run, hardware) && tensors.all(|(dtype, at)| vectors::begins(dtype, run, at))
}

/// The workgroups for `n` elements.
pub(super) fn groups(n: usize, dtype: DType) -> usize {
    n.div_ceil(run(dtype)).div_ceil(WORKGROUP as usize)
}

impl OptimizerStep {
    /// The source.
    pub(super) fn wide_wgsl(&self, hardware: &Hardware) -> Wgsl {
        let (dtype, run, states) = (self.dtype, run(self.dtype), self.states());
        let mut module = Module::new();
        let lr = module.elements("lr", DType::F32, false, hardware);
        let count = module.elements("count", DType::F32, false, hardware);
        let mut tensor = |name: &str, dtype, writes| module.vectors(name, dtype, run, writes, hardware);
        let grad = tensor("grad", dtype, false);
        let x = tensor("x", dtype, true);
        let master = (dtype != DType::F32).then(|| tensor("master_copy", DType::F32, true));
        let buffers: Vec<Vectors> =
            (0..states).map(|k| tensor(&format!("state{k}"), DType::F32, true)).collect();
        let p = module.parameters::<Params>(states);
        let mut body = format!(
            "let word = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if word > ({n} - 1u) / {run}u {{ return; }}
            let first = word * {run}u;
            let rest = {n} - first;
            let rate = {};
            let t = {};
            {}\n",
            lr.load(&p.lr_start.to_string()),
            count.load(&p.count_start.to_string()),
            self.constants(&p),
            n = p.n,
        );
        // Buffers, variables, first elements, and what they are afterwards.
        let place = |start| format!("{start} + first");
        let mut updated: Vec<(&Vectors, String, String, String)> =
            vec![(&x, "x_run".into(), place(&p.x_start), "w".into())];
        if let Some(master) = &master {
            updated.push((master, "master_run".into(), place(&p.master_start), "w".into()));
        }
        for (k, (buffer, start)) in buffers.iter().zip(&p.state_starts).enumerate() {
            updated.push((buffer, format!("state{k}_run"), place(start), format!("s{k}_")));
        }
        let (mut whole, mut some) = (String::new(), String::new());
        let grad_run = (&grad, "grad_run".to_owned(), place(&p.grad_start), String::new());
        for (buffer, variable, at, _) in updated.iter().chain([&grad_run]) {
            body.push_str(&buffer.declare(variable));
            whole.push_str(&buffer.read(variable, at));
            some.push_str(&buffer.read_some(variable, at, "rest"));
        }
        let _ = write!(body, "if rest >= {run}u {{\n{whole}}} else {{\n{some}}}\n");
        for j in 0..run {
            let _ = writeln!(body, "var w{j} = 0.0;");
            (0..states).for_each(|k| body.push_str(&format!("var s{k}_{j} = 0.0;\n")));
            let copied = master.as_ref().map(|master| master.value("master_run", j));
            let before =
                buffers.iter().enumerate().map(|(k, state)| state.value(&format!("state{k}_run"), j));
            let element =
                self.element(&p, &x.value("x_run", j), copied.as_deref(), &grad.value("grad_run", j), before);
            let _ = writeln!(body, "{{\n{element}w{j} = w;");
            (0..states).for_each(|k| body.push_str(&format!("s{k}_{j} = s{k};\n")));
            body.push_str("}\n");
        }
        let (mut whole, mut some) = (String::new(), String::new());
        for (buffer, variable, at, after) in &updated {
            let values: Vec<String> = (0..run).map(|j| format!("{after}{j}")).collect();
            let variable = format!("{variable}_after");
            body.push_str(&buffer.pack(&variable, &values));
            whole.push_str(&buffer.write(&variable, at));
            some.push_str(&buffer.write_some(&variable, at, "rest"));
        }
        let _ = write!(body, "if rest >= {run}u {{\n{whole}}} else {{\n{some}}}\n");
        self.add_functions(&mut module);
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
