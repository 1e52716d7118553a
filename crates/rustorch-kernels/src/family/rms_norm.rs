//! RMS normalisation, optionally of a sum (fused residual add): a workgroup per row, in registers where these suit.

mod in_registers;

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::kind::Kind;
use crate::library::scalars;
use crate::library::strided::{self, Grid, rows};
use crate::library::{self, Parts, RegisterRow, WorkgroupReduce};
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Request, line};
use crate::splitting::{SplitPlan, axes, axes::one};
use crate::table::{Row, row, sets};
use crate::wgsl::{self, Elements, KernelParam, LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{
    AddRmsNorm, DType, Decline, Layout, Op, OpKind, OpType, RmsNorm as RmsNormOp, Scalar, TensorMeta,
};
use smallvec::SmallVec;
use std::fmt::Write;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RmsNorm {
    dtype: DType,
    weight: bool,
    /// Whether it is a sum of two that is normalised, and a result, too.
    added: bool,
    /// Rank of the rows after merging.
    rank: usize,
    /// How rows are in registers, if they are.
    registers: Option<RegisterRow>,
}

parameters! {
    /// Kernel parameters.
    struct Params(dtype: Kind, rank: usize, other: Option<()>, tensors: usize) {
        rows: usize,
        len: usize,
        x_start: u32,
        x_stride: usize,
        w_start: u32,
        w_stride: usize,
        y_start: u32,
        /// Of what is added, and of the sums.
        other_start: Option<u32> = other,
        other_stride: Option<usize> = other,
        sums_start: Option<u32> = other,
        eps: scalars::Words = dtype,
        grid: Grid = (rank, tensors),
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(OpType::Normalization, &[OpKind::RmsNorm, OpKind::AddRmsNorm], sets::FLOAT)
    .check(|op, args, _| {
        let len = args[0].dims()[args[0].dims().len() - 1];
        if let Op::AddRmsNorm(_) = op {
            let rank = row_grid(&args[..2])?.ndim();
            if rank > strided::MAX_RANK {
                return Err(Decline::Rank { ndim: rank, limit: strided::MAX_RANK });
            }
        }
        match len.is_multiple_of(wgsl::per_word(args[0].dtype)) {
            true => Ok(()),
            false => Err(Decline::Layout("rows of 16-bit numbers must be of even length")),
        }
    })
    .remark("rows of 16-bit floats of even length")];

/// The rows of what is added, or of what there is alone.
fn row_grid(terms: &[TensorMeta<'_>]) -> Result<Grid, Decline> {
    let layouts: SmallVec<[Layout; 2]> = terms.iter().map(|x| rows(x.layout)).collect::<Result<_, _>>()?;
    Ok(Grid::new(&layouts.iter().collect::<SmallVec<[&Layout; 2]>>()))
}

impl Kernels for RmsNormOp {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self.eps, false)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let rank = request.outs[0].dims().len();
        Ok(Some(axes::dimensions(request, |d| d + 1 < rank)))
    }
}

impl Kernels for AddRmsNorm {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self.eps, true)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let rank = request.outs[0].dims().len();
        Ok(Some(axes::beside(request, |d| (d + 1 < rank).then(|| [one(d), one(d)].into_iter().collect()))))
    }
}

/// Adds the launch. With `added` the first two arguments are added, and the sum is the first result.
pub fn plan(plan: &mut Plan, request: &Request<'_>, eps: f64, added: bool) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(usize::from(added)));
    let rank = x.layout.ndim();
    let (len, step) = (x.layout.dims()[rank - 1], x.layout.strides()[rank - 1]);
    let terms = 1 + usize::from(added);
    let grid = row_grid(&request.args[..terms])?;
    let weight = request.args.len() > terms;
    // Rows of 16-bit floats may begin within a word: those are made in f32, and cast.
    let packs = len.is_multiple_of(wgsl::per_word(x.dtype));
    if !packs {
        return Err(Decline::Layout("rows of 16-bit numbers must be of even length"));
    }
    let registers = registers(request, &grid);
    let kernel = RmsNorm { dtype: x.dtype, weight, added, rank: grid.ndim(), registers };
    let mut launch = match registers {
        Some(_) => StepBuilder::of_vectors(request.hardware, kernel),
        None => StepBuilder::new(request.hardware, kernel),
    };
    let x_start = launch.read(&x)?;
    let (mut other_start, mut other_stride) = (None, None);
    if added {
        let other = request.arg(1);
        (other_start, other_stride) = (Some(launch.read(&other)?), Some(other.layout.strides()[rank - 1]));
    }
    let mut scale = (0, 0);
    if weight {
        let w: Operand<'_> = request.arg(terms);
        scale = (launch.read(&w)?, w.layout.strides()[0]);
    }
    let y_start = launch.write(&out)?;
    let sums_start = added.then(|| launch.write(&request.out(0))).transpose()?;
    let row_count = x.layout.numel() / len;
    launch.parameters(&Params {
        rows: row_count,
        len,
        x_start,
        x_stride: step,
        w_start: scale.0,
        w_stride: scale.1,
        y_start,
        other_start,
        other_stride,
        sums_start,
        eps: scalars::words(Scalar::Float(eps), scalars::wide(x.dtype)),
        grid,
    })?;
    plan.step(launch, line(row_count, request.hardware)?);
    Ok(())
}

