//! Convolutions and their gradients against the definition, written as plain loops.

use crate::testing::{Tensor, run};
use rustorch_core::{
    C64, C128, Conv, ConvBackwardData, ConvBackwardWeight, ConvParams, Element, Layout, Op, Philox, Shape,
    UnaryOp, bf16, f16,
};

/// A convolution: its parameters, and the shapes of input and weight.
struct Case {
    params: ConvParams,
    x: Vec<usize>,
    w: Vec<usize>,
}

impl Case {
    fn new(x: &[usize], w: &[usize], change: impl FnOnce(&mut ConvParams)) -> Case {
        let mut params = ConvParams::new(x.len() - 2);
        change(&mut params);
        Case { params, x: x.to_vec(), w: w.to_vec() }
    }

    fn y(&self) -> Vec<usize> {
        let spatial = 0..self.params.spatial();
        let out = spatial.map(|i| self.params.output_len(i, self.x[i + 2], self.w[i + 2]).unwrap());
        [self.x[0], self.w[0]].into_iter().chain(out).collect()
    }

    /// Calls `each` with the indices of the elements of input, weight and output that are multiplied.
    fn meet(&self, mut each: impl FnMut(usize, usize, usize)) {
        let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).unwrap());
        let (x, w, y) = (layout(&self.x), layout(&self.w), layout(&self.y()));
        let index = |layout: &Layout, at: &[usize]| at.iter().zip(layout.strides()).map(|(i, s)| i * s).sum();
        for yi in 0..y.numel() {
            let at: Vec<usize> = y.strides().iter().zip(y.dims()).map(|(s, d)| yi / s % d).collect();
            let row: usize = self.w[1..].iter().product();
            for wi in at[1] * row..(at[1] + 1) * row {
                let tap: Vec<usize> = w.strides().iter().zip(w.dims()).map(|(s, d)| wi / s % d).collect();
                let group = at[1] / (self.w[0] / self.params.groups);
                let mut seen = vec![at[0], group * self.w[1] + tap[1]];
                for i in 0..self.params.spatial() {
                    let position = at[i + 2] * self.params.stride[i] + tap[i + 2] * self.params.dilation[i];
                    seen.push(position.wrapping_sub(self.params.padding[i].0));
                }
                if seen.iter().zip(&self.x).all(|(i, len)| i < len) {
                    each(index(&x, &seen), wi, yi);
                }
            }
        }
    }

    fn ops(&self) -> [Op; 3] {
        let params = self.params.clone();
        [
            Op::from(Conv { params: params.clone(), activation: None }),
            Op::from(ConvBackwardData { params: params.clone(), size: self.x[2..].into() }),
            Op::from(ConvBackwardWeight { params, kernel: self.w[2..].into() }),
        ]
    }
}

