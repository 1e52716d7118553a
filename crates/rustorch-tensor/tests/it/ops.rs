//! Every operation against PyTorch's answers: result dtypes exactly, values within the tolerances of
//! `torch.testing.assert_close`, integers, booleans and moved data exactly.
//!
//! The fixture was made by `tools/oracle/tensor_ops.py` with PyTorch 2.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{Case, check, check_of, compare, dtype, fixture};
use rustorch_tensor::{
    Axes, DType, Result, RopeParams, RopeStyle, Scalar, ScatterReduction, Tensor, TensorOrScalar,
};

pub(crate) type Unary = fn(&Tensor) -> Result<Tensor>;
pub(crate) type Binary = fn(&Tensor, TensorOrScalar<'_>) -> Result<Tensor>;

pub(crate) const UNARY: &[(&str, Unary)] = &[
    ("neg", Tensor::neg),
    ("abs", Tensor::abs),
    ("sign", Tensor::sign),
    ("floor", Tensor::floor),
    ("ceil", Tensor::ceil),
    ("round", Tensor::round),
    ("trunc", Tensor::trunc),
    ("square", Tensor::square),
    ("exp", Tensor::exp),
    ("expm1", Tensor::expm1),
    ("log", Tensor::log),
    ("log2", Tensor::log2),
    ("log10", Tensor::log10),
    ("log1p", Tensor::log1p),
    ("sqrt", Tensor::sqrt),
    ("rsqrt", Tensor::rsqrt),
    ("reciprocal", Tensor::reciprocal),
    ("sin", Tensor::sin),
    ("cos", Tensor::cos),
    ("tan", Tensor::tan),
    ("asin", Tensor::asin),
    ("acos", Tensor::acos),
    ("atan", Tensor::atan),
    ("sinh", Tensor::sinh),
    ("cosh", Tensor::cosh),
    ("tanh", Tensor::tanh),
    ("asinh", Tensor::asinh),
    ("acosh", Tensor::acosh),
    ("atanh", Tensor::atanh),
    ("sigmoid", Tensor::sigmoid),
    ("relu", Tensor::relu),
    ("gelu", Tensor::gelu),
    ("gelu_tanh", Tensor::gelu_tanh),
    ("silu", Tensor::silu),
    ("softplus", Tensor::softplus),
    ("erf", Tensor::erf),
    ("logical_not", Tensor::logical_not),
    ("bitwise_not", Tensor::bitwise_not),
    ("isnan", Tensor::isnan),
    ("isinf", Tensor::isinf),
    ("isfinite", Tensor::isfinite),
    ("conj", Tensor::conj),
    ("real", Tensor::real),
    ("imag", Tensor::imag),
    ("angle", Tensor::angle),
];

pub(crate) const BINARY: &[(&str, Binary)] = &[
    ("add", |a, b| a.add(b)),
    ("sub", |a, b| a.sub(b)),
    ("mul", |a, b| a.mul(b)),
    ("div", |a, b| a.div(b)),
    ("floor_divide", |a, b| a.floor_divide(b)),
    ("trunc_divide", |a, b| a.trunc_divide(b)),
    ("remainder", |a, b| a.remainder(b)),
    ("pow", |a, b| a.pow(b)),
    ("maximum", |a, b| a.maximum(b)),
    ("minimum", |a, b| a.minimum(b)),
    ("atan2", |a, b| a.atan2(b)),
    ("bitwise_and", |a, b| a.bitwise_and(b)),
    ("bitwise_or", |a, b| a.bitwise_or(b)),
    ("bitwise_xor", |a, b| a.bitwise_xor(b)),
    ("bitwise_left_shift", |a, b| a.bitwise_left_shift(b)),
    ("bitwise_right_shift", |a, b| a.bitwise_right_shift(b)),
    ("eq", |a, b| a.eq(b)),
    ("ne", |a, b| a.ne(b)),
    ("lt", |a, b| a.lt(b)),
    ("le", |a, b| a.le(b)),
    ("gt", |a, b| a.gt(b)),
    ("ge", |a, b| a.ge(b)),
];

const LOGICAL: &[&str] = &["logical_and", "logical_or", "logical_xor"];
pub(crate) const SELECT: &[&str] = &["where", "clamp", "masked_fill", "cast"];
pub(crate) const REDUCE: &[&str] = &[
    "sum",
    "mean",
    "prod",
    "amax",
    "amin",
    "any",
    "all",
    "argmax",
    "argmin",
    "logsumexp",
    "var",
    "std",
    "max_dim",
    "min_dim",
    "cumsum",
    "cumprod",
];
pub(crate) const PRODUCTS: &[&str] = &["matmul", "bmm", "linear", "outer"];
const NORMS: &[&str] =
    &["softmax", "log_softmax", "layer_norm", "rms_norm", "scaled_dot_product_attention", "rope"];
pub(crate) const INDEX: &[&str] =
    &["gather", "take_along_dim", "scatter", "index_select", "embedding", "tril", "triu"];
pub(crate) const INDEX_SUMS: &[&str] = &["scatter_add", "index_add"];
pub(crate) const SHAPING: &[&str] =
    &["cat", "stack", "pad", "flip", "roll", "repeat", "sort", "argsort", "topk"];
const FACTORIES: &[&str] = &["arange", "linspace"];

pub(crate) fn names<T>(table: &[(&'static str, T)]) -> Vec<&'static str> {
    table.iter().map(|row| row.0).collect()
}

pub(crate) fn by_name<T: Copy>(table: &[(&str, T)], name: &str) -> T {
    table.iter().find(|row| row.0 == name).unwrap().1
}

#[test]
fn no_case_is_left_out() {
    let mut known = [names(UNARY), names(BINARY)].concat();
    for family in [LOGICAL, SELECT, REDUCE, PRODUCTS, NORMS, INDEX, INDEX_SUMS, SHAPING, FACTORIES] {
        known.extend(family);
    }
    known.push("type_promotion");
    let lines = fixture("ops.jsonl");
    assert!(lines.len() > 1000);
    for line in lines {
        assert!(known.contains(&line["op"].as_str().unwrap()), "no test runs {}", line["op"]);
    }
}

#[test]
fn functions_of_each_element() {
    check(&names(UNARY), false, |case| Ok(vec![by_name(UNARY, &case.op)(&case.inputs[0])?]));
}

#[test]
fn functions_of_pairs() {
    check(&names(BINARY), false, pair);
    check(LOGICAL, true, |case| {
        let (a, b) = (&case.inputs[0], &case.inputs[1]);
        Ok(vec![match &*case.op {
            "logical_and" => a.logical_and(b)?,
            "logical_or" => a.logical_or(b)?,
            _ => a.logical_xor(b)?,
        }])
    });
}

pub(crate) fn pair(case: &Case) -> Result<Vec<Tensor>> {
    let (f, a) = (by_name(BINARY, &case.op), &case.inputs[0]);
    Ok(vec![match case.scalar("scalar") {
        None => f(a, (&case.inputs[1]).into())?,
        Some(number) if !case.flag("reverse") => f(a, number.into())?,
        Some(number) => match &*case.op {
            "sub" => a.rsub(number)?,
            "div" => a.rdiv(number)?,
            "pow" => a.rpow(number)?,
            other => panic!("reversed {other}"),
        },
    }])
}

#[test]
fn selection_and_casts() {
    check(SELECT, true, select);
}

pub(crate) fn select(case: &Case) -> Result<Vec<Tensor>> {
    let x = &case.inputs[0];
    Ok(match &*case.op {
        "where" => vec![x.where_cond(&case.inputs[1], &case.inputs[2])?],
        "masked_fill" => vec![x.masked_fill(&case.inputs[1], case.scalar("value").unwrap())?],
        "clamp" => vec![match (case.scalar("min"), case.scalar("max")) {
            (Some(min), Some(max)) => x.clamp(min, max)?,
            (Some(min), None) => x.clamp_min(min)?,
            (None, Some(max)) => x.clamp_max(max)?,
            (None, None) => panic!("no bounds"),
        }],
        _ => {
            let targets = case.attrs["to"].as_array().unwrap();
            targets.iter().map(|to| x.to_dtype(dtype(to.as_str().unwrap()))).collect::<Result<_>>()?
        }
    })
}

pub(crate) fn axes(case: &Case) -> Axes {
    match &case.attrs["dim"] {
        serde_json::Value::Array(_) => case.ints("dim").into(),
        serde_json::Value::Number(n) => n.as_i64().unwrap().into(),
        _ => (..).into(),
    }
}

#[test]
fn reductions_and_scans() {
    check(REDUCE, false, reduce);
}

pub(crate) fn reduce(case: &Case) -> Result<Vec<Tensor>> {
    let (x, keepdim) = (&case.inputs[0], case.flag("keepdim"));
    let correction = case.float("correction").unwrap_or(1.0);
    Ok(vec![match &*case.op {
        "sum" => x.sum(axes(case), keepdim)?,
        "mean" => x.mean(axes(case), keepdim)?,
        "prod" => x.prod(axes(case), keepdim)?,
        "amax" => x.amax(axes(case), keepdim)?,
        "amin" => x.amin(axes(case), keepdim)?,
        "any" => x.any(axes(case), keepdim)?,
        "all" => x.all(axes(case), keepdim)?,
        "argmax" => x.argmax(axes(case), keepdim)?,
        "argmin" => x.argmin(axes(case), keepdim)?,
        "logsumexp" => x.logsumexp(axes(case), keepdim)?,
        "var" => x.var(axes(case), correction, keepdim)?,
        "std" => x.std(axes(case), correction, keepdim)?,
        "cumsum" => x.cumsum(case.dim())?,
        "cumprod" => x.cumprod(case.dim())?,
        pair => {
            let (values, indices) =
                if pair == "max_dim" { x.max(case.dim(), keepdim)? } else { x.min(case.dim(), keepdim)? };
            return Ok(vec![values, indices]);
        }
    }])
}

#[test]
fn matmuls() {
    check(PRODUCTS, false, product);
}

pub(crate) fn product(case: &Case) -> Result<Vec<Tensor>> {
    let (a, b) = (&case.inputs[0], &case.inputs[1]);
    Ok(vec![match &*case.op {
        "matmul" => a.matmul(b)?,
        "bmm" => a.bmm(b)?,
        "linear" => a.linear(b, case.inputs.get(2))?,
        _ => a.outer(b)?,
    }])
}

#[test]
fn norms_and_attention() {
    check(NORMS, false, |case| {
        let x = &case.inputs[0];
        let sizes = || case.ints("normalized_shape").iter().map(|&n| n as usize).collect::<Vec<_>>();
        Ok(vec![match &*case.op {
            "softmax" => x.softmax(case.dim())?,
            "log_softmax" => x.log_softmax(case.dim())?,
            "layer_norm" => {
                x.layer_norm(sizes(), case.inputs.get(1), case.inputs.get(2), case.float("eps").unwrap())?
            }
            "rms_norm" => {
                let (weight, eps) = (case.inputs.get(1), case.float("eps").unwrap());
                let normed = x.rms_norm(sizes(), weight, eps)?;
                // Two halves add up to the whole.
                let half = x.mul(0.5)?;
                let (sum, same) = half.add_rms_norm(&half, sizes(), weight, eps)?;
                assert!(sum.allclose(x, 0.0, 0.0, false)? && same.allclose(&normed, 0.0, 0.0, false)?);
                normed
            }
            "rope" => {
                let rope = RopeParams {
                    style: match case.attrs["style"].as_str().unwrap() {
                        "pairs" => RopeStyle::Adjacent,
                        _ => RopeStyle::Halves,
                    },
                    rotated: case.int("rotated").unwrap() as usize,
                    base: case.float("base").unwrap() as f32,
                    scale: case.float("freq_scale").unwrap() as f32,
                    yarn: None,
                };
                let positions: Vec<i64> = case.ints("positions").iter().map(|&p| p as i64).collect();
                let n = positions.len();
                let positions = Tensor::from_vec(positions, n)?;
                // The fixture has [tokens, heads, dim]; rope takes [.., seq, dim].
                let x = x.transpose(0, 1)?;
                x.rope(&positions, &rope, None)?.transpose(0, 1)?.contiguous()?
            }
            _ => Tensor::scaled_dot_product_attention(
                x,
                &case.inputs[1],
                &case.inputs[2],
                case.inputs.get(3),
                case.flag("is_causal"),
                case.float("scale"),
            )?,
        }])
    });
}

#[test]
fn indexing() {
    check(INDEX, true, index);
    check(INDEX_SUMS, false, index_sum);
}

pub(crate) fn index_sum(case: &Case) -> Result<Vec<Tensor>> {
    let (x, index, source) = (&case.inputs[0], &case.inputs[1], &case.inputs[2]);
    Ok(vec![match &*case.op {
        "scatter_add" => x.scatter_add(case.dim(), index, source)?,
        _ => x.index_add(case.dim(), index, source)?,
    }])
}

pub(crate) fn index(case: &Case) -> Result<Vec<Tensor>> {
    let x = &case.inputs[0];
    Ok(vec![match &*case.op {
        "gather" => x.gather(case.dim(), &case.inputs[1])?,
        "take_along_dim" => x.take_along_dim(&case.inputs[1], case.int("dim").map(|d| d as isize))?,
        "scatter" => match case.scalar("value") {
            Some(value) => x.scatter(case.dim(), &case.inputs[1], value)?,
            None => x.scatter(case.dim(), &case.inputs[1], &case.inputs[2])?,
        },
        "index_select" => x.index_select(case.dim(), &case.inputs[1])?,
        "embedding" => case.inputs[1].embedding(x)?,
        "tril" => x.tril(case.int("diagonal").unwrap())?,
        _ => x.triu(case.int("diagonal").unwrap())?,
    }])
}

/// The fixture was made by `tools/oracle/torch_scatter_reduce.py` with PyTorch 2.
#[test]
fn scatter_reduce() {
    check_of("scatter_reduce.jsonl", &["scatter_reduce"], false, reduce_into);
    let x = Tensor::new([true, false]).unwrap();
    let refused = x.scatter_reduce(0, &Tensor::new([0i64]).unwrap(), &x, ScatterReduction::Sum, true);
    assert!(refused.unwrap_err().to_string().contains("scatter_reduce: takes integers and floats"));
}

pub(crate) fn reduce_into(case: &Case) -> Result<Vec<Tensor>> {
    let reduce = case.attrs["reduce"].as_str().unwrap();
    let reduction = ScatterReduction::ALL.iter().find(|r| r.name() == reduce).unwrap();
    let (x, index, source) = (&case.inputs[0], &case.inputs[1], &case.inputs[2]);
    Ok(vec![x.scatter_reduce(case.dim(), index, source, *reduction, case.flag("include_self"))?])
}

#[test]
fn joining_and_ordering() {
    check(SHAPING, true, shape);
}

pub(crate) fn shape(case: &Case) -> Result<Vec<Tensor>> {
    let x = &case.inputs[0];
    Ok(vec![match &*case.op {
        "cat" => Tensor::cat(&case.inputs, case.dim())?,
        "stack" => Tensor::stack(&case.inputs, case.dim())?,
        "pad" => x.pad(case.ints("pad"), case.scalar("value").unwrap())?,
        "flip" => x.flip(case.ints("dims"))?,
        "roll" => x.roll(&case.ints("shifts"), &case.ints("dims"))?,
        "repeat" => x.repeat(case.ints("repeats").iter().map(|&n| n as usize).collect::<Vec<_>>())?,
        "argsort" => x.argsort(case.dim(), case.flag("descending"))?,
        "sort" => {
            let (values, indices) = x.sort(case.dim(), case.flag("descending"))?;
            return Ok(vec![values, indices]);
        }
        _ => {
            let k = case.int("k").unwrap() as usize;
            let (values, indices) = x.topk(k, case.dim(), case.flag("largest"))?;
            return Ok(vec![values, indices]);
        }
    }])
}

#[test]
fn factories() {
    check(FACTORIES, false, |case| {
        Ok(vec![if case.op == "arange" {
            let number = |key| case.scalar(key).unwrap();
            Tensor::arange(number("start"), number("end"), number("step"))?
        } else {
            let steps = case.int("steps").unwrap() as usize;
            Tensor::linspace(case.float("start").unwrap(), case.float("end").unwrap(), steps, DType::F32)?
        }])
    });
}

/// The tables of result dtypes, for every pair of dtypes. Where PyTorch refuses (`null`) or gives a dtype that we do not
/// have (`c32`), ours is our own affair.
#[test]
fn promotion_is_pytorchs() {
    let lines = fixture("ops.jsonl");
    let tables = &lines.iter().find(|line| line["op"] == "type_promotion").unwrap()["attrs"];
    let dtypes: Vec<DType> =
        tables["dtypes"].as_array().unwrap().iter().map(|d| dtype(d.as_str().unwrap())).collect();
    let ones = |d: DType| Tensor::ones([2], d).unwrap();
    let mut checked = 0;
    let mut expect = |what: String, got: Result<Tensor>, want: &serde_json::Value| {
        if let Some(name) = want.as_str().filter(|&name| name != "c32") {
            assert_eq!(got.unwrap_or_else(|error| panic!("{what}: {error}")).dtype().name(), name, "{what}");
            checked += 1;
        }
    };
    for (i, &a) in dtypes.iter().enumerate() {
        for (j, &b) in dtypes.iter().enumerate() {
            expect(format!("{a} + {b}"), ones(a).add(&ones(b)), &tables["add"][i][j]);
            expect(format!("{a} / {b}"), ones(a).div(&ones(b)), &tables["div"][i][j]);
            let zero_d = Tensor::ones((), b).unwrap();
            expect(format!("{a} + 0-d {b}"), ones(a).add(&zero_d), &tables["add_0d"][i][j]);
        }
        let numbers: [(&str, Scalar); 4] = [
            ("bool", true.into()),
            ("int", 3.into()),
            ("float", 2.5.into()),
            ("complex", rustorch_tensor::C128::new(0.0, 1.0).into()),
        ];
        for (kind, number) in numbers {
            expect(format!("{a} + {number}"), ones(a).add(number), &tables["add_scalar"][kind][i]);
            expect(format!("{a} / {number}"), ones(a).div(number), &tables["div_scalar"][kind][i]);
        }
        expect(format!("sum {a}"), ones(a).sum_all(), &tables["sum"][i]);
        expect(format!("mean {a}"), ones(a).mean_all(), &tables["mean"][i]);
        expect(format!("exp {a}"), ones(a).exp(), &tables["exp"][i]);
        expect(format!("cumsum {a}"), ones(a).cumsum(0), &tables["cumsum"][i]);
        expect(format!("matmul {a}"), ones(a).matmul(&ones(a)), &tables["matmul"][i]);
    }
    assert!(checked > 500, "{checked}");
}

/// The comparison itself can fail.
#[test]
fn differences_are_seen() {
    let a = Tensor::new([1.0f32, 2.0]).unwrap();
    assert!(compare(&a, &a, false).is_ok());
    assert!(compare(&Tensor::new([1.0f32, 2.0001]).unwrap(), &a, false).is_err());
    assert!(compare(&Tensor::new([1.0f32, f32::NAN]).unwrap(), &a, false).is_err());
    assert!(compare(&Tensor::new([1.0f64, 2.0]).unwrap(), &a, false).is_err());
    assert!(compare(&a.unsqueeze(0).unwrap(), &a, false).is_err());
    assert!(compare(&Tensor::new([1i32, 3]).unwrap(), &Tensor::new([1i32, 2]).unwrap(), false).is_err());
}
