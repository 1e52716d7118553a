//! Sums, means or maxima of rows of a table.

use super::embedding::table;
use super::options::{of_layer, options};
use crate::{ExtraRepr, Layer, Module, Parameter};
use rustorch_tensor::{DType, Error, Result, ScatterReduction, Tensor};

/// What an [`EmbeddingBag`] makes of a bag's rows, by PyTorch's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EmbeddingBagMode {
    /// Their sum.
    Sum,
    /// Their mean.
    #[default]
    Mean,
    /// The largest element of each column.
    Max,
}

impl EmbeddingBagMode {
    /// PyTorch's name.
    fn name(self) -> &'static str {
        match self {
            EmbeddingBagMode::Sum => "sum",
            EmbeddingBagMode::Mean => "mean",
            EmbeddingBagMode::Max => "max",
        }
    }
}

options! {
    /// How an [`EmbeddingBag`] is made: the optional arguments of `torch.nn.EmbeddingBag` with their defaults.
    EmbeddingBagOptions {
        /// What becomes of a bag's rows.
        mode: plain EmbeddingBagMode = EmbeddingBagMode::Mean;
        /// A row that counts in no bag and gets no gradient; zeros at first.
        padding_idx: into Option<usize> = None;
        /// Whether the last offset is the end of the last bag, and not the start of another one.
        include_last_offset: plain bool = false;
    }
}

/// Sums, means or maxima of bags of rows of a table, as `torch.nn.EmbeddingBag`: `[bags, n]` of integers → `[bags, embedding_dim]`, or with
/// offsets `[indices] → [bags, embedding_dim]`. An empty bag gives zeros.
///
/// `weight: [num_embeddings, embedding_dim]` starts normally distributed.
///
/// ```
/// use rustorch_nn::{EmbeddingBag, Module};
/// use rustorch_tensor::Tensor;
/// let bag = EmbeddingBag::new(3, 2)?;
/// let weight = Tensor::new([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]])?;
/// bag.load_state_dict(&[("weight".to_owned(), weight)].into_iter().collect())?;
/// let y = bag.forward_with(&Tensor::new([0i64, 2, 1])?, Some(&Tensor::new([0i64, 2])?), None)?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 4.0, 3.0, 4.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(extra_repr = Self::describe)]
pub struct EmbeddingBag {
    /// `[num_embeddings, embedding_dim]`
    pub weight: Parameter,
    #[module(skip)]
    mode: EmbeddingBagMode,
    #[module(skip)]
    padding_idx: Option<usize>,
    include_last_offset: bool,
}

