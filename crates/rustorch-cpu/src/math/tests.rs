//! The precision of functions, against the standard library in `f64`.

use super::{Real, glibc, precise, single};
use crate::simd::{self, Level, Task};

/// A function applied to all numbers at the level of this CPU.
struct Each<'a>(&'a str, &'a [f32], &'a mut [f32]);

macro_rules! each_function {
    ($($name:ident),*) => {
        impl Task for Each<'_> {
            type Output = ();
            #[inline(always)]
            fn run<L: Level>(self, l: L) {
                let Each(name, xs, out) = self;
                match name {
                    $(stringify!($name) => {
                        for (out, &x) in out.iter_mut().zip(xs) {
                            *out = single::$name(l, x);
                        }
                    })*
                    "silu" => {
                        for (out, &x) in out.iter_mut().zip(xs) {
                            *out = Real::silu(x, l);
                        }
                    }
                    "sigmoid" => {
                        for (out, &x) in out.iter_mut().zip(xs) {
                            *out = Real::sigmoid(x, l);
                        }
                    }
                    _ => panic!("no function {name}"),
                }
            }
        }
    };
}

each_function!(
    exp, exp_normal, exp_within, expm1, ln, ln_normal, log2, log10, log1p, sin, cos, tan, asin, acos, atan,
    sinh, cosh, tanh, asinh, acosh, atanh, erf, gelu
);

/// Numbers of every magnitude, both signs, zeros, infinities and NaN.
fn sample() -> Vec<f32> {
    let mut all: Vec<f32> = (0..=u32::MAX).step_by(9_973).map(f32::from_bits).collect();
    all.extend((-40_000..40_000).map(|i| i as f32 * 2.5e-3 + 1e-4));
    // Near to where sines and cosines are zero.
    all.extend((0..4_000).map(|i| (f64::from(i * 159) * std::f64::consts::FRAC_PI_2) as f32));
    all.extend([0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE]);
    all
}

/// The distance in units in the last place of the exact result.
fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got == rounded || got.is_nan() && want.is_nan() {
        return 0.0;
    }
    if got.is_nan() || want.is_nan() {
        return f64::INFINITY;
    }
    if !got.is_finite() || !rounded.is_finite() {
        // Overflow may begin an ulp apart.
        let edge = if got.is_finite() { got } else { rounded };
        return if edge.abs() > 3.402e38 { 1.0 } else { f64::INFINITY };
    }
    let unit = f64::from(rounded.abs().max(f32::MIN_POSITIVE).next_up())
        - f64::from(rounded.abs().max(f32::MIN_POSITIVE));
    (f64::from(got) - want).abs() / unit
}

#[test]
fn exp_normal_is_zero_below_the_normal_range() {
    let xs = [f32::NEG_INFINITY, -1e30, -104.0, -88.5, -88.0];
    let mut ys = [1.0; 5];
    simd::run(Each("exp_normal", &xs, &mut ys));
    assert_eq!(ys, [0.0; 5]);
    let mut ys = [0.0; 3];
    // NaN stays whatever its other bits are.
    simd::run(Each("exp_normal", &[0.0, -0.0, f32::from_bits(0x7F80_0155)], &mut ys));
    assert!(ys[0] == 1.0 && ys[1] == 1.0 && ys[2].is_nan());
}

/// What the C library's own documentation promises, half a unit and a little; subnormal results included.
#[test]
fn exp_of_negative_numbers_is_that_of_the_c_library() {
    for bits in ((-0.0f32).to_bits()..(-104.5f32).to_bits()).step_by(9_973) {
        let x = f32::from_bits(bits);
        let (got, want) = (glibc::exp_of_negative(x), f64::from(x).exp());
        let unit = f64::from(got.next_up()) - f64::from(got);
        assert!((f64::from(got) - want).abs() <= 0.503 * unit, "exp({x:e}) is {got:e}, not {want:e}");
    }
    // Where a sum of rounded products would round the other way.
    assert_eq!(glibc::exp_of_negative(-63.099_46), 3.946_866_7e-28);
    assert_eq!([0.0, -0.0, f32::NEG_INFINITY].map(glibc::exp_of_negative), [1.0, 1.0, 0.0]);
    assert!(glibc::exp_of_negative(f32::NAN).is_nan());
}

