//! The sum that a convolution and its gradients have in common, and its WGSL.
//!
//! `y[row, column] = Σ over depth of kernel[row, depth] · source[depth, column]`, for each group of channels. Columns and
//! depth have four parts: a leading one and three spatial ones.
//!
//! |          | rows            | columns             | depth               | kernel | source |
//! |----------|-----------------|---------------------|---------------------|--------|--------|
//! | forward  | output channels | images, outputs     | input channels, taps | weight | x      |
//! | data     | input channels  | images, inputs      | output channels, taps | weight | dy     |
//! | weight   | output channels | input channels, taps | images, outputs     | dy     | x      |

use super::accumulator;
use super::pointwise;
use crate::Hardware;
use crate::family::StepBuilder;
use crate::library;
use crate::library::strided::three;
use crate::plan::parameters::{Names, Parameter, parameters};
use crate::plan::{Operand, Place, Request};
use crate::wgsl::{Elements, KernelParam, Module};
use rustorch_core::{ConvParams, DType, Decline, Op, UnaryOp};
use std::fmt::Write;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ConvPass {
    Forward,
    Data,
    Weight,
}

/// What the source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    pub(super) pass: ConvPass,
    /// Spatial dimensions: the last of three.
    spatial: usize,
    /// Whether every stride is 1.
    unit: bool,
}

/// What becomes of each sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) dtype: DType,
    pub(super) bias: bool,
    pub(super) activation: Option<UnaryOp>,
}

/// Which sums do not begin, or end, with a launch, because their depth is parted among several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Carry {
    /// They go on from where another launch has left them.
    pub(super) from: bool,
    /// Another launch goes on with them.
    pub(super) on: bool,
}

impl Carry {
    pub(super) fn any(self) -> bool {
        self.from || self.on
    }
}

/// Steps in memory: from group to group, row to row or column to column, along depth, along the spatial dimensions.
struct Strides {
    group: usize,
    outer: usize,
    depth: usize,
    spatial: [usize; 3],
}

/// The sizes of a sum and where its operands lie.
pub(super) struct Sum {
    pub(super) form: Form,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
    pub(super) groups: usize,
    /// Columns that are contiguous in the result.
    pub(super) plane: usize,
    column_dims: [usize; 3],
    depth_dims: [usize; 3],
    params: [[usize; 3]; 2],
    /// What is taken off positions, or added to them: the padding before the first, seen from where a part begins.
    padding: [u32; 3],
    size: [usize; 3],
    kernel: Strides,
    source: Strides,
    /// How far before the source's first element the first position would be, modulo 2³².
    before: u32,
}

