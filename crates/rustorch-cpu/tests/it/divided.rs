//! Long lines that threads divide, lines that are taken together, counts in tables of each thread, and arguments that lie across.

use super::testing::{Tensor, fails, noise, run, run1};
use rustorch_core::{
    BinaryOp, Element, Error, Gather, IndexSelect, Op, Scan, ScanOp, Scatter, ScatterMode, Shape, UnaryOp,
    bf16,
};

/// Numbers below `below`, with many repetitions.
fn places(n: usize, below: usize) -> Vec<i64> {
    (0..n).map(|i| ((i * i / 7 + i) % below) as i64).collect()
}

#[test]
fn elements_of_long_lines_are_taken_by_index() {
    let (lines, len, n) = (2, 1000, 70_001);
    let (x, chosen) = (noise(1, lines * len), places(n, len));
    let want: Vec<f32> = (0..lines)
        .flat_map(|line| chosen.iter().map(|&at| x[line * len + at as usize]).collect::<Vec<_>>())
        .collect();
    let args = [Tensor::new(&[lines, len], &x), Tensor::new(&[n], &chosen)];
    assert_eq!(run1::<f32>(&Op::IndexSelect(IndexSelect { axis: 1 }), &[&args[0], &args[1]]), want);
    let index = Tensor::new(&[lines, n], &chosen.repeat(lines));
    assert_eq!(run1::<f32>(&Op::Gather(Gather { axis: 1 }), &[&args[0], &index]), want);
    // Every other element, and indices that lie across.
    let spread: Vec<f32> = x.iter().flat_map(|&x| [x, f32::NAN]).collect();
    let x = Tensor::new(&[lines, 2 * len], &spread).with(|l| l.slice(1, 0, len, 2).unwrap());
    assert_eq!(run1::<f32>(&Op::IndexSelect(IndexSelect { axis: 1 }), &[&x, &args[1]]), want);
    let across: Vec<i64> = chosen.iter().flat_map(|&at| [at; 2]).collect();
    let index = Tensor::new(&[n, lines], &across).with(|l| l.transpose(0, 1).unwrap());
    assert_eq!(run1::<f32>(&Op::Gather(Gather { axis: 1 }), &[&x, &index]), want);
    // One that is out of range is found wherever it is.
    let mut wrong = chosen;
    wrong[n - 1] = -1;
    let error = fails(&Op::IndexSelect(IndexSelect { axis: 1 }), &[&args[0], &Tensor::new(&[n], &wrong)]);
    assert_eq!(error, Error::Index { op: "index_select", index: -1, len });
}

