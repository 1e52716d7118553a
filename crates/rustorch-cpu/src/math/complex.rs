//! Functions of complex numbers whose textbook formulas lose digits, overflow or miss the signs of zeros.
//!
//! Arcs are W. Kahan's: "Branch cuts for complex elementary functions, or much ado about nothing's sign bit", in "The State
//! of the Art in Numerical Analysis", 1987. With absolute values of the parts, all sums there are of positive numbers, so
//! that nothing cancels and both parts are right to a few units in the last place, near branch points, too; the quadrant
//! follows from the signs, those of zeros among them. Infinities and NaN are as annex G of C wants them.

use rustorch_core::C128;
use std::f64::consts::{FRAC_PI_2, LN_2};

/// Beside its square 1 is nothing.
const LARGE: f64 = 1e9;
/// Beside 1 its square is nothing.
const SMALL: f64 = 1e-9;

/// Whether both parts are so small, and there are such.
fn small(x: f64, y: f64) -> bool {
    x.max(y) < SMALL && !x.is_nan() && !y.is_nan()
}

/// Whether a part is large, infinite or NaN.
fn far(x: f64, y: f64) -> bool {
    !(x <= LARGE && y <= LARGE)
}

/// With the signs of another number's parts.
fn signed(re: f64, im: f64, like: C128) -> C128 {
    C128::new(re.copysign(like.re), im.copysign(like.im))
}

fn swapped(z: C128) -> C128 {
    C128::new(z.im, z.re)
}

/// The logarithm.
pub(crate) fn ln(z: C128) -> C128 {
    C128::new(ln_size(z.re, z.im), z.im.atan2(z.re))
}

/// log √(x² + y²)
fn ln_size(x: f64, y: f64) -> f64 {
    let (a, b) = (x.abs().max(y.abs()), x.abs().min(y.abs()));
    let size = x.hypot(y);
    if size > 0.5 && size < 2.0 {
        0.5 * beyond_circle(a, b).ln_1p()
    } else if a > 0.0 && a < f64::INFINITY && !(size > 1e-290 && size < 1e300) && !size.is_nan() {
        a.ln() + 0.5 * (b / a).powi(2).ln_1p()
    } else {
        size.ln()
    }
}

/// a² + b² − 1, of which nothing is left near the circle if squares are rounded.
fn beyond_circle(a: f64, b: f64) -> f64 {
    let (a_square, a_lost) = exact_square(a);
    let (b_square, b_lost) = exact_square(b);
    let (sum, first) = exact_sum(a_square, -1.0);
    let (sum, second) = exact_sum(sum, b_square);
    let (sum, third) = exact_sum(sum, a_lost);
    let (sum, fourth) = exact_sum(sum, b_lost);
    sum + (first + second + third + fourth)
}

/// A sum and what rounding it has lost (Knuth).
fn exact_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// A square and what rounding it has lost (Dekker).
fn exact_square(x: f64) -> (f64, f64) {
    let shifted = x * 134_217_729.0;
    let high = shifted - (shifted - x);
    let low = x - high;
    let square = x * x;
    (square, ((high * high - square) + 2.0 * high * low) + low * low)
}

/// The square root.
pub(crate) fn sqrt(z: C128) -> C128 {
    let (x, y) = (z.re.abs(), z.im.abs());
    if y == f64::INFINITY {
        return C128::new(y, z.im);
    }
    let (re, im) = if x == f64::INFINITY { (x, 0.0 * y) } else { slanted_root(x, y) };
    let (re, im) = if z.re.is_sign_negative() { (im, re) } else { (re, im) };
    C128::new(re, im.copysign(z.im))
}

/// The root of x + iy in the first half of the first quadrant, for x, y ≥ 0; mirrored at the diagonal it is that of −x + iy.
fn slanted_root(x: f64, y: f64) -> (f64, f64) {
    if x == 0.0 && y == 0.0 {
        return (0.0, 0.0);
    }
    let size = x.max(y);
    // Powers of two keep sums from overflow and the digits of subnormal numbers.
    let (scale, back) = match size {
        _ if size > 1e300 => (2f64.powi(-4), 4.0),
        _ if size < 1e-290 => (2f64.powi(108), 2f64.powi(-54)),
        _ => (1.0, 1.0),
    };
    let (x, y) = (x * scale, y * scale);
    let large = (0.5 * (x.hypot(y) + x)).sqrt();
    (large * back, y / (large + large) * back)
}