fn cases() -> Vec<Case> {
    let pad = |p: &mut ConvParams, n: usize| p.padding.iter_mut().for_each(|side| *side = (n, n));
    vec![
        // One dimension.
        Case::new(&[2, 3, 20], &[5, 3, 4], |_| ()),
        Case::new(&[3, 4, 50], &[13, 4, 5], |p| {
            p.stride[0] = 3;
            p.dilation[0] = 2;
            p.padding[0] = (4, 1);
        }),
        Case::new(&[2, 6, 9], &[6, 1, 3], |p| {
            p.groups = 6;
            pad(p, 1);
        }),
        // Two.
        Case::new(&[2, 5, 9, 11], &[7, 5, 3, 3], |p| pad(p, 1)),
        Case::new(&[1, 40, 8, 9], &[30, 40, 3, 3], |p| pad(p, 1)),
        Case::new(&[3, 4, 12, 13], &[100, 4, 3, 2], |p| p.stride = [2, 3].as_slice().into()),
        Case::new(&[2, 4, 12, 13], &[9, 4, 2, 3], |p| {
            p.dilation = [3, 2].as_slice().into();
            p.padding[0] = (0, 2);
            p.padding[1] = (5, 0);
        }),
        Case::new(&[2, 6, 7, 7], &[9, 2, 3, 3], |p| {
            p.groups = 3;
            pad(p, 1);
        }),
        Case::new(&[2, 5, 10, 40], &[10, 1, 3, 3], |p| {
            p.groups = 5;
            p.stride = [1, 2].as_slice().into();
            pad(p, 1);
        }),
        // The kernel is smaller than the stride: some positions are never seen.
        Case::new(&[2, 3, 10, 9], &[5, 3, 2, 1], |p| p.stride = [4, 3].as_slice().into()),
        // Taps that see nothing but padding.
        Case::new(&[1, 3, 2, 3], &[4, 3, 7, 5], |p| pad(p, 5)),
        // Single taps, where axes are joined, and where they must not be.
        Case::new(&[3, 8, 6, 7], &[5, 8, 1, 1], |_| ()),
        Case::new(&[3, 8, 6, 7], &[5, 8, 1, 1], |p| p.stride[1] = 2),
        Case::new(&[2, 3, 6, 7], &[5, 3, 3, 1], |_| ()),
        Case::new(&[2, 3, 6, 7], &[5, 3, 1, 1], |p| p.padding[0] = (1, 1)),
        // Three.
        Case::new(&[2, 3, 4, 5, 6], &[5, 3, 2, 3, 2], |p| pad(p, 1)),
        Case::new(&[1, 4, 5, 6, 7], &[6, 2, 3, 2, 2], |p| {
            p.groups = 2;
            p.stride = [2, 1, 3].as_slice().into();
            p.dilation = [1, 3, 1].as_slice().into();
            p.padding[0] = (2, 0);
        }),
        Case::new(&[2, 3, 3, 4, 5], &[4, 3, 1, 1, 1], |_| ()),
        // Nothing.
        Case::new(&[0, 3, 5, 5], &[4, 3, 3, 3], |_| ()),
        Case::new(&[2, 0, 5, 5], &[4, 0, 3, 3], |_| ()),
        Case::new(&[2, 3, 5, 5], &[0, 3, 3, 3], |_| ()),
        Case::new(&[2, 3, 0, 5], &[4, 3, 3, 3], |p| pad(p, 2)),
        // Lines that are divided, of a source that is padded or not.
        Case::new(&[2, 3, 1103], &[5, 3, 4], |p| p.padding[0] = (1, 2)),
        Case::new(&[1, 2, 2, 600], &[3, 2, 1, 5], |_| ()),
        // Many planes of one channel, with lines joined or not, and shorter than a vector.
        Case::new(&[3, 9, 10, 21], &[9, 1, 3, 3], |p| {
            p.groups = 9;
            pad(p, 1);
        }),
        Case::new(&[2, 10, 3, 11, 12], &[20, 1, 2, 3, 3], |p| {
            p.groups = 10;
            p.dilation = [1, 2, 1].as_slice().into();
            pad(p, 1);
        }),
        // Gradients of weights by whole planes, and by bands of them.
        Case::new(&[2, 9, 23, 30], &[7, 9, 3, 3], |p| pad(p, 1)),
        Case::new(&[1, 8, 4, 12, 17], &[10, 4, 2, 2, 3], |p| {
            p.groups = 2;
            p.dilation = [1, 2, 1].as_slice().into();
            pad(p, 1);
        }),
        Case::new(&[1, 8, 2100], &[130, 8, 2], |_| ()),
        // 3 × 3 of enough channels, by squares: even and odd sizes, padding of all kinds, groups, lines of several panels, planes.
        Case::new(&[2, 24, 9, 14], &[26, 24, 3, 3], |p| pad(p, 1)),
        Case::new(&[1, 20, 8, 45], &[24, 20, 3, 3], |_| ()),
        Case::new(&[2, 40, 7, 7], &[36, 20, 3, 3], |p| {
            p.groups = 2;
            p.padding = [(2, 0), (0, 3)].as_slice().into();
        }),
        Case::new(&[1, 17, 4, 150], &[33, 17, 3, 3], |p| pad(p, 4)),
        Case::new(&[1, 18, 3, 6, 9], &[32, 18, 1, 3, 3], |p| p.padding[1] = (1, 1)),
        Case::new(&[1, 300, 6, 5], &[16, 300, 3, 3], |p| pad(p, 1)),
        // Gradients of weights by squares of several blocks, of fewer rows and channels than a unit of work, and of more.
        Case::new(&[1, 33, 45, 65], &[30, 33, 3, 3], |p| pad(p, 1)),
        Case::new(&[3, 35, 30, 33], &[70, 35, 3, 3], |p| p.padding = [(1, 0), (2, 1)].as_slice().into()),
        // One row, and several runs of results.
        Case::new(&[1, 3, 2500], &[1, 3, 3], |p| pad(p, 1)),
        // Planes of one channel by 3 × 3: lines of few and of many vectors, few lines, spans of lines, padding of all kinds.
        depthwise(2, &[7, 7], |p| pad(p, 1)),
        depthwise(1, &[18, 45], |p| pad(p, 1)),
        depthwise(3, &[3, 34], |p| p.padding[1] = (1, 0)),
        depthwise(2, &[5, 6], |_| ()),
        depthwise(1, &[37, 12], |p| p.padding = [(2, 0), (0, 3)].as_slice().into()),
        depthwise(1, &[2, 7, 16], |p| p.padding[2] = (1, 1)),
    ]
}