/// The C library's are within a unit, too, so that a difference of one is all that this can see.
#[test]
fn exponentials_and_logarithms_of_f64_are_within_a_unit_of_the_c_library_s() {
    let bits = (0..=u64::MAX).step_by(45_000_000_000_017).map(f64::from_bits);
    let near = (-100_000..100_000).map(|i| f64::from(i) * 7.1e-3 + 1e-4);
    let edges = [
        0.0,
        -0.0,
        1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::MIN_POSITIVE,
        5e-324,
        f64::MAX,
        f64::MIN,
        709.782_712_893_384,
        709.782_712_893_384_1,
        -708.4,
        -745.133_219_101_941_1,
        -745.14,
    ];
    let check = |name: &str, x: f64, got: f64, want: f64| {
        let is_near = got == want
            || got.is_nan() && want.is_nan()
            || got.is_sign_negative() == want.is_sign_negative()
                && got.to_bits().abs_diff(want.to_bits()) == 1;
        assert!(is_near, "{name}({x:e}) is {got:e}, not {want:e}");
    };
    let xs: Vec<f64> = bits.chain(near).chain(edges).collect();
    for (name, f) in [("exp", f64::exp as fn(f64) -> f64), ("ln", f64::ln)] {
        for (&x, got) in xs.iter().zip(doubles(name, &xs)) {
            check(name, x, got, f(x));
        }
    }
}

/// A function of `f64` applied to all numbers at the level of this CPU.
fn doubles(name: &str, xs: &[f64]) -> Vec<f64> {
    struct Doubles<'a>(&'a str, &'a [f64], &'a mut [f64]);
    impl Task for Doubles<'_> {
        type Output = ();
        #[inline(always)]
        fn run<L: Level>(self, l: L) {
            let Doubles(name, xs, out) = self;
            for (out, &x) in out.iter_mut().zip(xs) {
                *out = match name {
                    "exp" => precise::exp(l, x),
                    "exp_within" => precise::exp_within(l, x),
                    "ln" => precise::ln(l, x),
                    "ln_normal" => precise::ln_normal(l, x),
                    _ => panic!("no function {name}"),
                };
            }
        }
    }
    let mut out = vec![0.0; xs.len()];
    simd::run(Doubles(name, xs, &mut out));
    out
}

#[test]
fn usual_arguments_of_f64_have_the_same_results() {
    for (any, usual, is_usual) in [
        ("exp", "exp_within", Real::exp_is_normal as fn(f64) -> bool),
        ("ln", "ln_normal", Real::is_positive_normal),
    ] {
        let bits = (0..=u64::MAX).step_by(45_000_000_000_017).map(f64::from_bits);
        let xs: Vec<f64> =
            bits.chain((-8000..8000).map(|i| f64::from(i) * 0.1)).filter(|&x| is_usual(x)).collect();
        assert!(xs.len() > 100_000);
        assert_eq!(doubles(any, &xs), doubles(usual, &xs));
    }
}