impl Sum {
    /// The sum that an operation is, or a part of one: positions are those of the whole.
    pub(super) fn of(request: &Request<'_>) -> Result<Sum, Decline> {
        let (pass, params): (ConvPass, &ConvParams) = match request.op {
            Op::Conv(conv) => (ConvPass::Forward, &conv.params),
            Op::ConvBackwardData(conv) => (ConvPass::Data, &conv.params),
            Op::ConvBackwardWeight(conv) => (ConvPass::Weight, &conv.params),
            op => return Err(Decline::Op(op.name())),
        };
        let (a, b, out) = (request.args[0], request.args[1], request.outs[0]);
        let (image, weight, small) = match pass {
            ConvPass::Forward => (a.layout, b.layout.dims(), out.layout),
            ConvPass::Data => (out.layout, b.layout.dims(), a.layout),
            ConvPass::Weight => (a.layout, out.layout.dims(), b.layout),
        };
        let (groups, per_group) = (params.groups, weight[1]);
        let outputs = weight[0] / groups;
        // The positions that there are, of which these may be a part.
        let whole = request.whole();
        let (there, outputs_there) = match pass {
            ConvPass::Forward => (whole.args[0].layout, whole.outs[0].layout),
            ConvPass::Data => (whole.outs[0].layout, whole.args[0].layout),
            ConvPass::Weight => (whole.args[0].layout, whole.args[1].layout),
        };
        let corner = request.part.corner;
        let steps = |x: &Operand<'_>| three(&x.layout.strides()[2..], 0);
        let dims = |list: &[usize]| three(&list[2..], 1);
        let (images, taps) = (image.dims()[0], dims(weight));
        let (first, second) = (request.arg(0), request.arg(1));
        let (s, t) = (first.layout.strides(), second.layout.strides());
        let (rows, lead, column_dims, depth_lead, depth_dims, kernel, source, size) = match pass {
            ConvPass::Forward => (
                outputs,
                images,
                dims(small.dims()),
                per_group,
                taps,
                Strides { group: outputs * t[0], outer: t[0], depth: t[1], spatial: steps(&second) },
                Strides { group: per_group * s[1], outer: s[0], depth: s[1], spatial: steps(&first) },
                dims(there.dims()),
            ),
            ConvPass::Data => (
                per_group,
                images,
                dims(image.dims()),
                outputs,
                taps,
                Strides { group: outputs * t[0], outer: t[1], depth: t[0], spatial: steps(&second) },
                Strides { group: outputs * s[1], outer: s[0], depth: s[1], spatial: steps(&first) },
                dims(outputs_there.dims()),
            ),
            ConvPass::Weight => (
                outputs,
                per_group,
                taps,
                images,
                dims(small.dims()),
                Strides { group: outputs * t[1], outer: t[1], depth: t[0], spatial: steps(&second) },
                Strides { group: per_group * s[1], outer: s[1], depth: s[0], spatial: steps(&first) },
                dims(image.dims()),
            ),
        };
        let before: Vec<usize> = params.padding.iter().map(|padding| padding.0).collect();
        // Positions before the first wrap around to numbers that must stay out of reach.
        let reach = (0..params.spatial()).try_fold(0usize, |most, axis| {
            let span = weight[axis + 2].checked_mul(params.dilation[axis])?;
            let last = outputs_there.dims()[axis + 2].checked_mul(params.stride[axis])?;
            let padded = there.dims()[axis + 2].checked_add(before[axis])?;
            Some(most.max(span.checked_add(last)?.checked_add(padded)?))
        });
        if reach.is_none_or(|reach| reach > i32::MAX as usize) {
            return Err(Decline::Attr("positions beyond 2³¹"));
        }
        let (stride, padding) = (three(&params.stride, 1), three(&before, 0));
        let (first, from) = (corner.source, corner.target);
        let padding = std::array::from_fn(|axis| {
            let (padding, from) = (padding[axis] as u32, from[axis] as u32);
            match pass {
                ConvPass::Data => padding.wrapping_add(from),
                _ => padding.wrapping_sub(from.wrapping_mul(stride[axis] as u32)),
            }
        });
        let inner: usize = column_dims.iter().product();
        let columns = lead * inner;
        Ok(Sum {
            form: Form {
                pass,
                spatial: params.spatial(),
                unit: params.stride.iter().all(|&stride| stride == 1),
            },
            rows,
            columns,
            depth: depth_lead * depth_dims.iter().product::<usize>(),
            groups,
            plane: if pass == ConvPass::Weight { columns } else { inner },
            column_dims,
            depth_dims,
            params: [stride, three(&params.dilation, 1)],
            padding,
            size,
            kernel,
            before: first.iter().zip(source.spatial).fold(0, |sum, (&at, step)| {
                // Wraps: what is counted from there does, too.
                at.wrapping_mul(step).wrapping_add(sum)
            }) as u32,
            source,
        })
    }

    /// Binds the operands; what the kernels get.
    ///
    /// `sums` has those that are carried, and how many bytes: they take the place of results where they are carried on.
    pub(super) fn bind(
        &self,
        step: &mut StepBuilder<'_>,
        request: &Request<'_>,
        carry: Carry,
        sums: Option<(Place, u64)>,
    ) -> Result<SumParams, Decline> {
        let kernel = step.read(&request.arg(1))?;
        let source = step.read(&request.arg(0))?;
        let mut bias = (0, 0);
        if request.args.len() == 3 {
            let list = request.arg(2);
            bias = (step.read(&list)?, list.layout.strides()[0]);
        }
        let y_start = if carry.on { 0 } else { step.write(&request.out(0))? };
        if let Some((sums, bytes)) = sums {
            step.bytes(sums, 0..bytes, true)?;
        }
        let [stride, dilation] = self.params;
        let side = |start: u32, strides: &Strides| SideParams {
            start,
            group: strides.group,
            outer: strides.outer,
            depth: strides.depth,
            spatial: strides.spatial,
        };
        Ok(SumParams {
            rows: self.rows,
            columns: self.columns,
            depth: self.depth,
            plane: self.plane,
            channels: self.rows * self.groups,
            column_dims: self.column_dims,
            depth_dims: self.depth_dims,
            stride,
            dilation,
            padding: self.padding,
            size: self.size,
            kernel: side(kernel, &self.kernel),
            source: side(source.wrapping_sub(self.before), &self.source),
            bias_start: bias.0,
            bias_stride: bias.1,
            y_start,
        })
    }
}

parameters! {
    /// Parameters of a sum.
    pub(super) struct SumParams() {
        rows: usize,
        columns: usize,
        depth: usize,
        plane: usize,
        channels: usize,
        column_dims: [usize; 3],
        depth_dims: [usize; 3],
        stride: [usize; 3],
        dilation: [usize; 3],
        padding: [u32; 3],
        size: [usize; 3],
        kernel: SideParams,
        source: SideParams,
        bias_start: u32,
        bias_stride: usize,
        y_start: u32,
    }
}

parameters! {
    /// Where an operand of a sum begins, and its strides.
    pub(super) struct SideParams() {
        start: u32,
        group: usize,
        outer: usize,
        depth: usize,
        spatial: [usize; 3],
    }
}

