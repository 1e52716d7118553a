//! Sequences of several lengths in one tensor, as `torch.nn.utils.rnn`: padded to the longest, or packed without padding, for
//! [`RNN`](crate::RNN), [`LSTM`](crate::LSTM) and [`GRU`](crate::GRU).
//!
//! ```
//! use rustorch_nn::GRU;
//! use rustorch_nn::utils::rnn::{pack_sequence, pad_packed_sequence};
//! use rustorch_tensor::{DType, Tensor};
//! // Three sequences of two features.
//! let sequences = [2, 4, 1].map(|len| Tensor::ones([len, 2], DType::F32));
//! let packed = pack_sequence(&sequences.into_iter().collect::<Result<Vec<_>, _>>()?, false)?;
//! let (y, hidden) = GRU::new(2, 3)?.forward_packed(&packed, None)?;
//! let (y, lengths) = pad_packed_sequence(&y, true, 0.0, None)?;
//! assert_eq!((y.dims(), hidden.dims(), lengths), (&[3, 4, 3][..], &[1, 3, 3][..], vec![2, 4, 1]));
//! // The state is that after the last element of each sequence.
//! assert_eq!(y.select(0, 0)?.select(0, 1)?.to_vec::<f32>()?, hidden.select(0, 0)?.select(0, 0)?.to_vec::<f32>()?);
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```

use crate::Outputs;
use rustorch_tensor::{DType, Error, Result, Shape, Tensor};

/// Sequences without padding: the elements of all sequences at step 0, then those at step 1 of the sequences that have one, and so on, the
/// longest sequence first. PyTorch's class of this name.
#[derive(Clone, Debug)]
pub struct PackedSequence {
    data: Tensor,
    /// Not empty, and descending.
    batch_sizes: Vec<usize>,
    sorted_indices: Option<Vec<usize>>,
}

impl PackedSequence {
    /// The elements, `[Σ lengths, ..]`.
    pub fn data(&self) -> &Tensor {
        &self.data
    }

    /// How many sequences have an element at each step.
    pub fn batch_sizes(&self) -> &[usize] {
        &self.batch_sizes
    }

    /// Which sequence comes at each place, if packing has sorted them.
    pub fn sorted_indices(&self) -> Option<&[usize]> {
        self.sorted_indices.as_deref()
    }

    /// At which place each sequence comes, if packing has sorted them.
    pub fn unsorted_indices(&self) -> Option<Vec<usize>> {
        self.sorted_indices.as_deref().map(inverse)
    }

    /// The same packing of other data, such as what a layer makes of each element.
    ///
    /// # Errors
    /// The function's; and if its result has another number of elements.
    pub fn map(&self, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<PackedSequence> {
        let data = f(&self.data)?;
        if data.dims().first() != self.data.dims().first() {
            let message = "the result must have as many elements";
            return Err(Error::shape("PackedSequence", message, [self.data.shape(), data.shape()]));
        }
        Ok(PackedSequence { data, ..self.clone() })
    }

    /// A tensor whose dimension `dim` is that of sequences, in the order of the packing.
    pub(crate) fn sort(&self, x: &Tensor, dim: isize) -> Result<Tensor> {
        match &self.sorted_indices {
            Some(order) => x.index_select(dim, &indices(order)?),
            None => Ok(x.clone()),
        }
    }

    /// The inverse of [`sort`](Self::sort).
    pub(crate) fn unsort(&self, x: &Tensor, dim: isize) -> Result<Tensor> {
        match self.unsorted_indices() {
            Some(order) => x.index_select(dim, &indices(&order)?),
            None => Ok(x.clone()),
        }
    }

    /// The lengths of sequences in the order of the packing.
    fn sorted_lengths(&self) -> Vec<usize> {
        let has = |place: usize| self.batch_sizes.partition_point(|&size| size > place);
        (0..self.batch_sizes[0]).map(has).collect()
    }
}

impl Outputs for PackedSequence {
    fn metas(&self) -> Vec<(DType, Shape)> {
        self.data.metas()
    }
}

fn indices(list: &[usize]) -> Result<Tensor> {
    let list: Vec<i64> = list.iter().map(|&i| i as i64).collect();
    Tensor::from_slice(&list, list.len())
}

/// The inverse of a permutation.
fn inverse(order: &[usize]) -> Vec<usize> {
    let mut places = vec![0; order.len()];
    for (place, &i) in order.iter().enumerate() {
        places[i] = place;
    }
    places
}

/// The dimensions of steps and of sequences of a padded tensor, and it with one dimension for both, sequence after sequence or step after
/// step.
struct Padded {
    steps: usize,
    n: usize,
    batch_first: bool,
    flat: Tensor,
}

impl Padded {
    fn new(name: &'static str, x: &Tensor, batch_first: bool) -> Result<Padded> {
        let &[a, b, ..] = x.dims() else {
            let order = if batch_first { "[n, steps, ..]" } else { "[steps, n, ..]" };
            return Err(Error::shape(name, format!("takes {order}"), [x.shape()]));
        };
        let (steps, n) = if batch_first { (b, a) } else { (a, b) };
        Ok(Padded { steps, n, batch_first, flat: x.flatten(0, 1)? })
    }

    /// Where an element of a sequence is.
    fn at(&self, step: usize, sequence: usize) -> usize {
        if self.batch_first { sequence * self.steps + step } else { step * self.n + sequence }
    }
}

/// Checks that there is a length for each sequence, none of which is 0 or larger than the number of steps.
fn expect_lengths(name: &'static str, padded: &Padded, lengths: &[usize]) -> Result<()> {
    let (steps, n) = (padded.steps, padded.n);
    if n == 0 || lengths.len() != n || lengths.iter().any(|&len| len == 0 || len > steps) {
        let message = format!("needs {n} lengths, one at least, from 1 to {steps}, and has {lengths:?}");
        return Err(Error::argument(name, message));
    }
    Ok(())
}

/// Packs padded sequences `[steps, n, ..]`, or `[n, steps, ..]` with `batch_first`, as `torch.nn.utils.rnn.pack_padded_sequence`. With
/// `enforce_sorted`, PyTorch's default, the sequences have to come with the longest first; else they are sorted.
///
/// ```
/// use rustorch_nn::utils::rnn::pack_padded_sequence;
/// use rustorch_tensor::Tensor;
/// let x = Tensor::new([[1i64, 2, 0], [3, 0, 0], [4, 5, 6]])?;
/// let packed = pack_padded_sequence(&x, &[2, 1, 3], true, false)?;
/// assert_eq!(packed.data().to_vec::<i64>()?, [4, 1, 3, 5, 2, 6]);
/// assert_eq!(packed.batch_sizes(), [3, 2, 1]);
/// assert_eq!(packed.sorted_indices(), Some(&[2, 0, 1][..]));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If there is not one length for each sequence, from 1 to the number of steps, or the order is wrong.
pub fn pack_padded_sequence(
    x: &Tensor,
    lengths: &[usize],
    batch_first: bool,
    enforce_sorted: bool,
) -> Result<PackedSequence> {
    const NAME: &str = "pack_padded_sequence";
    let padded = Padded::new(NAME, x, batch_first)?;
    expect_lengths(NAME, &padded, lengths)?;
    let is_sorted = lengths.is_sorted_by(|a, b| a >= b);
    if enforce_sorted && !is_sorted {
        let message = format!("lengths must descend with enforce_sorted, and are {lengths:?}");
        return Err(Error::argument(NAME, message));
    }
    let mut order: Vec<usize> = (0..padded.n).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(lengths[i]));
    let (mut places, mut batch_sizes) = (Vec::new(), Vec::new());
    for step in 0..lengths[order[0]] {
        let size = order.partition_point(|&i| lengths[i] > step);
        places.extend(order[..size].iter().map(|&i| padded.at(step, i)));
        batch_sizes.push(size);
    }
    let data = padded.flat.index_select(0, &indices(&places)?)?;
    Ok(PackedSequence { data, batch_sizes, sorted_indices: (!enforce_sorted).then_some(order) })
}

