//! Draws from distributions: moments, goodness of fit, gradients, seeds. Densities and the rest are compared with PyTorch's in `methods`.

use crate::common::{Case, compare, fixture};
use rustorch_core::{LogGammaGrad, Op};
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::autograd::{BackwardOptions, apply};
use rustorch_tensor::distributions::{
    Bernoulli, Beta, Binomial, Categorical, Dirichlet, Distribution, Exponential, Gamma, KlDivergence,
    Laplace, LogNormal, MultivariateNormal, Normal, Poisson, Reparametrized, Uniform,
};
use rustorch_tensor::{DType, Generator, Result, Shape, Tensor, TensorSpec, capture};

const DRAWS: usize = 100_000;

fn one(x: f64) -> Tensor {
    Tensor::scalar(x).unwrap().to_dtype(DType::F64).unwrap()
}

fn row(xs: &[f64]) -> Tensor {
    Tensor::from_slice(xs, xs.len()).unwrap()
}

fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).unwrap()
}

/// So many draws of each, with a generator of its own.
fn draws(distribution: &dyn Distribution, seed: u64) -> Tensor {
    distribution.draw(&shape(&[DRAWS]), &Generator::new(seed)).unwrap()
}

fn numbers(x: &Tensor) -> Vec<f64> {
    x.to_dtype(DType::F64).unwrap().to_vec().unwrap()
}

/// One of each kind, in a dtype.
fn all(dtype: DType) -> Result<Vec<(&'static str, Box<dyn Distribution>)>> {
    let t = |xs: &[f64]| row(xs).to_dtype(dtype).unwrap();
    let m = |xs: &[f64]| t(xs).reshape([2, 2]).unwrap();
    Ok(vec![
        ("Normal", Box::new(Normal::new(&t(&[0.5, -3.0]), &t(&[1.0, 0.1]))?)),
        ("LogNormal", Box::new(LogNormal::new(&t(&[0.5, -1.0]), &t(&[0.5, 0.1]))?)),
        ("Laplace", Box::new(Laplace::new(&t(&[0.5, -1.0]), &t(&[0.5, 3.0]))?)),
        ("Uniform", Box::new(Uniform::new(&t(&[0.5, -1.0]), &t(&[0.75, 3.0]))?)),
        ("Exponential", Box::new(Exponential::new(&t(&[0.5, 4.0]))?)),
        (
            "Gamma",
            Box::new(Gamma::new(&t(&[0.2, 0.7, 1.0, 5.0, 300.0, 2e5]), &t(&[0.5, 1.0, 3.0, 2.0, 1.0, 1e5]))?),
        ),
        ("Beta", Box::new(Beta::new(&t(&[0.3, 2.0, 40.0]), &t(&[0.4, 3.0, 0.9]))?)),
        ("Dirichlet", Box::new(Dirichlet::new(&t(&[0.3, 2.0, 1.0, 7.0]).reshape([2, 2])?)?)),
        ("Bernoulli", Box::new(Bernoulli::new(&t(&[0.1, 0.75]))?)),
        ("Bernoulli by logits", Box::new(Bernoulli::from_logits(&t(&[-1.0, 3.0]))?)),
        ("Binomial", Box::new(Binomial::new(&t(&[20.0, 1e3, 1e3, 60.0]), &t(&[0.3, 2e-3, 0.4, 0.9]))?)),
        ("Poisson", Box::new(Poisson::new(&t(&[0.3, 9.99, 10.0, 1e3, 1e6]))?)),
        (
            "MultivariateNormal",
            Box::new(MultivariateNormal::new(&t(&[1.0, -2.0]), &m(&[2.0, 0.5, 0.5, 1.0]))?),
        ),
        (
            "a batch of MultivariateNormal",
            Box::new(MultivariateNormal::new(
                &t(&[1.0, -2.0]),
                &Tensor::stack(&[&m(&[2.0, 0.5, 0.5, 1.0]), &m(&[0.1, 0.0, 0.0, 3.0])], 0)?,
            )?),
        ),
    ])
}

