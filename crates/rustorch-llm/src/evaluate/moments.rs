//! Means of what is measured on each token, and how certain they are.

/// A mean and its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// The standard error.
    pub uncertainty: f64,
}

/// Sums from which mean and standard error follow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    count: usize,
    sum: f64,
    squares: f64,
}

impl Moments {
    pub(super) fn push(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// 0 of nothing.
    pub(super) fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    pub(super) fn estimate(&self) -> Estimate {
        let (count, mean) = (self.count.max(1) as f64, self.mean());
        let variance = (self.squares / count - mean * mean).max(0.0);
        Estimate { value: mean, uncertainty: (variance / (count - 1.0).max(1.0)).sqrt() }
    }
}

impl Estimate {
    /// The exponential, with its standard error to first order.
    pub(super) fn exp(self) -> Estimate {
        let value = self.value.exp();
        Estimate { value, uncertainty: value * self.uncertainty }
    }

    /// `self - other` of which the standard errors have this covariance.
    pub(super) fn minus(self, other: Estimate, covariance: f64) -> Estimate {
        let variance = self.uncertainty.powi(2) + other.uncertainty.powi(2) - 2.0 * covariance;
        Estimate { value: self.value - other.value, uncertainty: variance.max(0.0).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_standard_error() {
        let mut moments = Moments::default();
        [1.0, 2.0, 3.0, 6.0].into_iter().for_each(|x| moments.push(x));
        let Estimate { value, uncertainty } = moments.estimate();
        // Squares of the distances to 3 are 4, 1, 0 and 9.
        assert_eq!((moments.count(), value), (4, 3.0));
        assert!((uncertainty - (14.0f64 / 4.0 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Moments::default().estimate(), Estimate::default());
    }
}
