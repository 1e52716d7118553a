//! Matmuls of dense operands.

use super::{Random, Tensor, bits, invariant, matmul, multiply_add, run};
use rustorch_core::{C64, C128, Element, IntMm, MatMul, Op, UnaryOp, bf16, f16};

/// Sizes `m`, `n`, `k` about the edges of tiles.
const SIZES: [(usize, usize, usize); 10] = [
    (1, 1, 1),
    (1, 33, 70),
    (3, 5, 7),
    (13, 65, 300),
    (12, 32, 256),
    (29, 16, 513),
    (2, 100, 31),
    (64, 64, 64),
    (7, 8, 9),
    (37, 70, 18),
];

fn reference<T: Copy, S: Copy>(
    (m, n, k): (usize, usize, usize),
    a: &[T],
    b: &[T],
    zero: S,
    add: impl Fn(S, T, T) -> S,
) -> Vec<S> {
    let mut out = Vec::new();
    for i in 0..m {
        for j in 0..n {
            out.push((0..k).fold(zero, |sum, p| add(sum, a[i * k + p], b[p * n + j])));
        }
    }
    out
}

/// The sums of a matmul of a vector: chunks of 1,024 values, in each sixteen chains, added as a tree.
fn sum_of_lanes(x: &[f32], w: &[f32]) -> f32 {
    let chunks = x.chunks(1024).zip(w.chunks(1024)).map(|(x, w)| {
        let mut lanes = [0.0f32; 16];
        for (p, (&x, &w)) in x.iter().zip(w).enumerate() {
            lanes[p % 16] = x.mul_add(w, lanes[p % 16]);
        }
        for half in [8, 4, 2, 1] {
            (0..half).for_each(|i| lanes[i] += lanes[i + half]);
        }
        lanes[0]
    });
    chunks.reduce(|sum, chunk| sum + chunk).unwrap()
}

#[test]
fn vectors_are_summed_in_lanes_in_any_layout() {
    let random = &mut Random::new(19);
    // Long ones are divided among threads along themselves, others by results.
    let long = [(1, 70_000), (3, 9_001), (70, 1024), (300, 33), (600, 2100)];
    // Of these, sums are kept in registers: whole vectors of results and others, of a block that is shorter than one; but of the last.
    let small = [(1, 16), (17, 30), (64, 64), (70, 100), (260, 100), (1100, 40)];
    for (n, k) in long.into_iter().chain(small) {
        let (x, w) = (random.floats(k), random.floats(n * k));
        let want: Vec<f32> = (0..n).map(|j| sum_of_lanes(&x, &w[j * k..][..k])).collect();
        let columns: Vec<f32> = (0..n * k).map(|i| w[i % n * k + i / n]).collect();
        let spread: Vec<f32> = (0..2 * n * k).map(|i| w[i / 2]).collect();
        let twice: Vec<f32> = (0..2 * k).map(|i| x[i / 2]).collect();
        let every_second = |dims: [usize; 2], axis: usize, values: &[f32]| {
            Tensor::of(&dims, values).with(|l| l.slice(axis, 0, dims[axis] / 2, 2).unwrap())
        };
        let matrices = || {
            [
                Tensor::of(&[n, k], &w),
                Tensor::of(&[k, n], &columns).transposed(),
                every_second([n, 2 * k], 1, &spread),
            ]
        };
        for threads in [1, 3] {
            for matrix in &matrices() {
                for column in [Tensor::of(&[k, 1], &x), every_second([2 * k, 1], 0, &twice)] {
                    let got = run(threads, &matmul(), &[matrix, &column]).values::<f32>();
                    assert_eq!(bits(&got), bits(&want), "{n} {k} {:?}", matrix.layout);
                }
            }
            for matrix in matrices().map(Tensor::transposed) {
                for row in [Tensor::of(&[1, k], &x), every_second([1, 2 * k], 1, &twice)] {
                    let got = run(threads, &matmul(), &[&row, &matrix]).values::<f32>();
                    assert_eq!(bits(&got), bits(&want), "{n} {k} {:?}", matrix.layout);
                }
            }
        }
    }
}

