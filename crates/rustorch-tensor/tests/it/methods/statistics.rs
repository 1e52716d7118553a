//! Order statistics, histograms, covariances, search, distinct elements, running extrema.

use crate::common::{Case, compare};
use rustorch_tensor::{DType, QuantileInterpolation, Result, Tensor, TensorSpec, capture, is_capturing};

pub(super) fn run(case: &Case, op: &str) -> Result<Vec<Tensor>> {
    let inputs = case.inputs.as_slice();
    let (x, other) = (&inputs[0], inputs.get(1));
    let keepdim = case.flag("keepdim");
    let named = |name: &str| {
        let names = case.attrs["with"].as_array().cloned().unwrap_or_default();
        names.iter().position(|n| n == name).map(|i| &inputs[i + 1])
    };
    let pair = |(a, b): (Tensor, Tensor)| vec![a, b];
    Ok(vec![match op {
        "median" | "mode" => {
            let find = if op == "median" { Tensor::median } else { Tensor::mode };
            let (values, indices) = find(x, case.dim(), keepdim)?;
            if !is_capturing() && x.ndim() > 0 {
                let (at, dim) = (if keepdim { indices } else { indices.unsqueeze(case.dim())? }, case.dim());
                let there = x.detach().gather(dim, &at)?;
                let there = if keepdim { there } else { there.squeeze(dim)? };
                compare(&there, &values.detach(), true).unwrap();
            }
            values
        }
        "median_all" => x.median_all()?,
        "quantile" => {
            let how = match case.attrs["how"].as_str().unwrap() {
                "linear" => QuantileInterpolation::Linear,
                "lower" => QuantileInterpolation::Lower,
                "higher" => QuantileInterpolation::Higher,
                "midpoint" => QuantileInterpolation::Midpoint,
                _ => QuantileInterpolation::Nearest,
            };
            let dim = case.int("dim").map(|dim| dim as isize);
            if let Some(q) = other {
                return Ok(vec![x.quantile(q, dim, keepdim, how)?]);
            }
            match &case.attrs["q"] {
                serde_json::Value::Array(q) => {
                    let q: Vec<f64> = q.iter().map(|q| q.as_f64().unwrap()).collect();
                    let count = q.len();
                    x.quantile(&Tensor::from_vec(q, count)?.to_dtype(x.dtype())?, dim, keepdim, how)?
                }
                _ => {
                    let q = case.float("scalar").or(case.float("q")).unwrap();
                    x.quantile(q, dim, keepdim, how)?
                }
            }
        }
        "unique" => {
            let (values, inverse, counts) = x.unique()?;
            return Ok(vec![values, inverse, counts]);
        }
        "bincount" => x.bincount(other, case.int("minlength").unwrap() as usize)?,
        "histc" => {
            let bound = |key| case.float(key).unwrap();
            x.histc(case.int("bins").unwrap() as usize, bound("min"), bound("max"))?
        }
        "searchsorted" => x.searchsorted(other.unwrap(), case.flag("right"))?,
        "bucketize" => x.bucketize(other.unwrap(), case.flag("right"))?,
        "cummax" => return x.cummax(case.dim()).map(pair),
        "cummin" => return x.cummin(case.dim()).map(pair),
        "logcumsumexp" => x.logcumsumexp(case.dim())?,
        "cov" => x.cov(case.int("correction").unwrap(), named("fweights"), named("aweights"))?,
        "corrcoef" => x.corrcoef()?,
        other => panic!("{other}"),
    }])
}

