//! Connectionist temporal classification.

use crate::functional;
use rustorch_tensor::{Reduction, Result, Tensor};

/// The negative log likelihood of sequences of labels, summed over all alignments with the input, as `torch.nn.CTCLoss`: see
/// [`ctc_loss`](functional::ctc_loss).
///
/// ```
/// use rustorch_nn::CTCLoss;
/// use rustorch_tensor::Tensor;
/// // Two times, one sequence, three classes of which the first is the blank. Alignments of the label 1: 11, 01 and 10.
/// let log_probs = Tensor::new([[[0.5f32, 0.25, 0.25]], [[0.25, 0.5, 0.25]]])?.log()?;
/// let loss = CTCLoss::default().forward(&log_probs, &Tensor::new([[1i64]])?, &[2], &[1])?;
/// assert!((loss.item()?.to_f64() + 0.4375f64.ln()).abs() < 1e-6);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, rustorch_macros::Module)]
pub struct CTCLoss {
    /// The class of the blank: 0.
    pub blank: usize,
    /// What becomes of the losses: the mean of losses divided by the lengths of targets.
    #[module(skip)]
    pub reduction: Reduction,
    /// Whether infinite losses, of targets that are too long, are zero: no.
    pub zero_infinity: bool,
}

impl Default for CTCLoss {
    /// With PyTorch's defaults.
    fn default() -> CTCLoss {
        CTCLoss { blank: 0, reduction: Reduction::Mean, zero_infinity: false }
    }
}

impl CTCLoss {
    /// The loss of log-probabilities `[time, n, classes]`, or `[time, classes]` of one sequence, with labels `[n, length]` or one after
    /// another.
    ///
    /// # Errors
    /// As [`ctc_loss`](functional::ctc_loss).
    pub fn forward(
        &self,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: &[usize],
        target_lengths: &[usize],
    ) -> Result<Tensor> {
        let &CTCLoss { blank, reduction, zero_infinity } = self;
        functional::ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            blank,
            reduction,
            zero_infinity,
        )
    }
}