#[test]
fn moments_are_within_four_standard_errors() {
    for dtype in [DType::F64, DType::F32] {
        for (name, distribution) in all(dtype).unwrap() {
            let x = draws(&*distribution, 11).to_dtype(DType::F64).unwrap();
            let (mean, variance) = (distribution.mean().unwrap(), distribution.variance().unwrap());
            let [mean, variance] = [mean, variance].map(|x| x.to_dtype(DType::F64).unwrap());
            let n = DRAWS as f64;
            let off = x.mean(0, false).unwrap().sub(&mean).unwrap().abs().unwrap();
            let allowed = variance.div(n).unwrap().sqrt().unwrap().mul(4).unwrap();
            for (off, allowed) in numbers(&off).into_iter().zip(numbers(&allowed)) {
                assert!(off <= allowed, "{name} {dtype}: the mean is off by {off}, {allowed} is allowed");
            }
            let square = x.sub(&mean).unwrap().square().unwrap();
            let off = square.mean(0, false).unwrap().sub(&variance).unwrap().abs().unwrap();
            let allowed = square.var(0, 1.0, false).unwrap().div(n).unwrap().sqrt().unwrap().mul(4).unwrap();
            for (off, allowed) in numbers(&off).into_iter().zip(numbers(&allowed)) {
                assert!(off <= allowed, "{name} {dtype}: the variance is off by {off}, {allowed} is allowed");
            }
        }
    }
}

/// Kolmogorov and Smirnov's test, at a level of 0.1 %.
fn expect_fit(what: &str, mut x: Vec<f64>, cdf: impl Fn(f64) -> f64) {
    x.sort_by(f64::total_cmp);
    let n = x.len() as f64;
    let distance = x.iter().enumerate().fold(0.0f64, |most, (i, &x)| {
        let p = cdf(x);
        most.max((p - i as f64 / n).abs()).max(((i + 1) as f64 / n - p).abs())
    });
    assert!(distance < 1.95 / n.sqrt(), "{what}: {distance}");
}

fn normal_cdf(z: f64) -> f64 {
    one(z / 2f64.sqrt()).erf().unwrap().item().unwrap().to_f64().mul_add(0.5, 0.5)
}

#[test]
fn draws_follow_the_distribution_function() {
    let x = |distribution: &dyn Distribution, seed| numbers(&draws(distribution, seed));
    expect_fit("normal", x(&Normal::new(&one(1.0), &one(2.0)).unwrap(), 1)[..20_000].to_vec(), |x| {
        normal_cdf((x - 1.0) / 2.0)
    });
    expect_fit("laplace", x(&Laplace::new(&one(1.0), &one(2.0)).unwrap(), 2), |x| {
        let tail = 0.5 * (-(x - 1.0).abs() / 2.0).exp();
        if x < 1.0 { tail } else { 1.0 - tail }
    });
    expect_fit("exponential", x(&Exponential::new(&one(3.0)).unwrap(), 3), |x| 1.0 - (-3.0 * x).exp());
    for (seed, terms) in [(4, 1), (5, 2), (6, 9)] {
        expect_fit(
            "gamma of an integer",
            x(&Gamma::new(&one(terms.into()), &one(1.0)).unwrap(), seed),
            |x| {
                let (mut sum, mut term) = (0.0, 1.0);
                for k in 1..=terms {
                    sum += term;
                    term *= x / f64::from(k);
                }
                1.0 - (-x).exp() * sum
            },
        );
    }
    let half = x(&Gamma::new(&one(0.5), &one(1.0)).unwrap(), 7);
    expect_fit("gamma of a half", half[..20_000].to_vec(), |x| 2.0 * normal_cdf((2.0 * x).sqrt()) - 1.0);
    // Of small concentrations, by their logarithms: P(a, x) = xᵃ / Γ(a + 1) where x is small.
    let a = 1e-3;
    let logs = Generator::new(8).log_gamma(&one(a).broadcast_to([DRAWS]).unwrap()).unwrap();
    let scale = one(a + 1.0).lgamma().unwrap().item().unwrap().to_f64();
    let small: Vec<f64> = numbers(&logs).into_iter().filter(|&log| log < -30.0).collect();
    let share = (-30.0 * a - scale).exp();
    assert!((small.len() as f64 / DRAWS as f64 - share).abs() < 4.0 * (share / DRAWS as f64).sqrt());
    expect_fit("gamma of 0.001", small, |log| (a * log - scale).exp() / share);
    expect_fit("beta", x(&Beta::new(&one(2.0), &one(3.0)).unwrap(), 9), |x| {
        x * x * (6.0 - 8.0 * x + 3.0 * x * x)
    });
    expect_fit("beta of small ones", x(&Beta::new(&one(0.25), &one(1.0)).unwrap(), 10), |x| x.powf(0.25));
    // A part of a Dirichlet vector is a beta draw.
    let parts = draws(&Dirichlet::new(&row(&[2.0, 1.0, 2.0])).unwrap(), 11).select(-1, 0).unwrap();
    expect_fit("dirichlet", numbers(&parts), |x| x * x * (6.0 - 8.0 * x + 3.0 * x * x));
}

