use crate::testing::{Tensor, close, noise, run, run1};
use rustorch_core::{
    C64, DType, Dims, Element, Layout, Op, Reduce, ReduceOp, Scan, ScanOp, Scatter, ScatterMode, bf16, f16,
};

fn op(op: ReduceOp, axes: &[usize]) -> Op {
    Op::Reduce(Reduce { op, axes: Dims::from_slice(axes), keepdim: false })
}

/// The elements that go into each result, in order.
fn groups(layout: &Layout, values: &[f32], axes: &[usize]) -> Vec<Vec<f64>> {
    let mut order: Vec<usize> = (0..layout.ndim()).filter(|a| !axes.contains(a)).collect();
    order.extend(axes);
    let n: usize = axes.iter().map(|&a| layout.dims()[a]).product();
    let indices: Vec<usize> = layout.permute(&order).unwrap().indices().collect();
    indices.chunks(n).map(|group| group.iter().map(|&i| values[i].into()).collect()).collect()
}

#[test]
fn floats_over_any_axes() {
    let shapes: [(&[usize], &[&[usize]]); 4] = [
        (&[13, 7, 40], &[&[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]]),
        (&[3, 9000], &[&[0], &[1], &[0, 1]]),
        (&[2100, 600], &[&[0], &[1]]),
        (&[1], &[&[0], &[]]),
    ];
    for (dims, all_axes) in shapes {
        let values = noise(1, dims.iter().product());
        let turned = |l: &Layout| l.transpose(0, l.ndim() - 1).unwrap();
        for view in [Tensor::new(dims, &values), Tensor::new(dims, &values).with(turned)] {
            for axes in all_axes {
                let groups = groups(&view.layout, &values, axes);
                let each = |f: &dyn Fn(&[f64]) -> f64| groups.iter().map(|g| f(g)).collect::<Vec<_>>();
                let mean = |g: &[f64]| g.iter().sum::<f64>() / g.len() as f64;
                let var = |g: &[f64], c: f64| {
                    let mean = mean(g);
                    g.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (g.len() as f64 - c)
                };
                let check = |reduce, want: Vec<f64>, tolerance| {
                    close(&run1::<f32>(&op(reduce, axes), &[&view]), &want, tolerance);
                };
                check(ReduceOp::Sum, each(&|g| g.iter().sum()), 3e-5);
                check(ReduceOp::Mean, each(&mean), 5e-7);
                check(ReduceOp::Prod, each(&|g| g.iter().product()), 1e-6);
                check(ReduceOp::Max, each(&|g| g.iter().copied().fold(f64::MIN, f64::max)), 0.0);
                check(ReduceOp::Min, each(&|g| g.iter().copied().fold(f64::MAX, f64::min)), 0.0);
                check(ReduceOp::LogSumExp, each(&|g| g.iter().map(|x| x.exp()).sum::<f64>().ln()), 1e-6);
                check(ReduceOp::Norm, each(&|g| g.iter().map(|x| x * x).sum::<f64>().sqrt()), 1e-6);
                check(ReduceOp::Var { correction: 1.0 }, each(&|g| var(g, 1.0)), 1e-6);
                check(ReduceOp::Std { correction: 0.0 }, each(&|g| var(g, 0.0).sqrt()), 1e-6);
                if axes.len() == 1 || axes.len() == dims.len() {
                    let first = |g: &Vec<f64>, best: fn(f64, f64) -> bool| {
                        (1..g.len()).fold(0, |a, b| if best(g[b], g[a]) { b } else { a }) as i64
                    };
                    let want: Vec<i64> = groups.iter().map(|g| first(g, |a, b| a > b)).collect();
                    assert_eq!(run1::<i64>(&op(ReduceOp::ArgMax, axes), &[&view]), want);
                    let want: Vec<i64> = groups.iter().map(|g| first(g, |a, b| a < b)).collect();
                    assert_eq!(run1::<i64>(&op(ReduceOp::ArgMin, axes), &[&view]), want);
                }
            }
        }
    }
}

