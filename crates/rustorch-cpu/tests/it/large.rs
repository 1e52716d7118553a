//! Kernels that treat many elements in another way than few: against loops over single elements.

use crate::testing::{Tensor, noise, run, run1};
use rustorch_core::{BinaryOp, Cast, CopyOp, DType, Element, Op, Scatter, ScatterMode, Sort, TopK, f16};
use std::cmp::Ordering;

/// The order of PyTorch: NaN last, zeros of either sign equal.
fn order<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

/// Enough for radix sort, the last by bytes and by several threads; the order is that of the standard library's stable sort, and elements keep their bits.
#[test]
fn long_sorts() {
    fn check<T: Element + PartialOrd>(x: &[T], bits: fn(T) -> u64) {
        let n = x.len();
        for descending in [false, true] {
            let mut places: Vec<usize> = (0..n).collect();
            places.sort_by(|&i, &j| if descending { order(&x[j], &x[i]) } else { order(&x[i], &x[j]) });
            let sort = (Op::Sort(Sort { axis: 0, descending }), n);
            let top = |k| (Op::TopK(TopK { k, axis: 0, largest: descending }), k);
            for (op, count) in [sort, top(n - 100), top(n / 2)] {
                let out = run(&op, &[&Tensor::new(&[n], x)]).unwrap();
                let expected = &places[..count];
                assert!(out[1].values::<i64>().iter().zip(expected).all(|(&i, &j)| i == j as i64));
                let values = out[0].values::<T>();
                assert_eq!(values.len(), count);
                assert!(values.iter().zip(expected).all(|(&value, &i)| bits(value) == bits(x[i])));
            }
        }
    }
    for n in [2047, 2048, 5000, 1 << 17] {
        // Each of several hundred numbers is there several times.
        let mut x: Vec<f32> = noise(3, n).iter().map(|x| (x * 300.0).round() / 16.0).collect();
        for (i, special) in
            [f32::NAN, -0.0, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN, f32::MAX, 1e-45, -1e-45, 0.0]
                .into_iter()
                .enumerate()
        {
            (x[i * 7], x[n - 1 - i * 11]) = (special, special);
        }
        check(&x, |x| x.to_bits().into());
        check(&x.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>(), |x| x.to_bits().into());
        let whole: Vec<i32> =
            noise(4, n).iter().map(|x| if *x > 1.9 { i32::MAX } else { (x * 1e9) as i32 }).collect();
        check(&whole, |x| x as u64);
        check(&whole.iter().map(|&x| x as u32).collect::<Vec<_>>(), u64::from);
        // Digits that are all the same.
        check(&whole.iter().map(|&x| f32::from(x as u8)).collect::<Vec<_>>(), |x| x.to_bits().into());
    }
}

/// Saturating, as Rust's `as`, in blocks with and without what does not fit.
#[test]
fn casts_to_i64() {
    let to = Op::Cast(Cast { to: DType::I64 });
    let specials =
        [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 9.3e18, -9.223_372e18, 9.223_372e18, -1e30, 0.0, -0.0];
    for n in [0, 1, 255, 256, 257, 1000] {
        let mut x: Vec<f32> = noise(5, n).iter().map(|x| x * 1e6).collect();
        for at in [None, Some(0), Some(n / 2), n.checked_sub(1)] {
            for special in specials {
                if let Some(x) = at.and_then(|at| x.get_mut(at)) {
                    *x = special;
                }
                let wide: Vec<f64> = x.iter().map(|&x| f64::from(x) * 1.000_000_1).collect();
                let want = |x: &[f64]| x.iter().map(|&x| x as i64).collect::<Vec<_>>();
                let exact: Vec<f64> = x.iter().map(|&x| x.into()).collect();
                assert_eq!(run1::<i64>(&to, &[&Tensor::new(&[n], &x)]), want(&exact));
                assert_eq!(run1::<i64>(&to, &[&Tensor::new(&[n], &wide)]), want(&wide));
            }
        }
    }
}

/// So many bytes that lines of the output are written past the caches; with tiles that are not whole at the ends.
#[test]
fn large_transpositions() {
    fn check<T: Element + PartialEq>(rows: usize, cols: usize, element: fn(usize) -> T) {
        let x: Vec<T> = (0..rows * cols).map(element).collect();
        let x = Tensor::new(&[cols, rows], &x).with(|l| l.transpose(0, 1).unwrap());
        let out = run1::<T>(&Op::Copy(CopyOp), &[&x]);
        assert!((0..rows * cols).all(|i| out[i] == element(i % cols * rows + i / cols)));
    }
    check(2101, 2000, |i| i as f32);
    check(1030, 2056, |i| i as i64);
    // Lines that are not whole.
    check(2101, 2001, |i| i as i32);
}

