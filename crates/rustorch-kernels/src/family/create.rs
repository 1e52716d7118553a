//! Creation of tensors: fill and arange.

use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::kind::Kind;
use crate::library::scalars;
use crate::plan::parameters::{Parameter, parameters};
use crate::plan::{Operand, Request, line};
use crate::splitting::{SplitPlan, axes};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word};
use crate::{Hardware, library, splitting};
use DType::{BF16, Bool, C64, C128, F16, F32, F64, I8, I16, I64, U8};
use rustorch_core::{
    Arange as Range, DType, Decline, Fill as Filling, FromScalar, Op, OpKind, OpType, Scalar, bf16, f16,
};
use std::fmt::Write;

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[
    row(OpType::Creation, &[OpKind::Fill], sets::ALL),
    row(OpType::Creation, &[OpKind::Arange], sets::REAL)
        .check(|op, _, _| match op {
            Op::Arange(arange) => counts(arange),
            op => Err(Decline::Op(op.name())),
        })
        .remark("integers from integers only"),
];

/// Whether a kernel can count so.
fn counts(arange: &Range) -> Result<(), Decline> {
    let large = |x: Scalar| x.to_f64().is_nan() || x.to_f64().abs() > 1e30;
    if arange.dtype.is_int() && !(whole(arange.start) && whole(arange.step)) {
        return Err(Decline::Attr("integers counted in fractions"));
    }
    if arange.dtype != F64 && (large(arange.start) || large(arange.step)) {
        return Err(Decline::Attr("numbers beyond 10³⁰"));
    }
    Ok(())
}

fn whole(x: Scalar) -> bool {
    matches!(x, Scalar::Bool(_) | Scalar::Int(_))
}

/// The kernel that repeats four words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fill;

/// The kernel that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arange {
    dtype: DType,
}

parameters! {
    /// Parameters of the kernel that fills.
    struct FillParams() {
        n: usize,
        start: usize,
        /// The value in words, which repeat.
        pattern: [u32; 4],
    }
}

parameters! {
    /// Parameters of the kernel that counts.
    struct ArangeParams(kind: Kind) {
        n: usize,
        y_start: u32,
        /// How many numbers come before the first that is here.
        before: usize,
        start: RangeWords = kind,
        increment: RangeWords = kind,
    }
}

impl Kernels for Filling {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan_fill(plan, request, self)
    }
}

impl Kernels for Range {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan_arange(plan, request, self)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        axes::places(request).map(Some)
    }
}

/// Plans the launch that fills.
pub fn plan_fill(plan: &mut Plan, request: &Request<'_>, fill: &Filling) -> Result<(), Decline> {
    self::fill(plan, request.hardware, &request.out(0), fill.value)
}

/// Plans the launches that fill a contiguous tensor, which begins on a word: one if a binding holds it.
pub(super) fn fill(
    plan: &mut Plan,
    hardware: &Hardware,
    out: &Operand<'_>,
    value: Scalar,
) -> Result<(), Decline> {
    let size = out.dtype.block_bytes();
    let (run, mut axes) = splitting::elementwise(&[(out.dtype, out.layout)])?;
    // The pattern of words repeats every four elements at the latest.
    axes.iter_mut().for_each(|axis| axis.alignment = 4);
    for chunk in splitting::split_operands(&run, &axes, hardware)? {
        let part = Operand { layout: &chunk.layouts[0], ..*out };
        let words = (part.layout.numel() * size).div_ceil(4);
        let mut step = StepBuilder::new(hardware, Fill);
        let start = step.write(&part)? as usize * size / 4;
        step.parameters(&FillParams { n: words, start, pattern: pattern(value, out.dtype) })?;
        plan.step(step, line(words.div_ceil(WORKGROUP as usize), hardware)?);
    }
    Ok(())
}

/// A value in a dtype, repeated to four words.
fn pattern(value: Scalar, dtype: DType) -> [u32; 4] {
    let bytes = |x: u8| u32::from_ne_bytes([x; 4]);
    let halves = |x: u16| u32::from(x) << 16 | u32::from(x);
    let long = |x: u64| [x as u32, (x >> 32) as u32, x as u32, (x >> 32) as u32];
    let z = value.to_complex();
    match dtype {
        Bool => [bytes(value.to_bool().into()); 4],
        U8 | I8 => [bytes(value.to_i64() as u8); 4],
        I16 => [halves(value.to_i64() as u16); 4],
        F16 => [halves(f16::from_scalar(value).to_bits()); 4],
        BF16 => [halves(bf16::from_scalar(value).to_bits()); 4],
        F32 => [f32::from_scalar(value).to_bits(); 4],
        I64 => long(value.to_i64() as u64),
        F64 => long(value.to_f64().to_bits()),
        C64 => long(u64::from((z.im as f32).to_bits()) << 32 | u64::from((z.re as f32).to_bits())),
        C128 => {
            let ([a, b, ..], [c, d, ..]) = (long(z.re.to_bits()), long(z.im.to_bits()));
            [a, b, c, d]
        }
        _ => [value.to_i64() as u32; 4],
    }
}

