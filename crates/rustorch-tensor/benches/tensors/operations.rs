//! What a case's name says, as a function to call.

use crate::compositions;
use rustorch_tensor::{
    AvgPoolOptions, ConvOptions, DType, MaxPoolOptions, Result, Tensor, TensorOptions, linalg,
};

/// A case, ready to run.
pub(crate) type Call = Box<dyn Fn() -> Result<Tensor>>;

/// The parts of a name.
pub(crate) struct Case<'a> {
    pub(crate) operation: &'a str,
    dtype: DType,
    shapes: Vec<Vec<usize>>,
    /// The argument behind the shapes, if there is one.
    pub(crate) argument: Option<usize>,
}

impl<'a> Case<'a> {
    fn parse(name: &'a str) -> Case<'a> {
        let mut parts = name.split('/');
        let mut next = || parts.next().unwrap_or_else(|| panic!("no case: {name}"));
        let numbers = |text: &str| text.split('x').map(|n| n.parse().expect("a number")).collect();
        let (operation, dtype, shapes) = (next(), next(), next());
        Case {
            operation,
            dtype: DType::from_name(dtype).expect("a dtype"),
            shapes: shapes.split(',').map(numbers).collect(),
            argument: parts.next().map(|argument| argument.parse().expect("a number")),
        }
    }

    /// Normal deviates, or small integers.
    pub(crate) fn operand(&self, i: usize) -> Result<Tensor> {
        let shape = self.shapes[i].as_slice();
        if self.dtype.is_int() {
            return Tensor::randint(-4i64, 4i64, shape, DType::I64)?.to_dtype(self.dtype);
        }
        Tensor::randn(shape, DType::F32)?.to_dtype(self.dtype)
    }

    /// Indices below a length.
    pub(crate) fn indices(&self, i: usize, below: usize) -> Result<Tensor> {
        Tensor::randint(0i64, below as i64, self.shapes[i].as_slice(), DType::I64)
    }
}

/// The function that a case's name says.
pub(crate) fn call(name: &str) -> Result<Call> {
    let case = Case::parse(name);
    if let Some(call) = compositions::call(&case)? {
        return Ok(call);
    }
    let made = match case.shapes.len() {
        1 => unary(&case)?,
        _ => None,
    };
    match made {
        Some(call) => Ok(call),
        None => several(&case),
    }
}

/// A boxed function.
pub(crate) fn boxed(f: impl Fn() -> Result<Tensor> + 'static) -> Result<Call> {
    Ok(Box::new(f))
}

/// Operations of one tensor, or of none.
fn unary(case: &Case<'_>) -> Result<Option<Call>> {
    let shape = case.shapes[0].clone();
    let n = shape.iter().product::<usize>();
    let options = TensorOptions::from(case.dtype);
    match case.operation {
        "arange" => return boxed(move || Tensor::arange(0.0, n as f64, 1.0)).map(Some),
        "rand" => return boxed(move || Tensor::rand(shape.as_slice(), options)).map(Some),
        "randn" => return boxed(move || Tensor::randn(shape.as_slice(), options)).map(Some),
        "randperm" => return boxed(move || Tensor::randperm(n)).map(Some),
        _ => {}
    }
    let x = case.operand(0)?;
    if case.operation.starts_with("attention") {
        return attention(case, x.copy()?, x).map(Some);
    }
    let last = x.dims()[x.ndim() - 1];
    let f: fn(&Tensor) -> Result<Tensor> = match (case.operation, case.argument) {
        ("add_scalar", _) => |x| x.add(1.5),
        ("exp", _) => Tensor::exp,
        ("log" | "sqrt", _) => {
            let (x, f) = (x.abs()?, if case.operation == "log" { Tensor::log } else { Tensor::sqrt });
            return boxed(move || f(&x)).map(Some);
        }
        ("sin", _) => Tensor::sin,
        ("tanh", _) => Tensor::tanh,
        ("sigmoid", _) => Tensor::sigmoid,
        ("gelu", _) => Tensor::gelu,
        ("gelu_tanh", _) => Tensor::gelu_tanh,
        ("silu", _) => Tensor::silu,
        ("relu", _) => Tensor::relu,
        ("where", _) => {
            let (mask, zero) = (x.gt(0.0)?, x.zeros_like()?);
            return boxed(move || mask.where_cond(&x, &zero)).map(Some);
        }
        ("to_bf16", _) => |x| x.to_dtype(DType::BF16),
        ("to_f16", _) => |x| x.to_dtype(DType::F16),
        ("to_f32", _) => |x| x.to_dtype(DType::F32),
        ("to_i64", _) => |x| x.to_dtype(DType::I64),
        ("sum", None) => Tensor::sum_all,
        ("norm", None) => |x| x.norm(2.0, .., false),
        ("layer_norm", _) => {
            let (weight, bias) = (Tensor::ones([last], case.dtype)?, Tensor::zeros([last], case.dtype)?);
            return boxed(move || x.layer_norm([last], Some(&weight), Some(&bias), 1e-5)).map(Some);
        }
        ("copy_t", _) => {
            let x = x.t()?;
            return boxed(move || x.copy()).map(Some);
        }
        ("copy_heads", _) => {
            let x = x.transpose(1, 2)?;
            return boxed(move || x.copy()).map(Some);
        }
        ("pad", _) => |x| x.pad([1, 1, 1, 1], 0.0),
        ("tril", _) => |x| x.tril(0),
        ("cholesky", _) => {
            let x = positive(&x)?;
            return boxed(move || linalg::cholesky(&x)).map(Some);
        }
        ("qr", _) => |x| Ok(linalg::qr(x, linalg::QrMode::Reduced)?.0),
        (_, Some(argument)) => return with_argument(case, x, argument).map(Some),
        _ => panic!("no operation of one tensor: {}", case.operation),
    };
    boxed(move || f(&x)).map(Some)
}

/// Operations of one tensor and a dimension, a size or a number.
fn with_argument(case: &Case<'_>, x: Tensor, argument: usize) -> Result<Call> {
    let dim = argument as isize;
    match case.operation {
        "sum" => boxed(move || x.sum(dim, false)),
        "mean" => boxed(move || x.mean(dim, false)),
        "max" => boxed(move || x.amax(dim, false)),
        "argmax" => boxed(move || x.argmax(dim, false)),
        "var" => boxed(move || x.var(dim, 1.0, false)),
        "norm" => boxed(move || x.norm(2.0, dim, false)),
        "softmax" => boxed(move || x.softmax(dim)),
        "log_softmax" => boxed(move || x.log_softmax(dim)),
        "cumsum" => boxed(move || x.cumsum(dim)),
        "cumprod" => boxed(move || x.cumprod(dim)),
        "flip" => boxed(move || x.flip([dim])),
        "roll" => boxed(move || x.roll(&[5], &[dim])),
        "sort" => boxed(move || Ok(x.sort(dim, false)?.0)),
        "topk" => boxed(move || Ok(x.topk(argument, -1, true)?.0)),
        "max_pool2d" => boxed(move || x.max_pool2d(argument, &MaxPoolOptions::new())),
        "avg_pool2d" => boxed(move || x.avg_pool2d(argument, &AvgPoolOptions::new())),
        "adaptive_avg_pool2d" => boxed(move || x.adaptive_avg_pool2d(argument)),
        name => panic!("no operation of one tensor and a number: {name}"),
    }
}

/// Operations of two tensors.
fn several(case: &Case<'_>) -> Result<Call> {
    let (a, argument) = (case.operand(0)?, case.argument.unwrap_or_default());
    let dim = argument as isize;
    match case.operation {
        "gather" => {
            let index = case.indices(1, a.dims()[argument])?;
            return boxed(move || a.gather(dim, &index));
        }
        "index_select" => {
            let index = case.indices(1, a.dims()[argument])?;
            return boxed(move || a.index_select(dim, &index));
        }
        "embedding" => {
            let index = case.indices(1, a.dims()[0])?;
            return boxed(move || a.embedding(&index));
        }
        "scatter_add" => {
            let (index, source) = (case.indices(1, a.dims()[argument])?, a.copy()?);
            return boxed(move || a.scatter_add(dim, &index, &source));
        }
        _ => {}
    }
    let b = case.operand(1)?;
    match case.operation {
        "matmul" => boxed(move || a.matmul(&b)),
        "int_mm" => boxed(move || a.int_mm(&b)),
        "linear" => boxed(move || a.linear(&b, None)),
        "matmul_tn" => {
            let a = a.t()?;
            boxed(move || a.matmul(&b))
        }
        "add" => boxed(move || a.add(&b)),
        "logaddexp" => boxed(move || a.logaddexp(&b)),
        "add_t" => {
            let a = a.t()?;
            boxed(move || a.add(&b))
        }
        "cat" => boxed(move || Tensor::cat(&[&a, &b], dim)),
        "solve" => {
            let a = positive(&a)?;
            boxed(move || linalg::solve(&a, &b))
        }
        "attention" => attention(case, a, b),
        _ => convolution(case, a, b),
    }
}

/// Attention of queries over keys, which are the values, too.
fn attention(case: &Case<'_>, q: Tensor, k: Tensor) -> Result<Call> {
    let is_causal = case.operation == "attention_causal";
    boxed(move || Tensor::scaled_dot_product_attention(&q, &k, &k, None, is_causal, None))
}

/// Convolutions and their gradients: padded so that a stride of one keeps sizes, depthwise where a filter has one channel.
fn convolution(case: &Case<'_>, x: Tensor, weight: Tensor) -> Result<Call> {
    let groups = if weight.dims()[1] == 1 { x.dims()[1] } else { 1 };
    let padding = weight.dims()[2] / 2;
    let options = ConvOptions::new().stride(case.argument.unwrap_or(1)).padding(padding).groups(groups);
    match case.operation {
        "conv1d" => return boxed(move || x.conv1d(&weight, None, &options)),
        "conv2d" => return boxed(move || x.conv2d(&weight, None, &options)),
        "conv3d" => return boxed(move || x.conv3d(&weight, None, &options)),
        _ => {}
    }
    let grad = x.conv2d(&weight, None, &options)?.ones_like()?;
    match case.operation {
        "conv2d_data" => boxed(move || Tensor::conv_input_gradient(x.dims(), &weight, &grad, &options)),
        "conv2d_weight" => boxed(move || Tensor::conv_weight_gradient(&x, weight.dims(), &grad, &options)),
        name => panic!("no operation of two tensors: {name}"),
    }
}

/// A positive definite matrix.
fn positive(x: &Tensor) -> Result<Tensor> {
    let n = x.dims()[0];
    x.matmul(&x.t()?)?.add(&Tensor::eye(n, n, x.dtype())?)
}
