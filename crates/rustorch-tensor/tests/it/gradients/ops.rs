//! From the name of an operation in the fixture to the method of `Tensor`.

use crate::common::Case;
use crate::ops::{self, by_name};
use crate::{channel_norm, conv, cross_entropy, interpolate, linalg, ops::reduce_into, pooling};
use rustorch_tensor::{Attention, Error, Numerics, Result, RopeParams, RopeStyle, Tensor, UnaryOp};
use std::collections::HashMap;

/// Runs the operation of a case.
pub(super) fn run(case: &Case) -> Result<Vec<Tensor>> {
    let op = case.op.as_str();
    let is_in = |names: &[&str]| names.contains(&op);
    match op {
        _ if ops::names(ops::UNARY).contains(&op) => Ok(vec![by_name(ops::UNARY, op)(&case.inputs[0])?]),
        _ if ops::names(ops::BINARY).contains(&op) => ops::pair(case),
        _ if is_in(ops::SELECT) => ops::select(case),
        _ if is_in(ops::REDUCE) => ops::reduce(case),
        _ if is_in(ops::PRODUCTS) => ops::product(case),
        _ if is_in(ops::INDEX) => ops::index(case),
        _ if is_in(ops::INDEX_SUMS) => ops::index_sum(case),
        "scatter_reduce" => reduce_into(case),
        _ if is_in(ops::SHAPING) => ops::shape(case),
        _ if is_in(conv::FORWARD) || is_in(conv::TRANSPOSED) => Ok(vec![conv::call(op, case)?]),
        _ if is_in(pooling::OPS) => pooling::pool(op, case, &case.inputs[0]),
        _ if is_in(channel_norm::OPS) => {
            let names = case.attrs["with"].as_array().unwrap().iter();
            let names = names.map(|name| name.as_str().unwrap().to_owned());
            let given: HashMap<_, _> = names.zip(case.inputs[1..].iter().cloned()).collect();
            channel_norm::normalise(op, case, &case.inputs[0], &given)
        }
        "interpolate" => Ok(vec![case.inputs[0].interpolate(&interpolate::options(case))?]),
        "cross_entropy" => cross_entropy::compute(case).map(|loss| vec![loss]),
        "cholesky" | "cholesky_solve" | "solve" | "solve_triangular" | "inv" | "det" | "slogdet" | "qr"
        | "lu" | "lu_factor" => linalg::compute(case, op),
        _ => others(case),
    }
}

