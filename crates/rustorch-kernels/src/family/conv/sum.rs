//! The one sum that a convolution and its gradients are, and its text.
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
use crate::family::strided::three;
use crate::library;
use crate::plan::{Operand, Place, Request, StepBuilder};
use crate::wgsl::{Elements, Module, Word};
use rustorch_core::{ConvParams, DType, Decline, Op, UnaryOp};
use std::fmt::Write;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Product {
    Forward,
    Data,
    Weight,
}

/// What the source's text depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    pub(super) product: Product,
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
    /// Columns that lie side by side in the result.
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
        let (product, params): (Product, &ConvParams) = match request.op {
            Op::Conv(conv) => (Product::Forward, &conv.params),
            Op::ConvBackwardData(conv) => (Product::Data, &conv.params),
            Op::ConvBackwardWeight(conv) => (Product::Weight, &conv.params),
            op => return Err(Decline::Op(op.name())),
        };
        let (a, b, out) = (request.args[0], request.args[1], request.outs[0]);
        let (image, weight, small) = match product {
            Product::Forward => (a.layout, b.layout.dims(), out.layout),
            Product::Data => (out.layout, b.layout.dims(), a.layout),
            Product::Weight => (a.layout, out.layout.dims(), b.layout),
        };
        let (groups, per_group) = (params.groups, weight[1]);
        let outputs = weight[0] / groups;
        // The positions that there are, of which these may be a part.
        let whole = request.whole();
        let (there, outputs_there) = match product {
            Product::Forward => (whole.args[0].layout, whole.outs[0].layout),
            Product::Data => (whole.outs[0].layout, whole.args[0].layout),
            Product::Weight => (whole.args[0].layout, whole.args[1].layout),
        };
        let corner = request.part.corner;
        let steps = |x: &Operand<'_>| three(&x.layout.strides()[2..], 0);
        let dims = |list: &[usize]| three(&list[2..], 1);
        let (images, taps) = (image.dims()[0], dims(weight));
        let (first, second) = (request.arg(0), request.arg(1));
        let (s, t) = (first.layout.strides(), second.layout.strides());
        let (rows, lead, column_dims, depth_lead, depth_dims, kernel, source, size) = match product {
            Product::Forward => (
                outputs,
                images,
                dims(small.dims()),
                per_group,
                taps,
                Strides { group: outputs * t[0], outer: t[0], depth: t[1], spatial: steps(&second) },
                Strides { group: per_group * s[1], outer: s[0], depth: s[1], spatial: steps(&first) },
                dims(there.dims()),
            ),
            Product::Data => (
                per_group,
                images,
                dims(image.dims()),
                outputs,
                taps,
                Strides { group: outputs * t[0], outer: t[1], depth: t[0], spatial: steps(&second) },
                Strides { group: outputs * s[1], outer: s[0], depth: s[1], spatial: steps(&first) },
                dims(outputs_there.dims()),
            ),
            Product::Weight => (
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
            match product {
                Product::Data => padding.wrapping_add(from),
                _ => padding.wrapping_sub(from.wrapping_mul(stride[axis] as u32)),
            }
        });
        let inner: usize = column_dims.iter().product();
        let columns = lead * inner;
        Ok(Sum {
            form: Form {
                product,
                spatial: params.spatial(),
                unit: params.stride.iter().all(|&stride| stride == 1),
            },
            rows,
            columns,
            depth: depth_lead * depth_dims.iter().product::<usize>(),
            groups,
            plane: if product == Product::Weight { columns } else { inner },
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

    /// Binds the operands and gives the numbers, in the order of [`Words::declare`].
    ///
    /// `sums` has those that are carried, and how many bytes: they take the place of results where they are carried on.
    pub(super) fn describe(
        &self,
        step: &mut StepBuilder<'_>,
        request: &Request<'_>,
        carry: Carry,
        sums: Option<(Place, u64)>,
    ) -> Result<(), Decline> {
        let kernel = step.read(&request.arg(1))?;
        let source = step.read(&request.arg(0))?;
        let mut bias = (0, 0);
        if request.args.len() == 3 {
            let list = request.arg(2);
            bias = (step.read(&list)?, list.layout.strides()[0]);
        }
        let to = if carry.on { 0 } else { step.write(&request.out(0))? };
        if let Some((sums, bytes)) = sums {
            step.bytes(sums, 0..bytes, true)?;
        }
        step.number(self.rows)?.number(self.columns)?.number(self.depth)?.number(self.plane)?;
        step.number(self.rows * self.groups)?;
        let [stride, dilation] = self.params;
        for list in [self.column_dims, self.depth_dims, stride, dilation] {
            for number in list {
                step.number(number)?;
            }
        }
        for number in self.padding {
            step.word(number);
        }
        for number in self.size {
            step.number(number)?;
        }
        let source = source.wrapping_sub(self.before);
        for (from, strides) in [(kernel, &self.kernel), (source, &self.source)] {
            step.word(from).number(strides.group)?.number(strides.outer)?.number(strides.depth)?;
            for stride in strides.spatial {
                step.number(stride)?;
            }
        }
        step.word(bias.0).number(bias.1)?.word(to);
        Ok(())
    }
}

/// The parameters of a sum.
pub(super) struct Words {
    pub(super) rows: Word,
    pub(super) columns: Word,
    pub(super) depth: Word,
    pub(super) plane: Word,
    pub(super) channels: Word,
    pub(super) to: Word,
    pub(super) depth_dims: Vec<Word>,
}

/// Declares the buffers `kernel`, `source`, `bias`, `sums` of those that are carried and, by `output`, the result if there is one; the parameters; and the functions
/// `column_parts`, `depth_parts`, `kernel_at`, `source_at` and `finish`, with `Number` for the type of sums.
pub(super) fn declare<T>(
    module: &mut Module,
    form: Form,
    function: Function,
    hardware: &Hardware,
    carry: Carry,
    output: impl FnOnce(&mut Module) -> T,
) -> (Words, Option<T>) {
    let Function { dtype, bias, activation } = function;
    let kernel = module.elements("kernel", dtype, false, hardware);
    let source = module.elements("source", dtype, false, hardware);
    let bias = bias.then(|| module.elements("bias", dtype, false, hardware));
    let output = (!carry.on).then(|| output(module));
    if carry.any() {
        module.buffer("sums", "array<Number>", true);
    }
    let [rows, columns, depth, plane, channels] = std::array::from_fn(|_| module.word());
    let [column_dims, depth_dims, stride, dilation, padding, size] = std::array::from_fn(|_| module.take(3));
    let [kernel_words, source_words] = std::array::from_fn(|_| module.take(7));
    let (bias_from, bias_step, to) = (module.word(), module.word(), module.word());
    let number = if accumulator(dtype) == DType::F64 { "f64" } else { "f32" };
    let mut text = format!("alias Number = {number};\n");
    for (name, dims) in [("column", &column_dims), ("depth", &depth_dims)] {
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
        kernel_words[0], kernel_words[1], kernel_words[2], kernel_words[3]
    );
    for axis in axes() {
        let _ = write!(at, " + k.{} * {}", part(axis), kernel_words[4 + axis]);
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
        source_words[0], source_words[1], source_words[2], source_words[3]
    );
    for axis in axes() {
        let (c, stride, dilation, padding) = (part(axis), stride[axis], dilation[axis], padding[axis]);
        // Positions before the first become large numbers.
        let _ = match form.product {
            Product::Forward => {
                writeln!(text, "let q{axis} = column.{c} * {stride} + k.{c} * {dilation} - {padding};")
            }
            Product::Weight => {
                writeln!(text, "let q{axis} = k.{c} * {stride} + column.{c} * {dilation} - {padding};")
            }
            Product::Data if form.unit => {
                writeln!(text, "let q{axis} = column.{c} + {padding} - k.{c} * {dilation};")
            }
            Product::Data => {
                inside.push(format!("q{axis} * {stride} == t{axis}"));
                writeln!(
                    text,
                    "let t{axis} = column.{c} + {padding} - k.{c} * {dilation};\nlet q{axis} = t{axis} / {stride};"
                )
            }
        };
        inside.push(format!("q{axis} < {}", size[axis]));
        let _ = write!(at, " + q{axis} * {}", source_words[4 + axis]);
    }
    let _ = writeln!(
        text,
        "if {} {{ let at = {at}; return {}; }}\nreturn Number();\n}}",
        inside.join(" && "),
        source.load("at")
    );
    module.add(&text);
    finish(module, dtype, bias.as_ref().map(|bias| (bias, bias_from, bias_step)), activation, hardware);
    (Words { rows, columns, depth, plane, channels, to, depth_dims }, output)
}

/// Declares `finish(sum, channel)`: with the bias, and the activation applied.
fn finish(
    module: &mut Module,
    dtype: DType,
    bias: Option<(&Elements, Word, Word)>,
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