/// √(1 + z) and the conjugate of √(1 − z) for z = x + iy in the first quadrant, where both then are, too.
fn roots(x: f64, y: f64) -> [C128; 2] {
    [sqrt(C128::new(1.0 + x, y)), sqrt(C128::new(1.0 - x, y))]
}

/// The imaginary part of asin, from the roots: the real parts of acosh and of asinh are the same.
fn arc_height([sum, difference]: [C128; 2]) -> f64 {
    libm::asinh(difference.re * sum.im + difference.im * sum.re)
}

/// The same where z is far out.
fn far_height(x: f64, y: f64) -> f64 {
    LN_2 + ln_size(x, y)
}

pub(crate) fn asin(z: C128) -> C128 {
    let (x, y) = (z.re.abs(), z.im.abs());
    if small(x, y) {
        return z;
    }
    if far(x, y) {
        let re = if x == 0.0 && y.is_nan() { 0.0 } else { x.atan2(y) };
        return signed(re, far_height(x, y), z);
    }
    let roots = roots(x, y);
    let [sum, difference] = roots;
    let re = x.atan2(difference.re * sum.re + difference.im * sum.im);
    signed(re, arc_height(roots), z)
}

pub(crate) fn acos(z: C128) -> C128 {
    let (x, y) = (z.re.abs(), z.im.abs());
    let (re, im) = if small(x, y) {
        (FRAC_PI_2 - z.re, y)
    } else if far(x, y) {
        let re = if x == 0.0 && y.is_nan() { FRAC_PI_2 } else { y.atan2(z.re) };
        (re, far_height(x, y))
    } else {
        let roots = roots(x, y);
        let [sum, difference] = roots;
        let re = match z.re.is_sign_negative() {
            false => difference.re.atan2(sum.re),
            true => sum.re.atan2(difference.re),
        };
        (2.0 * re, arc_height(roots))
    };
    C128::new(re, im.copysign(-z.im))
}

pub(crate) fn asinh(z: C128) -> C128 {
    swapped(asin(swapped(z)))
}

pub(crate) fn acosh(z: C128) -> C128 {
    let arc = acos(z);
    C128::new(arc.im.abs(), arc.re.copysign(z.im))
}

pub(crate) fn atanh(z: C128) -> C128 {
    let (x, y) = (z.re.abs(), z.im.abs());
    if small(x, y) {
        return z;
    }
    if !(x < 1e150 && y < 1e150) {
        let (re, im) = atanh_far(x, y);
        return signed(re, im, z);
    }
    let (left, square) = (1.0 - x, y * y);
    let re = match left == 0.0 && y < 1e-150 {
        // Whose square vanishes.
        true => 0.5 * (LN_2 - y.ln()),
        false => 0.25 * (4.0 * x / (left * left + square)).ln_1p(),
    };
    let im = 0.5 * (2.0 * y).atan2(left * (1.0 + x) - square);
    signed(re, im, z)
}

/// atanh in the first quadrant where squares overflow, and of what is no number.
fn atanh_far(x: f64, y: f64) -> (f64, f64) {
    if x == f64::INFINITY || y == f64::INFINITY {
        return (0.0, if y.is_nan() { y } else { FRAC_PI_2 });
    }
    if x.is_nan() || y.is_nan() {
        return (if x == 0.0 { x } else { f64::NAN }, f64::NAN);
    }
    let half = (0.5 * x).hypot(0.5 * y);
    (0.5 * x / half / half * 0.5, FRAC_PI_2)
}

pub(crate) fn atan(z: C128) -> C128 {
    swapped(atanh(swapped(z)))
}

pub(crate) fn tanh(z: C128) -> C128 {
    let (x, y) = (z.re, z.im);
    if x.is_infinite() {
        let im = if y.is_finite() { y.sin() * y.cos() } else { y };
        return C128::new(1f64.copysign(x), 0f64.copysign(im));
    }
    if !z.is_finite() {
        return C128::new(if x == 0.0 { x } else { f64::NAN }, if y == 0.0 { y } else { f64::NAN });
    }
    let (sin, cos) = y.sin_cos();
    // Beside the square of a larger one's hyperbolic sine that of a cosine is nothing.
    if x.abs() > 22.0 {
        return C128::new(1f64.copysign(x), 4.0 * sin * cos * (-2.0 * x.abs()).exp());
    }
    let sinh = x.sinh();
    let scale = sinh * sinh + cos * cos;
    C128::new(sinh * x.cosh() / scale, sin * cos / scale)
}

pub(crate) fn tan(z: C128) -> C128 {
    swapped(tanh(swapped(z)))
}
