//! Random numbers.

use super::{OpType, Operation, expect_args, float, one, same_dense};
use crate::{DType, Error, Outputs, PhiloxKey, Result, Shape, TensorMeta};

op_kinds! {
    /// A distribution to draw from.
    #[derive(Clone, Copy, Debug, PartialEq)]
    Distribution, DistributionKind {
        /// Uniform in [low, high).
        Uniform {
            /// The lower bound.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            low: f64,
            /// The upper bound.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            high: f64,
        } = "rand",
        /// Normal.
        Normal {
            /// The mean.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            mean: f64,
            /// The standard deviation.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            std: f64,
        } = "randn",
        /// Uniform among the integers low … high − 1.
        Integer {
            /// The least.
            low: i64,
            /// One past the greatest.
            high: i64,
        } = "randint",
        /// 1 with probability p, else 0.
        Bernoulli {
            /// The probability.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            p: f64,
        } = "bernoulli",
        /// The integers 0 … n − 1, in an order of which each is as likely.
        Permutation {} = "randperm",
    }
}

/// A tensor of random numbers.
///
/// Element `i` is a pure function of the key and `i`: of the words of Philox block `i / 4` it takes word `i % 4`
/// (`f64` and integers above 32 bits: blocks `i / 2`, a pair of words). Normal numbers come in pairs, elements 2j and
/// 2j + 1, by Box and Muller's transform of two uniform numbers. So every device and thread count gives the same
/// numbers, up to rounding of the transform.
///
/// A permutation is that of Fisher and Yates: beginning with 0, 1, …, elements i from n − 1 down to 1 are exchanged with elements
/// ⌊w·(i + 1)/2⁶⁴⌋, for w the pair of words of element i.
///
/// Durstenfeld: *Algorithm 235: Random permutation*, 1964.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Random {
    /// The distribution.
    pub distribution: Distribution,
    /// The shape.
    pub shape: Shape,
    /// The dtype: a float for `Uniform` and `Normal`, an integer or float for `Integer`, any dense one for `Bernoulli`, `I64`
    /// for `Permutation`.
    pub dtype: DType,
    /// Seed and position of the stream, drawn before dispatch so that a retry gives the same numbers.
    pub key: PhiloxKey,
}

impl Random {
    pub(super) fn kind(&self) -> DistributionKind {
        self.distribution.kind()
    }

    /// How many Philox blocks a tensor of `elements` uses at most: how far a generator advances.
    pub const fn blocks(elements: usize) -> u64 {
        (elements as u64).div_ceil(2)
    }
}

impl Operation for Random {
    const CLASS: OpType = OpType::Distribution;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = self.distribution.name();
        expect_args(name, args, 0..=0)?;
        let dtype = self.dtype;
        let (fits, valid, rule) = match self.distribution {
            Distribution::Uniform { low, high } => {
                (dtype.is_float(), low.is_finite() && high.is_finite() && low <= high, "finite low ≤ high")
            }
            Distribution::Normal { mean, std } => (
                dtype.is_float(),
                mean.is_finite() && std.is_finite() && std >= 0.0,
                "finite mean and std ≥ 0",
            ),
            Distribution::Integer { low, high } => {
                (dtype.is_int() || dtype.is_float(), low < high, "low < high")
            }
            Distribution::Permutation {} => (dtype == DType::I64, self.shape.ndim() == 1, "one dimension"),
            Distribution::Bernoulli { p } => (!dtype.is_quant(), (0.0..=1.0).contains(&p), "0 ≤ p ≤ 1"),
        };
        if !fits {
            return Err(Error::dtype(name, "is not defined for this dtype", [dtype]));
        }
        if !valid {
            return Err(Error::argument(name, format!("needs {rule}, got {:?}", self.distribution)));
        }
        one(dtype, self.shape.clone())
    }

    fn philox_key(&self) -> Option<PhiloxKey> {
        Some(self.key)
    }

    fn flops_per_element(&self) -> u64 {
        20
    }

    fn dtype_parameter(&self) -> Option<DType> {
        Some(self.dtype)
    }
}

/// `x` times a mask: `1 / (1 − p)` with probability `1 − p`, else 0.
///
/// The mask is a function of the key and of the element's position, the same in every dtype and layout and on every device.
/// Elements in row-major order form groups of [`GROUP`](Self::GROUP), each of 16 Philox blocks, from which element `16·k + j`
/// takes half-word `k` of block `j` (the low half of a word first). Together with that of the block
/// [`LOWER`](Self::LOWER) farther as the lower half, it is kept where these 32 bits are below the
/// [threshold](Self::threshold): the probability is right to 2⁻³³. The lower half matters where the upper one equals the
/// threshold's, once in 65536 elements, so most take 16 bits.
///
/// Hinton, Srivastava, Krizhevsky, Sutskever, Salakhutdinov: *Improving neural networks by preventing co-adaptation of feature
/// detectors*, 2012.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Dropout {
    /// The probability of 0, from 0 to 1.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub p: f64,
    /// Seed and position of the stream, drawn before dispatch so that a retry, and the gradient, have the same mask.
    pub key: PhiloxKey,
}