#[test]
fn few_long_sums_are_those_of_chunks_in_order() {
    let random = &mut Random::new(23);
    for (m, n, k) in [(16, 16, 16_384), (5, 31, 9_000), (32, 32, 8_192), (2, 3, 8_193)] {
        let (a, b) = (random.floats(m * k), random.floats(k * n));
        let bias = random.floats(n);
        let chunk = |i: usize, j: usize, from: usize| {
            (from..k.min(from + 1024)).fold(0.0f32, |sum, p| multiply_add(a[i * k + p], b[p * n + j], sum))
        };
        let sum =
            |i: usize, j: usize| (0..k).step_by(1024).map(|p| chunk(i, j, p)).reduce(|x, y| x + y).unwrap();
        let want: Vec<f32> = (0..m * n).map(|at| sum(at / n, at % n) + bias[at % n]).collect();
        let columns: Vec<f32> = (0..m * k).map(|i| a[i % m * k + i / m]).collect();
        let b = Tensor::of(&[k, n], &b);
        for a in [Tensor::of(&[m, k], &a), Tensor::of(&[k, m], &columns).transposed()] {
            for threads in [1, 3] {
                let got = run(threads, &matmul(), &[&a, &b, &Tensor::of(&[n], &bias)]).values::<f32>();
                assert_eq!(bits(&got), bits(&want), "{m} × {k} × {n}, {threads} threads");
            }
        }
    }
}

#[test]
fn few_rows_by_contiguous_columns_are_one_chain_on_any_number_of_threads() {
    let random = &mut Random::new(29);
    for (m, n, k) in [(64, 64, 700), (61, 130, 513), (48, 37, 1024)] {
        let (a, columns) = (random.floats(m * k), random.floats(n * k));
        let sum = |i: usize, j: usize| {
            (0..k).fold(0.0f32, |sum, p| multiply_add(a[i * k + p], columns[j * k + p], sum))
        };
        let want: Vec<f32> = (0..m * n).map(|at| sum(at / n, at % n)).collect();
        let (a, b) = (Tensor::of(&[m, k], &a), Tensor::of(&[n, k], &columns).transposed());
        for threads in [1, 2, 3, 7] {
            let got = run(threads, &matmul(), &[&a, &b]).values::<f32>();
            assert_eq!(bits(&got), bits(&want), "{m} × {k} × {n}, {threads} threads");
        }
    }
}

#[test]
fn floats_are_as_exact_as_their_dtype() {
    let random = &mut Random::new(11);
    for size in SIZES {
        let (m, n, k) = size;
        let (a, b) = (random.floats(m * k), random.floats(k * n));
        let close = |got: &[f64], want: &[f64], tolerance: f64| {
            for (got, want) in got.iter().zip(want) {
                assert!((got - want).abs() <= tolerance, "{size:?}: {got} not {want}");
            }
        };
        let widen = |v: &[f32]| v.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
        let exact = |a: &[f64], b: &[f64]| reference(size, a, b, 0.0f64, |s, a, b| s + a * b);
        let (wa, wb) = (widen(&a), widen(&b));
        let want = exact(&wa, &wb);

        let got = run(2, &matmul(), &[&Tensor::of(&[m, k], &a), &Tensor::of(&[k, n], &b)]).values::<f32>();
        close(&widen(&got), &want, 1e-6 * k as f64);
        let got = run(2, &matmul(), &[&Tensor::of(&[m, k], &wa), &Tensor::of(&[k, n], &wb)]).values::<f64>();
        close(&got, &want, 1e-15 * k as f64);

        macro_rules! sixteen_bits {
            ($ty:ty, $epsilon:expr) => {
                let round = |v: &[f32]| v.iter().map(|&v| <$ty>::from_f32(v)).collect::<Vec<_>>();
                let back = |v: &[$ty]| v.iter().map(|v| v.to_f64()).collect::<Vec<_>>();
                let (ha, hb) = (round(&a), round(&b));
                let want = exact(&back(&ha), &back(&hb));
                let (ta, tb) = (Tensor::of(&[m, k], &ha), Tensor::of(&[k, n], &hb));
                let got = run(2, &matmul(), &[&ta, &tb]).values::<$ty>();
                let largest = want.iter().fold(1.0f64, |m, v| m.max(v.abs()));
                close(&back(&got), &want, largest * $epsilon + 1e-6 * k as f64);
                // As a weight, for activations in f32, which are rounded first.
                let got = run(2, &matmul(), &[&Tensor::of(&[m, k], &a), &tb]).values::<f32>();
                close(&widen(&got), &want, 1e-6 * k as f64);
            };
        }
        sixteen_bits!(f16, 0.5f64.powi(11));
        sixteen_bits!(bf16, 0.5f64.powi(8));
    }
}