#[test]
fn rules_for_special_values() {
    let nan = f32::NAN;
    let x = Tensor::new(
        &[2, 9],
        &[1.0, nan, 5.0, nan, 2.0, 0.0, 0.0, 0.0, 0.0, 7.0, 7.0, -1.0, -1.0, 0.0, 7.0, 0.0, 0.0, 0.0],
    );
    for axis in [0, 1] {
        // Along rows as they lie, and along columns of the transposed matrix.
        let x = if axis == 1 {
            Tensor::new(&[2, 9], &x.values::<f32>())
        } else {
            let x: Vec<f32> = x.values();
            let turned: Vec<f32> = (0..18).map(|i| x[i % 2 * 9 + i / 2]).collect();
            Tensor::new(&[9, 2], &turned)
        };
        let max: Vec<f32> = run1(&op(ReduceOp::Max, &[axis]), &[&x]);
        assert!(max[0].is_nan() && max[1] == 7.0);
        assert_eq!(run1::<i64>(&op(ReduceOp::ArgMax, &[axis]), &[&x]), [1, 0]);
        assert_eq!(run1::<i64>(&op(ReduceOp::ArgMin, &[axis]), &[&x]), [1, 2]);
    }
    let wide: Vec<f32> = (0..9 * 20).map(|i| if i / 20 == 4 { nan } else { f32::NEG_INFINITY }).collect();
    assert_eq!(run1::<i64>(&op(ReduceOp::ArgMax, &[0]), &[&Tensor::new(&[9, 20], &wide)]), [4; 20]);
    let none = vec![f32::NEG_INFINITY; 9 * 20];
    let none = Tensor::new(&[9, 20], &none);
    assert_eq!(run1::<i64>(&op(ReduceOp::ArgMax, &[0]), &[&none]), [0; 20]);
    assert_eq!(run1::<f32>(&op(ReduceOp::LogSumExp, &[1]), &[&none]), [f32::NEG_INFINITY; 9]);
    let big = Tensor::new(&[3], &[1000.0f32, 1000.0, f32::NEG_INFINITY]);
    close(&run1::<f32>(&op(ReduceOp::LogSumExp, &[0]), &[&big]), &[1000.0 + 2f64.ln()], 1e-7);
    // Of nothing.
    let empty = Tensor::new(&[0, 3], &[0f32; 0]);
    assert_eq!(run1::<f32>(&op(ReduceOp::Sum, &[0]), &[&empty]), [0.0; 3]);
    assert_eq!(run1::<f32>(&op(ReduceOp::Prod, &[0]), &[&empty]), [1.0; 3]);
    assert!(run1::<f32>(&op(ReduceOp::Mean, &[0]), &[&empty]).iter().all(|x| x.is_nan()));
    assert_eq!(run1::<bool>(&op(ReduceOp::All, &[0]), &[&empty]), [true; 3]);
    assert_eq!(run1::<bool>(&op(ReduceOp::Any, &[0]), &[&empty]), [false; 3]);
    assert!(run(&op(ReduceOp::Max, &[0]), &[&empty]).is_err());
    assert!(
        run1::<f32>(&op(ReduceOp::Var { correction: 1.0 }, &[0]), &[&Tensor::new(&[1], &[1f32])])[0].is_nan()
    );
}

#[test]
fn other_dtypes() {
    let bytes: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
    let want: i64 = bytes.iter().map(|&b| i64::from(b)).sum();
    let bytes = Tensor::new(&[100, 1000], &bytes);
    assert_eq!(run1::<i64>(&op(ReduceOp::Sum, &[0, 1]), &[&bytes]), [want]);
    assert_eq!(run1::<u8>(&op(ReduceOp::Max, &[0, 1]), &[&bytes]), [250]);
    let ones = vec![f16::ONE; 5000];
    assert_eq!(
        run1::<f16>(&op(ReduceOp::Sum, &[0]), &[&Tensor::new(&[5000], &ones)]),
        [f16::from_f32(5000.0)]
    );
    let ones = vec![bf16::ONE; 5000 * 10];
    assert_eq!(
        run1::<bf16>(&op(ReduceOp::Sum, &[0]), &[&Tensor::new(&[5000, 10], &ones)]),
        [bf16::from_f32(5000.0); 10]
    );
    let z = Tensor::new(&[3], &[C64::new(1.0, 2.0), C64::new(0.0, -1.0), C64::new(2.0, 0.0)]);
    assert_eq!(run1::<C64>(&op(ReduceOp::Prod, &[0]), &[&z]), [C64::new(4.0, -2.0)]);
    assert_eq!(run1::<C64>(&op(ReduceOp::Mean, &[0]), &[&z]), [C64::new(1.0, 1.0 / 3.0)]);
    let flags = Tensor::new(&[2, 3], &[true, false, true, false, false, false]);
    assert_eq!(run1::<i64>(&op(ReduceOp::Sum, &[1]), &[&flags]), [2, 0]);
    assert_eq!(run1::<bool>(&op(ReduceOp::Any, &[1]), &[&flags]), [true, false]);
    // One part of 10⁸ beside many of 1: lost when summed one by one in f32.
    let mut x = vec![1.0f32; 1 << 20];
    x[0] = 1e8;
    let sum = run1::<f32>(&op(ReduceOp::Sum, &[0]), &[&Tensor::new(&[1 << 20], &x)]);
    assert!((f64::from(sum[0]) - (1e8 + 1048575.0)).abs() < 600.0, "{sum:?}");
    // A variance that cancels: torch.var of 1e4 + {0, 1, …} alternating.
    let x: Vec<f32> = (0..10_000).map(|i| 1e4 + (i % 2) as f32).collect();
    let var = run1::<f32>(&op(ReduceOp::Var { correction: 0.0 }, &[0]), &[&Tensor::new(&[10_000], &x)]);
    assert!((var[0] - 0.25).abs() < 1e-6, "{var:?}");
}

