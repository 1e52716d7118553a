//! Operations on many tensors at once: a launch for each, whose workgroups write partial results to a common buffer, and one that
//! reduces these.

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::{self, Parts, WorkgroupReduce};
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Request, line};
use crate::splitting::copy;
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline, ForeachMul, Layout, OpKind, OpType, Shape, TotalNorm};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Foreach {
    /// The partial results of a tensor's workgroups; it may be multiplied on the way.
    Partial {
        /// The tensor's.
        dtype: DType,
        /// What it reduces for.
        reduction: Reduction,
        /// Whether the tensor is multiplied.
        scaled: bool,
    },
    /// The result of all of them.
    Total {
        /// Of what.
        reduction: Reduction,
    },
}

/// What the elements of all tensors are reduced to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Nothing.
    None,
    /// The sum of magnitudes.
    AbsSum,
    /// The root of the sum of squares.
    L2Norm,
    /// A root of the sum of powers of magnitudes.
    PowerNorm,
    /// The largest magnitude.
    AbsMax,
    /// 1 if an element is not finite, else 0.
    NonFinite,
}

parameters! {
    /// Kernel parameters.
    struct Params() {
        n: usize,
        x_start: u32,
        factor_start: u32,
        /// Where in the common buffer the first workgroup writes, in elements.
        partial_start: usize,
        out_start: u32,
        ord: f32,
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[
    row(OpType::Reduction, &[OpKind::TotalNorm], sets::SINGLE),
    row(OpType::Elementwise, &[OpKind::ForeachMul], sets::SINGLE).subject(1).beside(&[DType::F32]),
];

/// Words that a thread of a workgroup goes through.
const WORDS: usize = 32;

impl Kernels for TotalNorm {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        let reduction = match self.ord {
            1.0 => Reduction::AbsSum,
            2.0 => Reduction::L2Norm,
            f64::INFINITY => Reduction::AbsMax,
            _ => Reduction::PowerNorm,
        };
        let packed: Vec<Layout> =
            request.args.iter().map(|x| Layout::contiguous(x.layout.shape().clone())).collect();
        let mut tensors = Vec::new();
        for (i, packed) in packed.iter().enumerate() {
            let x = request.arg(i);
            tensors.push(match x.layout.is_contiguous() {
                true => x,
                false => {
                    let place = plan.scratch(packed.numel() * x.dtype.block_bytes());
                    let gathered = Operand { place, layout: packed, ..x };
                    copy::plan(plan, request.hardware, &x, &gathered)?;
                    gathered
                }
            });
        }
        let foreach = ForeachPlan { reduction, ord: self.ord as f32, factor: None };
        foreach.plan(plan, request.hardware, &tensors, Some(request.out(0)))
    }
}

impl Kernels for ForeachMul {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        // Results are multiplied in place; they hold the arguments then.
        let products: Vec<Operand<'_>> = (0..request.args.len() - 1).map(|i| request.out(i)).collect();
        for (i, product) in products.iter().enumerate().filter(|&(i, _)| !request.is_in_place(i)) {
            copy::plan(plan, request.hardware, &request.arg(i + 1), product)?;
        }
        let (reduction, total) = match self.found_inf {
            true => (Reduction::NonFinite, Some(request.out(products.len()))),
            false => (Reduction::None, None),
        };
        let foreach = ForeachPlan { reduction, ord: 0.0, factor: Some(request.arg(0)) };
        foreach.plan(plan, request.hardware, &products, total)
    }

    fn overwrites(&self) -> bool {
        true
    }
}

/// What tensors are reduced to, and the factor that they are multiplied with, if there is one.
struct ForeachPlan<'a> {
    reduction: Reduction,
    ord: f32,
    factor: Option<Operand<'a>>,
}

/// A chunk of a tensor for one launch.
struct TensorChunk {
    tensor: usize,
    start: usize,
    n: usize,
    groups: usize,
}