#[test]
fn integers_wrap() {
    let random = &mut Random::new(12);
    macro_rules! check {
        ($($ty:ty),*) => {$(
            for size in SIZES {
                let (m, n, k) = size;
                let a: Vec<$ty> = (0..m * k).map(|_| random.bits() as $ty).collect();
                let b: Vec<$ty> = (0..k * n).map(|_| random.bits() as $ty).collect();
                let bias: Vec<$ty> = (0..n).map(|_| random.bits() as $ty).collect();
                let mut want = reference(size, &a, &b, 0, |s: $ty, a, b| s.wrapping_add(a.wrapping_mul(b)));
                want.iter_mut().zip(bias.iter().cycle()).for_each(|(sum, bias)| *sum = sum.wrapping_add(*bias));
                let args = [&Tensor::of(&[m, k], &a), &Tensor::of(&[k, n], &b), &Tensor::of(&[n], &bias)];
                assert_eq!(run(2, &matmul(), &args).values::<$ty>(), want, "{size:?}");
            }
        )*};
    }
    check!(u8, i8, i16, i32, u32, i64);
}

#[test]
fn complex_numbers() {
    let random = &mut Random::new(13);
    for size in SIZES {
        let (m, n, k) = size;
        let mut complex =
            |n: usize| (0..n).map(|_| C64::new(random.float(), random.float())).collect::<Vec<_>>();
        let (a, b) = (complex(m * k), complex(k * n));
        let widen = |v: &[C64]| v.iter().map(|z| C128::new(z.re.into(), z.im.into())).collect::<Vec<_>>();
        let (wa, wb) = (widen(&a), widen(&b));
        let want = reference(size, &wa, &wb, C128::new(0.0, 0.0), |s, a, b| s + a * b);
        let got = run(2, &matmul(), &[&Tensor::of(&[m, k], &a), &Tensor::of(&[k, n], &b)]).values::<C64>();
        for (got, want) in widen(&got).iter().zip(&want) {
            assert!((got - want).norm() <= 2e-6 * k as f64, "{size:?}");
        }
        let got = run(2, &matmul(), &[&Tensor::of(&[m, k], &wa), &Tensor::of(&[k, n], &wb)]).values::<C128>();
        for (got, want) in got.iter().zip(&want) {
            assert!((got - want).norm() <= 2e-15 * k as f64, "{size:?}");
        }
    }
}