/// By mpmath, beside the ends of the range, where powers are below it: the fixture of `logaddexp` has other hard points.
#[test]
fn log_add_exp_of_tiny_numbers() {
    struct Sums<'a>(&'a [f64], &'a [f64], &'a mut [f64]);
    impl Task for Sums<'_> {
        type Output = ();
        #[inline(always)]
        fn run<L: Level>(self, l: L) {
            Real::log_add_exp(l, self.0, self.1, self.2);
        }
    }
    let cases = [
        (0.0, -800.0, 0.0),
        (0.0, -730.0, 9.226_315e-318),
        (0.0, -700.25, 7.678_723_813_110_872e-305),
        (0.0, f64::NEG_INFINITY, 0.0),
        (-1e-310, -713.0, 1.228_611_683_518_14e-310),
        (-1e-310, -713.5, 3.517_213_146_475_3e-311),
        (1e-300, -700.5, 1.000_059_801_961_186_4e-300),
        (1e-310, -740.0, 1.000_000_000_004_2e-310),
        (-1e-290, -650.0, 5.111_951_848_651_156e-283),
        (-1e-300, -690.0, 1.171_738_281_389_827e-300),
        (-1e-281, -720.0, -1e-281),
        (-1e-271, -1000.0, -1e-271),
        (-1e-290, f64::NEG_INFINITY, -1e-290),
        (-5e-324, -744.0, 5e-324),
    ];
    for swapped in [false, true] {
        let column = |f: fn(&(f64, f64, f64)) -> f64| cases.iter().map(f).collect::<Vec<_>>();
        let (a, b) = (column(|case| case.0), column(|case| case.1));
        let (a, b) = if swapped { (b, a) } else { (a, b) };
        let mut out = vec![f64::NAN; cases.len()];
        simd::run(Sums(&a, &b, &mut out));
        for (&(a, b, want), got) in cases.iter().zip(out) {
            let off = (got - want).abs() / (want.abs().next_up() - want.abs());
            assert!(off <= 4.0, "logaddexp({a:e}, {b:e}) is {got:e}, not {want:e}");
        }
    }
}

#[test]
fn usual_arguments_have_the_same_results() {
    for (any, usual, is_usual) in [
        ("exp", "exp_within", Real::exp_is_normal as fn(f32) -> bool),
        ("ln", "ln_normal", Real::is_positive_normal),
    ] {
        let xs: Vec<f32> = sample().into_iter().filter(|&x| is_usual(x)).collect();
        assert!(xs.len() > 100_000);
        let of = |name| {
            let mut out = vec![0.0; xs.len()];
            simd::run(Each(name, &xs, &mut out));
            out
        };
        assert_eq!(of(any), of(usual));
    }
}

