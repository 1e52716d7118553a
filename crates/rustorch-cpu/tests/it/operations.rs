//! Tests of the simpler kernels, against definitions written as plain loops.

use crate::testing::{Tensor, close, fails, noise, run, run1};
use rustorch_core::{
    AddRmsNorm, Arange, BinaryOp, C64, C128, Cast, Clamp, CompareOp, Concat, CopyOp, DType, Element,
    Embedding, Error, Fill, Gather, GluOp, IndexSelect, LayerNorm, Layout, Op, Pad, QuantType, RmsNorm,
    RopeParams, RopeStyle, Scalar, Scatter, ScatterMode, Shape, Softmax, Sort, TopK, Tri, UnaryOp, Where,
    Yarn, bf16, f16,
};

#[test]
fn pairs_in_every_layout() {
    let (m, n, k) = (37, 75, 5);
    let a = noise(1, m * n * k);
    let full = |x: &[f32]| Tensor::new(&[m, n, k], x);
    let cases: Vec<(Tensor, Tensor)> = vec![
        (full(&a), full(&noise(2, m * n * k))),
        (full(&a), Tensor::new(&[], &[0.5f32])),
        (full(&a), Tensor::new(&[k], &noise(3, k))),
        (full(&a), Tensor::new(&[n, 1], &noise(4, n))),
        (Tensor::new(&[m, 1, 1], &noise(5, m)), Tensor::new(&[n, k], &noise(6, n * k))),
        (
            Tensor::new(&[k, n, m], &a).with(|l| l.transpose(0, 2).unwrap()),
            Tensor::new(&[n, m, k], &a).with(|l| l.transpose(0, 1).unwrap()),
        ),
        (
            Tensor::new(&[m, 2 * n, k], &noise(7, 2 * m * n * k)).with(|l| l.slice(1, 1, n, 2).unwrap()),
            full(&a),
        ),
        (Tensor::new(&[0, 3], &[0f32; 0]), Tensor::new(&[1], &[1f32])),
        (Tensor::new(&[], &[1f32]), Tensor::new(&[], &[2f32])),
    ];
    for (a, b) in &cases {
        let shape = a.layout.shape().broadcast(b.layout.shape(), "test").unwrap();
        let spread = |t: &Tensor| {
            let layout = t.layout.broadcast_to(&shape, "test").unwrap();
            let base = t.view().address::<f32>().unwrap();
            // SAFETY: indices of a broadcast of the tensor's layout.
            layout.indices().map(|i| unsafe { *base.add(i - layout.offset()) }).collect::<Vec<_>>()
        };
        let want: Vec<f32> = spread(a).iter().zip(spread(b)).map(|(a, b)| a - b).collect();
        assert_eq!(run1::<f32>(&Op::Binary(BinaryOp::Sub), &[a, b]), want, "{shape:?}");
        let want: Vec<bool> = spread(a).iter().zip(spread(b)).map(|(a, b)| *a < b).collect();
        assert_eq!(run1::<bool>(&Op::Compare(CompareOp::Lt), &[a, b]), want, "{shape:?}");
    }
}

/// Each operation on floats with one element for each row, on either side: as plain loops have it, and of 16 bits rounded once.
#[test]
fn scalars_of_rows() {
    fn check<T: Element>(narrow: fn(f32) -> T, wide: fn(T) -> f64) {
        let (m, n) = (40, 75);
        let mut x = noise(1, m * n);
        (x[3], x[80]) = (f32::NAN, f32::INFINITY);
        let mut scalars = noise(2, m);
        (scalars[5], scalars[6]) = (f32::NAN, 0.0);
        let [x, scalars] = [x, scalars].map(|x| x.into_iter().map(narrow).collect::<Vec<T>>());
        let matrix = Tensor::new(&[m, n], &x);
        let column = Tensor::new(&[m, 1], &scalars);
        let row = Tensor::new(&[n], &x[..n]);
        let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
        type Function<'f> = &'f dyn Fn(f64, f64) -> f64;
        let ops: [(BinaryOp, Function<'_>); 6] = [
            (BinaryOp::Add, &|a, b| a + b),
            (BinaryOp::Sub, &|a, b| a - b),
            (BinaryOp::Mul, &|a, b| a * b),
            (BinaryOp::Div, &|a, b| a / b),
            (BinaryOp::Maximum, &larger),
            (BinaryOp::Minimum, &|a, b| -larger(-a, -b)),
        ];
        for (op, f) in ops {
            for (name, left, right) in
                [("right", &matrix, &column), ("left", &column, &matrix), ("outer", &column, &row)]
            {
                let found = run1::<T>(&Op::Binary(op), &[left, right]);
                let spread = |t: &Tensor| -> Vec<f64> {
                    let (values, dims) = (t.values::<T>(), t.layout.dims());
                    let strides = if dims == [m, n] {
                        [n, 1]
                    } else if dims == [n] {
                        [0, 1]
                    } else {
                        [1, 0]
                    };
                    (0..m * n).map(|i| wide(values[i / n * strides[0] + i % n * strides[1]])).collect()
                };
                let pairs = spread(left).into_iter().zip(spread(right));
                for (i, (found, (a, b))) in found.into_iter().zip(pairs).enumerate() {
                    let want = f(a, b);
                    // Rounding to single precision in between changes nothing, for these operations.
                    let want = if T::DTYPE == DType::F64 { want } else { wide(narrow(want as f32)) };
                    let found = wide(found);
                    let equal = found == want || found.is_nan() && want.is_nan();
                    assert!(equal, "{op:?} {name} {i}: {found}, not {want}");
                }
            }
        }
    }
    check::<f32>(|x| x, f64::from);
    check::<f64>(f64::from, |x| x);
    check::<f16>(f16::from_f32, f16::to_f64);
    check::<bf16>(bf16::from_f32, bf16::to_f64);
}

#[test]
fn elements_are_repeated_in_every_layout() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(make: impl Fn(usize) -> T) {
        let (m, n) = (70, 3);
        let values: Vec<T> = (0..m * n).map(make).collect();
        for (dims, repeated) in [([m, n, 1], [m, n, 41]), ([1, m, n], [9, m, n]), ([m, 1, n], [m, 16, n])] {
            let shape = Shape::new(&repeated[..]).unwrap();
            let x = Tensor::new(&dims, &values).with(|l| l.broadcast_to(&shape, "test").unwrap());
            assert_eq!(run1::<T>(&Op::Copy(CopyOp), &[&x]), x.values::<T>(), "{dims:?}");
            let x = x.with(|l| l.transpose(0, 2).unwrap());
            assert_eq!(run1::<T>(&Op::Copy(CopyOp), &[&x]), x.values::<T>(), "{dims:?}, transposed");
        }
    }
    check::<u8>(|i| i as u8);
    check::<f16>(|i| f16::from_f32(i as f32));
    check::<f32>(|i| i as f32);
    check::<i64>(|i| -(i as i64));
    check::<C128>(|i| C128::new(i as f64, -1.0));
}