/// One line of indices, whose elements are written in order, and lines with indices of their own.
#[test]
fn scattered_lines() {
    let (rows, n, len) = (3, 5000, 700);
    let places: Vec<i64> =
        noise(7, rows * n).iter().map(|x| ((x + 2.0) * 175.0) as i64 % len as i64).collect();
    let source = noise(8, rows * n);
    let x = noise(9, rows * len);
    for mode in [ScatterMode::Replace, ScatterMode::Add] {
        for rows in [1, rows] {
            let mut want = x[..rows * len].to_vec();
            for i in 0..rows * n {
                let old = &mut want[i / n * len + places[i] as usize];
                *old = if mode == ScatterMode::Add { *old + source[i] } else { source[i] };
            }
            let shaped = |dims: [usize; 2]| if rows == 1 { vec![dims[1]] } else { dims.to_vec() };
            let args = [
                Tensor::new(&shaped([rows, len]), &x[..rows * len]),
                Tensor::new(&shaped([rows, n]), &places[..rows * n]),
                Tensor::new(&shaped([rows, n]), &source[..rows * n]),
            ];
            let axis = usize::from(rows != 1);
            let scatter = Op::Scatter(Scatter { axis, mode });
            assert_eq!(run1::<f32>(&scatter, &[&args[0], &args[1], &args[2]]), want);
        }
    }
}

/// What an element gives does not depend on where it stands, nor on whether others beside it are computed anew.
#[test]
fn logaddexp_of_any_length() {
    let op = Op::Binary(BinaryOp::LogAddExp);
    for n in [1, 15, 16, 17, 511, 512, 513, 1500] {
        // Of each third, the powers sum to nearly 1.
        let a = noise(10, n);
        let b: Vec<f32> = a
            .iter()
            .enumerate()
            .map(|(i, &a)| if i % 3 == 0 { (1.0 - (-a.abs()).exp()).ln() + 1e-6 } else { a * -2.0 })
            .collect();
        let a: Vec<f32> = a.iter().enumerate().map(|(i, &a)| if i % 3 == 0 { -a.abs() } else { a }).collect();
        fn check<T: Element>(op: &Op, a: &[T], b: &[T], bits: fn(T) -> u64) {
            let all = run1::<T>(op, &[&Tensor::new(&[a.len()], a), &Tensor::new(&[a.len()], b)]);
            for (i, all) in all.into_iter().enumerate().step_by(7) {
                let one = run1::<T>(op, &[&Tensor::new(&[1], &[a[i]]), &Tensor::new(&[1], &[b[i]])]);
                assert_eq!(bits(one[0]), bits(all), "element {i} of {}", a.len());
            }
        }
        check(&op, &a, &b, |x| x.to_bits().into());
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        check(&op, &wide(&a), &wide(&b), f64::to_bits);
    }
}

/// Sums of a matrix and a transposed one: of several element sizes, in batches, with tiles that are not whole.
#[test]
fn transposed_operands() {
    fn check<T: Element + PartialEq>(dims: [usize; 3], x: &[T], op: BinaryOp, f: fn(T, T) -> T) {
        let [n, rows, cols] = dims;
        let flat = |x: &[T]| Tensor::new(&dims, x);
        let y: Vec<T> = x.iter().rev().copied().collect();
        let swapped = |x: &[T]| Tensor::new(&[n, cols, rows], x).with(|l| l.transpose(1, 2).unwrap());
        // Where an element of the output is in a swapped operand.
        let place = |i: usize| i / (rows * cols) * rows * cols + i % cols * rows + i / cols % rows;
        for (is_left, is_right) in [(true, false), (false, true), (true, true)] {
            let (a, b) =
                (if is_left { swapped(x) } else { flat(x) }, if is_right { swapped(&y) } else { flat(&y) });
            let out = run1::<T>(&Op::Binary(op), &[&a, &b]);
            let at = |is_swapped: bool, x: &[T], i: usize| x[if is_swapped { place(i) } else { i }];
            assert!((0..x.len()).all(|i| out[i] == f(at(is_left, x, i), at(is_right, &y, i))));
        }
        let negated = run1::<T>(&Op::Binary(op), &[&swapped(x), &Tensor::new(&[1], &x[..1])]);
        assert!((0..x.len()).all(|i| negated[i] == f(x[place(i)], x[0])));
    }
    for dims in [[1, 16, 64], [3, 17, 65], [2, 100, 300], [1, 64, 15], [1, 5, 200]] {
        let x = noise(11, dims.iter().product());
        check(dims, &x, BinaryOp::Sub, |a, b| a - b);
        let wide: Vec<f64> = x.iter().map(|&x| x.into()).collect();
        check(dims, &wide, BinaryOp::Mul, |a, b| a * b);
        let bytes: Vec<u8> = x.iter().map(|x| (x * 60.0 + 120.0) as u8).collect();
        check(dims, &bytes, BinaryOp::Add, u8::wrapping_add);
    }
    // A column for each row, and a row for all, beside a transposed matrix.
    let (x, column, row) = (noise(12, 40 * 90), noise(13, 40), noise(14, 90));
    let transposed = || Tensor::new(&[90, 40], &x).with(|l| l.transpose(0, 1).unwrap());
    let out = run1::<f32>(&Op::Binary(BinaryOp::Sub), &[&transposed(), &Tensor::new(&[40, 1], &column)]);
    assert!((0..40 * 90).all(|i| out[i] == x[i % 90 * 40 + i / 90] - column[i / 90]));
    let out = run1::<f32>(&Op::Binary(BinaryOp::Sub), &[&Tensor::new(&[90], &row), &transposed()]);
    assert!((0..40 * 90).all(|i| out[i] == row[i % 90] - x[i % 90 * 40 + i / 90]));
}