#[test]
fn within_two_units_in_the_last_place() {
    let xs = sample();
    let near = |x: f32| x.is_nan() || x.abs() <= super::FAR;
    let all = |_: f32| true;
    type Case = (&'static str, fn(f64) -> f64, fn(f32) -> bool);
    let normal = |x: f32| x.is_nan() || (-87.0..=88.0).contains(&x);
    let cases: [Case; 22] = [
        ("exp", f64::exp, all),
        ("exp_normal", f64::exp, normal),
        ("expm1", f64::exp_m1, all),
        ("ln", f64::ln, all),
        ("log2", f64::log2, all),
        ("log10", f64::log10, all),
        ("log1p", f64::ln_1p, all),
        ("sin", f64::sin, near),
        ("cos", f64::cos, near),
        ("tan", f64::tan, near),
        ("asin", f64::asin, all),
        ("acos", f64::acos, all),
        ("atan", f64::atan, all),
        ("sinh", f64::sinh, all),
        ("cosh", f64::cosh, all),
        ("tanh", f64::tanh, all),
        ("asinh", f64::asinh, all),
        ("acosh", f64::acosh, all),
        ("atanh", f64::atanh, all),
        ("erf", libm::erf, all),
        ("sigmoid", |x| 1.0 / (1.0 + (-x).exp()), all),
        ("silu", |x| x / (1.0 + (-x).exp()), all),
    ];
    let mut out = vec![0.0; xs.len()];
    let mut worse = Vec::new();
    for (name, exact, domain) in cases {
        simd::run(Each(name, &xs, &mut out));
        let worst = xs
            .iter()
            .zip(&out)
            .filter(|(x, _)| domain(**x))
            .map(|(&x, &got)| (ulps(got, exact(x.into())), x, got))
            .fold((0.0, 0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
        println!("{name}: {:.3} at {:e} ({:e})", worst.0, worst.1, worst.2);
        if worst.0 > 2.0 {
            worse.push((name, worst));
        }
        // Branches of complex functions hang on the signs of zeros.
        for (&x, &got) in xs.iter().zip(&out).filter(|(x, _)| **x == 0.0) {
            let want = exact(x.into());
            if want == 0.0 && got.is_sign_negative() != want.is_sign_negative() {
                worse.push((name, (0.0, x, got)));
            }
        }
    }
    assert!(worse.is_empty(), "{worse:?}");
}

/// 1 + erf, which PyTorch multiplies by, has no digits left where it is nearly zero.
#[test]
fn gelu_keeps_its_digits_where_it_is_small() {
    let xs: Vec<f32> = (-60_000..=60_000).map(|i| i as f32 * 1e-4).chain([1e30, f32::INFINITY]).collect();
    let mut out = vec![0.0; xs.len()];
    simd::run(Each("gelu", &xs, &mut out));
    for (&x, &got) in xs.iter().zip(&out) {
        let wide = f64::from(x);
        let want = 0.5 * wide * libm::erfc(-wide * std::f64::consts::FRAC_1_SQRT_2);
        let tolerance = match x {
            ..-5.9 => 2e-8,
            ..-1.0 => 1e-5 * want.abs(),
            _ => 3e-7 * want.abs(),
        };
        assert!(
            (f64::from(got) - want).abs() <= tolerance || f64::from(got) == want,
            "gelu({x}) is {got:e}, not {want:e}"
        );
    }
    let mut ends = [0.0; 4];
    simd::run(Each("gelu", &[-1e30, -0.0, 0.0, f32::NAN], &mut ends));
    assert!(ends[0] == 0.0 && ends[1].is_sign_negative() && ends[2].is_sign_positive() && ends[3].is_nan());
}

/// Where powers leave the range of exponents, or are beside its ends.
#[test]
fn sigmoid_and_silu_far_from_zero() {
    let xs: Vec<f32> = (-15_000..15_000).map(|i| i as f32 * 0.01 + 3e-4).collect();
    type Case = (&'static str, fn(f64) -> f64);
    let cases: [Case; 2] = [("sigmoid", |x| 1.0 / (1.0 + (-x).exp())), ("silu", |x| x / (1.0 + (-x).exp()))];
    for (name, exact) in cases {
        let mut out = vec![f32::NAN; xs.len()];
        simd::run(Each(name, &xs, &mut out));
        for (&x, &got) in xs.iter().zip(&out) {
            let want = exact(x.into());
            assert!(ulps(got, want) <= 2.0, "{name}({x:e}) is {got:e}, not {want:e}");
        }
    }
    let mut ends = [0.0; 5];
    simd::run(Each("silu", &[f32::INFINITY, f32::MAX, 1e30, -1e30, -0.0], &mut ends));
    assert_eq!(ends[..4], [f32::INFINITY, f32::MAX, 1e30, 0.0]);
    assert!(ends[4] == 0.0 && ends[4].is_sign_negative());
}

struct Pairs<'a>(bool, &'a [(f32, f32)], &'a mut [f32]);

impl Task for Pairs<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        for (&(a, b), out) in self.1.iter().zip(self.2) {
            *out = if self.0 { a.pow(l, b) } else { Real::atan2(a, l, b) };
        }
    }
}

#[test]
fn powers_and_angles() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        3.0,
        -3.0,
        0.5,
        -0.5,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-40,
        3e38,
    ];
    let mut pairs: Vec<(f32, f32)> =
        special.iter().flat_map(|&a| special.iter().map(move |&b| (a, b))).collect();
    let mut random = rustorch_core::Philox::new(1);
    for _ in 0..200_000 {
        let mut bits = || f32::from_bits(random.next_u32());
        pairs.push((bits(), bits()));
        let mut small = |scale: f64| ((random.next_f64() - 0.5) * scale) as f32;
        pairs.push((small(100.0).abs(), small(40.0)));
    }
    let mut out = vec![0.0; pairs.len()];
    for power in [true, false] {
        simd::run(Pairs(power, &pairs, &mut out));
        for (&(a, b), &got) in pairs.iter().zip(&out) {
            let (wide_a, wide_b) = (f64::from(a), f64::from(b));
            let want = if power { wide_a.powf(wide_b) } else { wide_a.atan2(wide_b) };
            assert!(ulps(got, want) <= 1.0, "{power} {a:e} {b:e}: {got:e} instead of {want:e}");
            if want == 0.0 {
                assert_eq!(got.is_sign_negative(), want.is_sign_negative(), "{power} {a:e} {b:e}");
            }
        }
    }
}