/// The inverse of [`pack_padded_sequence`], as `torch.nn.utils.rnn.pad_packed_sequence`: padded sequences in the order that they had, and
/// their lengths. There are `total_length` steps, or those of the longest sequence.
///
/// # Errors
/// If the longest sequence is longer than `total_length`, or the padding is no value of the dtype.
pub fn pad_packed_sequence(
    packed: &PackedSequence,
    batch_first: bool,
    padding_value: f64,
    total_length: Option<usize>,
) -> Result<(Tensor, Vec<usize>)> {
    const NAME: &str = "pad_packed_sequence";
    let (longest, n) = (packed.batch_sizes.len(), packed.batch_sizes[0]);
    let steps = total_length.unwrap_or(longest);
    if steps < longest {
        let message = format!("total_length {steps} is less than the longest sequence's {longest}");
        return Err(Error::argument(NAME, message));
    }
    let place_of = packed.unsorted_indices().unwrap_or_else(|| (0..n).collect());
    let data = &packed.data;
    // One more row, for all padding.
    let padding = data.narrow(0, 0, 1)?.full_like(padding_value)?;
    let padding_row = data.dims()[0];
    let rows = Tensor::cat(&[data.clone(), padding], 0)?;
    let mut starts = Vec::with_capacity(longest);
    let mut end = 0;
    for size in &packed.batch_sizes {
        starts.push(end);
        end += size;
    }
    let row = |step: usize, sequence: usize| match packed.batch_sizes.get(step) {
        Some(&size) if place_of[sequence] < size => starts[step] + place_of[sequence],
        _ => padding_row,
    };
    let (outer, inner) = if batch_first { (n, steps) } else { (steps, n) };
    let cells = (0..outer).flat_map(|i| (0..inner).map(move |j| if batch_first { (j, i) } else { (i, j) }));
    let places: Vec<usize> = cells.map(|(step, sequence)| row(step, sequence)).collect();
    let padded = rows.index_select(0, &indices(&places)?)?.unflatten(0, [outer, inner])?;
    let sorted = packed.sorted_lengths();
    Ok((padded, place_of.into_iter().map(|place| sorted[place]).collect()))
}