/// Declares the buffers `kernel`, `source`, `bias`, `sums` of those that are carried and, by `output`, the result if there is one; and the functions of the parameters
/// `column_parts`, `depth_parts`, `kernel_at`, `source_at` and `finish`, with `Number` for the type of sums.
pub(super) fn declare<T, P: Parameter<Shape = ()>>(
    module: &mut Module,
    form: Form,
    function: Function,
    hardware: &Hardware,
    carry: Carry,
    output: impl FnOnce(&mut Module) -> T,
    of: impl FnOnce(&P::Name) -> &SumParams<Names>,
) -> (P::Name, Option<T>) {
    let Function { dtype, bias, activation } = function;
    let kernel = module.elements("kernel", dtype, false, hardware);
    let source = module.elements("source", dtype, false, hardware);
    let bias = bias.then(|| module.elements("bias", dtype, false, hardware));
    let output = (!carry.on).then(|| output(module));
    if carry.any() {
        module.buffer("sums", "array<Number>", true);
    }
    let params = module.parameters::<P>(());
    let sum = of(&params);
    let number = if accumulator(dtype) == DType::F64 { "f64" } else { "f32" };
    let mut text = format!("alias Number = {number};\n");
    for (name, dims) in [("column", &sum.column_dims), ("depth", &sum.depth_dims)] {
        let _ = writeln!(
            text,
            "fn {name}_parts(i: u32) -> vec4<u32> {{
                let planes = i / {w};
                let rows = planes / {h};
                let lead = rows / {d};
                return vec4<u32>(lead, rows - lead * {d}, planes - rows * {h}, i - planes * {w});
            }}",
            d = dims[0],
            h = dims[1],
            w = dims[2],
        );
    }
    let axes = || (3 - form.spatial)..3;
    let part = |axis: usize| ["y", "z", "w"][axis];
    let mut at = format!(
        "{} + g * {} + row * {} + k.x * {}",
        sum.kernel.start, sum.kernel.group, sum.kernel.outer, sum.kernel.depth
    );
    for axis in axes() {
        let _ = write!(at, " + k.{} * {}", part(axis), sum.kernel.spatial[axis]);
    }
    let _ = writeln!(
        text,
        "fn kernel_at(g: u32, row: u32, k: vec4<u32>) -> Number {{ let at = {at}; return {}; }}",
        kernel.load("at")
    );
    text.push_str("fn source_at(g: u32, column: vec4<u32>, k: vec4<u32>) -> Number {\n");
    let mut inside = Vec::new();
    let mut at = format!(
        "{} + g * {} + column.x * {} + k.x * {}",
        sum.source.start, sum.source.group, sum.source.outer, sum.source.depth
    );
    for axis in axes() {
        let (c, stride) = (part(axis), &sum.stride[axis]);
        let (dilation, padding) = (&sum.dilation[axis], &sum.padding[axis]);
        // Positions before the first become large numbers.
        let _ = match form.pass {
            ConvPass::Forward => {
                writeln!(text, "let q{axis} = column.{c} * {stride} + k.{c} * {dilation} - {padding};")
            }
            ConvPass::Weight => {
                writeln!(text, "let q{axis} = k.{c} * {stride} + column.{c} * {dilation} - {padding};")
            }
            ConvPass::Data if form.unit => {
                writeln!(text, "let q{axis} = column.{c} + {padding} - k.{c} * {dilation};")
            }
            ConvPass::Data => {
                inside.push(format!("q{axis} * {stride} == t{axis}"));
                writeln!(
                    text,
                    "let t{axis} = column.{c} + {padding} - k.{c} * {dilation};\nlet q{axis} = t{axis} / {stride};"
                )
            }
        };
        inside.push(format!("q{axis} < {}", sum.size[axis]));
        let _ = write!(at, " + q{axis} * {}", sum.source.spatial[axis]);
    }
    let _ = writeln!(
        text,
        "if {} {{ let at = {at}; return {}; }}\nreturn Number();\n}}",
        inside.join(" && "),
        source.load("at")
    );
    module.add(&text);
    finish(
        module,
        dtype,
        bias.as_ref().map(|bias| (bias, &sum.bias_start, &sum.bias_stride)),
        activation,
        hardware,
    );
    (params, output)
}

/// Declares `finish(sum, channel)`: with the bias, and the activation applied.
fn finish(
    module: &mut Module,
    dtype: DType,
    bias: Option<(&Elements, &KernelParam, &KernelParam)>,
    activation: Option<UnaryOp>,
    hardware: &Hardware,
) {
    let dtype = accumulator(dtype);
    let mut expression = "sum".to_owned();
    if let Some((bias, from, step)) = bias {
        expression = format!("sum + {}", bias.load(&format!("{from} + channel * {step}")));
    }
    // The table promises no activation without a line.
    if let Some(activation) = activation.and_then(|f| pointwise::activation(f, dtype, hardware).ok()) {
        module.add(&library::called(&activation, hardware));
        module.add(&format!("fn activation(a: Number) -> Number {{ return {activation}; }}"));
        expression = format!("activation({expression})");
    }
    module.add(&format!("fn finish(sum: Number, channel: u32) -> Number {{ return {expression}; }}"));
}
