//! Sums of squares of activations, by weight.

use super::ImatrixError;
use std::collections::BTreeMap;

/// The squares of what each column of a weight is multiplied with, summed over all rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SquareSums {
    /// One sum for each column; of several matrices those of each.
    pub sums: Vec<f64>,
    /// How many rows each matrix was multiplied with; a single count if it is the same for all.
    pub counts: Vec<u64>,
}

impl SquareSums {
    /// The mean square of each column. Those of an expert that no token came to are 1, as if all columns were alike.
    pub fn means(&self) -> Vec<f32> {
        let columns = self.sums.len() / self.counts.len().max(1);
        let mean = |(i, sum): (usize, &f64)| match self.counts[i / columns] {
            0 => 1.0,
            count => (sum / count as f64) as f32,
        };
        self.sums.iter().enumerate().map(mean).collect()
    }

    /// Adds the squares of rows that `matrix`, one of `matrices`, is multiplied with. Does not count them.
    pub(super) fn add(&mut self, row: &[f32], matrix: usize, matrices: usize) {
        self.sums.resize(row.len() * matrices, 0.0);
        for (sum, x) in self.sums[matrix * row.len()..].iter_mut().zip(row) {
            *sum += f64::from(x * x);
        }
    }

    fn merge(&mut self, other: &SquareSums) -> Option<()> {
        if self.sums.is_empty() {
            *self = other.clone();
            return Some(());
        }
        let count = self.counts.len().max(other.counts.len());
        let fits = |counts: &[u64]| counts.len() == count || counts.len() == 1;
        if self.sums.len() != other.sums.len() || !fits(&self.counts) || !fits(&other.counts) {
            return None;
        }
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, more)| *sum += more);
        let of = |counts: &[u64], i: usize| counts[if counts.len() == 1 { 0 } else { i }];
        self.counts = (0..count).map(|i| of(&self.counts, i) + of(&other.counts, i)).collect();
        Some(())
    }
}

/// The statistics of all weights of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActivationStatistics {
    pub(super) weights: BTreeMap<String, SquareSums>,
    pub(super) datasets: Vec<String>,
    pub(super) chunk_size: usize,
    pub(super) chunk_count: usize,
}

impl ActivationStatistics {
    /// Of nothing yet; texts will run in chunks of so many tokens.
    pub fn new(chunk_size: usize) -> ActivationStatistics {
        ActivationStatistics { chunk_size, ..Default::default() }
    }

    /// The sums of a weight, by its name in the model's file.
    pub fn get(&self, weight: &str) -> Option<&SquareSums> {
        self.weights.get(weight)
    }

    /// All weights by their names, in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &SquareSums)> {
        self.weights.iter().map(|(name, sums)| (name.as_str(), sums))
    }

    /// The texts that they are of.
    pub fn datasets(&self) -> &[String] {
        &self.datasets
    }

    /// Adds the name of a text.
    pub fn add_dataset(&mut self, name: impl Into<String>) {
        self.datasets.push(name.into());
    }

    /// The number of tokens of a chunk.
    pub fn chunk_size(&self) -> usize {
        self.chunk_size
    }

    /// How many chunks have run.
    pub fn chunk_count(&self) -> usize {
        self.chunk_count
    }

    /// Adds the statistics of other texts.
    ///
    /// # Errors
    /// [`ImatrixError::OtherModel`] if a weight has another shape there.
    pub fn merge(&mut self, other: &ActivationStatistics) -> Result<(), ImatrixError> {
        for (name, more) in &other.weights {
            let sums = self.weights.entry(name.clone()).or_default();
            sums.merge(more).ok_or_else(|| ImatrixError::OtherModel {
                weight: name.clone(),
                found: more.sums.len(),
                expected: sums.sums.len(),
            })?;
        }
        self.datasets.extend(other.datasets.iter().cloned());
        self.chunk_count += other.chunk_count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_merge_and_means_know_experts_without_tokens() {
        let sums = |sums: &[f64], counts: &[u64]| SquareSums { sums: sums.to_vec(), counts: counts.to_vec() };
        let mut all = ActivationStatistics::new(8);
        let mut other = ActivationStatistics::new(8);
        other.weights.insert("a".into(), sums(&[4.0, 8.0, 0.0, 0.0], &[4, 0]));
        (other.chunk_count, other.datasets) = (2, vec!["x".into()]);
        all.merge(&other).unwrap();
        assert_eq!(all.get("a").unwrap().means(), [1.0, 2.0, 1.0, 1.0]);
        other.weights.insert("a".into(), sums(&[0.0, 0.0, 3.0, 6.0], &[3]));
        all.merge(&other).unwrap();
        assert_eq!(all.get("a"), Some(&sums(&[4.0, 8.0, 3.0, 6.0], &[7, 3])));
        assert_eq!((all.chunk_count(), all.datasets().len()), (4, 2));
        other.weights.insert("a".into(), sums(&[1.0], &[1]));
        assert!(matches!(all.merge(&other), Err(ImatrixError::OtherModel { found: 1, expected: 4, .. })));
    }
}