impl ForeachPlan<'_> {
    /// Launches for contiguous tensors, and one that reduces their partial results to `total`.
    fn plan(
        &self,
        plan: &mut Plan,
        hardware: &Hardware,
        tensors: &[Operand<'_>],
        total: Option<Operand<'_>>,
    ) -> Result<(), Decline> {
        let most = longest(hardware);
        let mut chunks = Vec::new();
        for (tensor, x) in tensors.iter().enumerate() {
            let numel = x.layout.numel();
            let of_group = WORKGROUP as usize * WORDS * crate::wgsl::per_word(x.dtype);
            chunks.extend((0..numel).step_by(most).map(|start| {
                let n = most.min(numel - start);
                TensorChunk { tensor, start, n, groups: n.div_ceil(of_group) }
            }));
        }
        let groups: usize = chunks.iter().map(|chunk| chunk.groups).sum();
        // Of no elements there are no workgroups; the buffer is bound all the same.
        let partials = Layout::contiguous(flat(groups.max(4))?);
        let partial = total.map(|_| {
            let place = plan.scratch(partials.numel() * size_of::<f32>());
            Operand { place, dtype: DType::F32, layout: &partials }
        });
        let mut first = 0;
        for TensorChunk { tensor, start, n, groups } in chunks {
            let x = &tensors[tensor];
            let part = Layout::contiguous(flat(n)?)
                .at_offset(x.layout.offset() + start)
                .map_err(|_| Decline::Attr("too large"))?;
            let part = Operand { layout: &part, ..*x };
            let scaled = self.factor.is_some();
            let kernel = Foreach::Partial { dtype: x.dtype, reduction: self.reduction, scaled };
            let mut step = StepBuilder::new(hardware, kernel);
            let x_start = if scaled { step.write(&part)? } else { step.read(&part)? };
            let factor_start = self.factor.as_ref().map(|factor| step.read(factor)).transpose()?.unwrap_or(0);
            let partial_start = partial.as_ref().map(|partial| step.write(partial)).transpose()?.unwrap_or(0);
            let partial_start = partial_start as usize + first;
            step.parameters(&Params {
                n,
                x_start,
                factor_start,
                partial_start,
                out_start: 0,
                ord: self.ord,
            })?;
            plan.step(step, line(groups, hardware)?);
            first += groups;
        }
        if let (Some(total), Some(partial)) = (total, partial) {
            let mut step = StepBuilder::new(hardware, Foreach::Total { reduction: self.reduction });
            let partial_start = step.read(&partial)? as usize;
            let out_start = step.write(&total)?;
            step.parameters(&Params {
                n: groups,
                x_start: 0,
                factor_start: 0,
                partial_start,
                out_start,
                ord: self.ord,
            })?;
            plan.step(step, [1, 1, 1]);
        }
        Ok(())
    }
}

fn flat(n: usize) -> Result<Shape, Decline> {
    Shape::new([n].as_slice()).map_err(|_| Decline::Attr("too large"))
}

/// The most elements of a tensor for one launch: as many as a binding holds of any dtype, wherever they begin, in whole words.
pub(super) fn longest(hardware: &Hardware) -> usize {
    let slack = u64::from(hardware.window.unwrap_or(0));
    let elements = hardware.max_binding.saturating_sub(slack) / size_of::<f32>() as u64;
    (usize::try_from(elements).unwrap_or(usize::MAX) / 2 * 2).max(2)
}

impl Reduction {
    /// The term of an element, an expression of its value.
    fn term(self, v: &str, ord: &str) -> String {
        match self {
            Reduction::None => "0.0".to_owned(),
            Reduction::AbsSum | Reduction::AbsMax => format!("abs({v})"),
            Reduction::L2Norm => format!("{v} * {v}"),
            Reduction::PowerNorm => format!("power_of(abs({v}), {ord})"),
            // All bits of the exponent are set: comparisons may take it that there is no infinity.
            Reduction::NonFinite => {
                format!("select(0.0, 1.0, (bitcast<u32>({v}) & 0x7f800000u) == 0x7f800000u)")
            }
        }
    }

    /// Statements that add the term of an element to `reduced`.
    fn add(self, v: &str, ord: &str) -> String {
        format!("{{ let a = reduced; let b = {}; reduced = {}; }}\n", self.term(v, ord), self.join())
    }

    /// The reduction of `a` and `b`.
    fn join(self) -> &'static str {
        match self {
            Reduction::None | Reduction::AbsSum | Reduction::L2Norm | Reduction::PowerNorm => "a + b",
            // NaN stays.
            Reduction::AbsMax => "select(b, a, a > b || (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u)",
            Reduction::NonFinite => "max(a, b)",
        }
    }

    /// The result, of the reduction `reduced` of all elements.
    fn result(self, ord: &str) -> String {
        match self {
            Reduction::L2Norm => "sqrt(reduced)".to_owned(),
            Reduction::PowerNorm => format!("power_of(reduced, 1.0 / {ord})"),
            _ => "reduced".to_owned(),
        }
    }
}