/// Pearson's test: values of χ² beyond five standard deviations are refused.
fn expect_counts(what: &str, observed: &[usize], probabilities: &[f64]) {
    let total: usize = observed.iter().sum();
    let (mut chi, mut cells, mut rest, mut rest_seen) = (0.0, 0usize, 0.0, 0);
    for (&seen, &p) in observed.iter().zip(probabilities) {
        let expected = p * total as f64;
        if expected < 10.0 {
            (rest, rest_seen) = (rest + expected, rest_seen + seen);
        } else {
            chi += (seen as f64 - expected).powi(2) / expected;
            cells += 1;
        }
    }
    if rest > 5.0 {
        chi += (rest_seen as f64 - rest).powi(2) / rest;
        cells += 1;
    } else {
        assert!(rest_seen < 30, "{what}: {rest_seen} draws where {rest} are expected");
    }
    let freedom = cells as f64 - 1.0;
    assert!(chi < freedom + 5.0 * (2.0 * freedom).sqrt() + 5.0, "{what}: χ² = {chi} of {freedom}");
}

#[test]
fn counts_have_the_probabilities_of_log_prob() {
    let check = |what: &str, distribution: &dyn Distribution, most: usize| {
        let mut observed = vec![0; most + 1];
        for x in numbers(&draws(distribution, 21)) {
            assert!(x >= 0.0 && x == x.floor());
            observed[(x as usize).min(most)] += 1;
        }
        let values = Tensor::arange(0, most as i64, 1).unwrap();
        let mut p = numbers(&distribution.log_prob(&values).unwrap().exp().unwrap());
        p.push(1.0 - p.iter().sum::<f64>());
        expect_counts(what, &observed, &p);
    };
    for rate in [0.1, 3.0, 9.99, 10.0, 11.0, 70.0] {
        check(&format!("Poisson({rate})"), &Poisson::new(&one(rate)).unwrap(), (rate * 4.0 + 10.0) as usize);
    }
    for (n, p) in [(20, 0.3), (20, 0.7), (1000, 0.004), (1000, 0.02), (100, 0.4), (100, 0.95), (7, 0.5)] {
        let binomial = Binomial::new(&one(n.into()), &one(p)).unwrap();
        check(&format!("Binomial({n}, {p})"), &binomial, n as usize);
    }
    check("Bernoulli", &Bernoulli::new(&one(0.3)).unwrap(), 1);
}