#[test]
fn strides_do_not_change_a_bit() {
    let random = &mut Random::new(14);
    for (m, n, k) in SIZES {
        let (a, b) = (random.floats(m * k), random.floats(k * n));
        let turned = |v: &[f32], rows: usize, columns: usize| {
            (0..rows * columns).map(|i| v[i % rows * columns + i / rows]).collect::<Vec<_>>()
        };
        let plain = [Tensor::of(&[m, k], &a), Tensor::of(&[k, n], &b)];
        let want = bits(&run(1, &matmul(), &[&plain[0], &plain[1]]).values());
        let a_turned = Tensor::of(&[k, m], &turned(&a, m, k)).transposed();
        let b_turned = Tensor::of(&[n, k], &turned(&b, k, n)).transposed();
        assert_eq!(bits(&run(1, &matmul(), &[&plain[0], &b_turned]).values()), want);
        assert_eq!(bits(&run(3, &matmul(), &[&a_turned, &plain[1]]).values()), want);
        assert_eq!(bits(&run(2, &matmul(), &[&a_turned, &b_turned]).values()), want);
        // Every row alone.
        let want = bits(&run(2, &invariant(), &[&plain[0], &b_turned]).values());
        for i in 0..m {
            let row = Tensor::of(&[1, k], &a[i * k..][..k]);
            for b in [&plain[1], &b_turned] {
                assert_eq!(bits(&run(2, &invariant(), &[&row, b]).values()), want[i * n..][..n]);
            }
        }
    }
}

#[test]
fn batches_broadcast() {
    let random = &mut Random::new(15);
    let (m, n, k) = (5, 6, 40);
    let (a, b) = (random.floats(3 * m * k), random.floats(2 * k * n));
    let args = [Tensor::of(&[3, 1, m, k], &a), Tensor::of(&[2, k, n], &b)];
    let got = run(2, &matmul(), &[&args[0], &args[1]]);
    assert_eq!(got.layout.dims(), [3, 2, m, n]);
    let got = bits(&got.values());
    for i in 0..3 {
        for j in 0..2 {
            let pair = [
                Tensor::of(&[m, k], &a[i * m * k..][..m * k]),
                Tensor::of(&[k, n], &b[j * k * n..][..k * n]),
            ];
            let want = bits(&run(1, &matmul(), &[&pair[0], &pair[1]]).values());
            assert_eq!(got[(i * 2 + j) * m * n..][..m * n], want);
        }
    }
}

#[test]
fn batches_of_vectors_and_small_matrices_are_those_alone() {
    let random = &mut Random::new(20);
    for (m, n, k) in [(1, 40, 100), (40, 1, 100), (1, 1, 3000), (16, 16, 16), (7, 19, 40), (3, 70, 400)] {
        let (a, b) = (random.floats(4 * m * k), random.floats(4 * k * n));
        let bias = Tensor::of(&[n], &random.floats(n));
        let relu = Op::MatMul(MatMul { activation: Some(UnaryOp::Relu), ..MatMul::default() });
        let whole = [Tensor::of(&[4, m, k], &a), Tensor::of(&[4, k, n], &b)];
        let got = run(3, &relu, &[&whole[0], &whole[1], &bias]).values::<f32>();
        // One right operand for all.
        let first = Tensor::of(&[k, n], &b[..k * n]);
        let shared = run(2, &relu, &[&whole[0], &first, &bias]).values::<f32>();
        for i in 0..4 {
            let a = Tensor::of(&[m, k], &a[i * m * k..][..m * k]);
            let alone = Tensor::of(&[k, n], &b[i * k * n..][..k * n]);
            let want = run(1, &relu, &[&a, &alone, &bias]).values::<f32>();
            assert_eq!(bits(&got[i * m * n..][..m * n]), bits(&want), "{m} {n} {k}");
            let want = run(1, &relu, &[&a, &first, &bias]).values::<f32>();
            assert_eq!(bits(&shared[i * m * n..][..m * n]), bits(&want), "{m} {n} {k}");
        }
    }
}

