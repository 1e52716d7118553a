//! Comparison of values, with messages that say where and by how much they differ.

/// The distance of two numbers in units of the last place: how many `f32` values lie between them, plus one if they
/// differ. Zeros of either sign are one value, as are all NaN; a NaN is infinitely far from a number.
pub fn ulps(a: f32, b: f32) -> u64 {
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() && b.is_nan() { 0 } else { u64::MAX };
    }
    let line = |x: f32| {
        let magnitude = i64::from(x.to_bits() & 0x7fff_ffff);
        if x.is_sign_negative() { -magnitude } else { magnitude }
    };
    line(a).abs_diff(line(b))
}

/// Fails unless every element is within `limit` units in the last place of the expected one.
///
/// # Panics
/// If lengths differ or an element is farther away; the message names the worst one.
#[track_caller]
pub fn assert_ulps(got: &[f32], want: &[f32], limit: u64) {
    let far = worst(got, want, |&a, &b| ulps(a, b));
    if let Some((i, distance)) = far.filter(|&(_, distance)| distance > limit) {
        panic!(
            "element {i} of {} is {:?}, not {:?}: {distance} ulp apart, {limit} allowed",
            got.len(),
            got[i],
            want[i]
        );
    }
}

/// Fails unless every element satisfies `|got − want| ≤ absolute + relative·|want|`, or both are the same infinity or
/// NaN.
///
/// # Panics
/// If lengths differ or an element is farther away; the message names the worst one.
#[track_caller]
pub fn assert_close<T: Copy + Into<f64>>(got: &[T], want: &[T], absolute: f64, relative: f64) {
    let excess = |&a: &T, &b: &T| {
        let (a, b): (f64, f64) = (a.into(), b.into());
        if a == b || a.is_nan() && b.is_nan() {
            return 0.0;
        }
        let excess = (a - b).abs() / (absolute + relative * b.abs());
        if excess.is_nan() { f64::INFINITY } else { excess }
    };
    let far = worst(got, want, excess);
    if let Some((i, times)) = far.filter(|&(_, times)| times > 1.0) {
        let (a, b): (f64, f64) = (got[i].into(), want[i].into());
        panic!(
            "element {i} of {} is {a}, not {b}: {} apart, {times:.2} times what absolute {absolute} and relative \
             {relative} allow",
            got.len(),
            (a - b).abs()
        );
    }
}

/// Fails unless two pieces of memory are equal.
///
/// # Panics
/// If they are not; the message names the first byte that differs and how many do.
#[track_caller]
pub fn assert_same_bits(got: &[u8], want: &[u8]) {
    assert_eq!(got.len(), want.len(), "lengths in bytes");
    let different = got.iter().zip(want).filter(|(a, b)| a != b).count();
    if let Some(i) = got.iter().zip(want).position(|(a, b)| a != b) {
        panic!(
            "byte {i} of {} is {:#04x}, not {:#04x}; {different} bytes differ",
            got.len(),
            got[i],
            want[i]
        );
    }
}

/// The first of the elements that differ most.
#[track_caller]
fn worst<T, D: PartialOrd>(got: &[T], want: &[T], distance: impl Fn(&T, &T) -> D) -> Option<(usize, D)> {
    assert_eq!(got.len(), want.len(), "numbers of elements");
    let mut worst: Option<(usize, D)> = None;
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        let d = distance(a, b);
        if worst.as_ref().is_none_or(|(_, most)| d > *most) {
            worst = Some((i, d));
        }
    }
    worst
}
