//! RMS normalisation, of sums, too: a workgroup for each row.

use super::kind::Kind;
use super::scalars;
use super::strided::{self, Grid};
use crate::Hardware;
use crate::library::{self, Parts, Together};
use crate::plan::{Operand, Plan, Request, StepBuilder, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{self, Elements, LINEAR_GROUP, Module, WORKGROUP, Wgsl, Word};
use rustorch_core::{DType, Decline, Layout, Op, OpType, Scalar, Shape, TensorMeta};
use smallvec::SmallVec;
use std::fmt::Write;

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RmsNorm {
    dtype: DType,
    weight: bool,
    /// Whether it is a sum of two that is normalised, and a result, too.
    added: bool,
    /// Dimensions of the rows.
    rank: usize,
}

/// What it normalises.
pub const ROWS: &[Row] = &[row(OpType::Normalization, &["rms_norm", "add_rms_norm"], sets::FLOAT)
    .check(|op, args, _| {
        let len = args[0].dims()[args[0].dims().len() - 1];
        if let Op::AddRmsNorm(_) = op {
            let rank = row_grid(&args[..2])?.rank();
            if rank > strided::MAX_RANK {
                return Err(Decline::Rank { rank, limit: strided::MAX_RANK });
            }
        }
        match len.is_multiple_of(wgsl::per_word(args[0].dtype)) {
            true => Ok(()),
            false => Err(Decline::Layout("rows of 16-bit numbers must be of even length")),
        }
    })
    .remark("rows of 16-bit floats of even length")];

/// The layout of a tensor's rows, the last dimension left out.
pub fn rows(layout: &Layout) -> Result<Layout, Decline> {
    let outer = layout.rank().saturating_sub(1);
    let shape = Shape::new(&layout.dims()[..outer]).map_err(|_| Decline::Attr("too large"))?;
    Layout::new(shape, &layout.strides()[..outer], 0).map_err(|_| Decline::Attr("too large"))
}

/// The rows of what is added, or of what there is alone.
fn row_grid(terms: &[TensorMeta<'_>]) -> Result<Grid, Decline> {
    let layouts: SmallVec<[Layout; 2]> = terms.iter().map(|x| rows(x.layout)).collect::<Result<_, _>>()?;
    Ok(Grid::new(&layouts.iter().collect::<SmallVec<[&Layout; 2]>>()))
}

/// Adds the launch. With `added` the first two arguments are added, and the sum is the first result.
pub fn plan(plan: &mut Plan, request: &Request<'_>, eps: f64, added: bool) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(usize::from(added)));
    let rank = x.layout.rank();
    let (len, step) = (x.layout.dims()[rank - 1], x.layout.strides()[rank - 1]);
    let terms = 1 + usize::from(added);
    let grid = row_grid(&request.args[..terms])?;
    let weight = request.args.len() > terms;
    // Rows of 16-bit numbers may begin within a word: those are made in f32, and cast.
    let packs = len.is_multiple_of(wgsl::per_word(x.dtype));
    if !packs {
        return Err(Decline::Layout("rows of 16-bit numbers must be of even length"));
    }
    let kernel = RmsNorm { dtype: x.dtype, weight, added, rank: grid.rank() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let from = launch.read(&x)?;
    let mut beside = (0, 0);
    if added {
        let other = request.arg(1);
        beside = (launch.read(&other)?, other.layout.strides()[rank - 1]);
    }
    let mut scale = (0, 0);
    if weight {
        let w: Operand<'_> = request.arg(terms);
        scale = (launch.read(&w)?, w.layout.strides()[0]);
    }
    let to = launch.write(&out)?;
    let sums = if added { launch.write(&request.out(0))? } else { 0 };
    let row_count = x.layout.elements() / len;
    launch.number(row_count)?.number(len)?.number(step)?.word(from).word(scale.0).number(scale.1)?;
    launch.word(to);
    if added {
        launch.word(beside.0).number(beside.1)?.word(sums);
    }
    scalars::give(&mut launch, scalars::words(Scalar::Float(eps), scalars::wide(x.dtype)));
    grid.describe(&mut launch)?;
    plan.step(launch, line(row_count, request.hardware)?);
    Ok(())
}

impl RmsNorm {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let RmsNorm { dtype, weight, added, rank } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let other = added.then(|| module.elements("other", dtype, false, hardware));
        let w = weight.then(|| module.elements("w", dtype, false, hardware));
        let y = module.elements("y", dtype, true, hardware);
        let sums = added.then(|| module.elements("sums", dtype, true, hardware));
        let (rows, len, step, from) = (module.word(), module.word(), module.word(), module.word());
        let (w_from, w_step, to) = (module.word(), module.word(), module.word());
        // Where the other one's elements and the sums are.
        let beside = added.then(|| [module.word(), module.word(), module.word()]);
        let eps = scalars::declare(&mut module, Kind::of(dtype, hardware));
        let grid = strided::parameters(&mut module, rank, if added { 2 } else { 1 });
        let ty = x.value();
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
        let mut together = Together::new(&mut module, "Wide", Parts::Whole, 1, hardware);
        let per_word = y.per_word();
        let mean = match dtype {
            DType::F64 => "let mean = quotient;",
            _ => {
                "let rest = narrow(wide_add(total, wide_mul(wide(-quotient), wide(count))));
                let mean = select(quotient, quotient + rest / count, finite(quotient));"
            }
        };
        let (start, places): (_, &[&str]) = match beside {
            Some([from, ..]) => (format!("var at_other = {from};"), &["at", "at_other"]),
            None => (String::new(), &["at"]),
        };
        let element = |i: &str| {
            let own = x.load(&format!("at + {i} * {step}"));
            match (&other, beside) {
                (Some(other), Some([_, step, _])) => {
                    let other = other.load(&format!("at_other + {i} * {step}"));
                    library::settled(&format!("{own} + {other}"), dtype)
                }
                _ => own,
            }
        };
        let mut body = format!(
            "let row = {LINEAR_GROUP};
            if row >= {rows} {{ return; }}
            var at = {from};
            {start}
            {}
            // Squares are rounded as elements are; their sum is so precise that its order does not matter, but for doubles.
            var sum = wide({ty}(0.0));
            for (var i = local; i < {len}; i += {WORKGROUP}u) {{
                let v = {};
                sum = joined(sum, wide(v * v));
            }}
            {}
            let total = sum;
            let count = {ty}({len});
            let quotient = divide(narrow(total), count);
            {mean}
            let factor = divide({ty}(1.0), root(mean + {eps}));
            for (var i = local * {per_word}u; i < {len}; i += {}u) {{\n",
            grid.positions("row", places),
            element("i"),
            together.reduce(&["sum"], "joined(a, b)"),
            WORKGROUP as usize * per_word,
        );
        let (mut values, mut added) = (Vec::new(), Vec::new());
        for k in 0..per_word {
            let scale = match &w {
                Some(w) => format!(" * {}", w.load(&format!("{w_from} + (i + {k}u) * {w_step}"))),
                None => String::new(),
            };
            let _ = writeln!(body, "let x{k} = {};", element(&format!("(i + {k}u)")));
            let _ = writeln!(body, "let v{k} = x{k} * factor{scale};");
            values.push(format!("v{k}"));
            added.push(format!("x{k}"));
        }
        let mut store = |to: &Elements, from: Word, values: &[String]| {
            body.push_str(&to.store(&format!("({from} + row * {len} + i) / {per_word}u"), values));
        };
        store(&y, to, &values);
        if let (Some(sums), Some([.., from])) = (&sums, beside) {
            store(sums, from, &added);
        }
        body.push_str("}\n");
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