#[test]
fn few_rows_and_few_columns_give_the_bits_of_many() {
    // Rows of the right operand that are contiguous or not, in any number that has a kernel of its own.
    let random = &mut Random::new(21);
    let (most, k) = (40, 333);
    macro_rules! equal {
        ($ty:ty, $from:expr) => {
            let mut values = |len: usize| random.floats(len).into_iter().map($from).collect::<Vec<$ty>>();
            let (a, b) = (values(most * k), values(300 * k));
            let whole = [Tensor::of(&[most, k], &a), Tensor::of(&[300, k], &b)];
            let [a_whole, b_whole] = whole;
            let b_whole = b_whole.transposed();
            let want = run(1, &invariant(), &[&a_whole, &b_whole]).values::<$ty>();
            for m in [2, 3, 4, 5, 8, 13, 16, 17] {
                for n in [2, 15, 16, 17, 64, 300] {
                    let a_turned = Tensor::of(&[m, k], &a[..m * k]).transposed();
                    let a = Tensor::of(&[m, k], &a[..m * k]);
                    let rows: Vec<$ty> = (0..k * n).map(|i| b[i % n * k + i / n]).collect();
                    let want: Vec<$ty> = (0..m * n).map(|i| want[i / n * 300 + i % n]).collect();
                    for b in [Tensor::of(&[k, n], &rows), Tensor::of(&[n, k], &b[..n * k]).transposed()] {
                        for threads in [1, 3] {
                            let got = run(threads, &matmul(), &[&a, &b]).values::<$ty>();
                            assert!(got == want, "{m} {n} {:?}", b.layout);
                        }
                        // And the product of the transposed operands.
                        let got = run(2, &matmul(), &[&b.transposed(), &a_turned]).values::<$ty>();
                        let want: Vec<$ty> = (0..m * n).map(|i| want[i % m * n + i / m]).collect();
                        assert!(got == want, "{n} {m}");
                    }
                }
            }
        };
    }
    equal!(f32, |x| x);
    equal!(f64, f64::from);
    equal!(bf16, bf16::from_f32);
    equal!(f16, f16::from_f32);
}

#[test]
fn bf16_of_any_layout_adds_every_pair_of_values() {
    // Small integers, whose sums are exact. An odd number of values has a last one without a second; an odd pitch, pairs that are not aligned.
    let random = &mut Random::new(23);
    let mut values =
        |len: usize| random.floats(len).iter().map(|x| bf16::from_f32((2.0 * x).round())).collect();
    for (m, n, k) in [(61, 77, 64), (25, 32, 63), (40, 96, 2), (30, 50, 31), (61, 77, 701)] {
        let (a, b): (Vec<bf16>, Vec<bf16>) = (values(m * k), values(k * n));
        let at =
            |i: usize, j: usize| (0..k).map(|p| a[i * k + p].to_f32() * b[p * n + j].to_f32()).sum::<f32>();
        let want: Vec<f32> = (0..m * n).map(|i| at(i / n, i % n)).collect();
        assert!(want.iter().all(|x| x.abs() <= 256.0) && want.iter().any(|&x| x != 0.0));
        let turned = |x: &[bf16], rows: usize| {
            (0..x.len()).map(|i| x[i % rows * (x.len() / rows) + i / rows]).collect()
        };
        let (a_turned, b_turned): (Vec<bf16>, Vec<bf16>) = (turned(&a, m), turned(&b, k));
        for a in [Tensor::of(&[m, k], &a), Tensor::of(&[k, m], &a_turned).transposed()] {
            for b in [Tensor::of(&[k, n], &b), Tensor::of(&[n, k], &b_turned).transposed()] {
                for threads in [1, 3] {
                    let got = run(threads, &matmul(), &[&a, &b]).values::<bf16>();
                    let got: Vec<f32> = got.iter().map(|x| x.to_f32()).collect();
                    assert_eq!(got, want, "{m} {n} {k} {:?} {:?}", a.layout, b.layout);
                }
            }
        }
    }
}

