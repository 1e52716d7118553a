//! Probability distributions: densities, entropies, moments, divergences.

use crate::common::Case;
use rustorch_tensor::distributions::{
    Bernoulli, Beta, Binomial, Categorical, Dirichlet, Distribution, Exponential, Gamma, KlDivergence,
    Laplace, LogNormal, MultivariateNormal, Normal, Poisson, Uniform, kl_divergence,
};
use rustorch_tensor::{Result, Tensor};

/// What is asked of a distribution of the first of these tensors.
fn of<D: Distribution>(
    what: &str,
    xs: &[Tensor],
    parameters: usize,
    make: impl Fn(&[Tensor]) -> Result<D>,
    kl: Option<fn(&D, &D) -> Result<Tensor>>,
) -> Result<Tensor> {
    let distribution = make(xs)?;
    match what {
        "mean" => distribution.mean(),
        "variance" => distribution.variance(),
        "stddev" => distribution.stddev(),
        "entropy" => distribution.entropy(),
        "log_prob" => distribution.log_prob(&xs[parameters]),
        "kl" => kl.unwrap()(&distribution, &make(&xs[parameters..])?),
        // Only made.
        "" => Ok(xs[0].clone()),
        other => panic!("{other}"),
    }
}

fn like<D: KlDivergence>() -> Option<fn(&D, &D) -> Result<Tensor>> {
    Some(kl_divergence::<D>)
}

pub(super) fn run(case: &Case, op: &str) -> Result<Vec<Tensor>> {
    let xs = &case.inputs[..];
    let (name, what) = op.split_once("::").or(op.split_once('.')).unwrap_or((op, ""));
    Ok(vec![match name {
        "xlogy" => xs[0].xlogy(&xs[1])?,
        "poisson" => xs[0].poisson()?,
        "multinomial" => {
            xs[0].multinomial(case.int("samples").unwrap() as usize, case.flag("replacement"))?
        }
        "Normal" => of(what, xs, 2, |x| Normal::new(&x[0], &x[1]), like())?,
        "LogNormal" => of(what, xs, 2, |x| LogNormal::new(&x[0], &x[1]), like())?,
        "Laplace" => of(what, xs, 2, |x| Laplace::new(&x[0], &x[1]), like())?,
        "Uniform" => of(what, xs, 2, |x| Uniform::new(&x[0], &x[1]), like())?,
        "Exponential" => of(what, xs, 1, |x| Exponential::new(&x[0]), like())?,
        "Gamma" => of(what, xs, 2, |x| Gamma::new(&x[0], &x[1]), like())?,
        "Beta" => of(what, xs, 2, |x| Beta::new(&x[0], &x[1]), like())?,
        "Bernoulli" => of(what, xs, 1, |x| Bernoulli::new(&x[0]), like())?,
        "Bernoulli(logits)" => of(what, xs, 1, |x| Bernoulli::from_logits(&x[0]), like())?,
        "Poisson" => of(what, xs, 1, |x| Poisson::new(&x[0]), like())?,
        "Binomial" => of(what, xs, 2, |x| Binomial::new(&x[0], &x[1]), None)?,
        "Dirichlet" => of(what, xs, 1, |x| Dirichlet::new(&x[0]), like())?,
        "Categorical" if what == "probs" => Categorical::new(&xs[0])?.probs().clone(),
        "Categorical(logits)" if what == "probs" => Categorical::from_logits(&xs[0])?.probs().clone(),
        "Categorical" => of(what, xs, 1, |x| Categorical::new(&x[0]), like())?,
        "Categorical(logits)" => of(what, xs, 1, |x| Categorical::from_logits(&x[0]), like())?,
        "MultivariateNormal" => {
            let make = |x: &[Tensor]| match case.attrs["by"].as_str() {
                Some("precision") => MultivariateNormal::from_precision(&x[0], &x[1]),
                Some("scale_tril") => MultivariateNormal::from_scale_tril(&x[0], &x[1]),
                _ => MultivariateNormal::new(&x[0], &x[1]),
            };
            match what {
                "covariance" => {
                    let normal = make(xs)?;
                    let size = normal.loc().size(-1)?;
                    let shape = [normal.batch_shape().dims(), &[size, size]].concat();
                    normal.covariance()?.broadcast_to(shape)?
                }
                _ => of(what, xs, 2, make, like())?,
            }
        }
        other => panic!("{other}"),
    }])
}