fn message(result: Result<Tensor>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn what_depends_on_values_is_checked_when_a_program_runs() {
    let spec = TensorSpec::new([3], DType::F64).unwrap();
    let program = capture(&[spec], |args| {
        let half = Tensor::new([0.5f64, 1.0])?;
        Ok(vec![half.quantile(&args[0], None, false, QuantileInterpolation::Linear)?])
    });
    let program = program.unwrap();
    let good = Tensor::new([0.0f64, 0.5, 1.0]).unwrap();
    assert_eq!(program.run(&[&good]).unwrap()[0].to_vec::<f64>().unwrap(), [0.5, 0.75, 1.0]);
    let error = program.run(&[&good.mul(2.0).unwrap()]).unwrap_err().to_string();
    assert!(error.contains("quantile: q must be between 0 and 1"), "{error}");
}

#[test]
fn absurd_sizes_are_errors() {
    let far = Tensor::new([i64::MAX - 1]).unwrap();
    for error in [message(far.bincount(None, 0)), message(far.one_hot(None))] {
        assert!(!error.is_empty());
    }
    let x = Tensor::new([0.5f32]).unwrap();
    assert!(message(x.histc(usize::MAX, 0.0, 1.0)).starts_with("histc: "));
    assert!(message(x.histc(3, 0.0, f64::INFINITY)).starts_with("histc: 0 to inf"));
    let negative = Tensor::new([2i64, -7]).unwrap();
    assert_eq!(message(negative.bincount(None, 0)), "bincount: cannot count -7, which is negative");
}

/// More elements than are counted at once.
#[test]
fn many_elements_are_counted() {
    let x = Tensor::arange(0, 100_000, 1).unwrap().remainder(7).unwrap();
    let counts = x.bincount(None, 8).unwrap().to_vec::<i64>().unwrap();
    assert_eq!(counts, [14286, 14286, 14286, 14286, 14286, 14285, 14285, 0]);
    // 0 to 99 999, of which the last bin has 50 000, too; and what is not counted between them.
    let x = Tensor::arange(0, 100_000, 1).unwrap().to_dtype(DType::F32).unwrap();
    let outside = Tensor::new([f32::NAN, f32::INFINITY, -1.0, f32::NEG_INFINITY]).unwrap();
    let x = Tensor::cat(&[x.narrow(0, 0, 40_000).unwrap(), outside, x.narrow(0, 40_000, 60_000).unwrap()], 0)
        .unwrap();
    let counts = x.histc(5, 0.0, 50_000.0).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(counts, [10_000.0, 10_000.0, 10_000.0, 10_000.0, 10_001.0]);
}

/// Many elements go to tables of each thread, by parts.
#[test]
fn counts_of_many_elements_are_those_of_a_loop() {
    const N: usize = 600_001;
    let number = |i: usize| ((i * 7919 + i * i % 1013) % 20_000) as f64 / 1000.0 - 5.0;
    for bins in [7usize, 1000, 6000] {
        let mut values: Vec<f64> = (0..N).map(number).collect();
        (values[5], values[N - 1], values[N / 2]) = (f64::NAN, f64::INFINITY, f64::NEG_INFINITY);
        let mut want = vec![0.0f64; bins];
        for &x in values.iter().filter(|x| (-4.0..=4.0).contains(*x)) {
            want[(((x + 4.0) * bins as f64 / 8.0) as usize).min(bins - 1)] += 1.0;
        }
        let x = Tensor::from_vec(values, [N]).unwrap();
        assert_eq!(x.histc(bins, -4.0, 4.0).unwrap().to_vec::<f64>().unwrap(), want);
        // Where the elements lie apart, too.
        let pairs = Tensor::stack(&[&x, &x.neg().unwrap()], 1).unwrap();
        let column = pairs.select(1, 0).unwrap();
        assert_eq!(column.histc(bins, -4.0, 4.0).unwrap().to_vec::<f64>().unwrap(), want);
        let mut integers: Vec<i64> = (0..N).map(|i| (i * i % bins) as i64).collect();
        let mut want = vec![0i64; bins];
        integers.iter().for_each(|&i| want[i as usize] += 1);
        let x = Tensor::from_vec(integers.clone(), [N]).unwrap();
        assert_eq!(x.bincount(None, bins).unwrap().to_vec::<i64>().unwrap(), want);
        let halves = Tensor::full([N], 0.5, DType::F64).unwrap();
        let want: Vec<f64> = want.iter().map(|&count| count as f64 * 0.5).collect();
        assert_eq!(x.bincount(Some(&halves), bins).unwrap().to_vec::<f64>().unwrap(), want);
        (integers[N - 1], integers[3]) = (-2, -1);
        let x = Tensor::from_vec(integers.clone(), [N]).unwrap();
        for weights in [None, Some(&halves)] {
            assert_eq!(message(x.bincount(weights, 0)), "bincount: cannot count -2, which is negative");
        }
    }
    let far = Tensor::new([-3i64, i64::MAX - 1]).unwrap();
    assert_eq!(message(far.bincount(None, 0)), "bincount: cannot count -3, which is negative");
}

#[test]
fn nan_is_the_largest_of_a_sequence() {
    let sorted = Tensor::new([1.0f32, 2.0, f32::NAN, f32::NAN]).unwrap();
    let places = sorted.searchsorted(&Tensor::new([1.5f32, 3.0, f32::NAN]).unwrap(), false).unwrap();
    assert_eq!(places.to_vec::<i64>().unwrap(), [1, 2, 4]);
}

#[test]
fn the_gradient_of_a_distinct_element_goes_to_the_first() {
    let x = Tensor::new([2.0f32, 1.0, 2.0]).unwrap();
    x.requires_grad_(true).unwrap();
    x.unique()
        .unwrap()
        .0
        .mul(&Tensor::new([3.0f32, 5.0]).unwrap())
        .unwrap()
        .sum_all()
        .unwrap()
        .backward()
        .unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [5.0, 3.0, 0.0]);
}