#[test]
fn integers_and_floats_divide_as_pytorch() {
    // torch.floor_divide, torch.remainder
    let a = Tensor::new(&[6], &[7i32, -7, 7, -7, i32::MIN, 0]);
    let b = Tensor::new(&[6], &[2i32, 2, -2, -2, -1, 5]);
    assert_eq!(run1::<i32>(&Op::Binary(BinaryOp::FloorDiv), &[&a, &b]), [3, -4, -4, 3, i32::MIN, 0]);
    assert_eq!(run1::<i32>(&Op::Binary(BinaryOp::Remainder), &[&a, &b]), [1, 1, -1, -1, 0, 0]);
    let a = Tensor::new(&[5], &[7.0f32, -7.0, 1.0, -1.0, 5.3]);
    let b = Tensor::new(&[5], &[2.0f32, 2.0, 0.0, f32::INFINITY, -0.9]);
    assert_eq!(
        run1::<f32>(&Op::Binary(BinaryOp::FloorDiv), &[&a, &b]),
        [3.0, -4.0, f32::INFINITY, -1.0, -6.0]
    );
    let got = run1::<f32>(&Op::Binary(BinaryOp::Remainder), &[&a, &b]);
    assert_eq!(got[..2], [1.0, 1.0]);
    assert!(got[2].is_nan() && got[3] == f32::INFINITY && (got[4] + 0.1).abs() < 1e-6);
    let zero = Tensor::new(&[1], &[0i32]);
    let error = fails(&Op::Binary(BinaryOp::Remainder), &[&Tensor::new(&[2], &[1i32, 2]), &zero]);
    assert!(error.to_string().contains("divided by zero"), "{error}");
    // torch.pow of integers, torch.bitwise_left_shift, torch.bitwise_right_shift
    let a = Tensor::new(&[6], &[2i64, -1, 3, 1, -1, 0]);
    let b = Tensor::new(&[6], &[10i64, -3, -1, -5, -2, 0]);
    assert_eq!(run1::<i64>(&Op::Binary(BinaryOp::Pow), &[&a, &b]), [1024, -1, 0, 1, 1, 1]);
    let a = Tensor::new(&[4], &[-5i8, 3, -1, 64]);
    let b = Tensor::new(&[4], &[1i8, 9, 8, 1]);
    assert_eq!(run1::<i8>(&Op::Binary(BinaryOp::ShiftRight), &[&a, &b]), [-3, 0, -1, 32]);
    assert_eq!(run1::<i8>(&Op::Binary(BinaryOp::ShiftLeft), &[&a, &b]), [-10, 0, 0, -128]);
}

#[test]
fn nan_rules() {
    let nan = f32::NAN;
    let a = Tensor::new(&[4], &[nan, 1.0, 2.0, -0.0]);
    let b = Tensor::new(&[4], &[1.0, nan, 1.0, 0.0]);
    let max = run1::<f32>(&Op::Binary(BinaryOp::Maximum), &[&a, &b]);
    assert!(max[0].is_nan() && max[1].is_nan() && max[2] == 2.0);
    let min = run1::<f32>(&Op::Binary(BinaryOp::Minimum), &[&a, &b]);
    assert!(min[0].is_nan() && min[1].is_nan() && min[2] == 1.0);
    assert_eq!(run1::<bool>(&Op::Compare(CompareOp::Ne), &[&a, &b]), [true, true, true, false]);
    let x = Tensor::new(&[4], &[nan, -3.0, 3.0, 0.5]);
    let clamp = Op::Clamp(Clamp { min: Some(Scalar::Float(-1.0)), max: Some(Scalar::Float(1.0)) });
    let got = run1::<f32>(&clamp, &[&x]);
    assert!(got[0].is_nan() && got[1..] == [-1.0, 1.0, 0.5]);
    let x = Tensor::new(&[3], &[5u8, 100, 255]);
    let clamp = Op::Clamp(Clamp { min: Some(Scalar::Int(-7)), max: Some(Scalar::Int(1000)) });
    assert_eq!(run1::<u8>(&clamp, &[&x]), [5, 100, 255]);
    let relu = run1::<f32>(&Op::Unary(UnaryOp::Relu), &[&Tensor::new(&[3], &[nan, -1.0, 2.0])]);
    assert!(relu[0].is_nan() && relu[1..] == [0.0, 2.0]);
    let sign = run1::<f32>(&Op::Unary(UnaryOp::Sign), &[&Tensor::new(&[3], &[-0.5f32, 0.0, 2.0])]);
    assert_eq!(sign, [-1.0, 0.0, 1.0]);
}