#[test]
fn many_integers_are_added_at_few_places() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(of: fn(i64) -> T, plus: fn(T, T) -> T) {
        // Too few for tables, a whole number of lanes, some more; and more places than go with tables.
        for (n, len) in [(1000, 10), (1 << 17, 10), ((1 << 17) + 3, 1000), (40_000, 5000)] {
            let chosen = places(n, len);
            let source: Vec<T> = (0..n as i64).map(|i| of(i * i - 7 * i)).collect();
            let start: Vec<T> = (0..len as i64).map(of).collect();
            let sum = |source: &dyn Fn(usize) -> T| {
                let mut sums = start.clone();
                for (i, &at) in chosen.iter().enumerate() {
                    sums[at as usize] = plus(sums[at as usize], source(i));
                }
                sums
            };
            let op = Op::Scatter(Scatter { axis: 0, mode: ScatterMode::Add });
            let (x, index) = (Tensor::new(&[len], &start), Tensor::new(&[n], &chosen));
            let got = run1::<T>(&op, &[&x, &index, &Tensor::new(&[n], &source)]);
            assert_eq!(got, sum(&|i| source[i]), "{n} {len}");
            // A longer source, every other element of it, and one number for all.
            let twice: Vec<T> = source.iter().flat_map(|&x| [x, of(99)]).chain([of(5)]).collect();
            let strided = Tensor::new(&[2 * n + 1], &twice).with(|l| l.slice(0, 0, n + 1, 2).unwrap());
            assert_eq!(run1::<T>(&op, &[&x, &index, &strided]), sum(&|i| source[i]), "{n} {len}");
            let shape = Shape::new([n].as_slice()).unwrap();
            let one = Tensor::new(&[1], &[of(3)]).with(|l| l.broadcast_to(&shape, "test").unwrap());
            assert_eq!(run1::<T>(&op, &[&x, &index, &one]), sum(&|_| of(3)), "{n} {len}");
            let narrow: Vec<i32> = chosen.iter().map(|&at| at as i32).collect();
            assert_eq!(
                run1::<T>(&op, &[&x, &Tensor::new(&[n], &narrow), &one]),
                sum(&|_| of(3)),
                "{n} {len}"
            );
            for bad in [-1, len as i64, i64::MIN] {
                let mut wrong = chosen.clone();
                wrong[n - 2] = bad;
                wrong[n - 1] = i64::MAX;
                let error = fails(&op, &[&x, &Tensor::new(&[n], &wrong), &one]);
                assert_eq!(error, Error::Index { op: "scatter_add", index: bad, len }, "{n} {len}");
            }
        }
    }
    check::<i64>(|i| i, i64::wrapping_add);
    check::<u8>(|i| i as u8, u8::wrapping_add);
    check::<i16>(|i| (i % 30_000) as i16, i16::wrapping_add);
    // Sums of floats keep their order.
    check::<f32>(|i| i as f32 * 0.1, |a, b| a + b);
}

#[test]
fn the_last_of_many_values_for_a_place_stays() {
    for (n, len) in [(1000, 10), (1 << 15, 5), ((1 << 16) + 3, 70_001)] {
        let (chosen, start) = (places(n, len), noise(4, len));
        let source: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let mut want = start.clone();
        for (&at, &value) in chosen.iter().zip(&source) {
            want[at as usize] = value;
        }
        let op = Op::Scatter(Scatter { axis: 0, mode: ScatterMode::Replace });
        let (x, index) = (Tensor::new(&[len], &start), Tensor::new(&[n], &chosen));
        assert_eq!(run1::<f32>(&op, &[&x, &index, &Tensor::new(&[n], &source)]), want, "{n} {len}");
        // Into every other element.
        let spread: Vec<f32> = start.iter().flat_map(|&x| [x, 9.0]).collect();
        let mut out = Tensor::new(&[2 * len], &spread).with(|l| l.slice(0, 0, len, 2).unwrap());
        out.write(&op, &[&x, &index, &Tensor::new(&[n], &source)]).unwrap();
        assert_eq!(out.values::<f32>(), want, "{n} {len}");
    }
}