impl EmbeddingBag {
    /// Means of bags.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<EmbeddingBag> {
        EmbeddingBag::with(num_embeddings, embedding_dim, EmbeddingBagOptions::default())
    }

    /// Sums, means or maxima of bags.
    ///
    /// # Errors
    /// If there is no row `padding_idx`, the dtype is none of floats, or memory does not suffice.
    pub fn with(
        num_embeddings: usize,
        embedding_dim: usize,
        options: EmbeddingBagOptions,
    ) -> Result<EmbeddingBag> {
        let EmbeddingBagOptions { mode, include_last_offset, padding_idx, tensor } = options;
        let weight = table("EmbeddingBag", [num_embeddings, embedding_dim], padding_idx, tensor)?;
        Ok(EmbeddingBag { weight, mode, padding_idx, include_last_offset })
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        let weight = self.weight.tensor();
        extra.value(&weight.dims()[0]).value(&weight.dims()[1]).named("mode", self.mode.name());
        extra.named_unless("padding_idx", &self.padding_idx, &None);
    }

    /// The result for `[bags, n]`, or for `[indices]` with the positions at which bags start; sums may be weighted by as many factors as
    /// there are indices.
    ///
    /// # Errors
    /// If offsets are missing, not wanted, or do not ascend from 0, or factors are given for another mode than sums.
    #[rustorch_macros::observed]
    pub fn forward_with(
        &self,
        x: &Tensor,
        offsets: Option<&Tensor>,
        per_sample_weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        let starts = self.starts(x, offsets)?;
        if let Some(factors) = per_sample_weights {
            if self.mode != EmbeddingBagMode::Sum {
                let message = format!("per_sample_weights are for the mode Sum, not {:?}", self.mode);
                return Err(Error::argument(self.type_name(), message));
            }
            if factors.shape() != x.shape() {
                let message = "per_sample_weights must have the shape of the indices";
                return Err(Error::shape(self.type_name(), message, [x.shape(), factors.shape()]));
            }
        }
        self.reduce(x, &starts, per_sample_weights).map_err(of_layer(self.type_name()))
    }

    /// Where bags start, and where the last one ends.
    fn starts(&self, x: &Tensor, offsets: Option<&Tensor>) -> Result<Vec<usize>> {
        let wrong = |message: &str| Err(Error::shape(self.type_name(), message, [x.shape()]));
        let offsets = match (x.dims(), offsets) {
            (&[bags, n], None) => return Ok((0..=bags).map(|bag| bag * n).collect()),
            ([_], Some(offsets)) => offsets,
            (_, None) => return wrong("takes [bags, n], or [indices] with offsets"),
            (_, Some(_)) => return wrong("with offsets, takes [indices]"),
        };
        let mut starts: Vec<i64> = offsets.to_dtype(DType::I64)?.flatten(0, -1)?.to_vec()?;
        let len = x.numel() as i64;
        if !self.include_last_offset {
            starts.push(len);
        }
        let ascend = starts.is_sorted() && starts.first() == Some(&0) && starts.last() == Some(&len);
        if offsets.ndim() != 1 || !ascend {
            let message =
                format!("offsets must be one dimension that ascends from 0 to at most {len} indices");
            return Err(Error::shape(self.type_name(), message, [x.shape(), offsets.shape()]));
        }
        Ok(starts.into_iter().map(|start| start as usize).collect())
    }

    fn reduce(&self, x: &Tensor, starts: &[usize], factors: Option<&Tensor>) -> Result<Tensor> {
        let weight = self.weight.tensor();
        let device = weight.device();
        let x = x.reshape([x.numel()])?;
        let mut rows = weight.embedding(&x)?;
        if let Some(factors) = factors {
            rows = rows.mul(&factors.reshape([x.numel(), 1])?)?;
        }
        let bags = starts.len() - 1;
        let of_bag = |bag: usize| std::iter::repeat_n(bag as i64, starts[bag + 1] - starts[bag]);
        let ids: Vec<i64> = (0..bags).flat_map(of_bag).collect();
        let mut ids = Tensor::from_slice(&ids, ids.len())?.to_device(device)?;
        if let Some(padding) = self.padding_idx {
            // One more bag, which nobody asks for.
            ids = ids.masked_fill(&x.to_device(device)?.eq(padding as i64)?, bags as i64)?;
        }
        let zeros = |width| Tensor::zeros([bags + 1, width], (rows.dtype(), device));
        let reduced = zeros(weight.dims()[1])?;
        let reduced = match self.mode {
            EmbeddingBagMode::Sum => reduced.index_add(0, &ids, &rows)?,
            EmbeddingBagMode::Mean => {
                let ones = Tensor::ones([x.numel(), 1], (rows.dtype(), device))?;
                let lengths = zeros(1)?.index_add(0, &ids, &ones)?.clamp_min(1)?;
                reduced.index_add(0, &ids, &rows)?.div(&lengths)?
            }
            EmbeddingBagMode::Max => {
                let ids = ids.unsqueeze(1)?.expand_as(&rows)?;
                reduced.scatter_reduce(0, &ids, &rows, ScatterReduction::Max, false)?
            }
        };
        reduced.narrow(0, 0, bags)
    }
}

impl Layer for EmbeddingBag {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, None, None)
    }
}
