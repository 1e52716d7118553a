//! Cases of draws from distributions whose parameters are tensors, and of their gradients.

use super::cases::{ARRANGEMENTS, Argument, Cases};
use super::values;
use rustorch_core::{DType, LogGammaGrad, Op, PhiloxKey, Sample, SampleKind};

const SHAPES: &[&[usize]] = &[&[], &[7], &[3, 50], &[0, 5], &[2, 3, 700]];

/// Rounded down to whole numbers.
fn whole(x: &Argument) -> Argument {
    let values = values::decode(x.dtype, &x.bytes);
    let bytes = values.into_iter().flat_map(|value| values::encode(x.dtype, value.re.floor(), 0.0)).collect();
    Argument { bytes, ..x.clone() }
}

impl Cases {
    pub(super) fn draws(&mut self) {
        let key = PhiloxKey { seed: 42, offset: 5 };
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            for &dims in SHAPES {
                for how in ARRANGEMENTS {
                    // Both sides of where the algorithms change, 1 and 10.
                    let small = self.within(dtype, dims, how, 0.05, 2.0);
                    let rate = self.within(dtype, dims, how, 0.5, 30.0);
                    let count = whole(&self.within(dtype, dims, how, 1.0, 100.0));
                    let p = self.within(dtype, dims, how, 0.05, 0.95);
                    let log = self.within(dtype, dims, how, -5.0, 2.0);
                    let sample = |distribution| Op::Sample(Sample { distribution, key });
                    self.add(sample(SampleKind::LogGamma), vec![small.clone()]);
                    self.add(sample(SampleKind::LogGamma), vec![rate.clone()]);
                    self.add(sample(SampleKind::Poisson), vec![rate.clone()]);
                    self.add(sample(SampleKind::Binomial), vec![count, p]);
                    self.add(Op::LogGammaGrad(LogGammaGrad), vec![small, log.clone()]);
                    self.add(Op::LogGammaGrad(LogGammaGrad), vec![rate, log]);
                }
            }
        }
    }
}