/// Seventeen channels, each with a kernel of its own.
fn depthwise(images: usize, size: &[usize], change: impl FnOnce(&mut ConvParams)) -> Case {
    let kernel: &[usize] = if size.len() == 2 { &[3, 3] } else { &[1, 3, 3] };
    let (x, w) = ([&[images, 17], size].concat(), [&[17, 1], kernel].concat());
    Case::new(&x, &w, |p| {
        p.groups = 17;
        change(p);
    })
}

/// An element, and how numbers become one.
trait Number: Element {
    /// Units of the last place, of sums and of elements.
    const UNITS: [f64; 2];
    fn of(z: C128) -> Self;
    fn value(self) -> C128;
}

macro_rules! numbers {
    ($($t:ty: $units:expr, |$z:ident| $of:expr, |$x:ident| $value:expr;)*) => {$(
        impl Number for $t {
            const UNITS: [f64; 2] = $units;
            fn of($z: C128) -> $t {
                $of
            }
            fn value(self) -> C128 {
                let $x = self;
                $value
            }
        }
    )*};
}

const SINGLE: f64 = f32::EPSILON as f64;

numbers! {
    f32: [SINGLE, SINGLE], |z| z.re as f32, |x| C128::new(x.into(), 0.0);
    f64: [f64::EPSILON; 2], |z| z.re, |x| C128::new(x, 0.0);
    f16: [SINGLE, 1.0 / 1024.0], |z| f16::from_f64(z.re), |x| C128::new(x.to_f64(), 0.0);
    bf16: [SINGLE, 1.0 / 128.0], |z| bf16::from_f64(z.re), |x| C128::new(x.to_f64(), 0.0);
    C64: [2.0 * SINGLE, SINGLE], |z| C64::new(z.re as f32, z.im as f32), |x| C128::new(x.re.into(), x.im.into());
    C128: [2.0 * f64::EPSILON, f64::EPSILON], |z| z, |x| x;
}

fn random<T: Number>(random: &mut Philox, dims: &[usize]) -> Vec<T> {
    let mut next = || random.next_f64() * 2.0 - 1.0;
    (0..dims.iter().product()).map(|_| T::of(C128::new(next(), next()))).collect()
}

/// Sums, the sums of magnitudes, and the number of terms.
struct Sums {
    values: Vec<C128>,
    sizes: Vec<f64>,
    terms: Vec<usize>,
}

impl Sums {
    fn new(n: usize) -> Sums {
        Sums { values: vec![C128::new(0.0, 0.0); n], sizes: vec![0.0; n], terms: vec![0; n] }
    }

    fn add(&mut self, i: usize, value: C128) {
        self.values[i] += value;
        self.sizes[i] += value.norm();
        self.terms[i] += 1;
    }

    /// Within what rounding every step of every sum may lose.
    #[track_caller]
    fn check<T: Number>(&self, got: &[T], what: &str) {
        assert_eq!(got.len(), self.values.len());
        for (i, got) in got.iter().enumerate() {
            let [sum, unit] = T::UNITS;
            let (got, want) = (got.value(), self.values[i]);
            let most = sum * (self.terms[i] + 1) as f64 * self.sizes[i] + unit * want.norm();
            assert!((got - want).norm() <= most, "{what}, element {i}: {got} instead of {want}");
        }
    }
}

/// A tensor of these values whose elements lie otherwise.
fn scattered<T: Number>(dims: &[usize], values: &[T], how: usize) -> Tensor {
    let last = dims.len() - 1;
    let packed = Layout::contiguous(Shape::new(dims).unwrap());
    let layout = match how {
        // The first dimension innermost.
        0 => {
            let mut turned = dims.to_vec();
            turned.rotate_left(1);
            let order: Vec<usize> = std::iter::once(last).chain(0..last).collect();
            Layout::contiguous(Shape::new(&turned[..]).unwrap()).permute(&order).unwrap()
        }
        // Every second element of lines that are longer.
        _ => {
            let mut longer = dims.to_vec();
            longer[last] = 2 * longer[last] + 1;
            let longer = Layout::contiguous(Shape::new(&longer[..]).unwrap());
            longer.slice(last, 1, dims[last], 2).unwrap()
        }
    };
    let room = if layout.numel() == 0 { 0 } else { layout.end() };
    let mut memory = vec![T::of(C128::new(f64::NAN, f64::NAN)); room];
    for (from, to) in packed.indices().zip(layout.indices()) {
        memory[to] = values[from];
    }
    Tensor::new(&[room], &memory).with(|_| layout)
}