#[test]
fn categories_are_drawn_by_their_weights() -> Result<()> {
    let weights = row(&[1.0, 0.0, 3.0, 0.5, 0.0, 5.5, 0.0]);
    let p: Vec<f64> = numbers(&weights.div(10)?);
    for dtype in [DType::F64, DType::F32, DType::F16] {
        let drawn = Generator::new(31).multinomial(&weights.to_dtype(dtype)?, DRAWS, true)?;
        expect_counts(
            "multinomial",
            &numbers(&drawn.bincount(None, 7)?).iter().map(|&n| n as usize).collect::<Vec<_>>(),
            &p,
        );
    }
    // Batches: [draws, rows].
    let categorical = Categorical::new(&Tensor::stack(&[&weights, &weights.flip([0])?], 0)?)?;
    let drawn = categorical.draw(&shape(&[DRAWS / 10, 10]), &Generator::new(32))?;
    assert_eq!((drawn.dims(), drawn.dtype()), (&[DRAWS / 10, 10, 2][..], DType::I64));
    for (i, p) in [(0, p.clone()), (1, p.iter().rev().copied().collect())] {
        let counts = drawn.select(-1, i)?.flatten(0, -1)?.bincount(None, 7)?.to_vec::<i64>()?;
        expect_counts("Categorical", &counts.iter().map(|&n| n as usize).collect::<Vec<_>>(), &p);
    }
    // Without replacement, a pair has the probability of one, times that of the other among the rest.
    let rows = weights.broadcast_to([DRAWS, 7])?;
    let pairs = Generator::new(33).multinomial(&rows, 2, false)?.to_vec2::<i64>()?;
    let (mut observed, mut expected) = (vec![0; 49], vec![0.0; 49]);
    pairs.iter().for_each(|pair| observed[(pair[0] * 7 + pair[1]) as usize] += 1);
    for i in 0..7 {
        for j in (0..7).filter(|&j| j != i) {
            expected[i * 7 + j] = p[i] * p[j] / (1.0 - p[i]);
        }
    }
    expect_counts("multinomial without replacement", &observed, &expected);
    // Every category that has a weight, once.
    for row in Generator::new(34).multinomial(&rows.narrow(0, 0, 50)?, 4, false)?.to_vec2::<i64>()? {
        let mut row = row;
        row.sort_unstable();
        assert_eq!(row, [0, 2, 3, 5]);
    }
    // Extreme weights neither overflow nor hide a category of weight 0.
    let extreme = row(&[0.0, f64::MAX, 0.0, f64::MAX, 5e-324]);
    let drawn = Generator::new(35).multinomial(&extreme, 1000, true)?.to_vec::<i64>()?;
    assert!(drawn.contains(&1) && drawn.contains(&3) && drawn.iter().all(|i| [1, 3].contains(i)));
    let mut drawn = Generator::new(36).multinomial(&extreme, 3, false)?.to_vec::<i64>()?;
    assert_eq!(drawn[2], 4);
    drawn.sort_unstable();
    assert_eq!(drawn, [1, 3, 4]);
    let error = Tensor::new([1.0f32, 0.0, 0.0])?.multinomial(2, false).unwrap_err().to_string();
    assert!(
        error.contains("multinomial: the number of a row's positive weights must be 2 or more"),
        "{error}"
    );
    Ok(())
}

#[test]
fn same_seeds_give_the_same_bits_on_any_number_of_threads() {
    let compute = |threads: usize| {
        HybridExecutor::builder().threads(threads).build().unwrap().scope(|| {
            let mut bytes = Vec::new();
            for dtype in [DType::F32, DType::F64] {
                for (_, distribution) in all(dtype).unwrap() {
                    let x = distribution.draw(&shape(&[3001]), &Generator::new(5)).unwrap();
                    bytes.push(x.to_bytes().unwrap());
                }
            }
            let weights = Generator::new(1).rand([500, 40], DType::F32).unwrap();
            for replacement in [true, false] {
                bytes.push(
                    Generator::new(2).multinomial(&weights, 20, replacement).unwrap().to_bytes().unwrap(),
                );
            }
            bytes
        })
    };
    let first = compute(1);
    assert!(first == compute(2) && first == compute(3));
}

#[test]
fn an_element_depends_on_its_place_and_not_on_its_neighbours() -> Result<()> {
    let rates = Generator::new(1).uniform(0.01, 50.0, [1000], DType::F64)?;
    let all = Generator::new(3).poisson(&rates)?;
    let some = Generator::new(3).poisson(&rates.narrow(0, 0, 7)?)?;
    assert_eq!(all.narrow(0, 0, 7)?.to_vec::<f64>()?, some.to_vec::<f64>()?);
    let others = rates.slice_scatter(&Tensor::zeros([500], DType::F64)?, 0, 0.., 2)?;
    let gammas = |concentration: &Tensor| Generator::new(3).log_gamma(&concentration.add(1)?);
    let [a, b] =
        [gammas(&rates)?, gammas(&others)?].map(|x| x.slice(0, 1.., 2).unwrap().to_vec::<f64>().unwrap());
    assert_eq!(a, b);
    // The next call has other numbers, and strides do not matter.
    let generator = Generator::new(3);
    assert_eq!(generator.poisson(&rates)?.to_vec::<f64>()?, all.to_vec::<f64>()?);
    assert_ne!(generator.poisson(&rates)?.to_vec::<f64>()?, all.to_vec::<f64>()?);
    let turned = rates.reshape([20, 50])?.t()?;
    let packed = turned.copy()?;
    assert_eq!(
        Generator::new(4).poisson(&turned)?.to_vec::<f64>()?,
        Generator::new(4).poisson(&packed)?.to_vec::<f64>()?
    );
    Ok(())
}