#[test]
fn halves_round_once() {
    let x: Vec<f32> = noise(1, 1000);
    let half: Vec<f16> = x.iter().map(|&x| f16::from_f32(x)).collect();
    let brain: Vec<bf16> = x.iter().map(|&x| bf16::from_f32(x)).collect();
    let got: Vec<f16> = run1(&Op::Unary(UnaryOp::Square), &[&Tensor::new(&[1000], &half)]);
    let want: Vec<f16> = half.iter().map(|x| f16::from_f32(x.to_f32() * x.to_f32())).collect();
    assert_eq!(got, want);
    let pair = [&Tensor::new(&[1000], &brain), &Tensor::new(&[1000], &brain)];
    let got: Vec<bf16> = run1(&Op::Binary(BinaryOp::Add), &pair);
    let want: Vec<bf16> = brain.iter().map(|x| bf16::from_f32(x.to_f32() + x.to_f32())).collect();
    assert_eq!(got, want);
    let c = Tensor::new(&[1000], &half.iter().map(|x| x.to_f32() > 0.0).collect::<Vec<_>>());
    let zero = Tensor::new(&[1], &[f16::ZERO]);
    let got: Vec<f16> = run1(&Op::Where(Where), &[&c, &Tensor::new(&[1000], &half), &zero]);
    assert!(got.iter().zip(&half).all(|(g, h)| *g == if h.to_f32() > 0.0 { *h } else { f16::ZERO }));
}

#[test]
fn casts() {
    let x = Tensor::new(&[5], &[1.9f32, -1.9, 300.0, f32::NAN, 0.0]);
    assert_eq!(run1::<i32>(&Op::Cast(Cast { to: DType::I32 }), &[&x]), [1, -1, 300, 0, 0]);
    assert_eq!(run1::<bool>(&Op::Cast(Cast { to: DType::Bool }), &[&x]), [true, true, true, true, false]);
    assert_eq!(run1::<u8>(&Op::Cast(Cast { to: DType::U8 }), &[&Tensor::new(&[2], &[-1i64, 257])]), [255, 1]);
    let wide: Vec<f32> = noise(3, 777);
    let got: Vec<f16> = run1(&Op::Cast(Cast { to: DType::F16 }), &[&Tensor::new(&[777], &wide)]);
    assert!(got.iter().zip(&wide).all(|(g, w)| *g == f16::from_f32(*w)));
    let back: Vec<f32> = run1(&Op::Cast(Cast { to: DType::F32 }), &[&Tensor::new(&[777], &got)]);
    assert!(got.iter().zip(&back).all(|(g, b)| g.to_f32() == *b));
}

#[test]
fn block_types_decode_and_encode() {
    let quant = QuantType::Q8_0;
    let values = noise(5, 6 * 64);
    let blocks =
        run(&Op::Cast(Cast { to: DType::Quant(quant) }), &[&Tensor::new(&[6, 64], &values)]).unwrap();
    let mut bytes = vec![0; quant.bytes_for(values.len()).unwrap()];
    rustorch_quant::quantize(quant, &values, None, &mut bytes).unwrap();
    assert_eq!(blocks[0].bytes(), bytes);
    let mut want = vec![0.0; values.len()];
    rustorch_quant::dequantize(quant, &bytes, &mut want).unwrap();
    let dequantized: Vec<f32> = run1(&Op::Cast(Cast { to: DType::F32 }), &[&blocks[0]]);
    assert_eq!(dequantized, want);
    let half: Vec<f16> = run1(&Op::Cast(Cast { to: DType::F16 }), &[&blocks[0]]);
    assert!(half.iter().zip(&want).all(|(h, w)| *h == f16::from_f32(*w)));
    let table = Tensor::quant(DType::Quant(quant), &[6, 64], &bytes);
    let ids = Tensor::new(&[2, 2], &[5i32, 0, 3, 5]);
    let got: Vec<f32> = run1(&Op::Embedding(Embedding), &[&table, &ids]);
    for (row, id) in got.chunks(64).zip([5, 0, 3, 5]) {
        assert_eq!(row, &want[id * 64..][..64]);
    }
    // Some rows, as a view.
    let rows = Tensor::quant(DType::Quant(quant), &[6, 64], &bytes).with(|l| l.slice(0, 1, 3, 2).unwrap());
    let got: Vec<f32> = run1(&Op::Cast(Cast { to: DType::F32 }), &[&rows]);
    assert_eq!(got[64..128], want[3 * 64..4 * 64]);
    let bad = Tensor::new(&[1, 32], &[f32::NAN; 32]);
    assert!(fails(&Op::Cast(Cast { to: DType::Quant(quant) }), &[&bad]).to_string().contains("finite"));
}