/// The side of sequences at which padding comes, by PyTorch's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PaddingSide {
    /// After the last element.
    #[default]
    Right,
    /// Before the first.
    Left,
}

/// Sequences `[len, ..]` of one dtype, padded to the longest: `[steps, n, ..]`, or `[n, steps, ..]` with `batch_first`, as
/// `torch.nn.utils.rnn.pad_sequence`.
///
/// ```
/// use rustorch_nn::utils::rnn::{PaddingSide, pad_sequence};
/// use rustorch_tensor::Tensor;
/// let sequences = [Tensor::new([1i64, 2])?, Tensor::new([3i64])?];
/// assert_eq!(pad_sequence(&sequences, true, -1.0, PaddingSide::Left)?.to_vec::<i64>()?, [1, 2, -1, 3]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If there is no sequence, they differ in more than their lengths, or the padding is no value of the dtype.
pub fn pad_sequence(
    sequences: &[Tensor],
    batch_first: bool,
    padding_value: f64,
    side: PaddingSide,
) -> Result<Tensor> {
    const NAME: &str = "pad_sequence";
    let lengths = lengths(NAME, sequences)?;
    let steps = lengths.iter().copied().max().unwrap_or(0);
    let padded = |(x, len): (&Tensor, &usize)| {
        let missing = (steps - len) as isize;
        let (before, after) = match side {
            PaddingSide::Right => (0, missing),
            PaddingSide::Left => (missing, 0),
        };
        // Widths are listed from the last dimension.
        let mut widths = vec![0; 2 * (x.ndim() - 1)];
        widths.extend([before, after]);
        x.pad(widths, padding_value)
    };
    let all = sequences.iter().zip(&lengths).map(padded).collect::<Result<Vec<_>>>()?;
    Tensor::stack(&all, if batch_first { 0 } else { 1 })
}

/// The lengths of sequences, of which there is one at least.
fn lengths(name: &'static str, sequences: &[Tensor]) -> Result<Vec<usize>> {
    if sequences.is_empty() {
        return Err(Error::argument(name, "needs one sequence at least"));
    }
    let len = |x: &Tensor| {
        let len = x.dims().first().copied();
        len.ok_or_else(|| Error::shape(name, "takes sequences [len, ..]", [x.shape()]))
    };
    sequences.iter().map(len).collect()
}

/// The sequences of a padded tensor, as `torch.nn.utils.rnn.unpad_sequence`.
///
/// # Errors
/// If there is not one length for each sequence, from 1 to the number of steps.
pub fn unpad_sequence(x: &Tensor, lengths: &[usize], batch_first: bool) -> Result<Vec<Tensor>> {
    const NAME: &str = "unpad_sequence";
    expect_lengths(NAME, &Padded::new(NAME, x, batch_first)?, lengths)?;
    let sequence = |(i, &len)| x.select(if batch_first { 0 } else { 1 }, i as isize)?.narrow(0, 0, len);
    lengths.iter().enumerate().map(sequence).collect()
}

/// Packs sequences `[len, ..]`, as `torch.nn.utils.rnn.pack_sequence`: [`pad_sequence`] and [`pack_padded_sequence`].
///
/// # Errors
/// As theirs.
pub fn pack_sequence(sequences: &[Tensor], enforce_sorted: bool) -> Result<PackedSequence> {
    let padded = pad_sequence(sequences, false, 0.0, PaddingSide::Right)?;
    pack_padded_sequence(&padded, &lengths("pack_sequence", sequences)?, false, enforce_sorted)
}

/// The sequences of a packing, in the order that they had, as `torch.nn.utils.rnn.unpack_sequence`.
///
/// # Errors
/// If memory does not suffice.
pub fn unpack_sequence(packed: &PackedSequence) -> Result<Vec<Tensor>> {
    let (padded, lengths) = pad_packed_sequence(packed, true, 0.0, None)?;
    unpad_sequence(&padded, &lengths, true)
}