impl Dropout {
    /// The operation's name.
    pub const NAME: &'static str = "dropout";

    /// Elements that share 16 Philox blocks.
    pub const GROUP: usize = 128;

    /// From the block of an element's upper random bits to that of its lower ones.
    pub const LOWER: u64 = 1 << 63;

    /// How many Philox blocks a tensor of `elements` uses: how far a generator advances.
    pub const fn blocks(elements: usize) -> u64 {
        elements.div_ceil(Dropout::GROUP) as u64 * 16
    }

    /// An element is kept if its 32 random bits are below this, (1 − p)·2³².
    pub fn threshold(&self) -> u64 {
        ((1.0 - self.p) * 4_294_967_296.0).round() as u64
    }

    /// Checks the probability, for an operation.
    pub(super) fn check_p(&self, op: &'static str) -> Result<()> {
        match (0.0..=1.0).contains(&self.p) {
            true => Ok(()),
            false => Err(Error::argument(op, format!("p of dropout must be from 0 to 1, and is {}", self.p))),
        }
    }
}

impl Operation for Dropout {
    const CLASS: OpType = OpType::Distribution;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = same_dense(Self::NAME, args, 1..=1)?;
        float(Self::NAME, dtype)?;
        self.check_p(Self::NAME)?;
        one(dtype, args[0].shape().clone())
    }

    fn philox_key(&self) -> Option<PhiloxKey> {
        Some(self.key)
    }

    fn may_overwrite(&self, _arg: usize, _out: usize) -> bool {
        true
    }

    fn flops_per_element(&self) -> u64 {
        10
    }
}

op_names! {
    /// A distribution whose parameters are tensors.
    SampleKind {
        /// `(concentration) →` the logarithm of a draw from a gamma distribution of rate 1. Draws of small concentrations are below the
        /// smallest positive number of any dtype; their logarithms are not.
        ///
        /// Marsaglia, Tsang: *A simple method for generating gamma variables*, 2000.
        LogGamma = "log_gamma",
        /// `(rate) →` a draw from a Poisson distribution.
        ///
        /// Hörmann: *The transformed rejection method for generating Poisson random variables*, 1993.
        Poisson = "poisson",
        /// `(count, probability) →` successes among so many trials.
        ///
        /// Hörmann: *The generation of binomial random variates*, 1993.
        Binomial = "binomial",
    }
}

/// Draws from distributions whose parameters are the elements of tensors, by rejection sampling.
///
/// Element `i` draws from [subsequence](PhiloxKey::subsequence) `i` of the key as many random numbers as it takes, so it depends neither on
/// other elements nor on the number of threads. Parameters outside the distribution's domain, and NaN, give NaN.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Sample {
    /// The distribution.
    pub distribution: SampleKind,
    /// Seed and position of the stream, drawn before dispatch so that a retry gives the same numbers.
    pub key: PhiloxKey,
}

impl Sample {
    pub(super) fn kind(&self) -> SampleKind {
        self.distribution
    }

    /// How far a generator advances for a tensor of `elements`: a subsequence for each.
    pub const fn blocks(elements: usize) -> u64 {
        elements as u64
    }
}

impl Operation for Sample {
    const CLASS: OpType = OpType::Distribution;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let parameters = match self.distribution {
            SampleKind::LogGamma | SampleKind::Poisson => 1,
            SampleKind::Binomial => 2,
        };
        elementwise(self.distribution.name(), args, parameters)
    }

    fn philox_key(&self) -> Option<PhiloxKey> {
        Some(self.key)
    }

    fn flops_per_element(&self) -> u64 {
        200
    }
}

/// The derivative of a draw of [`SampleKind::LogGamma`] with respect to its concentration, by implicit reparametrisation: that of the
/// quantile at which it lies.
///
/// Figurnov, Mohamed, Mnih: *Implicit reparameterization gradients*, 2018.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LogGammaGrad;

impl LogGammaGrad {
    /// The operation's name.
    pub const NAME: &'static str = "log_gamma_grad";
}

impl Operation for LogGammaGrad {
    const CLASS: OpType = OpType::Distribution;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        elementwise(Self::NAME, args, 2)
    }

    fn flops_per_element(&self) -> u64 {
        500
    }
}

/// Arguments of one dtype of floats and one shape, which are the result's.
fn elementwise(name: &'static str, args: &[TensorMeta<'_>], count: usize) -> Result<Outputs> {
    let dtype = same_dense(name, args, count..=count)?;
    float(name, dtype)?;
    let shape = args[0].shape();
    if let Some(other) = args.iter().map(TensorMeta::shape).find(|other| *other != shape) {
        return Err(Error::argument(
            name,
            format!("parameters must have one shape, and have {shape} and {other}"),
        ));
    }
    one(dtype, shape.clone())
}
