//! Comparisons of results say what differs.

use rustorch_testkit::{assert_close, assert_same_bits, assert_ulps, ulps};

#[test]
fn distances_count_representable_numbers() {
    assert_eq!(ulps(1.0, 1.0), 0);
    assert_eq!(ulps(1.0, 1.0 + f32::EPSILON), 1);
    assert_eq!(ulps(0.0, -0.0), 0);
    assert_eq!(ulps(f32::from_bits(1), -f32::from_bits(1)), 2);
    assert_eq!(ulps(f32::MAX, f32::INFINITY), 1);
    assert_eq!(ulps(f32::NAN, 1.0), u64::MAX);
    assert_eq!(ulps(f32::NAN, -f32::NAN), 0);
}

#[test]
fn what_is_close_passes() {
    assert_ulps(&[1.0, f32::NAN], &[1.0 + f32::EPSILON, f32::NAN], 1);
    assert_close(&[100.0, f64::INFINITY, f64::NAN], &[101.0, f64::INFINITY, f64::NAN], 0.0, 0.01);
    assert_same_bits(&[1, 2], &[1, 2]);
}

#[test]
#[should_panic(expected = "element 1 of 2")]
fn ulps_name_the_worst() {
    assert_ulps(&[1.0, 2.0], &[1.0 + f32::EPSILON, 2.1], 1);
}

#[test]
#[should_panic(expected = "element 1 of 3 is 5, not 4")]
fn closeness_names_the_worst() {
    assert_close(&[1.0, 5.0, 2.5], &[1.0, 4.0, 2.0], 0.1, 0.0);
}

#[test]
#[should_panic(expected = "element 0")]
fn a_nan_is_not_close_to_a_number() {
    assert_close(&[f64::NAN], &[1.0], 1e9, 1e9);
}

#[test]
#[should_panic(expected = "byte 1 of 3 is 0x05, not 0x02; 2 bytes differ")]
fn bits_name_the_first() {
    assert_same_bits(&[1, 5, 6], &[1, 2, 3]);
}
