//! Tensors as a data set.

use rustorch_tensor::{Error, Generator, Result, Tensor};

/// Tensors whose rows belong together, as `torch.utils.data.TensorDataset`: row `i` of each is example `i`.
///
/// ```
/// use rustorch_nn::data::TensorDataset;
/// use rustorch_tensor::Tensor;
/// let (x, y) = (Tensor::new([[1.0f32], [2.0], [3.0]])?, Tensor::new([10i64, 20, 30])?);
/// let data = TensorDataset::new([x, y])?;
/// for batch in data.batches(2) {
///     let [x, y] = batch?;
///     assert_eq!(x.dims()[0], y.dims()[0]);
/// }
/// // The same seed and epoch give the same order, on every machine.
/// let [_, y] = data.shuffled(3, 7, 0)?.next().unwrap()?;
/// let [_, again] = data.shuffled(3, 7, 0)?.next().unwrap()?;
/// assert_eq!(y.to_vec::<i64>()?, again.to_vec::<i64>()?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub struct TensorDataset<const N: usize> {
    tensors: [Tensor; N],
    len: usize,
}

impl<const N: usize> TensorDataset<N> {
    /// A data set of tensors that have equally many rows.
    ///
    /// # Errors
    /// If they have not, or one has no dimension.
    pub fn new(tensors: [Tensor; N]) -> Result<TensorDataset<N>> {
        let len = tensors.first().and_then(|x| x.dims().first().copied()).unwrap_or(0);
        if tensors.iter().any(|x| x.dims().first() != Some(&len)) {
            let shapes = tensors.iter().map(Tensor::shape);
            return Err(Error::shape("TensorDataset", "tensors must have equally many rows", shapes));
        }
        Ok(TensorDataset { tensors, len })
    }

    /// How many examples it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no example.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `n` examples and the others, as views.
    ///
    /// # Errors
    /// If there are fewer than `n`.
    pub fn split_at(&self, n: usize) -> Result<(TensorDataset<N>, TensorDataset<N>)> {
        if n > self.len {
            let message = format!("there are {} examples, {n} were asked for", self.len);
            return Err(Error::argument("TensorDataset::split_at", message));
        }
        let mut parts = [self.tensors.clone(), self.tensors.clone()];
        for (part, (start, len)) in parts.iter_mut().zip([(0, n), (n, self.len - n)]) {
            for x in part {
                *x = x.narrow(0, start, len)?;
            }
        }
        let [first, others] = parts;
        Ok((TensorDataset { tensors: first, len: n }, TensorDataset { tensors: others, len: self.len - n }))
    }

    /// The tensors.
    pub fn tensors(&self) -> &[Tensor; N] {
        &self.tensors
    }

    /// Batches of so many examples in the order of rows. The last has those that remain.
    ///
    /// # Panics
    /// If `size` is 0.
    pub fn batches(&self, size: usize) -> Batches<'_, N> {
        assert!(size > 0, "a batch has at least one example");
        Batches { data: self, order: None, size, next: 0 }
    }

    /// As [`batches`](Self::batches), in an order that the seed and the number of the epoch determine, whatever else draws random numbers.
    ///
    /// # Errors
    /// If memory does not suffice.
    ///
    /// # Panics
    /// If `size` is 0.
    pub fn shuffled(&self, size: usize, seed: u64, epoch: u64) -> Result<Batches<'_, N>> {
        // Neighbouring seeds and epochs are to have unrelated orders: the golden ratio's fraction spreads epochs.
        let generator = Generator::new(seed ^ epoch.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let order = generator.randperm(self.len)?;
        Ok(Batches { order: Some(order), ..self.batches(size) })
    }
}

/// The batches of a [`TensorDataset`].
pub struct Batches<'a, const N: usize> {
    data: &'a TensorDataset<N>,
    order: Option<Tensor>,
    size: usize,
    next: usize,
}

impl<const N: usize> Batches<'_, N> {
    fn batch(&self, start: usize, count: usize) -> Result<[Tensor; N]> {
        let rows = match &self.order {
            Some(order) => Some(order.narrow(0, start, count)?),
            None => None,
        };
        let part = |x: &Tensor| match &rows {
            Some(rows) => x.index_select(0, rows),
            None => x.narrow(0, start, count),
        };
        let mut parts = self.data.tensors.clone();
        for x in &mut parts {
            *x = part(x)?;
        }
        Ok(parts)
    }
}

impl<const N: usize> Iterator for Batches<'_, N> {
    type Item = Result<[Tensor; N]>;

    fn next(&mut self) -> Option<Self::Item> {
        let (start, count) = (self.next, self.size.min(self.data.len - self.next));
        self.next += count;
        (count > 0).then(|| self.batch(start, count))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.data.len - self.next).div_ceil(self.size);
        (left, Some(left))
    }
}

impl<const N: usize> ExactSizeIterator for Batches<'_, N> {}
