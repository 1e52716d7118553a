//! Gathering, scattering, joining, padding.

use super::{axis_in, dense, expect_args, index_dtype, one, same_dense};
use crate::{DType, Dims, Error, Outputs, Result, Scalar, Shape, TensorMeta};
use smallvec::SmallVec;

/// What scattering does to the value in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterMode {
    /// Replaces it. Where an index repeats, the last source in row-major order stays.
    Replace,
    /// Adds to it, in row-major order of the sources.
    Add,
}

impl ScatterMode {
    pub(super) const fn name(self) -> &'static str {
        match self {
            ScatterMode::Replace => "scatter",
            ScatterMode::Add => "scatter_add",
        }
    }

    pub(super) fn infer(self, axis: usize, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = self.name();
        expect_args(name, args, 3..=3)?;
        let (x, index, src) = (&args[0], &args[1], &args[2]);
        let dtype = same_dense(name, &[*x, *src], 2..=2)?;
        index_dtype(name, index)?;
        axis_in(name, axis, x.shape())?;
        let fits = index.shape().rank() == x.shape().rank()
            && src.shape().rank() == x.shape().rank()
            && (0..x.shape().rank())
                .all(|i| index.dims()[i] <= src.dims()[i] && (i == axis || index.dims()[i] <= x.dims()[i]));
        if !fits && index.layout.elements() != 0 {
            return Err(Error::shape(
                name,
                "the index must not exceed the source, nor x outside the axis",
                [x.shape(), index.shape(), src.shape()],
            ));
        }
        one(dtype, x.shape().clone())
    }
}

pub(super) fn infer_index_select(axis: usize, args: &[TensorMeta<'_>]) -> Result<Outputs> {
    const NAME: &str = "index_select";
    expect_args(NAME, args, 2..=2)?;
    let (x, index) = (&args[0], &args[1]);
    dense(NAME, args)?;
    index_dtype(NAME, index)?;
    if axis >= x.shape().rank() {
        return Err(Error::Axis { op: NAME, axis: axis as isize, rank: x.shape().rank() });
    }
    let &[n] = index.dims() else {
        return Err(Error::shape(NAME, "the index must have one dimension", [index.shape()]));
    };
    one(x.dtype, x.shape().with_dim(axis, n)?)
}

pub(super) fn infer_gather(axis: usize, args: &[TensorMeta<'_>]) -> Result<Outputs> {
    const NAME: &str = "gather";
    expect_args(NAME, args, 2..=2)?;
    let (x, index) = (&args[0], &args[1]);
    dense(NAME, args)?;
    index_dtype(NAME, index)?;
    axis_in(NAME, axis, x.shape())?;
    let fits = index.shape().rank() == x.shape().rank()
        && (0..x.shape().rank()).all(|i| i == axis || index.dims()[i] <= x.dims()[i]);
    if !fits {
        return Err(Error::shape(
            NAME,
            "the index must have the rank of x and not exceed it outside the axis",
            [x.shape(), index.shape()],
        ));
    }
    one(x.dtype, index.shape().clone())
}

pub(super) fn infer_embedding(args: &[TensorMeta<'_>]) -> Result<Outputs> {
    const NAME: &str = "embedding";
    expect_args(NAME, args, 2..=2)?;
    let (table, ids) = (&args[0], &args[1]);
    index_dtype(NAME, ids)?;
    let &[_, dim] = table.dims() else {
        return Err(Error::shape(NAME, "the table must have two dimensions", [table.shape()]));
    };
    table.check(NAME)?;
    if table.dtype.is_quant() && table.layout.strides()[1] != 1 {
        return Err(Error::shape(
            NAME,
            "the rows of a block-quantized table must be contiguous",
            [table.shape()],
        ));
    }
    let mut dims: Dims = ids.dims().into();
    dims.push(dim);
    one(if table.dtype.is_quant() { DType::F32 } else { table.dtype }, Shape::new(dims)?)
}

pub(super) fn infer_concat(axis: usize, args: &[TensorMeta<'_>]) -> Result<Outputs> {
    const NAME: &str = "concat";
    let dtype = same_dense(NAME, args, 1..=usize::MAX)?;
    let first = args[0].shape();
    if axis >= first.rank() {
        return Err(Error::Axis { op: NAME, axis: axis as isize, rank: first.rank() });
    }
    let mut total = 0usize;
    for x in args {
        let fits = x.shape().rank() == first.rank()
            && (0..first.rank()).all(|i| i == axis || x.dims()[i] == first[i]);
        if !fits {
            return Err(Error::shape(
                NAME,
                format!("shapes must agree in all dimensions but {axis}"),
                [first, x.shape()],
            ));
        }
        total = total
            .checked_add(x.dims()[axis])
            .ok_or_else(|| Error::argument(NAME, "the joined dimension is too long"))?;
    }
    one(dtype, first.with_dim(axis, total)?)
}

/// A border of one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Pad {
    /// Elements added before and after, for every dimension.
    pub widths: SmallVec<[(usize, usize); 4]>,
    /// The value, converted as casting does.
    pub value: Scalar,
}

impl Pad {
    pub(super) fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        const NAME: &str = "pad";
        let dtype = same_dense(NAME, args, 1..=1)?;
        let shape = args[0].shape();
        if self.widths.len() != shape.rank() {
            return Err(Error::shape(
                NAME,
                format!("{} pairs of widths were given", self.widths.len()),
                [shape],
            ));
        }
        let dims: Option<Dims> = shape
            .iter()
            .zip(&self.widths)
            .map(|(&dim, &(before, after))| dim.checked_add(before)?.checked_add(after))
            .collect();
        one(
            dtype,
            Shape::new(dims.ok_or_else(|| Error::argument(NAME, "the padded dimension is too long"))?)?,
        )
    }
}

/// One triangle of the last two dimensions kept, the other set to zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Triangle {
    /// Whether the upper triangle is kept, else the lower.
    pub upper: bool,
    /// The diagonal that bounds it and belongs to it: 0 is the main one, positive lies above.
    pub diagonal: i64,
}

impl Triangle {
    pub(super) const fn name(&self) -> &'static str {
        if self.upper { "triu" } else { "tril" }
    }

    pub(super) fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = same_dense(self.name(), args, 1..=1)?;
        if args[0].shape().rank() < 2 {
            return Err(Error::shape(self.name(), "needs two dimensions at least", [args[0].shape()]));
        }
        one(dtype, args[0].shape().clone())
    }
}