#[test]
fn small_concentrations_give_no_nan() -> Result<()> {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for concentration in [1e-3, 1e-2, 1.0] {
            let a = Tensor::full([64, 4], concentration, dtype)?;
            let generator = Generator::new(9);
            for x in [
                Beta::new(&a, &a)?.draw(&Shape::scalar(), &generator)?,
                Dirichlet::new(&a)?.draw(&Shape::scalar(), &generator)?,
            ] {
                assert!(numbers(&x).iter().all(|x| (0.0..=1.0).contains(x)), "{dtype} {concentration}: {x}");
            }
            let x = Gamma::new(&a, 1.0)?.draw(&Shape::scalar(), &generator)?;
            assert!(numbers(&x).iter().all(|&x| x > 0.0 && x.is_finite()), "{dtype} {concentration}: {x}");
        }
    }
    Ok(())
}

#[test]
fn gamma_draws_have_the_implicit_derivative() {
    for line in fixture("log_gamma_grad.jsonl") {
        let case = Case::new(&line);
        let inputs: Vec<&Tensor> = case.inputs.iter().collect();
        let got = apply(&Op::LogGammaGrad(LogGammaGrad), &inputs).unwrap().remove(0);
        for (i, (got, want)) in numbers(&got).into_iter().zip(numbers(&case.outputs[0])).enumerate() {
            let at = || (numbers(inputs[0])[i], numbers(inputs[1])[i]);
            assert!((got - want).abs() <= 1e-9 * want.abs(), "{got}, mpmath gives {want} at {:?}", at());
        }
        let narrow: Vec<Tensor> = inputs.iter().map(|x| x.to_dtype(DType::F32).unwrap()).collect();
        let got = apply(&Op::LogGammaGrad(LogGammaGrad), &[&narrow[0], &narrow[1]]).unwrap().remove(0);
        let wide: Vec<Tensor> = narrow.iter().map(|x| x.to_dtype(DType::F64).unwrap()).collect();
        let want = apply(&Op::LogGammaGrad(LogGammaGrad), &[&wide[0], &wide[1]]).unwrap().remove(0);
        compare(&got, &want.to_dtype(DType::F32).unwrap(), true).unwrap();
    }
}