/// Plans the launch that counts.
pub fn plan_arange(plan: &mut Plan, request: &Request<'_>, arange: &Range) -> Result<(), Decline> {
    let out = request.out(0);
    let elements = out.layout.numel();
    let mut step = StepBuilder::new(request.hardware, Arange { dtype: out.dtype });
    let y_start = step.write(&out)?;
    let words = |value: Scalar| match out.dtype {
        // In two parts of `f32`.
        F16 | BF16 | F32 => {
            let (x, high) = (value.to_f64(), value.to_f64() as f32);
            RangeWords::Parts([high, (x - f64::from(high)) as f32])
        }
        dtype => RangeWords::Words(scalars::words(value, dtype)),
    };
    step.parameters(&ArangeParams {
        n: elements,
        y_start,
        before: request.part.first,
        start: words(arange.start),
        increment: words(arange.step),
    })?;
    let threads = elements.div_ceil(per_word(out.dtype));
    plan.step(step, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

/// A number of a range.
enum RangeWords {
    /// Of `f32` two parts, whose sum it is.
    Parts([f32; 2]),
    /// Of other types its words.
    Words(scalars::Words),
}

impl Parameter for RangeWords {
    /// Its value, of `f32` as a `Wide`.
    type Name = String;
    type Shape = Kind;

    fn declare(module: &mut Module, name: &str, kind: Kind) -> String {
        match kind {
            Kind::Single => {
                let [high, low] = <[f32; 2]>::declare(module, name, ());
                format!("wide_of({high}, {low})")
            }
            kind => scalars::Words::declare(module, name, kind),
        }
    }

    fn write<K>(&self, launch: &mut crate::plan::StepBuilder<'_, K>) -> Result<(), Decline> {
        match self {
            RangeWords::Parts(parts) => parts.write(launch),
            RangeWords::Words(words) => words.write(launch),
        }
    }
}

impl Fill {
    pub(super) fn wgsl(&self, _hardware: &Hardware) -> Wgsl {
        let mut module = Module::new();
        module.buffer("y", "array<u32>", true);
        let FillParams { n, start, pattern: [a, b, c, d] } = module.parameters::<FillParams>(());
        let body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if t >= {n} {{ return; }}
            let odd = (t & 1u) != 0u;
            y[{start} + t] = select(select({a}, {b}, odd), select({c}, {d}, odd), (t & 2u) != 0u);"
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

impl Arange {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let kind = Kind::of(self.dtype, hardware);
        let mut module = Module::new();
        let y = module.elements("y", self.dtype, true, hardware);
        let ArangeParams { n, y_start, before, start, increment: step } =
            module.parameters::<ArangeParams>(kind);
        let value = match kind {
            Kind::Signed(_) => format!("{start} + {step} * bitcast<i32>(i)"),
            Kind::Long => format!("{start} + {step} * long_of_word(i)"),
            Kind::Pair => format!("pair_add({start}, pair_product({step}, vec2<u32>(i, 0u)))"),
            Kind::Single => format!(
                "narrow(wide_add({start}, wide_mul({step}, wide_add(wide(f32(i >> 16u) * 65536.0), wide(f32(i & 0xffffu))))))"
            ),
            Kind::Double => format!("{start} + {step} * f64(i)"),
            _ => format!("{start} + {step} * i"),
        };
        module.add(&library::called(&value, hardware));
        module.add(&format!("fn f(i: u32) -> {} {{ return {value}; }}", y.value()));
        let per_word = y.per_word();
        let mut body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;\nlet first = t * {per_word}u;\nif first >= {n} {{ return; }}\n"
        );
        let values: Vec<String> = (0..per_word).map(|k| format!("v{k}")).collect();
        for value in &values {
            let k = &value[1..];
            let _ = writeln!(body, "let {value} = f({before} + first + {k}u);");
        }
        body.push_str(&y.store(&format!("{y_start} / {per_word}u + t"), &values));
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