#[test]
fn running_sums_of_several_lines_are_those_of_each() {
    for (lines, len) in [(1, 5), (3, 7), (4, 1), (5, 1000), (9, 0), (66, 33)] {
        let mut x = noise(3, lines * len);
        if len == 33 {
            (x[7], x[100], x[101]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        }
        for (op, start) in [(ScanOp::Sum, 0.0), (ScanOp::Prod, 1.0)] {
            let mut want = Vec::new();
            for line in x.chunks(len.max(1)) {
                let mut total = start;
                for &x in line {
                    total = if op == ScanOp::Sum { total + f64::from(x) } else { total * f64::from(x) };
                    want.push(total as f32);
                }
            }
            let got = run1::<f32>(&Op::Scan(Scan { op, axis: 1 }), &[&Tensor::new(&[lines, len], &x)]);
            assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(&want) {
                assert!(
                    got == want || got.is_nan() && want.is_nan(),
                    "{lines} {len}: {got} instead of {want}"
                );
            }
        }
    }
    // Integers of one byte are summed in eight.
    let bytes: Vec<i8> = (0..6 * 300).map(|i| (i % 100) as i8).collect();
    let got = run1::<i64>(&Op::Scan(Scan { op: ScanOp::Sum, axis: 1 }), &[&Tensor::new(&[6, 300], &bytes)]);
    let want =
        bytes.chunks(300).flat_map(|line| (1..=300).map(|n| line[..n].iter().map(|&x| i64::from(x)).sum()));
    assert_eq!(got, want.collect::<Vec<i64>>());
}

/// Pairs of which one or both lie across the other, of whole tiles and parts, with elements of 1 to 16 bytes.
#[test]
fn arguments_that_lie_across_are_read_by_tiles() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(of: fn(usize) -> T, op: &Op, f: fn(T, T) -> T) {
        for [batch, m, n] in
            [[1, 64, 64], [1, 100, 70], [3, 33, 300], [2, 16, 1025], [1, 700, 17], [2, 15, 500]]
        {
            let count = batch * m * n;
            let (x, y): (Vec<T>, Vec<T>) =
                ((0..count).map(of).collect(), (0..count).map(|i| of(i * 7 + 3)).collect());
            let plain = Tensor::new(&[batch, m, n], &x);
            let across = Tensor::new(&[batch, n, m], &y).with(|l| l.transpose(1, 2).unwrap());
            let turned = |at: usize| y[at / (m * n) * (m * n) + at % n * m + at / n % m];
            let want: Vec<T> = (0..count).map(|i| f(x[i], turned(i))).collect();
            assert_eq!(run1::<T>(op, &[&plain, &across]), want, "{batch} {m} {n}");
            let want: Vec<T> = (0..count).map(|i| f(turned(i), turned(i))).collect();
            assert_eq!(run1::<T>(op, &[&across, &across]), want, "{batch} {m} {n}");
            // Beside one element for each row, and one row for all.
            let column = Tensor::new(&[m, 1], &x[..m]);
            let want: Vec<T> = (0..count).map(|i| f(turned(i), x[i / n % m])).collect();
            assert_eq!(run1::<T>(op, &[&across, &column]), want, "{batch} {m} {n}");
            let row = Tensor::new(&[n], &x[..n]);
            let want: Vec<T> = (0..count).map(|i| f(x[i % n], turned(i))).collect();
            assert_eq!(run1::<T>(op, &[&row, &across]), want, "{batch} {m} {n}");
        }
    }
    let add = Op::Binary(BinaryOp::Add);
    check::<f32>(|i| i as f32 * 0.5, &add, |a, b| a + b);
    check::<f64>(|i| i as f64 * 0.5, &add, |a, b| a + b);
    check::<u8>(|i| i as u8, &add, u8::wrapping_add);
    check::<bf16>(|i| bf16::from_f32((i % 100) as f32), &add, |a, b| a + b);
    check::<i64>(|i| i as i64, &Op::Binary(BinaryOp::Mul), i64::wrapping_mul);
    check::<rustorch_core::C128>(|i| rustorch_core::C128::new(i as f64, 1.0), &add, |a, b| a + b);
    // Copies of transposed words keep every bit, those of NaNs included.
    let bits: Vec<f32> = (0..48 * 80u32).map(|i| f32::from_bits(0x7F80_0001 + i * 77)).collect();
    let x = Tensor::new(&[48, 80], &bits).with(|l| l.transpose(0, 1).unwrap());
    let got = run(&Op::Copy(rustorch_core::CopyOp), &[&x]).unwrap()[0].values::<f32>();
    for (i, got) in got.iter().enumerate() {
        assert_eq!(got.to_bits(), bits[i % 48 * 80 + i / 48].to_bits());
    }
    let negated = run1::<f32>(
        &Op::Unary(UnaryOp::Neg),
        &[&Tensor::new(&[80, 90], &noise(5, 7200)).with(|l| l.transpose(0, 1).unwrap())],
    );
    let x = noise(5, 7200);
    assert!(negated.iter().enumerate().all(|(i, &y)| y == -x[i % 80 * 90 + i / 80]));
}
