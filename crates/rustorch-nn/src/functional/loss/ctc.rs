//! Connectionist temporal classification.

use super::likelihood::{expect_classes, picked};
use super::reduce;
use rustorch_tensor::{DType, Error, Expr, Fused, Reduction, Result, Tensor, fuse};

const NAME: &str = "ctc_loss";

/// The negative log likelihood of sequences of labels, summed over all alignments with the input, as
/// `torch.nn.functional.ctc_loss`. An alignment has a label or a blank at each time; repetitions without a blank between them are one
/// label, and blanks are left out.
///
/// `log_probs` is `[time, n, classes]`, or `[time, classes]` of one sequence, and the result of [`log_softmax`](super::super::log_softmax).
/// `targets` is classes `[n, length]` with padding, or all labels one after another, `[Σ target_lengths]`; of one sequence `[length]`.
/// That no label is the blank is read back from the device. A sequence without an alignment has an infinite loss, or none with `zero_infinity`. The mean is that of losses divided by the
/// lengths of targets, which count as 1 if they are 0.
///
/// The gradient of `log_probs` is that of the formula. PyTorch's has `exp(log_probs)` added, which makes no difference before
/// `log_softmax`.
///
/// Graves et al.: *Connectionist Temporal Classification*, 2006.
///
/// # Errors
/// If a label is out of range or the blank, lengths or shapes do not fit, there is nothing in `log_probs`, it is neither `F32` nor `F64`, or the
/// targets are none of integers.
pub fn ctc_loss(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[usize],
    target_lengths: &[usize],
    blank: usize,
    reduction: Reduction,
    zero_infinity: bool,
) -> Result<Tensor> {
    if !matches!(log_probs.dtype(), DType::F32 | DType::F64) {
        return Err(Error::dtype(NAME, "log_probs must be f32 or f64; convert it", [log_probs.dtype()]));
    }
    expect_classes(NAME, targets)?;
    let is_batch = log_probs.ndim() == 3;
    let batch = match log_probs.ndim() {
        3 => log_probs.clone(),
        2 => log_probs.unsqueeze(1)?,
        _ => {
            let message = "log_probs must be [time, n, classes] or [time, classes]";
            return Err(Error::shape(NAME, message, [log_probs.shape()]));
        }
    };
    let [time, n, classes] = [batch.dims()[0], batch.dims()[1], batch.dims()[2]];
    if batch.numel() == 0 {
        return Err(Error::shape(NAME, "log_probs must not be empty", [log_probs.shape()]));
    }
    if blank >= classes {
        return Err(Error::argument(NAME, format!("blank is {blank}, which is none of {classes} classes")));
    }
    for (what, lengths) in [("input_lengths", input_lengths), ("target_lengths", target_lengths)] {
        if lengths.len() != n {
            let message =
                format!("{what} must have one length for each of {n} sequences, not {}", lengths.len());
            return Err(Error::argument(NAME, message));
        }
    }
    if let Some(long) = input_lengths.iter().find(|&&length| length > time) {
        return Err(Error::argument(
            NAME,
            format!("an input length is {long}, but log_probs has {time} times"),
        ));
    }

    let labels = with_blanks(targets, target_lengths, blank, is_batch)?.to_device(batch.device())?;
    let states = labels.dims()[1];
    let of_times = labels.unsqueeze(0)?.expand([time, n, states])?;
    // [time, n, states]
    let emissions = picked(NAME, || batch.gather(2, &of_times))?;
    let alpha = forward(&emissions, &labels, input_lengths)?;
    let losses = at_the_ends(&alpha, target_lengths)?;
    let losses = match zero_infinity {
        true => losses.masked_fill(&losses.eq(f64::INFINITY)?, 0)?,
        false => losses,
    };
    match reduction {
        Reduction::Mean => {
            let lengths = target_lengths.iter().map(|&length| length.max(1) as f64).collect();
            losses.div(&beside(&losses, Tensor::from_vec::<f64>(lengths, [n])?)?)?.mean_all()
        }
        Reduction::None if !is_batch => losses.squeeze(0),
        other => reduce(losses, other, &[log_probs]),
    }
}

/// A tensor of the host in the dtype and on the device of another.
fn beside(x: &Tensor, host: Tensor) -> Result<Tensor> {
    host.to_dtype(x.dtype())?.to_device(x.device())
}