#[test]
fn scans() {
    let x = Tensor::new(&[2, 3], &[1i32, 2, 3, 4, 5, 6]);
    assert_eq!(run1::<i64>(&Op::Scan(Scan { op: ScanOp::Sum, axis: 1 }), &[&x]), [1, 3, 6, 4, 9, 15]);
    assert_eq!(run1::<i64>(&Op::Scan(Scan { op: ScanOp::Prod, axis: 0 }), &[&x]), [1, 2, 3, 4, 10, 18]);
    assert_eq!(
        run1::<f32>(&Op::Scan(Scan { op: ScanOp::Sum, axis: 0 }), &[&Tensor::new(&[], &[2f32])]),
        [2.0]
    );
    assert_eq!(
        run1::<bf16>(
            &Op::Scan(Scan { op: ScanOp::Sum, axis: 0 }),
            &[&Tensor::new(&[300], &[bf16::ONE; 300])]
        )[299],
        bf16::from_f32(300.0)
    );
}

/// As `torch.cummax` and `torch.cummin`; of long lines, which span several chunks, and of many columns by the definition.
#[test]
fn running_extrema() {
    fn both<T: Element>(op: ScanOp, axis: usize, x: &Tensor) -> (Vec<T>, Vec<i64>) {
        let results = run(&Op::Scan(Scan { op, axis }), &[x]).unwrap();
        (results[0].values(), results[1].values())
    }
    let (max, min) = (ScanOp::Max, ScanOp::Min);
    let x = Tensor::new(&[2, 4], &[2u8, 1, 3, 0, 1, 1, 0, 9]);
    assert_eq!(both::<u8>(max, 1, &x), (vec![2, 2, 3, 3, 1, 1, 1, 9], vec![0, 0, 2, 2, 0, 1, 1, 3]));
    assert_eq!(both::<u8>(min, 0, &x), (vec![2, 1, 3, 0, 1, 1, 0, 0], vec![0, 0, 0, 0, 1, 1, 1, 0]));
    let x = Tensor::new(&[4], &[false, true, false, true]);
    assert_eq!(both::<bool>(max, 0, &x), (vec![false, true, true, true], vec![0, 1, 1, 3]));
    // A long line, whose records come in several chunks: the largest of each beginning; and the same in 40 columns.
    let x: Vec<f32> = (0..1000).map(|i| ((i * 7919) % 509) as f32 - 400.0).collect();
    let last = |better: fn(f32, f32) -> bool| -> Vec<i64> {
        let best = |i: usize| (0..=i).fold(0, |best, j| if better(x[j], x[best]) { j } else { best });
        (0..1000).map(|i| best(i) as i64).collect()
    };
    let columns: Vec<f32> = x.iter().flat_map(|&x| [x; 40]).collect();
    for (op, places) in [(max, last(|a, b| a >= b)), (min, last(|a, b| a <= b))] {
        let values: Vec<f32> = places.iter().map(|&i| x[i as usize]).collect();
        assert_eq!(both(op, 0, &Tensor::new(&[1000], &x)), (values.clone(), places.clone()));
        let wide = |x: &[f32]| -> Vec<f32> { x.iter().flat_map(|&x| [x; 40]).collect() };
        let wide_places: Vec<i64> = places.iter().flat_map(|&i| [i; 40]).collect();
        assert_eq!(both(op, 0, &Tensor::new(&[1000, 40], &columns)), (wide(&values), wide_places));
    }
    // From the first NaN on, NaN; of zeros the sign of the last.
    let mut x = vec![f64::NEG_INFINITY; 100];
    (x[70], x[80]) = (f64::NAN, f64::NAN);
    let places: Vec<i64> = (0..70).chain([70; 10]).chain([80; 20]).collect();
    for (dims, copies) in [(&[100][..], 1), (&[100, 20], 20)] {
        let x: Vec<f64> = x.iter().flat_map(|&x| vec![x; copies]).collect();
        let (values, found) = both::<f64>(max, 0, &Tensor::new(dims, &x));
        let (numbers, nan) = values.split_at(70 * copies);
        assert!(numbers.iter().all(|&x| x == f64::NEG_INFINITY) && nan.iter().all(|x| x.is_nan()));
        assert_eq!(found, places.iter().flat_map(|&i| vec![i; copies]).collect::<Vec<_>>());
    }
    let zeros = both::<f32>(max, 0, &Tensor::new(&[3], &[0.0f32, -0.0, -1.0])).0;
    assert_eq!(zeros.iter().map(|x| x.is_sign_negative()).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn scatters() {
    // torch.zeros(3, 5).scatter(0, tensor([[0, 1, 2, 0]]), arange(1, 11).reshape(2, 5))
    let zeros = Tensor::new(&[3, 5], &[0i64; 15]);
    let src = Tensor::new(&[2, 5], &(1..11).collect::<Vec<i64>>());
    let index = Tensor::new(&[1, 4], &[0i64, 1, 2, 0]);
    let scatter = |axis, mode| Op::Scatter(Scatter { axis, mode });
    let got: Vec<i64> = run1(&scatter(0, ScatterMode::Replace), &[&zeros, &index, &src]);
    assert_eq!(got, [1, 0, 0, 4, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0]);
    let index = Tensor::new(&[2, 3], &[0i32, 1, 2, 0, 1, 4]);
    let got: Vec<i64> = run1(&scatter(1, ScatterMode::Replace), &[&zeros, &index, &src]);
    assert_eq!(got, [1, 2, 3, 0, 0, 6, 7, 0, 0, 8, 0, 0, 0, 0, 0]);
    let ones = Tensor::new(&[4], &[1f32; 4]);
    let index = Tensor::new(&[5], &[1i64, 1, 3, 1, 0]);
    let src = Tensor::new(&[5], &[1f32, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(run1::<f32>(&scatter(0, ScatterMode::Add), &[&ones, &index, &src]), [6.0, 8.0, 1.0, 4.0]);
    assert_eq!(run1::<f32>(&scatter(0, ScatterMode::Replace), &[&ones, &index, &src]), [5.0, 4.0, 1.0, 3.0]);
    // Lines across memory, many side by side, of several matrices.
    for dims in [[2, 9, 40], [1, 300, 33], [3, 5, 16], [1, 2000, 50]] {
        let count: usize = dims.iter().product();
        let x: Vec<i64> = (0..count as i64).collect();
        let index: Vec<i64> = (0..count).map(|i| ((i * i + i / 7) % dims[1]) as i64).collect();
        let mut want = [x.clone(), x.clone()];
        for i in 0..count {
            let place =
                i / (dims[1] * dims[2]) * dims[1] * dims[2] + index[i] as usize * dims[2] + i % dims[2];
            want[0][place] = -x[i];
            want[1][place] -= x[i];
        }
        let src: Vec<i64> = x.iter().map(|x| -x).collect();
        let [x, index, src] = [x, index, src].map(|values| Tensor::new(&dims, &values));
        assert_eq!(run1::<i64>(&scatter(1, ScatterMode::Replace), &[&x, &index, &src]), want[0], "{dims:?}");
        assert_eq!(run1::<i64>(&scatter(1, ScatterMode::Add), &[&x, &index, &src]), want[1], "{dims:?}");
    }
    let bad = Tensor::new(&[1], &[4i64]);
    let error = crate::testing::fails(&scatter(0, ScatterMode::Add), &[&ones, &bad, &src]);
    assert!(error.to_string().contains("index 4 is out of range"), "{error}");
    assert_eq!(ones.view().dtype(), DType::F32);
}