impl Foreach {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        match *self {
            Foreach::Partial { dtype, reduction, scaled } => partial(dtype, reduction, scaled, hardware),
            Foreach::Total { reduction } => total(reduction, hardware),
        }
    }
}

fn partial(dtype: DType, reduction: Reduction, scaled: bool, hardware: &Hardware) -> Wgsl {
    let mut module = Module::new();
    let x = module.elements("x", dtype, scaled, hardware);
    let factor = scaled.then(|| module.elements("factor", DType::F32, false, hardware));
    let reduces = reduction != Reduction::None;
    let partial = reduces.then(|| module.elements("partial", DType::F32, true, hardware));
    let p = module.parameters::<Params>(());
    let mut together = reduces.then(|| WorkgroupReduce::new(&mut module, "f32", Parts::Whole, 1, hardware));
    let per_word = x.per_word();
    // A power stands in the code once: it has many branches.
    let looped = reduction == Reduction::PowerNorm && per_word > 1;
    let mut body = format!("let group_index = {LINEAR_GROUP};\nvar reduced = 0.0;\n");
    if let Some(factor) = &factor {
        body.push_str(&format!("let scale = {};\n", factor.load(&p.factor_start.to_string())));
    }
    body.push_str(&format!(
        "for (var k = 0u; k < {WORDS}u; k += 1u) {{
            let word = (group_index * {WORDS}u + k) * {WORKGROUP}u + local;
            let first = word * {per_word}u;
            if first < {} {{\n",
        p.n
    ));
    for j in 0..per_word {
        body.push_str(&format!(
            "var v{j} = 0.0;\nif first + {j}u < {} {{ v{j} = {}; }}\n",
            p.n,
            x.load(&format!("{} + first + {j}u", p.x_start))
        ));
        if reduces && !looped {
            body.push_str(&reduction.add(&format!("v{j}"), &p.ord.to_string()));
        }
    }
    if looped {
        let values: Vec<String> = (0..per_word).map(|j| format!("v{j}")).collect();
        body.push_str(&format!(
            "var values = array<f32, {per_word}>({});
            for (var j = 0u; j < {per_word}u; j += 1u) {{ let v = values[j]; {} }}\n",
            values.join(", "),
            reduction.add("v", &p.ord.to_string())
        ));
    }
    if scaled {
        let values: Vec<String> = (0..per_word).map(|j| format!("(v{j} * scale)")).collect();
        body.push_str(&x.store(&format!("{} / {per_word}u + word", p.x_start), &values));
    }
    body.push_str("}\n}\n");
    if let (Some(together), Some(partial)) = (&mut together, &partial) {
        body.push_str(&together.reduce(&["reduced"], reduction.join()));
        let store = partial.store(&format!("{} + group_index", p.partial_start), &["reduced".to_owned()]);
        body.push_str(&format!(
            "if local == 0u && group_index * {}u < {} {{ {store} }}\n",
            WORKGROUP as usize * WORDS * per_word,
            p.n
        ));
    }
    module.add(&library::called(&body, hardware));
    module.finish([WORKGROUP, 1, 1], &body)
}

fn total(reduction: Reduction, hardware: &Hardware) -> Wgsl {
    let mut module = Module::new();
    let partial = module.elements("partial", DType::F32, false, hardware);
    let out = module.elements("out", DType::F32, true, hardware);
    let p = module.parameters::<Params>(());
    let mut together = WorkgroupReduce::new(&mut module, "f32", Parts::Whole, 1, hardware);
    let mut body = format!(
        "var reduced = 0.0;
        for (var i = local; i < {}; i += {WORKGROUP}u) {{ let a = reduced; let b = {}; reduced = {}; }}\n",
        p.n,
        partial.load(&format!("{} + i", p.partial_start)),
        reduction.join()
    );
    body.push_str(&together.reduce(&["reduced"], reduction.join()));
    let store = out.store(&p.out_start.to_string(), &[reduction.result(&p.ord.to_string())]);
    body.push_str(&format!("if local == 0u {{ {store} }}\n"));
    module.add(&library::called(&body, hardware));
    module.finish([WORKGROUP, 1, 1], &body)
}