fn check<T: Number>(case: &Case, seed: u64) {
    let rng = &mut Philox::new(seed);
    let (xs, ws, ys) = (random::<T>(rng, &case.x), random::<T>(rng, &case.w), random::<T>(rng, &case.y()));
    let (mut y, mut dx, mut dw) = (Sums::new(ys.len()), Sums::new(xs.len()), Sums::new(ws.len()));
    case.meet(|i, j, k| {
        let (a, b, c) = (xs[i].value(), ws[j].value(), ys[k].value());
        y.add(k, a * b);
        dx.add(i, b * c);
        dw.add(j, a * c);
    });
    let [forward, data, weight] = case.ops();
    let tensors = |how: Option<usize>| {
        [(&case.x, &xs), (&case.w, &ws), (&case.y(), &ys)].map(|(dims, values)| match how {
            None => Tensor::new(dims, values),
            Some(how) => scattered(dims, values, how),
        })
    };
    for how in [None, Some(0), Some(1)] {
        let what = format!("{:?} of {:?} and {:?} as {how:?}", case.params, case.x, case.w);
        let [x, w, dy] = tensors(how);
        let result = |op: &Op, args: [&Tensor; 2]| run(op, &args).unwrap()[0].values::<T>();
        y.check(&result(&forward, [&x, &w]), &what);
        dx.check(&result(&data, [&dy, &w]), &what);
        dw.check(&result(&weight, [&x, &dy]), &what);
    }
}

#[test]
fn single_precision_everywhere() {
    for (seed, case) in cases().iter().enumerate() {
        check::<f32>(case, seed as u64);
    }
}

#[test]
fn every_dtype() {
    for (seed, case) in cases().iter().enumerate().filter(|(i, _)| i % 3 == 1) {
        let seed = 100 + seed as u64;
        check::<f64>(case, seed);
        check::<f16>(case, seed);
        check::<bf16>(case, seed);
        check::<C64>(case, seed);
        check::<C128>(case, seed);
    }
}

#[test]
fn the_bias_is_added_before_rounding_and_the_activation() {
    let case = Case::new(&[2, 3, 4, 5], &[6, 3, 3, 3], |p| p.padding[0] = (1, 1));
    let rng = &mut Philox::new(5);
    let (x, w) = (random::<f32>(rng, &case.x), random::<f32>(rng, &case.w));
    let bias = [0.5f32, -1.0, 0.0, 2.0, -3.0, 0.25];
    let [forward, data, _] = case.ops();
    let relu = Op::from(Conv { params: case.params.clone(), activation: Some(UnaryOp::Relu) });
    let (x, w) = (Tensor::new(&case.x, &x), Tensor::new(&case.w, &w));
    let plain = run(&forward, &[&x, &w]).unwrap()[0].values::<f32>();
    // Every second element of a longer list.
    let spread: Vec<f32> = bias.iter().flat_map(|&b| [f32::NAN, b]).collect();
    let b = Tensor::new(&[12], &spread).with(|l| l.slice(0, 1, 6, 2).unwrap());
    let plane: usize = case.y()[2..].iter().product();
    let want: Vec<f32> = plain.iter().enumerate().map(|(i, y)| y + bias[i / plane % 6]).collect();
    assert_eq!(run(&forward, &[&x, &w, &b]).unwrap()[0].values::<f32>(), want);
    let positive: Vec<f32> = want.iter().map(|y| y.max(0.0)).collect();
    assert!(positive != want);
    assert_eq!(run(&relu, &[&x, &w, &b]).unwrap()[0].values::<f32>(), positive);

    let dy = Tensor::new(&case.y(), &plain);
    let plain = run(&data, &[&dy, &w]).unwrap()[0].values::<f32>();
    let b = Tensor::new(&[3], &bias[..3]);
    let want: Vec<f32> = plain.iter().enumerate().map(|(i, x)| x + bias[i / 20 % 3]).collect();
    assert_eq!(run(&data, &[&dy, &w, &b]).unwrap()[0].values::<f32>(), want);
}