fn others(case: &Case) -> Result<Vec<Tensor>> {
    let x = &case.inputs[0];
    let (second, third) = (case.inputs.get(1), case.inputs.get(2));
    let sizes = || case.ints("normalized_shape").iter().map(|&n| n as usize).collect::<Vec<_>>();
    let eps = || case.float("eps").unwrap();
    let index = |key: &str| case.int(key).unwrap() as usize;
    Ok(vec![match case.op.as_str() {
        "erfinv" => x.erfinv()?,
        "complex" => Tensor::complex(x, second.unwrap())?,
        "polar" => Tensor::polar(x, second.unwrap())?,
        "lerp" => match case.scalar("weight") {
            Some(weight) => x.lerp(second.unwrap(), weight)?,
            None => x.lerp(second.unwrap(), third.unwrap())?,
        },
        "swiglu" => x.swiglu(second.unwrap())?,
        "geglu" => x.geglu(second.unwrap())?,
        "geglu_tanh" => x.geglu_tanh(second.unwrap())?,
        "reglu" => x.reglu(second.unwrap())?,
        "masked_select" => x.masked_select(second.unwrap())?,
        "norm" => {
            let p = match case.attrs["p"].as_str() {
                Some("inf") => f64::INFINITY,
                Some(_) => f64::NEG_INFINITY,
                None => case.float("p").unwrap(),
            };
            x.norm(p, ops::axes(case), case.flag("keepdim"))?
        }
        "linear_activated" => {
            let activation = match case.attrs["activation"].as_str().unwrap() {
                "relu" => UnaryOp::Relu,
                "gelu" => UnaryOp::Gelu,
                "silu" => UnaryOp::Silu,
                _ => UnaryOp::Tanh,
            };
            x.linear_activated(second.unwrap(), third, Some(activation))?
        }
        "mul_mat_id" => x.mul_mat_id(second.unwrap(), third.unwrap(), Numerics::F32)?,
        "batch_norm_training" => {
            let (y, mean, variance) = x.batch_norm_training(second, third, eps())?;
            return Ok(vec![y, mean, variance]);
        }
        "softmax" => x.softmax(case.dim())?,
        "log_softmax" => x.log_softmax(case.dim())?,
        "layer_norm" => x.layer_norm(sizes(), second, third, eps())?,
        "rms_norm" => x.rms_norm(sizes(), second, eps())?,
        "add_rms_norm" => {
            let (sum, normed) = x.add_rms_norm(second.unwrap(), sizes(), third, eps())?;
            return Ok(vec![sum, normed]);
        }
        "scaled_dot_product_attention" => {
            let (mask, scale) = (case.inputs.get(3), case.float("scale"));
            let causal = case.flag("is_causal");
            Tensor::scaled_dot_product_attention(x, second.unwrap(), third.unwrap(), mask, causal, scale)?
        }
        "attention" => {
            let options = Attention {
                causal: case.int("causal").map(|n| n as usize),
                window: case.int("window").map(|n| n as usize),
                softcap: case.float("softcap").map(|cap| cap as f32),
                ..Attention::new(case.float("scale").unwrap() as f32)
            };
            Tensor::attention(x, second.unwrap(), third.unwrap(), case.inputs.get(3), &options)?
        }
        "rope" => {
            let rope = RopeParams {
                style: match case.attrs["style"].as_str().unwrap() {
                    "pairs" => RopeStyle::Adjacent,
                    _ => RopeStyle::Halves,
                },
                rotated: index("rotated"),
                base: case.float("base").unwrap() as f32,
                scale: case.float("freq_scale").unwrap() as f32,
                yarn: None,
            };
            let positions: Vec<i64> = case.ints("positions").iter().map(|&p| p as i64).collect();
            let count = positions.len();
            x.rope(&Tensor::from_vec(positions, count)?, &rope, None)?
        }
        "stack" => Tensor::stack(&case.inputs, case.dim())?,
        "repeat_interleave" => x.repeat_interleave(index("times"), case.dim())?,
        _ => return view(case),
    }])
}

fn view(case: &Case) -> Result<Vec<Tensor>> {
    let x = &case.inputs[0];
    let index = |key: &str| case.int(key).unwrap() as usize;
    let place = |key: &str| case.int(key).unwrap() as isize;
    let dims = || case.ints("dims");
    Ok(vec![match case.op.as_str() {
        "reshape" => x.reshape(case.ints("sizes"))?,
        "permute" => x.permute(dims())?,
        "transpose" => x.transpose(dims()[0], dims()[1])?,
        "t" => x.t()?,
        "expand" => x.expand(case.ints("sizes"))?,
        "narrow" => x.narrow(case.dim(), index("start"), index("len"))?,
        "slice" => x.slice(case.dim(), place("start")..place("end"), index("step"))?,
        "select" => x.select(case.dim(), place("index"))?,
        "diagonal" => x.diagonal(place("offset"), dims()[0], dims()[1])?,
        "unfold" => x.unfold(case.dim(), index("size"), index("step"))?,
        "contiguous" => x.contiguous()?,
        "copy" => x.copy()?,
        "squeeze" => x.squeeze(case.dim())?,
        "unsqueeze" => x.unsqueeze(case.dim())?,
        "flatten" => x.flatten(place("start"), place("end"))?,
        "unflatten" => x.unflatten(case.dim(), case.ints("sizes"))?,
        "view_as_real" => x.view_as_real()?,
        "view_as_complex" => x.view_as_complex()?,
        "chunk" => return x.chunk(index("chunks"), case.dim()),
        "split" => return x.split(index("size"), case.dim()),
        "unbind" => return x.unbind(case.dim()),
        other => return Err(Error::argument("gradients", format!("no test runs {other}"))),
    }])
}
