//! The length of vectors.

/// How long vectors are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalization {
    /// They stay as they are.
    None,
    /// The largest absolute value becomes 32760, so that all fit into 16 bits.
    MaxAbsI16,
    /// Their p-norm, for this p from 1 on, becomes 1.
    PNorm(u32),
}

impl Normalization {
    /// The Euclidean norm becomes 1, so that the dot product of two vectors is their cosine.
    pub const EUCLIDEAN: Normalization = Normalization::PNorm(2);

    /// The one that `llama-embedding --embd-normalize` calls by this number: −1 none, 0 the largest of 16 bits, p the p-norm. `None` for others.
    pub fn from_number(number: i32) -> Option<Normalization> {
        match number {
            -1 => Some(Normalization::None),
            0 => Some(Normalization::MaxAbsI16),
            _ => u32::try_from(number).ok().map(Normalization::PNorm),
        }
    }
}

/// Scales a vector; one of zeros stays as it is. Sums are taken in `f64`, as llama.cpp takes them.
///
/// ```
/// use rustorch_llm::embedding::{Normalization, normalize};
///
/// let mut vector = [3.0, -4.0];
/// normalize(&mut vector, Normalization::EUCLIDEAN);
/// assert_eq!(vector, [0.6, -0.8]);
/// normalize(&mut vector, Normalization::MaxAbsI16);
/// assert_eq!(vector, [24570.0, -32760.0]);
/// ```
pub fn normalize(vector: &mut [f32], normalization: Normalization) {
    let magnitudes = || vector.iter().map(|x| f64::from(x.abs()));
    let length = match normalization {
        Normalization::None => return,
        Normalization::MaxAbsI16 => magnitudes().fold(0.0, f64::max) / 32760.0,
        Normalization::PNorm(2) => vector.iter().map(|x| f64::from(x * x)).sum::<f64>().sqrt(),
        Normalization::PNorm(p) => {
            magnitudes().map(|x| x.powf(p.into())).sum::<f64>().powf(1.0 / f64::from(p))
        }
    };
    let scale = if length > 0.0 { (1.0 / length) as f32 } else { 0.0 };
    vector.iter_mut().for_each(|x| *x *= scale);
}