/// The gradient of the mean over many draws is that of the expectation, within four standard errors.
#[test]
fn gradients_of_draws_are_those_of_expectations() -> Result<()> {
    let expect = |what: &str,
                  parameter: &Tensor,
                  draw: &dyn Fn() -> Result<Tensor>,
                  wants: &[f64]|
     -> Result<()> {
        // A copy of the parameter for each draw, so that each has its own derivative.
        let x = draw()?;
        let grad = {
            x.sum_all()?.backward()?;
            parameter.grad().unwrap()
        };
        let n = grad.dims()[0] as f64;
        let mean = numbers(&grad.mean(0, false)?);
        let error = numbers(&grad.var(0, 1.0, false)?.div(n)?.sqrt()?);
        for ((mean, error), want) in mean.iter().zip(error).zip(wants) {
            assert!((mean - want).abs() <= 4.0 * error + 1e-12, "{what}: {mean} ± {error}, {want} expected");
        }
        Ok(())
    };
    let leaf = |values: &[f64]| -> Result<Tensor> {
        let x = row(values).broadcast_to([DRAWS / 4, values.len()])?.copy()?;
        x.requires_grad_(true)?;
        Ok(x)
    };
    let generator = Generator::new(77);
    let none = Shape::scalar();
    let a = leaf(&[0.05, 0.6, 1.0, 4.0, 50.0, 2e4])?;
    expect("gamma", &a, &|| Gamma::new(&a, 1.0)?.rdraw(&none, &generator), &[1.0; 6])?;
    let a = leaf(&[0.05, 0.6, 1.0, 4.0, 50.0])?;
    let trigamma = numbers(&row(&[0.05, 0.6, 1.0, 4.0, 50.0]).trigamma()?);
    expect("the logarithm of gamma", &a, &|| generator.log_gamma(&a), &trigamma)?;
    let rate = leaf(&[0.5, 2.0])?;
    expect(
        "the rate of gamma",
        &rate,
        &|| Gamma::new(3.0, &rate)?.rdraw(&none, &generator),
        &[-12.0, -0.75],
    )?;
    let rates = leaf(&[0.5, 2.0])?;
    expect("exponential", &rates, &|| Exponential::new(&rates)?.rdraw(&none, &generator), &[-4.0, -0.25])?;
    let a = leaf(&[0.5, 2.0, 9.0])?;
    let want = [0.5, 2.0, 9.0].map(|a: f64| 1.5 / (a + 1.5).powi(2));
    expect("beta", &a, &|| Beta::new(&a, 1.5)?.rdraw(&none, &generator), &want)?;
    // Of the first part of the vector: (total − a₀) / total², −a₀ / total², ..
    let a = leaf(&[0.5, 2.0, 1.5])?;
    let first = || Dirichlet::new(&a)?.rdraw(&none, &generator)?.narrow(-1, 0, 1);
    expect("dirichlet", &a, &first, &[3.5 / 16.0, -0.5 / 16.0, -0.5 / 16.0])?;
    let loc = leaf(&[0.5])?;
    expect("normal", &loc, &|| Normal::new(&loc, 2.0)?.rdraw(&none, &generator)?.square(), &[1.0])?;
    let scale = leaf(&[0.5])?;
    expect("laplace", &scale, &|| Laplace::new(0.0, &scale)?.rdraw(&none, &generator)?.square(), &[2.0])?;
    let high = leaf(&[2.5])?;
    expect("uniform", &high, &|| Uniform::new(0.5, &high)?.rdraw(&none, &generator), &[0.5])?;
    Ok(())
}

#[test]
fn shapes_are_sample_batch_and_event() -> Result<()> {
    let batch = Normal::new(&Tensor::zeros([3, 1], DType::F32)?, &Tensor::ones([2], DType::F32)?)?;
    assert_eq!((batch.batch_shape().dims(), batch.event_shape().dims()), (&[3, 2][..], &[][..]));
    assert_eq!(batch.sample([4, 5])?.dims(), [4, 5, 3, 2]);
    assert_eq!(batch.rsample(())?.dims(), [3, 2]);
    assert_eq!(batch.log_prob(&Tensor::zeros([2], DType::F32)?)?.dims(), [3, 2]);
    let vectors = Dirichlet::new(&Tensor::ones([3, 4], DType::F32)?)?;
    assert_eq!((vectors.batch_shape().dims(), vectors.event_shape().dims()), (&[3][..], &[4][..]));
    assert_eq!(vectors.sample([5])?.dims(), [5, 3, 4]);
    assert_eq!(vectors.entropy()?.dims(), [3]);
    let normal =
        MultivariateNormal::new(&Tensor::zeros([3, 1, 2], DType::F32)?, &Tensor::eye(2, 2, DType::F32)?)?;
    assert_eq!((normal.batch_shape().dims(), normal.event_shape().dims()), (&[3, 1][..], &[2][..]));
    assert_eq!(normal.sample([5])?.dims(), [5, 3, 1, 2]);
    assert_eq!(normal.log_prob(&Tensor::zeros([7, 2], DType::F32)?)?.dims(), [3, 7]);
    for empty in [shape(&[0]), shape(&[2, 0])] {
        for (name, distribution) in all(DType::F32)? {
            let x = distribution.draw(&empty, &Generator::new(1))?;
            assert_eq!(x.numel(), 0, "{name}");
        }
        let categorical = Categorical::new(&Tensor::ones([3, 4], DType::F32)?)?;
        assert_eq!(categorical.sample(&empty)?.dims(), [empty.dims(), &[3]].concat());
    }
    // Scalars alone have the default dtype; beside tensors they have theirs.
    assert_eq!(Normal::new(0.0, 1.0)?.sample(3)?.dtype(), DType::F32);
    assert_eq!(Normal::new(&one(0.0), 1.0)?.sample(3)?.dtype(), DType::F64);
    // A sample has no gradient, and leaves no history.
    let loc = one(0.5);
    loc.requires_grad_(true)?;
    assert!(!Normal::new(&loc, 1.0)?.sample(())?.requires_grad());
    assert!(Normal::new(&loc, 1.0)?.rsample(())?.requires_grad());
    assert!(!Bernoulli::new(&loc)?.sample(())?.requires_grad());
    assert!(!Poisson::new(&loc)?.sample(())?.requires_grad());
    assert!(!Categorical::new(&loc.unsqueeze(0)?)?.sample(())?.requires_grad());
    Ok(())
}

