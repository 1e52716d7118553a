//! The candidate tokens of a sampler, and the filters that remove some of them.

use std::cmp::Ordering;

/// A token with its logit and, in the end, its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub id: u32,
    /// Its logit, after penalties and temperature.
    pub logit: f32,
    /// Its probability among the candidates.
    pub probability: f32,
}

impl Candidate {
    fn new(id: u32, logit: f32) -> Candidate {
        Candidate { id, logit, probability: 0.0 }
    }

    /// Greater logits first, smaller ids first among equals: a total order, as no candidate is NaN.
    fn order(a: &Candidate, b: &Candidate) -> Ordering {
        b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
    }
}

/// Candidates, in a buffer that is reused from token to token.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    all: Vec<Candidate>,
    /// Whether `all` is in [`Candidate::order`].
    sorted: bool,
}

impl Candidates {
    pub(super) fn as_slice(&self) -> &[Candidate] {
        &self.all
    }

    /// Takes the `k` greatest logits (all of them for `k` = 0), sorted if there is a limit. NaN and −∞ are left out; if
    /// there is +∞, only the tokens that have it are taken, as equals.
    pub(super) fn fill(&mut self, logits: &[f32], k: usize) {
        self.all.clear();
        self.sorted = false;
        if logits.contains(&f32::INFINITY) {
            let certain = logits.iter().zip(0u32..).filter(|(logit, _)| **logit == f32::INFINITY);
            self.all.extend(certain.map(|(_, id)| Candidate::new(id, 0.0)));
            if k > 0 {
                self.all.truncate(k);
            }
            // All are equal, and in order of their ids.
            self.sorted = true;
            return;
        }
        if k == 0 || k >= logits.len() {
            let possible = logits.iter().zip(0u32..).filter(|(logit, _)| **logit > f32::NEG_INFINITY);
            self.all.extend(possible.map(|(&logit, id)| Candidate::new(id, logit)));
            return;
        }
        // Keeps at most twice the limit; each time that is full, half of it goes and the bar rises. A later token must
        // beat the bar, since a tie goes to the smaller id.
        let room = 2 * k + 64;
        let mut bar = f32::NEG_INFINITY;
        for (&logit, id) in logits.iter().zip(0u32..) {
            if logit > bar {
                self.all.push(Candidate::new(id, logit));
                if self.all.len() == room {
                    self.all.select_nth_unstable_by(k - 1, Candidate::order);
                    self.all.truncate(k);
                    bar = self.all[k - 1].logit;
                }
            }
        }
        self.sort();
        self.all.truncate(k);
    }

    fn sort(&mut self) {
        if !self.sorted {
            self.all.sort_unstable_by(Candidate::order);
            self.sorted = true;
        }
    }

    fn greatest(&self) -> f32 {
        match self.all.first() {
            Some(first) if self.sorted => first.logit,
            _ => self.all.iter().fold(f32::NEG_INFINITY, |greatest, candidate| greatest.max(candidate.logit)),
        }
    }

    /// Keeps the shortest list of most likely tokens whose probabilities reach `p`, at least one.
    pub(super) fn top_p(&mut self, p: f32) {
        if p >= 1.0 || self.all.len() < 2 {
            return;
        }
        let greatest = self.greatest();
        let mut sum = 0.0f64;
        for candidate in &mut self.all {
            candidate.probability = (candidate.logit - greatest).exp();
            sum += f64::from(candidate.probability);
        }
        let target = f64::from(p) * sum;
        // Sorting is put off: mostly a few hundred of many thousand tokens reach the target.
        let mut ready = if self.sorted { self.all.len() } else { 0 };
        let mut reached = 0.0;
        for index in 0..self.all.len() {
            if index == ready {
                ready = (ready * 8).max(256).min(self.all.len());
                let rest = &mut self.all[index..];
                if ready - index < rest.len() {
                    rest.select_nth_unstable_by(ready - index, Candidate::order);
                }
                self.all[index..ready].sort_unstable_by(Candidate::order);
            }
            reached += f64::from(self.all[index].probability);
            if reached >= target {
                self.all.truncate(index + 1);
                break;
            }
        }
        self.sorted = true;
    }

    /// Keeps tokens at least `p` times as likely as the most likely one.
    pub(super) fn min_p(&mut self, p: f32) {
        if p > 0.0 {
            let least = self.greatest() + p.ln();
            let greatest = self.greatest();
            // The most likely token stays whatever rounding does.
            self.all.retain(|candidate| candidate.logit >= least || candidate.logit == greatest);
        }
    }

    /// Divides logits by the temperature and sets the probabilities.
    pub(super) fn softmax(&mut self, temperature: f32) {
        // Differences first: a tiny temperature must not turn logits infinite.
        let greatest = self.greatest();
        let mut sum = 0.0f64;
        for candidate in &mut self.all {
            candidate.logit = (candidate.logit - greatest) / temperature;
            candidate.probability = candidate.logit.exp();
            sum += f64::from(candidate.probability);
        }
        for candidate in &mut self.all {
            candidate.probability = (f64::from(candidate.probability) / sum) as f32;
        }
    }

    /// The token at `point` of the distribution, in [0, 1).
    pub(super) fn pick(&self, point: f64) -> Option<u32> {
        let sum: f64 = self.all.iter().map(|candidate| f64::from(candidate.probability)).sum();
        let target = point * sum;
        let mut passed = 0.0;
        let found = self.all.iter().find(|candidate| {
            passed += f64::from(candidate.probability);
            passed > target
        });
        // Rounding can leave the sum at the target: the last possible token then.
        let last = || self.all.iter().rev().find(|candidate| candidate.probability > 0.0);
        found.or_else(last).map(|candidate| candidate.id)
    }
}
