//! Gather, scatter, concatenation, padding.

use super::{OpType, Operation, axis_in, bytes_written, dense, expect_args, index_dtype, one, same_dense};
use crate::{DType, Dims, Error, OutputMeta, Outputs, Result, Scalar, Shape, TensorMeta};
use smallvec::SmallVec;

op_names! {
    /// What scattering does to the value in place.
    ScatterMode {
        /// Replaces it. Where an index repeats, the last source in row-major order stays.
        Replace = "scatter",
        /// Adds to it, in row-major order of the sources.
        Add = "scatter_add",
    }
}

/// Elements of a source written, or added, at indices along an axis.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Scatter {
    /// The axis.
    pub axis: usize,
    /// What happens to the value in place.
    pub mode: ScatterMode,
}

impl Scatter {
    pub(super) fn kind(&self) -> ScatterMode {
        self.mode
    }
}

impl Operation for Scatter {
    const CLASS: OpType = OpType::Indexing;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        scattered(self.mode.name(), self.axis, args)
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    /// Only what the index names is changed, after all of it was checked.
    fn may_overwrite(&self, arg: usize, _out: usize) -> bool {
        arg == 0
    }
}

op_names! {
    /// How sources that meet at one index are combined.
    ScatterReduction {
        /// Their sum.
        Sum = "sum",
        /// Their product.
        Prod = "prod",
        /// Their mean; of integers rounded down.
        Mean = "mean",
        /// The largest; NaN if any is.
        Max = "amax",
        /// The smallest; NaN if any is.
        Min = "amin",
    }
}

/// Elements of a source combined at indices along an axis, in row-major order. Integers and floats; 16-bit floats accumulate
/// in `f32`, integers wrap.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct ScatterReduce {
    /// The axis.
    pub axis: usize,
    /// How.
    pub reduction: ScatterReduction,
    /// Whether the element in place takes part. Where no source comes, it stays in any case.
    pub include_self: bool,
}

impl ScatterReduce {
    /// The operation's name.
    pub const NAME: &'static str = "scatter_reduce";
}

impl Operation for ScatterReduce {
    const CLASS: OpType = OpType::Indexing;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let outs = scattered(Self::NAME, self.axis, args)?;
        let dtype = outs[0].dtype;
        match dtype.is_int() || dtype.is_float() {
            true => Ok(outs),
            false => Err(Error::dtype(Self::NAME, "takes integers and floats", [dtype])),
        }
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        args[1].layout.numel() as u64
    }

    /// Only what the index names is changed, after all of it was checked.
    fn may_overwrite(&self, arg: usize, _out: usize) -> bool {
        arg == 0
    }
}

/// The result of writing, or combining, elements of a source at the indices along an axis.
fn scattered(name: &'static str, axis: usize, args: &[TensorMeta<'_>]) -> Result<Outputs> {
    expect_args(name, args, 3..=3)?;
    let (x, index, src) = (&args[0], &args[1], &args[2]);
    let dtype = same_dense(name, &[*x, *src], 2..=2)?;
    index_dtype(name, index)?;
    axis_in(name, axis, x.shape())?;
    let fits = index.shape().ndim() == x.shape().ndim()
        && src.shape().ndim() == x.shape().ndim()
        && (0..x.shape().ndim())
            .all(|i| index.dims()[i] <= src.dims()[i] && (i == axis || index.dims()[i] <= x.dims()[i]));
    if !fits && index.layout.numel() != 0 {
        return Err(Error::shape(
            name,
            "the index must not exceed the source, nor x outside the axis",
            [x.shape(), index.shape(), src.shape()],
        ));
    }
    one(dtype, x.shape().clone())
}

/// Slices of a tensor along an axis, chosen by indices.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct IndexSelect {
    /// The axis.
    pub axis: usize,
}

impl IndexSelect {
    /// The operation's name.
    pub const NAME: &'static str = "index_select";
}

impl Operation for IndexSelect {
    const CLASS: OpType = OpType::Indexing;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 2..=2)?;
        let (x, index) = (&args[0], &args[1]);
        dense(Self::NAME, args)?;
        index_dtype(Self::NAME, index)?;
        if self.axis >= x.shape().ndim() {
            return Err(Error::Axis { op: Self::NAME, axis: self.axis as isize, ndim: x.shape().ndim() });
        }
        let &[n] = index.dims() else {
            return Err(Error::shape(Self::NAME, "the index must have one dimension", [index.shape()]));
        };
        one(x.dtype, x.shape().with_dim(self.axis, n)?)
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    /// Only the chosen elements are read.
    fn bytes_read(&self, _: &[TensorMeta<'_>], outs: &[OutputMeta]) -> usize {
        bytes_written(outs)
    }
}

/// Elements of a tensor chosen along an axis by an index for each.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Gather {
    /// The axis.
    pub axis: usize,
}

impl Gather {
    /// The operation's name.
    pub const NAME: &'static str = "gather";
}