/// Inner dimensions that four does not divide have a last group with fewer values; odd pitches, groups that are not aligned.
#[test]
fn bytes_of_any_layout_give_every_sum() {
    let random = &mut Random::new(24);
    for size in [
        (61, 77, 64),
        (25, 32, 63),
        (40, 96, 4),
        (30, 50, 33),
        (24, 64, 300),
        (61, 77, 1101),
        (1, 1, 1),
        (5, 3, 2),
    ] {
        let (m, n, k) = size;
        let mut values = |len: usize| -> Vec<i8> { (0..len).map(|_| random.bits() as i8).collect() };
        let (mut a, mut b) = (values(m * k), values(k * n));
        // The largest sums that there are.
        a[..k].fill(i8::MIN);
        (0..k).for_each(|p| b[p * n] = i8::MIN);
        let want = reference(size, &a, &b, 0i32, |sum, a, b| sum + i32::from(a) * i32::from(b));
        let low = |x: &i32| *x as i8;
        let turned = |x: &[i8], rows: usize| -> Vec<i8> {
            (0..x.len()).map(|i| x[i % rows * (x.len() / rows) + i / rows]).collect()
        };
        let spread = |x: &[i8]| -> Vec<i8> { (0..2 * x.len()).map(|i| x[i / 2]).collect() };
        let every_second = |dims: [usize; 2], x: &[i8]| {
            Tensor::of(&dims, &spread(x)).with(|l| l.slice(1, 0, dims[1] / 2, 2).unwrap())
        };
        let lefts = [
            Tensor::of(&[m, k], &a),
            Tensor::of(&[k, m], &turned(&a, m)).transposed(),
            every_second([m, 2 * k], &a),
        ];
        let rights = [
            Tensor::of(&[k, n], &b),
            Tensor::of(&[n, k], &turned(&b, k)).transposed(),
            every_second([k, 2 * n], &b),
        ];
        for a in &lefts {
            for b in &rights {
                for threads in [1, 3] {
                    let layouts = (&a.layout, &b.layout);
                    let got = run(threads, &Op::IntMm(IntMm), &[a, b]).values::<i32>();
                    assert_eq!(got, want, "{size:?} {layouts:?}");
                    let got = run(threads, &matmul(), &[a, b]).values::<i8>();
                    assert_eq!(got, want.iter().map(low).collect::<Vec<_>>(), "{size:?} {layouts:?}");
                }
            }
        }
        let unsigned = |x: &[i8]| x.iter().map(|&x| x as u8).collect::<Vec<_>>();
        let args = [Tensor::of(&[m, k], &unsigned(&a)), Tensor::of(&[k, n], &unsigned(&b))];
        let got = run(2, &matmul(), &[&args[0], &args[1]]).values::<u8>();
        assert_eq!(got, want.iter().map(|x| *x as u8).collect::<Vec<_>>(), "{size:?}");
    }
}

#[test]
fn sums_of_no_bytes_are_zero() {
    let none = |dims: [usize; 2]| Tensor::of::<i8>(&dims, &[]);
    let args = [none([40, 0]), none([0, 33])];
    let args = [&args[0], &args[1]];
    assert_eq!(run(2, &Op::IntMm(IntMm), &args).values::<i32>(), [0; 40 * 33]);
    assert_eq!(run(2, &matmul(), &args).values::<i8>(), [0; 40 * 33]);
}

#[test]
fn the_activation_comes_after_the_bias() {
    let random = &mut Random::new(16);
    let (m, n, k) = (9, 35, 64);
    let args = [
        Tensor::of(&[m, k], &random.floats(m * k)),
        Tensor::of(&[k, n], &random.floats(k * n)),
        Tensor::of(&[n], &random.floats(n)),
    ];
    let args = [&args[0], &args[1], &args[2]];
    let plain = run(2, &matmul(), &args).values::<f32>();
    let relu = Op::MatMul(MatMul { activation: Some(UnaryOp::Relu), ..MatMul::default() });
    let want: Vec<f32> = plain.iter().map(|v| v.max(0.0)).collect();
    assert!(plain.iter().any(|&v| v < 0.0));
    assert_eq!(run(2, &relu, &args).values::<f32>(), want);
}