/// How rows are in registers, if those of all tensors are contiguous and begin where vectors may; `grid` has the rows.
fn registers(request: &Request<'_>, grid: &Grid) -> Option<RegisterRow> {
    let TensorMeta { dtype, layout, .. } = request.args[0];
    let adjacent = |x: &TensorMeta<'_>| x.layout.strides().last() == Some(&1);
    let starts = request.args.iter().chain(request.outs).map(|x| x.layout.offset());
    let positions = starts.chain(grid.strides.iter().flatten().copied());
    let row = RegisterRow::new(dtype, *layout.dims().last()?, positions, request.hardware);
    row.filter(|_| request.args.iter().all(adjacent))
}

/// Adds the functions of kernels, with `joined(a, b)`, the sum of sums.
fn functions(module: &mut Module, dtype: DType, eps: &str, hardware: &Hardware) {
    module.add(&library::arithmetic(dtype, hardware));
    module.add(&library::called(&format!("finite() {eps}"), hardware));
    // What an infinite sum of pairs has lost by rounding is no number.
    module.add(match hardware.f64 {
        true => "fn joined(a: Wide, b: Wide) -> Wide { return wide_add(a, b); }",
        false => {
            "fn joined(a: Wide, b: Wide) -> Wide {
                let sum = narrow(a) + narrow(b);
                return select(wide(sum), wide_add(a, b), finite(sum));
            }"
        }
    });
}

/// Statements that make `factor` of `sum`, that of a row's squares. They are rounded as elements are; their sum is so precise
/// that its order does not matter, but for doubles.
fn factor(dtype: DType, ty: &str, len: &KernelParam, eps: &str) -> String {
    let mean = match dtype {
        DType::F64 => "let mean = quotient;",
        _ => {
            "let rest = narrow(wide_add(sum, wide_mul(wide(-quotient), wide(count))));
            let mean = select(quotient, quotient + rest / count, finite(quotient));"
        }
    };
    format!(
        "let count = {ty}({len});
        let quotient = divide(narrow(sum), count);
        {mean}
        let factor = divide({ty}(1.0), root(mean + {eps}));\n"
    )
}

impl RmsNorm {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let RmsNorm { dtype, weight, added, rank, registers } = *self;
        if let Some(row) = registers {
            return self.in_registers(row, hardware);
        }
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let other = added.then(|| module.elements("other", dtype, false, hardware));
        let w = weight.then(|| module.elements("w", dtype, false, hardware));
        let y = module.elements("y", dtype, true, hardware);
        let sums = added.then(|| module.elements("sums", dtype, true, hardware));
        let Params {
            rows,
            len,
            x_start,
            x_stride,
            w_start,
            w_stride,
            y_start,
            other_start,
            other_stride,
            sums_start,
            eps,
            grid,
        } = module.parameters::<Params>((
            Kind::of(dtype, hardware),
            rank,
            added.then_some(()),
            if added { 2 } else { 1 },
        ));
        let ty = x.value();
        functions(&mut module, dtype, &eps, hardware);
        let mut together = WorkgroupReduce::new(&mut module, "Wide", Parts::Whole, 1, hardware);
        let per_word = y.per_word();
        let (start, places): (_, &[&str]) = match &other_start {
            Some(start) => (format!("var at_other = {start};"), &["at", "at_other"]),
            None => (String::new(), &["at"]),
        };
        let element = |i: &str| {
            let own = x.load(&format!("at + {i} * {x_stride}"));
            match (&other, &other_stride) {
                (Some(other), Some(stride)) => {
                    let other = other.load(&format!("at_other + {i} * {stride}"));
                    library::settled(&format!("{own} + {other}"), dtype)
                }
                _ => own,
            }
        };
        let mut body = format!(
            "let row = {LINEAR_GROUP};
            if row >= {rows} {{ return; }}
            var at = {x_start};
            {start}
            {}
            var sum = wide({ty}(0.0));
            for (var i = local; i < {len}; i += {WORKGROUP}u) {{
                let v = {};
                sum = joined(sum, wide(v * v));
            }}
            {}{}
            for (var i = local * {per_word}u; i < {len}; i += {}u) {{\n",
            grid.positions("row", places),
            element("i"),
            together.reduce(&["sum"], "joined(a, b)"),
            factor(dtype, ty, &len, &eps),
            WORKGROUP as usize * per_word,
        );
        let (mut values, mut added) = (Vec::new(), Vec::new());
        for k in 0..per_word {
            let scale = match &w {
                Some(w) => format!(" * {}", w.load(&format!("{w_start} + (i + {k}u) * {w_stride}"))),
                None => String::new(),
            };
            let _ = writeln!(body, "let x{k} = {};", element(&format!("(i + {k}u)")));
            let _ = writeln!(body, "let v{k} = x{k} * factor{scale};");
            values.push(format!("v{k}"));
            added.push(format!("x{k}"));
        }
        let mut store = |to: &Elements, start: &KernelParam, values: &[String]| {
            body.push_str(&to.store(&format!("({start} + row * {len} + i) / {per_word}u"), values));
        };
        store(&y, &y_start, &values);
        if let (Some(sums), Some(start)) = (&sums, &sums_start) {
            store(sums, start, &added);
        }
        body.push_str("}\n");
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
