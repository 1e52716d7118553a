//! Convolutions and their gradients, as products whose strips are gathered from where elements lie: no matrix of windows
//! is ever stored.
//!
//! Position `o` of the output meets position `o · stride + k · dilation − padding` of the input through tap `k`.

use super::pointwise;
use super::tile::{Product, Side, Tile};
use crate::Hardware;
use crate::library::{self, Ring};
use crate::plan::{Operand, Plan, Request, StepBuilder, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{Elements, LINEAR_GROUP, Module, Wgsl, Word};
use rustorch_core::{ConvParams, DType, Decline, Op, OpType, UnaryOp};

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv {
    dtype: DType,
    result: Role,
    spatial: usize,
    tile: Tile,
    bias: bool,
    activation: Option<UnaryOp>,
}

/// What a tensor is to a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    /// `[n, c_in, size..]`
    Input,
    /// `[c_out, c_in / groups, kernel..]`
    Weight,
    /// `[n, c_out, out..]`
    Output,
}

/// What it convolves.
pub const ROWS: &[Row] =
    &[row(OpType::Convolution, &["conv", "conv_backward_data", "conv_backward_weight"], sets::CONTINUOUS)
        .check(|op, args, hardware| match op {
            Op::Conv(rustorch_core::Conv { activation: Some(activation), .. }) => {
                pointwise::activation(*activation, args[0].dtype, hardware).map(|_| ())
            }
            _ => Ok(()),
        })];

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let (a, b, out) = (request.arg(0), request.arg(1), request.out(0));
    let (result, params, activation): (Role, &ConvParams, _) = match request.op {
        Op::Conv(conv) => (Role::Output, &conv.params, conv.activation),
        Op::ConvBackwardData(conv) => (Role::Input, &conv.params, None),
        Op::ConvBackwardWeight(conv) => (Role::Weight, &conv.params, None),
        op => return Err(Decline::Op(op.name())),
    };
    let [x, w, y]: [&Operand<'_>; 3] = match result {
        Role::Output => [&a, &b, &out],
        Role::Input => [&out, &b, &a],
        Role::Weight => [&a, &out, &b],
    };
    let (images, groups) = (x.layout.dims()[0], params.groups);
    let (outs, ins) = (w.layout.dims()[0] / groups, w.layout.dims()[1]);
    let count = |layout: &Operand<'_>| layout.layout.dims()[2..].iter().product::<usize>();
    let (m, n, k, batch) = match result {
        Role::Output => (outs, count(y), ins * count(w), images * groups),
        Role::Input => (ins, count(x), outs * count(w), images * groups),
        Role::Weight => (outs, ins * count(w), images * count(y), groups),
    };
    let tile = Tile::choose(m, n, Ring::of(a.dtype, request.hardware));
    let bias = request.args.len() == 3;
    let spatial = params.spatial();
    let kernel = Conv { dtype: a.dtype, result, spatial, tile, bias, activation };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let mut starts = Vec::new();
    for (operand, role) in [(x, Role::Input), (w, Role::Weight), (y, Role::Output)] {
        starts.push(if role == result { launch.write(operand)? } else { launch.read(operand)? });
    }
    let mut extra = (0, 0);
    if bias {
        extra = (launch.read(&request.arg(2))?, request.args[2].layout.strides()[0]);
    }
    let [across, tiles] = tile.count(m, n);
    launch.number(m)?.number(n)?.number(k)?.number(across)?.number(tiles)?.number(tiles * batch)?;
    launch.number(groups)?.number(outs)?.number(ins)?.word(extra.0).number(extra.1)?.float(1.0);
    for d in 0..spatial {
        launch.number(x.layout.dims()[2 + d])?.number(w.layout.dims()[2 + d])?;
        launch.number(y.layout.dims()[2 + d])?;
        launch.number(params.stride[d])?.number(params.dilation[d])?.number(params.padding[d].0)?;
    }
    for (operand, start) in [x, w, y].into_iter().zip(starts) {
        launch.word(start);
        for &stride in operand.layout.strides() {
            launch.number(stride)?;
        }
    }
    plan.step(launch, line(tiles * batch, request.hardware)?);
    Ok(())
}

/// A spatial dimension's numbers.
struct Dimension {
    x: Word,
    taps: Word,
    y: Word,
    stride: Word,
    dilation: Word,
    padding: Word,
}

/// Where a tensor's elements are.
struct Places {
    elements: Elements,
    start: Word,
    strides: Vec<Word>,
}

impl Places {
    /// The number of the element with these indices.
    fn at(&self, first: &str, second: &str, rest: char) -> String {
        let mut text =
            format!("{} + ({first}) * {} + ({second}) * {}", self.start, self.strides[0], self.strides[1]);
        for (d, stride) in self.strides[2..].iter().enumerate() {
            text += &format!(" + {rest}{d} * {stride}");
        }
        text
    }
}

/// Statements that take a row-major number apart into `name0`, `name1`.. of these lengths, and `first` before them.
pub(super) fn split(number: &str, first: &str, name: char, lens: &[String]) -> String {
    let mut text = format!("var rest_{name} = {number};\n");
    for (d, len) in lens.iter().enumerate().rev() {
        text += &format!("let {name}{d} = rest_{name} % {len}; rest_{name} = rest_{name} / {len};\n");
    }
    text + &format!("let {first} = rest_{name};\n")
}