#[test]
fn many_rows_give_the_bits_of_a_few_at_a_time() {
    // More values than a block of the right operand has, some of a last panel of columns, and of a last stack of rows.
    let (m, n, k, few) = (307, 330, 900, 40);
    let random = &mut Random::new(17);
    let (a, b) = (random.floats(m * k), random.floats(k * n));
    let relu = Op::MatMul(MatMul { activation: Some(UnaryOp::Relu), ..MatMul::default() });
    macro_rules! equal {
        ($ty:ty, $w:ty, $from:expr, $w_from:expr) => {
            let a: Vec<$ty> = a.iter().map(|&x| $from(x)).collect();
            let turned: Vec<$ty> = (0..m * k).map(|i| a[i % m * k + i / m]).collect();
            let b = Tensor::of(&[k, n], &b.iter().map(|&x| $w_from(x)).collect::<Vec<$w>>());
            let bias = Tensor::of(&[n], &a[..n]);
            let relu = if <$ty as Element>::DTYPE.is_float() { &relu } else { &matmul() };
            for (op, bias) in [(&matmul(), None), (relu, None), (relu, Some(&bias))] {
                let product = |threads, x: &Tensor| match bias {
                    Some(bias) => run(threads, op, &[x, &b, bias]).values::<$ty>(),
                    None => run(threads, op, &[x, &b]).values::<$ty>(),
                };
                let rows = a.chunks(few * k).map(|x| Tensor::of(&[x.len() / k, k], x));
                let want: Vec<$ty> = rows.flat_map(|x| product(1, &x)).collect();
                for x in [Tensor::of(&[m, k], &a), Tensor::of(&[k, m], &turned).transposed()] {
                    assert!(product(1, &x) == want && product(2, &x) == want, "{op:?}");
                }
            }
        };
    }
    equal!(f32, f32, |x| x, |x| x);
    equal!(f32, bf16, |x| x, bf16::from_f32);
    equal!(f64, f64, f64::from, f64::from);
    equal!(bf16, bf16, bf16::from_f32, bf16::from_f32);
    equal!(i32, i32, |x: f32| (x * 1e6) as i32, |x: f32| (x * 1e6) as i32);
}

#[test]
fn few_rows_give_the_bits_of_rows_one_by_one() {
    // Some of a last panel of rows, of a last tile of columns, and of the last values that are multiplied together.
    let (n, k) = (331, 603);
    let random = &mut Random::new(18);
    let (a, b) = (random.floats(64 * k), random.floats(n * k));
    let relu = MatMul { activation: Some(UnaryOp::Relu), batch_invariant: true, ..MatMul::default() };
    let relu = Op::MatMul(relu);
    macro_rules! equal {
        ($ty:ty, $from:expr) => {
            let all: Vec<$ty> = a.iter().map(|&x| $from(x)).collect();
            let b = Tensor::of(&[n, k], &b.iter().map(|&x| $from(x)).collect::<Vec<$ty>>()).transposed();
            let bias = Tensor::of(&[n], &all[..n]);
            let relu = if <$ty as Element>::DTYPE.is_float() { &relu } else { &invariant() };
            for m in [7, 13, 16, 27, 32, 61, 64] {
                let a = &all[..m * k];
                let turned: Vec<$ty> = (0..m * k).map(|i| a[i % m * k + i / m]).collect();
                for (op, bias) in [(&invariant(), None), (relu, Some(&bias))] {
                    let product = |threads, x: &Tensor| match bias {
                        Some(bias) => run(threads, op, &[x, &b, bias]).values::<$ty>(),
                        None => run(threads, op, &[x, &b]).values::<$ty>(),
                    };
                    let rows = a.chunks(k).map(|x| Tensor::of(&[1, k], x));
                    let want: Vec<$ty> = rows.flat_map(|x| product(1, &x)).collect();
                    for x in [Tensor::of(&[m, k], a), Tensor::of(&[k, m], &turned).transposed()] {
                        assert!(product(1, &x) == want && product(2, &x) == want, "{m} {op:?}");
                    }
                }
            }
        };
    }
    equal!(f32, |x| x);
    equal!(f64, f64::from);
    equal!(i32, |x: f32| (x * 1e6) as i32);
}
