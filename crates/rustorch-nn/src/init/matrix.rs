//! Matrices and kernels of a form: identities, orthogonal and sparse ones.

use super::{fill, normal};
use rustorch_tensor::linalg::{QrMode, qr};
use rustorch_tensor::{DType, Error, Result, Tensor, TensorOptions};

/// The number of rows and columns.
fn expect_matrix(op: &'static str, tensor: &Tensor) -> Result<[usize; 2]> {
    match *tensor.dims() {
        [rows, columns] => Ok([rows, columns]),
        _ => Err(Error::shape(op, "takes two dimensions", [tensor.shape()])),
    }
}

/// Ones on the diagonal and zeros elsewhere, as `torch.nn.init.eye_`.
///
/// # Errors
/// If there are not two dimensions.
pub fn eye_(tensor: &Tensor) -> Result<()> {
    let [rows, columns] = expect_matrix("eye_", tensor)?;
    fill(tensor, |options| Tensor::eye(rows, columns, options))
}

/// A convolution's kernel that leaves as many channels as there are as they are, in each group: a one in the middle of `[i, i, kernel..]`, as
/// `torch.nn.init.dirac_`.
///
/// ```
/// use rustorch_nn::{Conv1d, Conv1dOptions, Layer, init};
/// use rustorch_tensor::Tensor;
/// let conv = Conv1d::with(1, 1, 3, Conv1dOptions::default().padding(1).bias(false))?;
/// init::dirac_(&conv.weight.tensor(), 1)?;
/// let x = Tensor::new([[1.0f32, 2.0, 3.0]])?;
/// assert_eq!(conv.forward(&x)?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If there are not three to five dimensions, or the first is no multiple of the groups.
pub fn dirac_(tensor: &Tensor, groups: usize) -> Result<()> {
    let wrong = |message| Err(Error::shape("dirac_", message, [tensor.shape()]));
    let &[out, channels, ref kernel @ ..] = tensor.dims() else {
        return wrong("takes three to five dimensions".to_owned());
    };
    if !(1..=3).contains(&kernel.len()) {
        return wrong("takes three to five dimensions".to_owned());
    }
    if groups == 0 || !out.is_multiple_of(groups) {
        return wrong(format!("the first dimension must be a multiple of groups {groups}"));
    }
    let of_group = out / groups;
    // Where the middle is among the elements of a kernel.
    let (elements, middle) =
        kernel.iter().fold((1, 0), |(elements, middle), &len| (elements * len, middle * len + len / 2));
    let mut values = vec![0f32; out * channels * elements];
    if elements > 0 {
        for group in 0..groups {
            for i in 0..of_group.min(channels) {
                values[((group * of_group + i) * channels + i) * elements + middle] = 1.0;
            }
        }
    }
    fill(tensor, |options| Tensor::from_slice(&values, tensor.shape())?.to_dtype(options.dtype))
}

/// A matrix `[first, rest..]` with orthonormal rows or columns, times `gain`, as `torch.nn.init.orthogonal_`: dimensions after the first are
/// one.
///
/// Saxe, McClelland, Ganguli: *Exact solutions to the nonlinear dynamics of learning in deep linear neural networks*, 2013.
///
/// ```
/// use rustorch_nn::init;
/// use rustorch_tensor::{DType, Tensor};
/// let x = Tensor::zeros([2, 3], DType::F64)?;
/// init::orthogonal_(&x, 1.0)?;
/// assert!(x.matmul(&x.t()?)?.allclose(&Tensor::eye(2, 2, DType::F64)?, 1e-12, 1e-12, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If there are fewer than two dimensions, or the dtype is none of floats.
pub fn orthogonal_(tensor: &Tensor, gain: f64) -> Result<()> {
    if tensor.ndim() < 2 {
        return Err(Error::shape("orthogonal_", "takes two dimensions or more", [tensor.shape()]));
    }
    if tensor.numel() == 0 {
        return Ok(());
    }
    let rows = tensor.dims()[0];
    let columns = tensor.numel() / rows;
    fill(tensor, |options| {
        // Decompositions are of wide floats.
        let dtype = if options.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let (long, short) = (rows.max(columns), rows.min(columns));
        let draws = normal([long, short], 0.0, 1.0, TensorOptions { dtype, ..options })?;
        let (q, r) = qr(&draws, QrMode::Reduced)?;
        // The signs of R's diagonal make Q uniform among all such matrices.
        let q = q.mul(&r.diagonal(0, 0, 1)?.sign()?)?;
        let q = if rows < columns { q.t()? } else { q };
        q.mul(gain)?.reshape(tensor.dims())?.to_dtype(options.dtype)
    })
}

/// Normal numbers around 0, of which this fraction of each column is zero instead, rounded up, as `torch.nn.init.sparse_`.
///
/// Martens: *Deep learning via Hessian-free optimization*, 2010.
///
/// # Errors
/// If there are not two dimensions, `sparsity` is none of 0 to 1, or the dtype is none of floats.
pub fn sparse_(tensor: &Tensor, sparsity: f64, std: f64) -> Result<()> {
    let [rows, columns] = expect_matrix("sparse_", tensor)?;
    if !(0.0..=1.0).contains(&sparsity) {
        return Err(Error::argument("sparse_", format!("sparsity must be from 0 to 1, and is {sparsity}")));
    }
    let zeros = (sparsity * rows as f64).ceil() as usize;
    fill(tensor, |options| {
        let values = normal([rows, columns], 0.0, std, options)?;
        // The order of random numbers is a random order.
        let wide = TensorOptions { dtype: DType::F64, ..options };
        let order = Tensor::rand([rows, columns], wide)?.argsort(0, false)?;
        let chosen = order.narrow(0, 0, zeros)?;
        values.scatter(0, &chosen, &Tensor::zeros([zeros, columns], options)?)
    })
}