impl Operation for Gather {
    const CLASS: OpType = OpType::Indexing;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 2..=2)?;
        let (x, index) = (&args[0], &args[1]);
        dense(Self::NAME, args)?;
        index_dtype(Self::NAME, index)?;
        axis_in(Self::NAME, self.axis, x.shape())?;
        let fits = index.shape().ndim() == x.shape().ndim()
            && (0..x.shape().ndim()).all(|i| i == self.axis || index.dims()[i] <= x.dims()[i]);
        if !fits {
            return Err(Error::shape(
                Self::NAME,
                "the index must have as many dimensions as x, and be no longer in those other than the axis",
                [x.shape(), index.shape()],
            ));
        }
        one(x.dtype, index.shape().clone())
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    /// Only the chosen elements are read.
    fn bytes_read(&self, _: &[TensorMeta<'_>], outs: &[OutputMeta]) -> usize {
        bytes_written(outs)
    }
}

/// Rows of a table.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Embedding;

impl Embedding {
    /// The operation's name.
    pub const NAME: &'static str = "embedding";
}

impl Operation for Embedding {
    const CLASS: OpType = OpType::Indexing;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 2..=2)?;
        let (table, ids) = (&args[0], &args[1]);
        index_dtype(Self::NAME, ids)?;
        let &[_, dim] = table.dims() else {
            return Err(Error::shape(Self::NAME, "the table must have two dimensions", [table.shape()]));
        };
        table.check(Self::NAME)?;
        if table.dtype.is_quant() && table.layout.strides()[1] != 1 {
            return Err(Error::shape(
                Self::NAME,
                "the rows of a block-quantized table must be contiguous",
                [table.shape()],
            ));
        }
        let mut dims: Dims = ids.dims().into();
        dims.push(dim);
        one(if table.dtype.is_quant() { DType::F32 } else { table.dtype }, Shape::new(dims)?)
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    /// Only the chosen elements are read.
    fn bytes_read(&self, _: &[TensorMeta<'_>], outs: &[OutputMeta]) -> usize {
        bytes_written(outs)
    }
}

/// Tensors joined along an axis.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Concat {
    /// The axis.
    pub axis: usize,
}

impl Concat {
    /// The operation's name.
    pub const NAME: &'static str = "concat";
}

impl Operation for Concat {
    const CLASS: OpType = OpType::Indexing;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = same_dense(Self::NAME, args, 1..=usize::MAX)?;
        let first = args[0].shape();
        if self.axis >= first.ndim() {
            return Err(Error::Axis { op: Self::NAME, axis: self.axis as isize, ndim: first.ndim() });
        }
        let mut total = 0usize;
        for x in args {
            let fits = x.shape().ndim() == first.ndim()
                && (0..first.ndim()).all(|i| i == self.axis || x.dims()[i] == first[i]);
            if !fits {
                return Err(Error::shape(
                    Self::NAME,
                    format!("shapes must agree in all dimensions but {}", self.axis),
                    [first, x.shape()],
                ));
            }
            total = total
                .checked_add(x.dims()[self.axis])
                .ok_or_else(|| Error::argument(Self::NAME, "the joined dimension is too long"))?;
        }
        one(dtype, first.with_dim(self.axis, total)?)
    }
}

/// A border of one value.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Pad {
    /// Elements added before and after, for every dimension.
    pub widths: SmallVec<[(usize, usize); 4]>,
    /// The value, converted as casting does.
    pub value: Scalar,
}

impl Pad {
    /// The operation's name.
    pub const NAME: &'static str = "pad";
}

impl Operation for Pad {
    const CLASS: OpType = OpType::Indexing;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = same_dense(Self::NAME, args, 1..=1)?;
        let shape = args[0].shape();
        if self.widths.len() != shape.ndim() {
            return Err(Error::shape(
                Self::NAME,
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
            Shape::new(dims.ok_or_else(|| Error::argument(Self::NAME, "the padded dimension is too long"))?)?,
        )
    }
}

/// One triangle of the last two dimensions kept, the other set to zero.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Tri {
    /// Whether the upper triangle is kept, else the lower.
    pub upper: bool,
    /// The diagonal that bounds it and belongs to it: 0 is the main one, positive lies above.
    pub diagonal: i64,
}

op_names! {
    /// Which triangle is kept.
    TriKind {
        /// The lower one.
        Lower = "tril",
        /// The upper one.
        Upper = "triu",
    }
}

impl Tri {
    pub(super) fn kind(&self) -> TriKind {
        if self.upper { TriKind::Upper } else { TriKind::Lower }
    }
}

impl Operation for Tri {
    const CLASS: OpType = OpType::Indexing;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = same_dense(self.kind().name(), args, 1..=1)?;
        if args[0].shape().ndim() < 2 {
            return Err(Error::shape(self.kind().name(), "needs two dimensions at least", [args[0].shape()]));
        }
        one(dtype, args[0].shape().clone())
    }
}