impl Conv {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Conv { dtype, result, spatial, tile, bias, activation } = *self;
        let ring = Ring::of(dtype, hardware);
        let mut module = Module::new();
        let [x, w, y] = [("x", Role::Input), ("w", Role::Weight), ("y", Role::Output)].map(|(name, role)| {
            match role == result {
                true => module.places(name, dtype, hardware),
                false => module.elements(name, dtype, false, hardware),
            }
        });
        let bias = bias.then(|| module.elements("bias", dtype, false, hardware));
        let (m, n, k) = (module.word().to_string(), module.word().to_string(), module.word().to_string());
        let (across, tiles, all) = (module.word(), module.word(), module.word());
        let (groups, outs, ins) = (module.word(), module.word(), module.word());
        let (extra, extra_step, one) = (module.word(), module.word(), module.word());
        let dimensions: Vec<Dimension> = (0..spatial)
            .map(|_| Dimension {
                x: module.word(),
                taps: module.word(),
                y: module.word(),
                stride: module.word(),
                dilation: module.word(),
                padding: module.word(),
            })
            .collect();
        let [x, w, y] = [x, w, y].map(|elements| Places {
            elements,
            start: module.word(),
            strides: module.take(2 + spatial),
        });
        let function = activation.and_then(|op| pointwise::activation(op, dtype, hardware).ok());
        let function = function.unwrap_or_default();
        module.add(&library::called(&[&ring.add(), &ring.step(), &*function].concat(), hardware));
        if activation.is_some() {
            let ty = ring.ty;
            module.add(&format!("fn activated(a: {ty}) -> {ty} {{ return {function}; }}"));
        }

        let lens = |of: fn(&Dimension) -> Word| -> Vec<String> {
            dimensions.iter().map(|dimension| of(dimension).to_string()).collect()
        };
        let (x_lens, taps, y_lens) = (lens(|d| d.x), lens(|d| d.taps), lens(|d| d.y));
        let load = |places: &Places, first: &str, second: &str, rest: char| {
            format!("v = {};", places.elements.load(&places.at(first, second, rest)))
        };
        // Positions of the input that an output's position meets: those before it are huge numbers.
        let mut meets = String::new();
        let mut inside = String::from("true");
        for (d, dimension) in dimensions.iter().enumerate() {
            let Dimension { x, y, stride, dilation, padding, .. } = dimension;
            match result {
                Role::Input => {
                    meets += &format!(
                        "let t{d} = x{d} + {padding} - k{d} * {dilation};\nlet o{d} = t{d} / {stride};\n"
                    );
                    inside += &format!(" && t{d} < 0x80000000u && t{d} % {stride} == 0u && o{d} < {y}");
                }
                _ => {
                    meets += &format!("let x{d} = o{d} * {stride} + k{d} * {dilation} - {padding};\n");
                    inside += &format!(" && x{d} < {x}");
                }
            }
        }
        let (out_channel, in_channel) = (format!("part * {outs} + "), format!("part * {ins} + "));
        let channel = |base: &str, own: &str| format!("{base}{own}");
        let (left, right, place, bias_at) = match result {
            Role::Output => (
                split("i", "channel", 'k', &taps) + &load(&w, &channel(&out_channel, "j"), "channel", 'k'),
                format!(
                    "{}{}{meets}if {inside} {{ {} }}",
                    split("i", "channel", 'k', &taps),
                    split("j", "none", 'o', &y_lens),
                    load(&x, "image", &channel(&in_channel, "channel"), 'x')
                ),
                split("c", "none", 'o', &y_lens)
                    + &format!("let place_of_result = {};", y.at("image", &channel(&out_channel, "r"), 'o')),
                channel(&out_channel, "r"),
            ),
            Role::Input => (
                split("i", "channel", 'k', &taps) + &load(&w, &channel(&out_channel, "channel"), "j", 'k'),
                format!(
                    "{}{}{meets}if {inside} {{ {} }}",
                    split("i", "channel", 'k', &taps),
                    split("j", "none", 'x', &x_lens),
                    load(&y, "image", &channel(&out_channel, "channel"), 'o')
                ),
                split("c", "none", 'x', &x_lens)
                    + &format!("let place_of_result = {};", x.at("image", &channel(&in_channel, "r"), 'x')),
                channel(&in_channel, "r"),
            ),
            Role::Weight => (
                split("i", "picture", 'o', &y_lens) + &load(&y, "picture", &channel(&out_channel, "j"), 'o'),
                format!(
                    "{}{}{meets}if {inside} {{ {} }}",
                    split("i", "picture", 'o', &y_lens),
                    split("j", "channel", 'k', &taps),
                    load(&x, "picture", &channel(&in_channel, "channel"), 'x')
                ),
                split("c", "channel", 'k', &taps)
                    + &format!(
                        "let place_of_result = {};",
                        w.at(&channel(&out_channel, "r"), "channel", 'k')
                    ),
                String::new(),
            ),
        };
        let written = match result {
            Role::Input => &x,
            Role::Weight => &w,
            Role::Output => &y,
        };
        let [rows, columns] = tile.shape();
        let mut body = format!(
            "let number = {LINEAR_GROUP};
            if number >= {all} {{ return; }}
            let batch = number / {tiles};
            let tile = number % {tiles};
            let image = batch / {groups};
            let part = batch % {groups};
            let first_column = (tile % {across}) * {columns}u;
            let first_row = (tile / {across}) * {rows}u;\n"
        );
        let product = Product {
            tile,
            ring,
            left: Side { load: &left, count: &m, inner: true },
            right: Side { load: &right, count: &n, inner: result == Role::Weight },
            len: &k,
        };
        body += &product.text(&mut module, &one.float(), |sum| {
            let mut value = sum.to_owned();
            if let Some(bias) = &bias {
                let element = bias.load(&format!("{extra} + ({bias_at}) * {extra_step}"));
                value = format!("ring_add({value}, {element})");
            }
            if activation.is_some() {
                value = format!("activated({value})");
            }
            format!("{place}\n{}", written.elements.store_one("place_of_result", &value))
        });
        module.finish(product.workgroup(), &body)
    }
}