fn grad_of_grad(y: &Tensor, x: &Tensor) -> Result<()> {
    let options = BackwardOptions { create_graph: true, ..Default::default() };
    y.backward_with(None, &options)?;
    x.grad().unwrap().backward()
}

#[test]
fn errors_name_the_argument_the_value_and_its_place() -> Result<()> {
    let scale = Tensor::new([[1.0f32, 2.0], [3.0, -4.0]])?;
    let error = Normal::new(0.0, &scale).unwrap_err().to_string();
    assert_eq!(error, "Normal: scale must be positive, and is -4 at [1, 1]");
    let error = Gamma::new(-1.0, 1.0).unwrap_err().to_string();
    assert_eq!(error, "Gamma: concentration must be positive, and is -1");
    let error = Bernoulli::new(0.5)?.log_prob(&one(0.5)).unwrap_err().to_string();
    assert_eq!(error, "Bernoulli::log_prob: value must be 0 or 1, and is 0.5");
    let loc = Tensor::zeros([2], DType::F32)?;
    let error = MultivariateNormal::new(&loc, &Tensor::eye(3, 3, DType::F32)?).unwrap_err().to_string();
    assert!(error.contains("loc must be [.., k] and covariance [.., k, k]"), "{error}");
    let upper = Tensor::new([[1.0f32, 1.0], [0.0, 1.0]])?;
    let error = MultivariateNormal::from_scale_tril(&loc, &upper).unwrap_err().to_string();
    assert!(error.contains("scale_tril must be lower triangular, and is 1 at [0, 1]"), "{error}");
    let error = MultivariateNormal::new(&loc, &upper).unwrap_err().to_string();
    assert!(error.contains("covariance must be symmetric"), "{error}");
    let (two, three) = (Dirichlet::new(&loc.add(1)?)?, Dirichlet::new(&Tensor::ones([3], DType::F32)?)?);
    assert!(two.kl_divergence(&three).unwrap_err().to_string().contains("one event shape"));
    // Twice differentiated, draws of a gamma distribution are refused.
    let a = one(2.0);
    a.requires_grad_(true)?;
    let draw = Generator::new(1).log_gamma(&a)?;
    let error = grad_of_grad(&draw, &a).unwrap_err().to_string();
    assert!(error.contains("log_gamma_grad") && error.contains("no gradient of its own"), "{error}");
    Ok(())
}

#[test]
fn captured_draws_are_fresh_in_each_run_and_checked() -> Result<()> {
    let program = capture(&[TensorSpec::new([64], DType::F64)?], |x| {
        let gamma = Gamma::new(&x[0], 1.0)?;
        let draws = gamma.sample(())?;
        Ok(vec![
            gamma.log_prob(&draws)?,
            draws,
            Poisson::new(&x[0])?.sample(())?,
            x[0].multinomial(3, false)?,
        ])
    })?;
    let x = Tensor::full([64], 2.5, DType::F64)?;
    let (first, second) = (program.run(&[&x])?, program.run(&[&x])?);
    assert!(numbers(&first[1]).iter().all(|&x| x > 0.0));
    for (a, b) in first.iter().zip(&second) {
        assert_ne!(numbers(a), numbers(b));
    }
    let error = program.run(&[&x.neg()?]).unwrap_err().to_string();
    assert!(error.contains("Gamma: concentration must be positive"), "{error}");
    Ok(())
}
