//! Methods that are a few lines of others.

use crate::common::Case;
use rustorch_tensor::signal::windows;
use rustorch_tensor::{Result, Tensor, linalg};

pub(super) fn run(case: &Case, op: &str) -> Result<Vec<Tensor>> {
    let xs = &case.inputs[..];
    let float = |key| case.float(key).unwrap();
    let int = |key| case.int(key).unwrap();
    if let Some(name) = op.strip_prefix("signal.windows.") {
        return window(case, name).map(|x| vec![x]);
    }
    Ok(vec![match op {
        "hstack" => Tensor::hstack(xs)?,
        "vstack" => Tensor::vstack(xs)?,
        "dstack" => Tensor::dstack(xs)?,
        "column_stack" => Tensor::column_stack(xs)?,
        "atleast_1d" => xs[0].atleast_1d()?,
        "atleast_2d" => xs[0].atleast_2d()?,
        "atleast_3d" => xs[0].atleast_3d()?,
        "broadcast_tensors" => return Tensor::broadcast_tensors(xs),
        "tensor_split" => return xs[0].tensor_split(int("sections") as usize, int("dim") as isize),
        "block_diag" => Tensor::block_diag(xs)?,
        "diag_embed" => xs[0].diag_embed(int("offset") as isize)?,
        "heaviside" => xs[0].heaviside(&xs[1])?,
        "signbit" => xs[0].signbit()?,
        "sgn" => xs[0].sgn()?,
        "sinc" => xs[0].sinc()?,
        "logit" => xs[0].logit(case.float("eps"))?,
        "entr" => xs[0].entr()?,
        "xlog1py" => xs[0].xlog1py(&xs[1])?,
        "addcmul" => xs[0].addcmul(&xs[1], &xs[2], case.scalar("value").unwrap())?,
        "addcdiv" => xs[0].addcdiv(&xs[1], &xs[2], case.scalar("value").unwrap())?,
        "nansum" => xs[0].nansum(case.ints("dims"), case.flag("keepdim"))?,
        "nanmean" => xs[0].nanmean(case.ints("dims"), case.flag("keepdim"))?,
        "trapezoid" => xs[0].trapezoid(float("dx"), int("dim") as isize)?,
        "isin" => xs[0].isin(&xs[1])?,
        "linalg.matrix_power" => linalg::matrix_power(&xs[0], int("n"))?,
        other => panic!("{other}"),
    }])
}

fn window(case: &Case, name: &str) -> Result<Tensor> {
    let (m, sym, dtype) = (case.int("m").unwrap() as usize, case.flag("sym"), case.inputs[0].dtype());
    let float = |key| case.float(key).unwrap();
    match name {
        "bartlett" => windows::bartlett(m, sym, dtype),
        "blackman" => windows::blackman(m, sym, dtype),
        "cosine" => windows::cosine(m, sym, dtype),
        "exponential" => windows::exponential(m, float("tau"), sym, dtype),
        "gaussian" => windows::gaussian(m, float("std"), sym, dtype),
        "general_cosine" => {
            let a: Vec<f64> =
                case.attrs["a"].as_array().unwrap().iter().map(|a| a.as_f64().unwrap()).collect();
            windows::general_cosine(m, &a, sym, dtype)
        }
        "general_hamming" => windows::general_hamming(m, float("alpha"), sym, dtype),
        "hamming" => windows::hamming(m, sym, dtype),
        "hann" => windows::hann(m, sym, dtype),
        "kaiser" => windows::kaiser(m, float("beta"), sym, dtype),
        "nuttall" => windows::nuttall(m, sym, dtype),
        other => panic!("{other}"),
    }
}
