//! How PyTorch's operations that are not ours by name are written, as `docs/pytorch.md` says: compiled, not run.

// Made by `cargo xtask torch-coverage`.

use rustorch_tensor::distributions::{Distribution, Exponential, LogNormal, Normal, Uniform};
use rustorch_tensor::linalg::{TriangularOptions, Uplo};
use rustorch_tensor::{DType, MeshgridIndexing, Result, Tensor, i, linalg};
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI, SQRT_2};

/// Operands by the names that they have in the table.
struct Operands {
    x: Tensor,
    y: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    l: Tensor,
    v: Tensor,
    i: Tensor,
    src: Tensor,
    grad: Tensor,
    mask: Tensor,
    condition: Tensor,
    indices: Tensor,
    edges: Tensor,
    mean: Tensor,
    std: Tensor,
    probs: Tensor,
}

#[rustfmt::skip]
#[allow(dead_code, clippy::all, reason = "examples of a table")]
fn compositions(operands: Operands, n: usize, k: usize, p: i64, width: i64, most: f64, [h, w]: [usize; 2]) -> Result<()> {
    let Operands { x, y, a, b, c, l, v, i, src, grad, mask, condition, indices, edges, mean, std, probs } = operands;

    // H
    let _ = x.t()?.conj()?;
    // T
    let _ = x.t()?;
    // mH
    let _ = x.transpose(-2, -1)?.conj()?;
    // mT
    let _ = x.transpose(-2, -1)?;
    // __getitem__
    let _ = x.i(i![1, .., &mask])?;
    // __radd__
    let _ = x.add(2)?;
    // __rand__
    let _ = x.bitwise_and(&y)?;
    // __rdiv__
    let _ = x.rdiv(2)?;
    // __rmatmul__
    let _ = y.matmul(&x)?;
    // __rmod__
    let _ = Tensor::scalar(7)?.remainder(&x)?;
    // __rmul__
    let _ = x.mul(2)?;
    // __ror__
    let _ = x.bitwise_or(&y)?;
    // __rpow__
    let _ = x.rpow(2)?;
    // __rsub__
    let _ = x.rsub(2)?;
    // __rxor__
    let _ = x.bitwise_xor(&y)?;
    // where
    let _ = condition.where_cond(&a, &b)?;
    // positive
    let _ = x.clone();
    // true_divide
    let _ = x.div(&y)?;
    // bfloat16
    let _ = x.to_dtype(DType::BF16)?;
    // bool
    let _ = x.to_dtype(DType::Bool)?;
    // byte
    let _ = x.to_dtype(DType::U8)?;
    // cdouble
    let _ = x.to_dtype(DType::C128)?;
    // cfloat
    let _ = x.to_dtype(DType::C64)?;
    // char
    let _ = x.to_dtype(DType::I8)?;
    // double
    let _ = x.to_dtype(DType::F64)?;
    // float
    let _ = x.to_dtype(DType::F32)?;
    // half
    let _ = x.to_dtype(DType::F16)?;
    // int
    let _ = x.to_dtype(DType::I32)?;
    // long
    let _ = x.to_dtype(DType::I64)?;
    // short
    let _ = x.to_dtype(DType::I16)?;
    // to
    let _ = x.to_dtype(DType::F16)?.to_device("cuda:0")?;
    // clone
    let _ = x.copy()?;
    // alias_copy
    let _ = x.copy()?;
    // conj_physical
    let _ = x.conj()?;
    // resolve_conj
    let _ = x.clone();
    // resolve_neg
    let _ = x.clone();
    // diagonal_copy
    let _ = x.diagonal(0, 0, 1)?.copy()?;
    // expand_copy
    let _ = x.expand([3, 4])?.copy()?;
    // narrow_copy
    let _ = x.narrow(0, 1, 2)?.copy()?;
    // permute_copy
    let _ = x.permute([1, 0])?.copy()?;
    // split_with_sizes_copy
    let _ = x.split_sizes(&[2, 3], 0)?;
    // squeeze_copy
    let _ = x.squeeze(0)?.copy()?;
    // t_copy
    let _ = x.t()?.copy()?;
    // transpose_copy
    let _ = x.transpose(0, 1)?.copy()?;
    // unbind_copy
    let _ = x.unbind(0)?;
    // unfold_copy
    let _ = x.unfold(0, 3, 1)?.copy()?;
    // unsqueeze_copy
    let _ = x.unsqueeze(0)?.copy()?;
    // view_copy
    let _ = x.view([2, 3])?.copy()?;
    // fill
    let _ = x.full_like(2.0)?;
    // new_empty
    let _ = Tensor::empty([2, 3], (x.dtype(), x.device()))?;
    // new_full
    let _ = Tensor::full([2, 3], 1.5, (x.dtype(), x.device()))?;
    // new_ones
    let _ = Tensor::ones([2, 3], (x.dtype(), x.device()))?;
    // new_zeros
    let _ = Tensor::zeros([2, 3], (x.dtype(), x.device()))?;
    // scalar_tensor
    let _ = Tensor::scalar(2.5)?;
    // logspace
    let _ = Tensor::linspace(0.0, 2.0, 5, DType::F32)?.rpow(10)?;
    // randint_like
    let _ = Tensor::randint(0, 10, x.shape(), x.dtype())?;
    // normal
    let _ = Normal::new(&mean, &std)?.sample(())?;
    // uniform
    let _ = Uniform::new(-1.0, 1.0)?.sample([2, 3])?;
    // exponential
    let _ = Exponential::new(1.0)?.sample([2, 3])?;
    // log_normal
    let _ = LogNormal::new(1.0, 2.0)?.sample([2, 3])?;
    // cauchy
    let _ = x.rand_like()?.sub(0.5)?.mul(PI)?.tan()?;
    // geometric
    let _ = x.rand_like()?.rsub(1)?.log()?.div(&probs.neg()?.log1p()?)?.ceil()?;
    // broadcast_shapes
    let _ = x.shape().broadcast(y.shape(), "shapes")?;
    // ravel
    let _ = x.flatten(0, -1)?;
    // reshape_as
    let _ = x.reshape(y.shape())?;
    // view_as
    let _ = x.view(y.shape())?;
    // sum_to_size
    let _ = x.sum([0, 2], true)?;
    // unsafe_chunk
    let _ = x.chunk(3, 0)?;
    // unsafe_split
    let _ = x.split(2, 0)?;
    // split_with_sizes
    let _ = x.split_sizes(&[2, 3], 0)?;
    // hsplit
    let _ = x.tensor_split(3, 1)?;
    // vsplit
    let _ = x.tensor_split(3, 0)?;
    // dsplit
    let _ = x.tensor_split(3, 2)?;
    // fliplr
    let _ = x.flip([1])?;
    // flipud
    let _ = x.flip([0])?;
    // diagflat
    let _ = x.flatten(0, -1)?.diag(0)?;
    // constant_pad_nd
    let _ = x.pad([1, 2], 0.5)?;
    // cartesian_prod
    let _ = Tensor::stack(&Tensor::meshgrid(&[&a, &b], MeshgridIndexing::Ij)?, -1)?.flatten(0, 1)?;
    // diagonal_scatter
    let _ = { let y = x.copy()?; y.diagonal(0, 0, 1)?.copy_(&src)? };
    // select_scatter
    let _ = { let y = x.copy()?; y.select(0, 1)?.copy_(&src)? };
    // argwhere
    let _ = x.nonzero()?;
    // unravel_index
    let _ = [i.trunc_divide(width)?, i.remainder(width)?];
    // addbmm
    let _ = x.add(&a.bmm(&b)?.sum(0, false)?)?;
    // addmv
    let _ = x.add(&a.matmul(&v)?)?;
    // addr
    let _ = x.add(&a.outer(&b)?)?;
    // deg2rad
    let _ = x.mul(PI / 180.0)?;
    // rad2deg
    let _ = x.mul(180.0 / PI)?;
    // float_power
    let _ = x.to_dtype(DType::F64)?.pow(&y)?;
    // isneginf
    let _ = x.eq(f64::NEG_INFINITY)?;
    // isposinf
    let _ = x.eq(f64::INFINITY)?;
    // isreal
    let _ = x.imag()?.eq(0)?;
    // ldexp
    let _ = x.mul(&y.exp2()?)?;
    // logaddexp2
    let _ = x.mul(LN_2)?.logaddexp(&y.mul(LN_2)?)?.div(LN_2)?;
    // mvlgamma
    let _ = x.unsqueeze(-1)?.sub(&Tensor::arange(0, p, 1)?.div(2)?)?.lgamma()?.sum(-1, false)?;
    // special.ndtr
    let _ = x.mul(-FRAC_1_SQRT_2)?.erfc()?.mul(0.5)?;
    // special.ndtri
    let _ = x.mul(2)?.sub(1)?.erfinv()?.mul(SQRT_2)?;
    // aminmax
    let _ = (x.amin(0, false)?, x.amax(0, false)?);
    // std_mean
    let _ = (x.std(0, 1.0, false)?, x.mean(0, false)?);
    // var_mean
    let _ = (x.var(0, 1.0, false)?, x.mean(0, false)?);
    // dist
    let _ = x.sub(&y)?.norm(2.0, .., false)?;
    // kthvalue
    let _ = x.topk(k, 0, false)?;
    // msort
    let _ = x.sort(0, false)?.0;
    // trapz
    let _ = x.trapezoid(1.0, -1)?;
    // cumulative_trapezoid
    let _ = x.narrow(0, 1, n - 1)?.add(&x.narrow(0, 0, n - 1)?)?.div(2)?.cumsum(0)?;
    // histogram
    let _ = x.bucketize(&edges, true)?.bincount(None, n)?;
    // renorm
    let _ = x.mul(&x.norm(2.0, 1, true)?.rdiv(most)?.clamp_max(1)?)?;
    // cholesky_inverse
    let _ = linalg::cholesky_solve(&Tensor::eye(n, n, l.dtype())?, &l)?;
    // inner
    let _ = x.matmul(&y.t()?)?;
    // vdot
    let _ = x.conj()?.dot(&y)?;
    // logdet
    let _ = linalg::det(&x)?.log()?;
    // lu_unpack
    let _ = linalg::lu(&x)?;
    // pinverse
    let _ = linalg::pinv(&x, &linalg::RankOptions::default())?;
    // triangular_solve
    let _ = linalg::solve_triangular(&a, &b, &TriangularOptions::upper())?;
    // linalg.cond
    let _ = { let s = linalg::svdvals(&x)?; s.select(-1, 0)?.div(&s.select(-1, -1)?)? };
    // linalg.matrix_norm
    let _ = x.norm(2.0, [-2, -1], false)?;
    // linalg.matrix_sqrth
    let _ = { let (l, q) = linalg::eigh(&x, Uplo::Lower)?; q.mul(&l.sqrt()?.unsqueeze(-2)?)?.matmul(&q.transpose(-2, -1)?.conj()?)? };
    // linalg.multi_dot
    let _ = Tensor::einsum("ij,jk,kl->il", &[&a, &b, &c])?;
    // linalg.tensorinv
    let _ = linalg::inv(&x.reshape([n, n])?)?.reshape([n, 2, 3])?;
    // linalg.tensorsolve
    let _ = linalg::solve(&a.reshape([n, n])?, &b.flatten(0, -1)?)?.reshape([2, 3])?;
    // linalg.vander
    let _ = x.unsqueeze(-1)?.pow(&Tensor::arange(0, n as i64, 1)?)?;
    // linalg.vecdot
    let _ = x.conj()?.mul(&y)?.sum(-1, false)?;
    // linalg.vector_norm
    let _ = x.norm(2.0, -1, false)?;
    // masked.amax
    let _ = x.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)?.amax(-1, false)?;
    // masked.amin
    let _ = x.masked_fill(&mask.logical_not()?, f64::INFINITY)?.amin(-1, false)?;
    // masked.argmax
    let _ = x.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)?.argmax(-1, false)?;
    // masked.argmin
    let _ = x.masked_fill(&mask.logical_not()?, f64::INFINITY)?.argmin(-1, false)?;
    // masked.cumprod
    let _ = x.masked_fill(&mask.logical_not()?, 1)?.cumprod(-1)?;
    // masked.cumsum
    let _ = x.masked_fill(&mask.logical_not()?, 0)?.cumsum(-1)?;
    // masked.log_softmax
    let _ = x.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)?.log_softmax(-1)?;
    // masked.logaddexp
    let _ = x.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)?.logaddexp(&y)?;
    // masked.logsumexp
    let _ = x.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)?.logsumexp(-1, false)?;
    // masked.mean
    let _ = x.masked_fill(&mask.logical_not()?, 0)?.sum(-1, false)?.div(&mask.sum(-1, false)?)?;
    // masked.norm
    let _ = x.masked_fill(&mask.logical_not()?, 0)?.norm(2.0, -1, false)?;
    // masked.normalize
    let _ = { let y = x.masked_fill(&mask.logical_not()?, 0)?; y.div(&y.norm(2.0, -1, true)?.clamp_min(1e-12)?)? };
    // masked.prod
    let _ = x.masked_fill(&mask.logical_not()?, 1)?.prod(-1, false)?;
    // masked.softmax
    let _ = x.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)?.softmax(-1)?;
    // masked.softmin
    let _ = x.neg()?.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)?.softmax(-1)?;
    // masked.sum
    let _ = x.masked_fill(&mask.logical_not()?, 0)?.sum(-1, false)?;
    // masked.var
    let _ = x.sub(&mean)?.square()?.masked_fill(&mask.logical_not()?, 0)?.sum(-1, false)?.div(&mask.sum(-1, false)?.sub(1)?)?;
    // max_pool2d_with_indices_backward
    let _ = grad.max_pool_backward(&indices, [h, w])?;
    // nn.functional.normalize
    let _ = x.div(&x.norm(2.0, 1, true)?.clamp_min(1e-12)?)?;
    // nn.functional.pdist
    let _ = x.cdist(&x, 2.0)?.masked_select(&Tensor::ones([n, n], DType::Bool)?.triu(1)?)?;
    Ok(())
}