/// The states of alignments, `[n, 2 · longest + 1]`: labels with blanks before, between and behind them. Padding becomes blanks.
fn with_blanks(targets: &Tensor, lengths: &[usize], blank: usize, is_batch: bool) -> Result<Tensor> {
    let (n, longest) = (lengths.len(), lengths.iter().copied().max().unwrap_or(0));
    let total: usize = lengths.iter().sum();
    let fits = match *targets.dims() {
        [rows, columns] => is_batch && rows == n && columns >= longest,
        [labels] if is_batch => labels == total,
        [labels] => labels >= total,
        _ => false,
    };
    if !fits {
        let message = match is_batch {
            true => {
                format!("targets must be [{n}, {longest} or more], or [{total}], for these target_lengths")
            }
            false => format!("targets of one sequence must be [{longest} or more] for its target_lengths"),
        };
        return Err(Error::shape(NAME, message, [targets.shape()]));
    }
    let blank = blank as i64;
    if longest == 0 {
        return Tensor::full([n, 1], blank, DType::I64);
    }
    // Where each row begins in all labels.
    let row = if targets.ndim() == 2 { targets.dims()[1] } else { 0 };
    let (mut places, mut padding) = (Vec::with_capacity(n * longest), Vec::with_capacity(n * longest));
    let mut start = 0;
    for &length in lengths {
        for j in 0..longest {
            places.push(if j < length { (start + j) as i64 } else { 0 });
            padding.push(j >= length);
        }
        start += if row > 0 { row } else { length };
    }
    let places = Tensor::from_vec(places, [n * longest])?.to_device(targets.device())?;
    let padding = Tensor::from_vec(padding, [n, longest])?.to_device(targets.device())?;
    let all = targets.to_dtype(DType::I64)?.flatten(0, -1)?;
    let labels = all.index_select(0, &places)?.reshape([n, longest])?;
    let is_blank = fuse(|[label, padding]| label.eq(blank).logical_and(padding.logical_not()))?;
    if is_blank.apply(&[&labels, &padding])?.any_all()?.item()?.to_bool() {
        let message = format!("a label of the targets is {blank}, the blank, which alignments leave out");
        return Err(Error::argument(NAME, message));
    }
    let labels = labels.masked_fill(&padding, blank)?;
    let blanks = labels.full_like(blank)?;
    let pairs = Tensor::stack(&[&blanks, &labels], -1)?.flatten(1, -1)?;
    pairs.pad([0, 1], blank)
}

/// log Σ eˣ. Where all terms are −∞, so is the result, and its gradient is zero.
fn logsumexp<'t>(first: Expr<'t>, rest: &[Expr<'t>]) -> Expr<'t> {
    let largest = rest.iter().fold(first, |largest, &term| largest.maximum(term));
    let never = largest.eq(f64::NEG_INFINITY);
    let largest = never.where_cond(0, largest);
    let sum = rest.iter().fold((first - largest).exp(), |sum, &term| sum + (term - largest).exp());
    never.where_cond(f64::NEG_INFINITY, never.where_cond(1, sum).log() + largest)
}

/// The log probability of the states' prefixes after each sequence's last time, `[n, states]`.
fn forward(emissions: &Tensor, labels: &Tensor, input_lengths: &[usize]) -> Result<Tensor> {
    let [time, n, states] = [emissions.dims()[0], emissions.dims()[1], emissions.dims()[2]];
    // A blank between different labels may be passed over: from two states before.
    let skips = labels.pad([2, 0], -1)?.narrow(1, 0, states)?.ne(labels)?;
    let step: Fused = fuse(|[stay, next, skip, may_skip, emission]| {
        logsumexp(stay, &[next, may_skip.where_cond(skip, f64::NEG_INFINITY)]) + emission
    })?;
    // Before the first time, only the first state can be left or kept.
    let before = (0..n * states).map(|i| if i % states == 0 { 0.0 } else { f64::NEG_INFINITY }).collect();
    let mut alpha = beside(emissions, Tensor::from_vec::<f64>(before, [n, states])?)?;
    for t in 0..time {
        let padded = alpha.pad([2, 0], f64::NEG_INFINITY)?;
        let (next, skip) = (padded.narrow(1, 1, states)?, padded.narrow(1, 0, states)?);
        let new = step.apply(&[&alpha, &next, &skip, &skips, &emissions.select(0, t as isize)?])?;
        // Sequences that have ended stay as they are.
        let goes_on: Vec<bool> = input_lengths.iter().map(|&length| t < length).collect();
        alpha = match goes_on.iter().all(|&goes_on| goes_on) {
            true => new,
            false => {
                let goes_on = Tensor::from_vec(goes_on, [n, 1])?.to_device(emissions.device())?;
                goes_on.where_cond(&new, &alpha)?
            }
        };
    }
    Ok(alpha)
}

/// The negative log probability of ending with the last label or the blank behind it, `[n]`.
fn at_the_ends(alpha: &Tensor, target_lengths: &[usize]) -> Result<Tensor> {
    let n = target_lengths.len();
    let at = |place: &dyn Fn(usize) -> usize| -> Result<Tensor> {
        let places = target_lengths.iter().map(|&length| place(length) as i64).collect();
        alpha.gather(1, &Tensor::from_vec::<i64>(places, [n, 1])?.to_device(alpha.device())?)?.squeeze(1)
    };
    let (blank, label) = (at(&|length| 2 * length)?, at(&|length| (2 * length).saturating_sub(1))?);
    let has_label = target_lengths.iter().map(|&length| length > 0).collect();
    let has_label = Tensor::from_vec::<bool>(has_label, [n])?.to_device(alpha.device())?;
    let loss = fuse(|[blank, label, has_label]| {
        -logsumexp(blank, &[has_label.where_cond(label, f64::NEG_INFINITY)])
    })?;
    loss.apply(&[&blank, &label, &has_label])
}
