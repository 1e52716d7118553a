//! Fused expressions give what the same operations give one after another: dtype, shape, bits, and errors.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use rustorch_core::dispatch_dtype;
use rustorch_tensor::{DType, Element, Fused, QuantType, Result, Scalar, Tensor, bf16, f16, fuse};

/// An expression, fused and not.
pub(crate) struct Both {
    pub(crate) name: &'static str,
    pub(crate) fused: Fused,
    pub(crate) steps: fn(&Tensor, &Tensor) -> Result<Tensor>,
}

macro_rules! both {
    ($([$a:ident, $b:ident] $fused:expr, $steps:expr;)*) => {
        vec![$(Both {
            name: stringify!($fused),
            fused: fuse(|[$a, $b]| $fused).unwrap(),
            steps: |$a, $b| $steps,
        }),*]
    };
}

pub(crate) fn expressions() -> Vec<Both> {
    both! {
        [a, b] ((a * b + a) * 0.5 - b).tanh(), a.mul(b)?.add(a)?.mul(0.5)?.sub(b)?.tanh();
        [a, b] a + b * 3, a.add(&b.mul(3)?);
        [a, b] (a / b).floor(), a.div(b)?.floor();
        [a, b] -(a - 0.1) * b.exp(), a.sub(0.1)?.neg()?.mul(&b.exp()?);
        [a, b] a.gt(b).where_cond(a, b * 2), a.gt(b)?.where_cond(a, &b.mul(2)?);
        [a, b] a.lt(0.1).where_cond(1.5, 0).add(b), a.lt(0.1)?.where_cond(1.5, 0)?.add(b);
        [a, b] a.clamp(-1, 1.5).maximum(b.clamp_min(0)), a.clamp(-1, 1.5)?.maximum(&b.clamp_min(0)?);
        [a, b] a.round().pow(2) + b.trunc().sign(), a.round()?.pow(2)?.add(&b.trunc()?.sign()?);
        [a, b] a.to_dtype(DType::F16).add(b).to_dtype(DType::I32), a.to_dtype(DType::F16)?.add(b)?.to_dtype(DType::I32);
        [a, b] a.logical_and(b).logical_xor(a.isnan()), a.logical_and(b)?.logical_xor(&a.isnan()?);
        [a, b] a.masked_fill(b.eq(1), 7).abs(), a.masked_fill(&b.eq(1)?, 7)?.abs();
        [a, b] a.lerp(b, 0.25), a.lerp(b, 0.25);
        [a, b] a.rsub(1).atan2(b.rdiv(2)), a.rsub(1)?.atan2(&b.rdiv(2)?);
        [a, b] !(a.bitwise_and(b)).bitwise_xor(5), a.bitwise_and(b)?.bitwise_xor(5)?.bitwise_not();
        [a, b] a.floor_divide(3).remainder(5) - b, a.floor_divide(3)?.remainder(5)?.sub(b);
        [a, b] a.swiglu(b).gelu(), a.swiglu(b)?.gelu();
        [a, b] a.conj() * b.abs().sqrt() - a.square(), a.conj()?.mul(&b.abs()?.sqrt()?)?.sub(&a.square()?);
    }
}

/// A tensor of small numbers of a dtype.
pub(crate) fn numbers(dims: &[usize], dtype: DType, start: f64) -> Tensor {
    let n: usize = dims.iter().product();
    let values: Vec<f64> = (0..n).map(|i| start + 0.75 * i as f64).collect();
    Tensor::from_slice(&values, dims).unwrap().to_dtype(dtype).unwrap()
}

fn bytes(x: &Tensor) -> Vec<u8> {
    fn of<T: Element>(x: &Tensor) -> Vec<u8> {
        let values = x.to_vec::<T>().unwrap();
        // SAFETY: elements are plain numbers without padding.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(&values[..])) }.to_vec()
    }
    dispatch_dtype!(x.dtype(), all, T => of::<T>(x), _ => unreachable!())
}

fn compare(both: &Both, a: &Tensor, b: &Tensor) -> bool {
    let what = format!("{} of {}{} and {}{}", both.name, a.dtype(), a.shape(), b.dtype(), b.shape());
    match (both.fused.apply(&[a, b]), (both.steps)(a, b)) {
        (Ok(got), Ok(want)) => {
            assert_eq!((got.dtype(), got.dims()), (want.dtype(), want.dims()), "{what}");
            assert!(bytes(&got) == bytes(&want), "{what}: {got}, not {want}");
            true
        }
        (Err(got), Err(want)) => {
            assert_eq!(got.to_string(), want.to_string(), "{what}");
            false
        }
        (got, want) => panic!("{what}: {got:?}, not {want:?}"),
    }
}