#[test]
fn indices_are_checked() {
    let table = Tensor::new(&[3, 2], &[0f32, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let ids = Tensor::new(&[3], &[2i64, 0, 2]);
    assert_eq!(run1::<f32>(&Op::Embedding(Embedding), &[&table, &ids]), [4.0, 5.0, 0.0, 1.0, 4.0, 5.0]);
    assert_eq!(
        run1::<f32>(&Op::IndexSelect(IndexSelect { axis: 0 }), &[&table, &ids]),
        [4.0, 5.0, 0.0, 1.0, 4.0, 5.0]
    );
    let columns = Tensor::new(&[3], &[1i32, 1, 0]);
    assert_eq!(
        run1::<f32>(&Op::IndexSelect(IndexSelect { axis: 1 }), &[&table, &columns]),
        [1.0, 1.0, 0.0, 3.0, 3.0, 2.0, 5.0, 5.0, 4.0]
    );
    let deep: Vec<i32> = (0..2 * 3 * 4).collect();
    let deep = Tensor::new(&[2, 3, 4], &deep);
    let got: Vec<i32> =
        run1(&Op::IndexSelect(IndexSelect { axis: 1 }), &[&deep, &Tensor::new(&[2], &[2i64, 0])]);
    assert_eq!(got, [8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15]);
    // torch.gather
    let index = Tensor::new(&[2, 2], &[0i64, 1, 2, 0]);
    assert_eq!(run1::<f32>(&Op::Gather(Gather { axis: 0 }), &[&table, &index]), [0.0, 3.0, 4.0, 1.0]);
    let index = Tensor::new(&[3, 1], &[1i64, 0, 1]);
    assert_eq!(run1::<f32>(&Op::Gather(Gather { axis: 1 }), &[&table, &index]), [1.0, 2.0, 5.0]);
    for bad in [3i64, -1] {
        let error = fails(&Op::Embedding(Embedding), &[&table, &Tensor::new(&[1], &[bad])]);
        assert_eq!(error, Error::Index { op: "embedding", index: bad, len: 3 });
    }
    let joined: Vec<f32> =
        run1(&Op::Concat(Concat { axis: 1 }), &[&table, &Tensor::new(&[3, 1], &[9f32, 8.0, 7.0])]);
    assert_eq!(joined, [0.0, 1.0, 9.0, 2.0, 3.0, 8.0, 4.0, 5.0, 7.0]);
}

#[test]
fn fills_and_counts() {
    let shape = Shape::new([3, 4].as_slice()).unwrap();
    let op = Op::Fill(Fill { shape, dtype: DType::BF16, value: Scalar::Float(1.5) });
    assert_eq!(run1::<bf16>(&op, &[]), vec![bf16::from_f32(1.5); 12]);
    let arange = |start, step, len, dtype| Op::Arange(Arange { start, step, len, dtype });
    assert_eq!(run1::<i64>(&arange(Scalar::Int(5), Scalar::Int(-2), 4, DType::I64), &[]), [5, 3, 1, -1]);
    let got = run1::<f32>(&arange(Scalar::Float(0.0), Scalar::Float(0.1), 100_000, DType::F32), &[]);
    assert_eq!(got[99_999], (99_999.0f64 * 0.1) as f32);
}

#[test]
fn arange_counts_beyond_its_blocks() {
    let arange = |start, step, len, dtype| Op::Arange(Arange { start, step, len, dtype });
    let len = 3 * (1 << 16) + 5;
    let got = run1::<i64>(&arange(Scalar::Int(-7), Scalar::Int(3), len, DType::I64), &[]);
    assert!(got.iter().enumerate().all(|(i, &x)| x == i as i64 * 3 - 7));
    let got = run1::<f64>(&arange(Scalar::Float(0.25), Scalar::Float(-0.1), len, DType::F64), &[]);
    assert!(got.iter().enumerate().all(|(i, &x)| x == 0.25 + -0.1 * i as f64));
    let got = run1::<i32>(&arange(Scalar::Float(0.5), Scalar::Float(0.75), len, DType::I32), &[]);
    assert!(got.iter().enumerate().all(|(i, &x)| x == (0.5 + 0.75 * i as f64) as i32));
}

#[test]
fn elements_that_lie_apart_are_copied_from_and_to() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(make: impl Fn(usize) -> T) {
        // Rows that are short, and of a vector and some more; enough for several threads.
        for (rows, cols) in [(3, 5), (7, 16), (5, 37), (300, 600)] {
            for (step, to_step) in [(1, 2), (2, 1), (2, 2), (3, 1), (1, 3), (2, 3)] {
                let every = |step| move |l: &Layout| l.slice(1, 0, cols, step).unwrap();
                let values: Vec<T> = (0..rows * cols * step).map(&make).collect();
                let x = Tensor::new(&[rows, cols * step], &values).with(every(step));
                let before: Vec<T> = (0..rows * cols * to_step).map(|i| make(i + 77)).collect();
                let mut want = before.clone();
                for i in 0..rows * cols {
                    want[i * to_step] = values[i * step];
                }
                let mut out = Tensor::new(&[rows, cols * to_step], &before).with(every(to_step));
                out.write(&Op::Copy(CopyOp), &[&x]).unwrap();
                let whole =
                    out.with(|_| Layout::contiguous(Shape::new(&[rows, cols * to_step][..]).unwrap()));
                assert_eq!(whole.values::<T>(), want, "{rows} {cols} {step} {to_step}");
            }
        }
    }
    check::<u8>(|i| i as u8);
    check::<f16>(|i| f16::from_f32((i % 1000) as f32));
    check::<f32>(|i| i as f32);
    check::<f64>(|i| i as f64);
    check::<rustorch_core::C128>(|i| rustorch_core::C128::new(i as f64, -1.0));
}

#[test]
fn lines_across_memory_give_the_bits_of_contiguous_ones() {
    // Whole blocks of lines and parts, short lines, and some too long for many in a block.
    for (n, len) in [(37, 70), (16, 5), (200, 3), (150, 1000), (5, 40)] {
        let values = noise(30, n * len);
        let chosen: Vec<i64> = values.iter().map(|x| (x.abs() * 1e4) as i64 % len as i64).collect();
        let across = |i: usize| i % n * len + i / n;
        let turned: Vec<f32> = (0..n * len).map(|i| values[across(i)]).collect();
        let turned_chosen: Vec<i64> = (0..n * len).map(|i| chosen[across(i)]).collect();
        let ops = |axis| {
            [
                Op::Softmax(Softmax { axis, log: true }),
                Op::Scan(rustorch_core::Scan { op: rustorch_core::ScanOp::Sum, axis }),
            ]
        };
        let same = |got: Vec<f32>, want: Vec<f32>| {
            (0..n * len)
                .for_each(|i| assert_eq!(got[i].to_bits(), want[across(i)].to_bits(), "{n} {len} {i}"));
        };
        for (op, op_across) in ops(1).iter().zip(&ops(0)) {
            let want = run1::<f32>(op, &[&Tensor::new(&[n, len], &values)]);
            same(run1::<f32>(op_across, &[&Tensor::new(&[len, n], &turned)]), want.clone());
            // Across memory on one side only.
            let view = Tensor::new(&[len, n], &turned).with(|l| l.transpose(0, 1).unwrap());
            assert_eq!(run1::<f32>(op, &[&view]), want);
            let view = Tensor::new(&[n, len], &values).with(|l| l.transpose(0, 1).unwrap());
            same(run1::<f32>(op_across, &[&view]), want);
        }
        let args = [Tensor::new(&[n, len], &values), Tensor::new(&[n, len], &chosen)];
        let want = run1::<f32>(&Op::Gather(Gather { axis: 1 }), &[&args[0], &args[1]]);
        let args = [Tensor::new(&[len, n], &turned), Tensor::new(&[len, n], &turned_chosen)];
        same(run1::<f32>(&Op::Gather(Gather { axis: 0 }), &[&args[0], &args[1]]), want);
        let backwards: Vec<i64> = (0..len as i64).rev().collect();
        let flip = Op::IndexSelect(IndexSelect { axis: 1 });
        let got = run1::<f32>(&flip, &[&Tensor::new(&[n, len], &values), &Tensor::new(&[len], &backwards)]);
        let want: Vec<f32> = values.chunks(len).flat_map(|line| line.iter().rev().copied()).collect();
        assert_eq!(got, want);
    }
}

#[test]
fn softmax_and_norms() {
    let (rows, n) = (7, 133);
    let x = noise(9, rows * n);
    let t = Tensor::new(&[rows, n], &x);
    let wide: Vec<f64> = x.iter().map(|&x| x.into()).collect();
    let soft = |row: &[f64], log: bool| {
        let total: f64 = row.iter().map(|x| x.exp()).sum();
        row.iter().map(|x| if log { x - total.ln() } else { x.exp() / total }).collect::<Vec<_>>()
    };
    for log in [false, true] {
        let want: Vec<f64> = wide.chunks(n).flat_map(|row| soft(row, log)).collect();
        close(&run1::<f32>(&Op::Softmax(Softmax { axis: 1, log }), &[&t]), &want, 1e-6);
        // Along the other axis of the transposed matrix.
        let turned = Tensor::new(&[rows, n], &x).with(|l| l.transpose(0, 1).unwrap());
        let got: Vec<f32> = run1(&Op::Softmax(Softmax { axis: 0, log }), &[&turned]);
        let back = Tensor::new(&[n, rows], &got).with(|l| l.transpose(0, 1).unwrap()).values::<f32>();
        close(&back, &want, 1e-6);
    }
    let (w, b) = (noise(10, n), noise(11, n));
    let (wt, bt) = (Tensor::new(&[n], &w), Tensor::new(&[n], &b));
    let mut want = Vec::new();
    let mut want_rms = Vec::new();
    for row in wide.chunks(n) {
        let mean = row.iter().sum::<f64>() / n as f64;
        let var = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        let square = row.iter().map(|x| x * x).sum::<f64>() / n as f64;
        for i in 0..n {
            want.push((row[i] - mean) / (var + 1e-5).sqrt() * f64::from(w[i]) + f64::from(b[i]));
            want_rms.push(row[i] / (square + 1e-6).sqrt() * f64::from(w[i]));
        }
    }
    close(&run1::<f32>(&Op::LayerNorm(LayerNorm { dims: 1, eps: 1e-5 }), &[&t, &wt, &bt]), &want, 2e-6);
    close(&run1::<f32>(&Op::RmsNorm(RmsNorm { eps: 1e-6 }), &[&t, &wt]), &want_rms, 2e-6);
    // Two trailing dimensions, as they lie and scattered.
    let shaped = Tensor::new(&[rows, 7, 19], &x);
    let shape = |x: &[f32]| Tensor::new(&[7, 19], x);
    let op = Op::LayerNorm(LayerNorm { dims: 2, eps: 1e-5 });
    close(&run1::<f32>(&op, &[&shaped, &shape(&w), &shape(&b)]), &want, 2e-6);
    let mut turned = vec![0.0; x.len()];
    for (i, x) in x.iter().enumerate() {
        let (r, p, q) = (i / 133, i / 19 % 7, i % 19);
        turned[r * 133 + q * 7 + p] = *x;
    }
    let scattered = Tensor::new(&[rows, 19, 7], &turned).with(|l| l.transpose(1, 2).unwrap());
    close(&run1::<f32>(&op, &[&scattered, &shape(&w), &shape(&b)]), &want, 2e-6);
}

/// Rows long and short, packed and scattered, and what is no number: the bits of the two steps.
#[test]
fn a_normalised_sum_is_a_sum_that_is_normalised() {
    fn check<T: Element>(of: impl Fn(f32) -> T) {
        let norm = RmsNorm { eps: 1e-6 };
        for [rows, n] in [[3, 1], [7, 133], [40, 512]] {
            let mut x = noise(20, rows * n);
            (x[0], x[n]) = (f32::INFINITY, 1e-30);
            let convert = |x: &[f32]| x.iter().map(|&x| of(x)).collect::<Vec<T>>();
            let weight = Tensor::new(&[n], &convert(&noise(22, n)));
            let lying = [
                Tensor::new(&[rows, n], &convert(&x)),
                Tensor::new(&[n, rows], &convert(&x)).with(|l| l.transpose(0, 1).unwrap()),
            ];
            let y = Tensor::new(&[rows, n], &convert(&noise(21, rows * n)));
            for x in &lying {
                for weight in [None, Some(&weight)] {
                    let args: Vec<&Tensor> = [x, &y].into_iter().chain(weight).collect();
                    let both = run(&Op::AddRmsNorm(AddRmsNorm { eps: norm.eps }), &args).unwrap();
                    let sum = run(&Op::Binary(BinaryOp::Add), &[x, &y]).unwrap().remove(0);
                    let args: Vec<&Tensor> = [&sum].into_iter().chain(weight).collect();
                    let normed = run(&Op::RmsNorm(norm.clone()), &args).unwrap().remove(0);
                    assert_eq!([both[0].bytes(), both[1].bytes()], [sum.bytes(), normed.bytes()]);
                }
            }
        }
    }
    check(|x| x);
    check(f64::from);
    check(f16::from_f32);
    check(bf16::from_f32);
}

#[test]
fn gates() {
    let (g, u) = (noise(1, 500), noise(2, 500));
    let tensors = [Tensor::new(&[5, 100], &g), Tensor::new(&[5, 100], &u)];
    type Case = (GluOp, fn(f64) -> f64);
    let cases: [Case; 4] = [
        (GluOp::Silu, |x| x / (1.0 + (-x).exp())),
        (GluOp::Gelu, |x| 0.5 * x * (1.0 + libm::erf(x / 2f64.sqrt()))),
        (GluOp::GeluTanh, |x| {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }),
        (GluOp::Relu, |x| x.max(0.0)),
    ];
    for (op, f) in cases {
        let want: Vec<f64> = g.iter().zip(&u).map(|(&g, &u)| f(g.into()) * f64::from(u)).collect();
        close(&run1::<f32>(&Op::Glu(op), &tensors.each_ref()), &want, 1e-6);
    }
}

#[test]
fn rope_turns_pairs() {
    let (heads, seq, dim) = (3, 5, 10);
    let x = noise(1, heads * seq * dim);
    let positions = [0i32, 1, 7, 100, 3];
    let tensors = [Tensor::new(&[heads, seq, dim], &x), Tensor::new(&[seq], &positions)];
    let factors = [1.0f32, 2.0, 4.0, 1.5];
    for style in [RopeStyle::Adjacent, RopeStyle::Halves] {
        let rope = RopeParams { style, rotated: 8, base: 10_000.0, scale: 0.5, yarn: None };
        let mut want: Vec<f64> = x.iter().map(|&x| x.into()).collect();
        for (row, out) in want.chunks_mut(dim).enumerate() {
            for (i, &factor) in factors.iter().enumerate() {
                let angle = f64::from(positions[row % seq]) * 0.5 * 10_000f64.powf(-2.0 * i as f64 / 8.0)
                    / f64::from(factor);
                let (a, b) = if style == RopeStyle::Adjacent { (2 * i, 2 * i + 1) } else { (i, i + 4) };
                let (x, y) = (out[a], out[b]);
                out[a] = x * angle.cos() - y * angle.sin();
                out[b] = x * angle.sin() + y * angle.cos();
            }
        }
        let factors = Tensor::new(&[4], &factors);
        let got: Vec<f32> = run1(&Op::Rope(rope), &[&tensors[0], &tensors[1], &factors]);
        close(&got, &want, 2e-5);
    }
}

/// The formulas of the YaRN paper's reference code (`yarn_find_correction_range`, `yarn_linear_ramp_mask`), in f64.
#[test]
fn yarn_blends_frequencies() {
    let dim = 64usize;
    let (base, factor, context) = (10_000f64, 4.0f64, 2048.0f64);
    let rope = RopeParams {
        style: RopeStyle::Halves,
        rotated: dim,
        base: base as f32,
        scale: (1.0 / factor) as f32,
        yarn: Some(Yarn {
            ext_factor: 1.0,
            attn_factor: 1.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original_context: context as usize,
        }),
    };
    let correction = |rotations: f64| {
        dim as f64 * (context / (rotations * 2.0 * std::f64::consts::PI)).ln() / (2.0 * base.ln())
    };
    let (low, high) = (correction(32.0).floor().max(0.0), correction(1.0).ceil().min(dim as f64 - 1.0));
    let magnitude = 0.1 * factor.ln() + 1.0;
    let x = noise(1, dim);
    let position = 1000i64;
    let got: Vec<f32> =
        run1(&Op::Rope(rope), &[&Tensor::new(&[1, dim], &x), &Tensor::new(&[1], &[position])]);
    let mut want = vec![0.0; dim];
    for i in 0..dim / 2 {
        let extrapolated = base.powf(-2.0 * i as f64 / dim as f64);
        let keep = 1.0 - ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
        let angle = position as f64 * (extrapolated / factor * (1.0 - keep) + extrapolated * keep);
        let (a, b) = (f64::from(x[i]), f64::from(x[i + dim / 2]));
        want[i] = magnitude * (a * angle.cos() - b * angle.sin());
        want[i + dim / 2] = magnitude * (a * angle.sin() + b * angle.cos());
    }
    // The angles reach 1000 radians in f32.
    close(&got, &want, 5e-4);
}

/// Integers of a small range are counted; the order is that of the standard library's stable sort.
#[test]
fn sorts_of_few_distinct_integers_are_stable() {
    fn check<T: Element + Ord>(x: &[T]) {
        let long = Tensor::new(&[x.len()], x);
        for descending in [false, true] {
            let mut order: Vec<usize> = (0..x.len()).collect();
            order.sort_by(|&i, &j| if descending { x[j].cmp(&x[i]) } else { x[i].cmp(&x[j]) });
            let sort = Op::Sort(Sort { axis: 0, descending });
            let top = Op::TopK(TopK { k: 70, axis: 0, largest: descending });
            for (op, count) in [(sort, x.len()), (top, 70)] {
                let out = run(&op, &[&long]).unwrap();
                let expected = order[..count].iter();
                assert_eq!(out[0].values::<T>(), expected.clone().map(|&i| x[i]).collect::<Vec<_>>());
                assert_eq!(out[1].values::<i64>(), expected.map(|&i| i as i64).collect::<Vec<_>>());
            }
        }
    }
    let near = |i: i64| (i * 7919) % 13 - 6;
    check(&(0..100).map(near).collect::<Vec<i64>>());
    check(&(0..100).map(|i| i64::MIN + 6 + near(i)).collect::<Vec<_>>());
    check(&(0..100).map(|i| near(i) as i8).collect::<Vec<_>>());
    check(&(0..100).map(|i| near(i) % 2 == 0).collect::<Vec<_>>());
    // As wide a range as there is.
    check(
        &(0..100).map(|i| if i % 3 == 0 { i64::MIN } else { i64::MAX - near(i).abs() }).collect::<Vec<_>>(),
    );
}

#[test]
fn sorts_are_stable_and_put_nan_last() {
    let x = Tensor::new(&[2, 5], &[3.0f32, f32::NAN, -1.0, 3.0, 0.0, -0.0, 0.0, f32::NEG_INFINITY, 1.0, 0.0]);
    let out = run(&Op::Sort(Sort { axis: 1, descending: false }), &[&x]).unwrap();
    assert_eq!(out[1].values::<i64>(), [2, 4, 0, 3, 1, 2, 0, 1, 4, 3]);
    let out = run(&Op::Sort(Sort { axis: 1, descending: true }), &[&x]).unwrap();
    assert_eq!(out[1].values::<i64>(), [1, 0, 3, 4, 2, 3, 0, 1, 4, 2]);
    let out = run(&Op::Sort(Sort { axis: 0, descending: false }), &[&x]).unwrap();
    assert_eq!(out[1].values::<i64>(), [1, 1, 1, 1, 0, 0, 0, 0, 0, 1]);
    let out = run(&Op::TopK(TopK { k: 2, axis: 1, largest: true }), &[&x]).unwrap();
    assert_eq!(out[1].values::<i64>(), [1, 0, 3, 0]);
    let long = Tensor::new(&[4], &[i64::MAX, i64::MIN, 0, -1]);
    let out = run(&Op::TopK(TopK { k: 3, axis: 0, largest: false }), &[&long]).unwrap();
    assert_eq!(out[0].values::<i64>(), [i64::MIN, -1, 0]);
    assert_eq!(
        run(&Op::Sort(Sort { axis: 0, descending: false }), &[&Tensor::new(&[], &[2u8])]).unwrap()[1]
            .values::<i64>(),
        [0]
    );
}

#[test]
fn borders_and_triangles() {
    let x = Tensor::new(&[2, 2], &[1i32, 2, 3, 4]);
    let pad = Op::Pad(Pad { widths: [(1, 0), (0, 2)].into_iter().collect(), value: Scalar::Int(9) });
    assert_eq!(run1::<i32>(&pad, &[&x]), [9, 9, 9, 9, 1, 2, 9, 9, 3, 4, 9, 9]);
    let x = Tensor::new(&[3, 4], &(1..13).collect::<Vec<i32>>());
    let cut = |upper, diagonal| Op::Tri(Tri { upper, diagonal });
    assert_eq!(run1::<i32>(&cut(false, 0), &[&x]), [1, 0, 0, 0, 5, 6, 0, 0, 9, 10, 11, 0]);
    assert_eq!(run1::<i32>(&cut(true, 1), &[&x]), [0, 2, 3, 4, 0, 0, 7, 8, 0, 0, 0, 12]);
    assert_eq!(run1::<i32>(&cut(true, i64::MIN), &[&x]), x.values::<i32>());
    assert_eq!(run1::<i32>(&cut(false, -2), &[&x]), [0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0]);
}

#[test]
fn complex_functions() {
    // Python's cmath
    let z = C128::new(0.5, -1.25);
    let cases = [
        (UnaryOp::Exp, C128::new(0.5198786860084937, -1.5646111274988195)),
        (UnaryOp::Log, C128::new(0.2973535538733464, -1.1902899496825317)),
        (UnaryOp::Sqrt, C128::new(0.9608046632337985, -0.6504964265019547)),
        (UnaryOp::Sin, C128::new(0.9053586344209573, -1.4058162504314684)),
        (UnaryOp::Tanh, C128::new(1.5839635482844239, -0.8066346988510739)),
        (UnaryOp::Reciprocal, C128::new(0.27586206896551724, 0.6896551724137931)),
    ];
    for (op, want) in cases {
        let got: Vec<C128> = run1(&Op::Unary(op), &[&Tensor::new(&[1], &[z])]);
        assert!((got[0] - want).norm() < 1e-14, "{op:?} {}", got[0]);
    }
    let z = Tensor::new(&[2], &[C64::new(3.0, -4.0), C64::new(-1.0, 0.0)]);
    assert_eq!(run1::<f32>(&Op::Unary(UnaryOp::Abs), &[&z]), [5.0, 1.0]);
    assert_eq!(run1::<f32>(&Op::Unary(UnaryOp::Imag), &[&z]), [-4.0, 0.0]);
    assert_eq!(run1::<f32>(&Op::Unary(UnaryOp::Angle), &[&z])[1], std::f32::consts::PI);
    assert_eq!(run1::<C64>(&Op::Unary(UnaryOp::Conj), &[&z])[0], C64::new(3.0, 4.0));
    let div = run1::<C64>(&Op::Binary(BinaryOp::Div), &[&z, &z]);
    assert_eq!(div, [C64::new(1.0, 0.0); 2]);
}

/// Where formulas that are simple overflow or cancel. From mpmath with 300 bits, such as
/// `float(mpmath.acosh(mpmath.mpf(1 + 2**-52)))`.
#[test]
fn inverse_hyperbolic_functions_of_doubles_keep_their_digits() {
    for (op, x, want) in [
        (UnaryOp::Asinh, f64::MAX, 710.475860073944),
        (UnaryOp::Asinh, -f64::MAX, -710.475860073944),
        (UnaryOp::Acosh, 1.0 + f64::EPSILON, 2.1073424255447014e-8),
        (UnaryOp::Acosh, f64::MAX, 710.475860073944),
        (UnaryOp::Atanh, -0.9840000999999999, -2.4101439330138943),
    ] {
        let got = run1::<f64>(&Op::Unary(op), &[&Tensor::new(&[1], &[x])])[0];
        assert!(
            (got - want).abs() <= 2.0 * f64::EPSILON * want.abs(),
            "{op:?} of {x:e} is {got:e}, not {want:e}"
        );
    }
    for x in [-123_450.0, -1e300, 0.5, f64::NEG_INFINITY] {
        assert!(run1::<f64>(&Op::Unary(UnaryOp::Acosh), &[&Tensor::new(&[1], &[x])])[0].is_nan(), "{x:e}");
    }
}

/// Enough slices for threads to divide them; some are chosen often, one by far the most.
#[test]
fn slices_are_added_in_order_on_any_number_of_threads() {
    let (slices, sources, width) = (200, 300, 600);
    let (x, source) = (noise(1, slices * width), noise(2, sources * width));
    let chosen: Vec<i64> =
        (0..sources).map(|i| if i % 3 == 0 { 7 } else { (i * i % slices) as i64 }).collect();
    let mut want = x.clone();
    for (source, &chosen) in source.chunks(width).zip(&chosen) {
        let slice = &mut want[chosen as usize * width..][..width];
        slice.iter_mut().zip(source).for_each(|(sum, x)| *sum += x);
    }
    let index = Tensor::new(&[sources, 1], &chosen);
    let spread = Shape::new([sources, width].as_slice()).unwrap();
    let index = index.with(|layout| layout.broadcast_to(&spread, "test").unwrap());
    let args = [&Tensor::new(&[slices, width], &x), &index, &Tensor::new(&[sources, width], &source)];
    assert_eq!(run1::<f32>(&Op::Scatter(Scatter { axis: 0, mode: ScatterMode::Add }), &args), want);
}