#[test]
fn results_hold_only_what_their_taps_see() {
    // What is infinite or NaN spreads to no result beside it.
    let case = Case::new(&[1, 32, 12, 20], &[32, 32, 3, 3], |p| p.padding.fill((1, 1)));
    let rng = &mut Philox::new(7);
    let (mut x, w) = (random::<f32>(rng, &case.x), random::<f32>(rng, &case.w));
    let [forward, data, _] = case.ops();
    let mut results = |op: &Op, at: usize, value: f32| {
        let before = std::mem::replace(&mut x[at], value);
        let results =
            run(op, &[&Tensor::new(&case.x, &x), &Tensor::new(&case.w, &w)]).unwrap()[0].values::<f32>();
        x[at] = before;
        results
    };
    for op in [&forward, &data] {
        let (y, x) = (5, 7);
        let at = y * 20 + x;
        let plain = results(op, at, 0.0);
        for value in [f32::INFINITY, f32::NAN] {
            let other = results(op, at, value);
            for (i, (plain, other)) in plain.iter().zip(&other).enumerate() {
                let sees = (i / 20 % 12).abs_diff(y) <= 1 && (i % 20).abs_diff(x) <= 1;
                let is_right = if sees { !other.is_finite() } else { (plain - other).abs() < 1e-4 };
                assert!(is_right, "{value}, {i}: {plain}, {other}");
            }
        }
    }
}

#[test]
fn gradients_of_weights_hold_only_what_their_taps_see() {
    // By planes, and by squares, whose sums are of four times as many terms.
    for (x, rows, most) in [([1, 8, 20, 30], 4, 1e-4), ([1, 32, 40, 60], 32, 1e-3)] {
        let case = Case::new(&x, &[rows, x[1], 3, 3], |p| p.padding.fill((1, 1)));
        let rng = &mut Philox::new(6);
        let (mut x, dy) = (random::<f32>(rng, &case.x), random::<f32>(rng, &case.y()));
        let [.., weight] = case.ops();
        let mut gradient = |corner: f32| {
            x[0] = corner;
            let args = [&Tensor::new(&case.x, &x), &Tensor::new(&case.y(), &dy)];
            run(&weight, &args).unwrap()[0].values::<f32>()
        };
        let (zero, infinite) = (gradient(0.0), gradient(f32::INFINITY));
        for (i, (zero, infinite)) in zero.iter().zip(&infinite).enumerate() {
            let (channel, line, column) = (i / 9 % case.x[1], i % 9 / 3, i % 3);
            // The last line and column of taps begin behind the corner.
            let sees_corner = channel == 0 && line < 2 && column < 2;
            let is_right = if sees_corner { infinite.is_infinite() } else { (zero - infinite).abs() < most };
            assert!(is_right, "{i}: {zero}, {infinite}");
        }
    }
}

#[test]
fn halves_round_once() {
    // Sums of 1 and many terms below half a unit of it: in steps of f16 they would all be lost.
    let n = 512;
    let mut x = vec![f16::from_f32(1.0 / 4096.0); n];
    x[0] = f16::ONE;
    let (x, w) = (Tensor::new(&[1, n, 1], &x), Tensor::new(&[4, n, 1], &vec![f16::ONE; 4 * n]));
    let [forward, ..] = Case::new(&[1, n, 1], &[4, n, 1], |_| ()).ops();
    let want = f16::from_f32(1.0 + 511.0 / 4096.0);
    assert_eq!(run(&forward, &[&x, &w]).unwrap()[0].values::<f16>(), [want; 4]);
}

#[test]
fn output_padding_beyond_the_stride_gets_what_taps_reach() {
    // torch.nn.functional.conv_transpose1d(torch.ones(1, 1, 2), torch.tensor([[[1., 2.]]]), dilation=3, output_padding=2)
    let mut params = ConvParams::new(1);
    params.dilation[0] = 3;
    let op = Op::from(ConvBackwardData { params, size: [7].as_slice().into() });
    let (dy, w) = (Tensor::new(&[1, 1, 2], &[1.0f32; 2]), Tensor::new(&[1, 1, 2], &[1.0f32, 2.0]));
    assert_eq!(run(&op, &[&dy, &w]).unwrap()[0].values::<f32>(), [1.0, 1.0, 0.0, 2.0, 2.0, 0.0, 0.0]);
}