#[test]
fn every_pair_of_dtypes_promotes_as_separate_operations_do() {
    let (mut agreed, mut refused) = (0, 0);
    for both in expressions() {
        for &left in DType::DENSE {
            for &right in DType::DENSE {
                for (a, b) in [(&[2usize, 1][..], &[3usize][..]), (&[3], &[]), (&[], &[4]), (&[], &[])] {
                    let (a, b) = (numbers(a, left, -1.0), numbers(b, right, 1.25));
                    *(if compare(&both, &a, &b) { &mut agreed } else { &mut refused }) += 1;
                }
            }
        }
    }
    println!("{agreed} agree, {refused} are refused alike");
    assert!(agreed > 6000 && refused > 500);
}

#[test]
fn every_layout_gives_the_same_bits() {
    let wide = numbers(&[40, 75], DType::F32, -3.0).sin().unwrap();
    let layouts = [
        wide.clone(),
        wide.t().unwrap().contiguous().unwrap().t().unwrap(),
        numbers(&[40, 150], DType::F32, 0.5).cos().unwrap().narrow(1, 3, 75).unwrap(),
        numbers(&[40, 1], DType::F32, 0.5).expand([40, 75]).unwrap(),
        numbers(&[75], DType::F32, 0.5),
        numbers(&[0, 1, 75], DType::F32, 0.5),
    ];
    for both in expressions() {
        for a in &layouts {
            for b in &layouts {
                compare(&both, a, b);
            }
        }
    }
}

#[test]
fn numbers_are_not_rounded_to_16_bits_before_use() {
    let f = fuse(|[x]| x * 0.001).unwrap();
    let x = Tensor::new([bf16::from_f32(1000.0)]).unwrap();
    assert_eq!(f.apply(&[&x]).unwrap().item().unwrap(), Scalar::Float(1.0));
    assert_eq!(f.fused_pointwise(&[&x]).unwrap().unwrap().to_string(), "bf16(f32(x0) * 0.001)");
    let y = Tensor::new([f16::from_f32(3.0)]).unwrap();
    assert_eq!(f.apply(&[&y]).unwrap().dtype(), DType::F16);
}

#[test]
fn one_expression_serves_many_dtypes_and_threads() {
    static SUM: std::sync::LazyLock<Fused> = std::sync::LazyLock::new(|| fuse(|[a, b]| a + b * a).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for &dtype in DType::DENSE {
                    let x = Tensor::ones([5], dtype).unwrap();
                    let want = x.mul(&x).unwrap().add(&x).unwrap();
                    assert_eq!(bytes(&SUM.apply(&[&x, &x]).unwrap()), bytes(&want));
                }
            });
        }
    });
}

#[test]
fn what_only_returns_its_input_copies_it() {
    let f = fuse(|[x]| x.floor()).unwrap();
    let x = Tensor::new([3i32, 4]).unwrap();
    let y = f.apply(&[&x]).unwrap();
    assert_eq!(y.to_vec::<i32>().unwrap(), [3, 4]);
    assert!(f.fused_pointwise(&[&x]).unwrap().is_none());
    assert_eq!(f.apply(&[&Tensor::new([2.5f32]).unwrap()]).unwrap().to_vec::<f32>().unwrap(), [2.0]);
}

#[test]
fn mistakes_are_named() {
    let says = |result: Result<Tensor>, part: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(part), "`{message}` does not say `{part}`");
    };
    let f = fuse(|[a, b]| (a + b).sqrt()).unwrap();
    let x = Tensor::ones([2, 3], DType::F32).unwrap();
    says(f.apply(&[&x]), "the expression has 2 inputs, 1 were given");
    says(f.apply(&[&x, &x, &x]), "3 were given");
    says(f.apply(&[&x, &Tensor::ones([4], DType::F32).unwrap()]), "[4]");
    let weights = Tensor::ones([32], DType::F32).unwrap().to_dtype(DType::Quant(QuantType::Q8_0)).unwrap();
    says(f.apply(&[&weights, &weights]), "block-quantized");
    let blocks = fuse(|[a]| a.to_dtype(DType::Quant(QuantType::Q8_0))).unwrap();
    says(blocks.apply(&[&x]), "dense dtypes only");
    let shift = fuse(|[a]| a.bitwise_left_shift(1) + 1).unwrap();
    says(shift.apply(&[&x]), "bitwise_left_shift");
    let large = fuse(|[a]| a + 300).unwrap();
    says(large.apply(&[&Tensor::ones([2], DType::U8).unwrap()]), "outside the range of u8");
    let zero = fuse(|[a, b]| a.remainder(b) + 1).unwrap();
    let ones = Tensor::ones([2], DType::I64).unwrap();
    says(zero.apply(&[&ones, &ones.zeros_like().unwrap()]), "divided by zero");
    let long = fuse(|[a]| (0..70).fold(a, |sum, i| sum.exp() + i)).unwrap();
    says(long.apply(&[&x]), "64 steps");
    says(fuse(|[a, _]| a.exp()).and_then(|f| f.apply(&[])), "does not use its input 1");
    says(fuse(|all: [_; 17]| all.into_iter().reduce(|a, b| a + b).unwrap()).and_then(|f| f.apply(&[])), "16");
}
