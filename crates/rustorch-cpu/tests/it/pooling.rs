//! Planes large enough to be split among threads, and rows long enough for vector code, against plain loops; `run`
//! checks that threads and strides make no difference. Numbers of PyTorch are compared by the tensor crate.

use crate::testing::{Tensor, close, noise, run, run1};
use rustorch_core::{
    AdaptiveAvgPool, AdaptiveAvgPoolBackward, AdaptiveMaxPool, AvgPool, AvgPoolBackward, Dims, Interpolate,
    InterpolateBackward, InterpolateMode, MaxPool, MaxPoolBackward, Op, PoolWindow, bf16, f16,
};
use smallvec::smallvec;

/// Kernel, stride, padding and dilation of height and width.
type Numbers = [[usize; 2]; 4];

const WINDOWS: [Numbers; 6] = [
    [[2, 2], [2, 2], [0, 0], [1, 1]],
    [[3, 3], [2, 2], [1, 1], [1, 1]],
    [[3, 5], [1, 1], [1, 2], [1, 1]],
    [[3, 2], [2, 3], [1, 1], [2, 4]],
    [[4, 4], [5, 7], [0, 2], [1, 1]],
    [[1, 70], [1, 64], [0, 35], [1, 1]],
];

fn window([kernel, stride, padding, _]: Numbers, ceil_mode: bool) -> PoolWindow {
    let [kernel, stride, padding] = [kernel, stride, padding].map(|list| Dims::from_slice(&list));
    PoolWindow { kernel, stride, padding, ceil_mode }
}

/// The elements of each window of an `[h, w]` plane, in order: the index of those inside.
fn places([h, w]: [usize; 2], [oh, ow]: [usize; 2], numbers: Numbers) -> Vec<Vec<usize>> {
    let [kernel, stride, padding, dilation] = numbers;
    let inside = |axis: usize, o: usize, k: usize, len: usize| {
        let at = (o * stride[axis] + k * dilation[axis]) as isize - padding[axis] as isize;
        usize::try_from(at).ok().filter(|&at| at < len)
    };
    let mut windows = Vec::new();
    for y in 0..oh {
        for x in 0..ow {
            let mut places = Vec::new();
            for ky in 0..kernel[0] {
                for kx in 0..kernel[1] {
                    if let (Some(i), Some(j)) = (inside(0, y, ky, h), inside(1, x, kx, w)) {
                        places.push(i * w + j);
                    }
                }
            }
            windows.push(places);
        }
    }
    windows
}

const PLANES: usize = 5;
const SIZE: [usize; 2] = [41, 150];
const PLANE: usize = SIZE[0] * SIZE[1];

/// Channels last, so that planes have to be gathered.
fn scattered(values: &[f32]) -> Tensor {
    let mut turned = vec![0.0; values.len()];
    for (i, &x) in values.iter().enumerate() {
        turned[i % PLANE * PLANES + i / PLANE] = x;
    }
    Tensor::new(&[SIZE[0], SIZE[1], PLANES], &turned).with(|l| l.permute(&[2, 0, 1]).unwrap())
}

#[test]
fn maxima_are_those_of_plain_loops() {
    // Few different numbers, so that there are ties.
    let mut values: Vec<f32> =
        noise(1, PLANES * PLANE).iter().map(|x| (x * 8.0).round() / 4.0 + 0.0).collect();
    for i in (0..values.len()).step_by(97) {
        values[i] = [f32::NAN, f32::NEG_INFINITY, -0.0, f32::INFINITY][i % 4];
    }
    values[PLANE..2 * PLANE].fill(f32::NEG_INFINITY);
    let packed = Tensor::new(&[PLANES, SIZE[0], SIZE[1]], &values);
    let halves: Vec<f16> = values.iter().map(|&x| f16::from_f32(x)).collect();
    let halves = Tensor::new(&[PLANES, SIZE[0], SIZE[1]], &halves);
    let coarse: Vec<bf16> = values.iter().map(|&x| bf16::from_f32(x)).collect();
    let coarse = Tensor::new(&[PLANES, SIZE[0], SIZE[1]], &coarse);
    let bytes: Vec<i8> = values.iter().map(|&x| (x * 4.0) as i8).collect();
    let whole = Tensor::new(&[PLANES, SIZE[0], SIZE[1]], &bytes);
    for numbers in WINDOWS {
        for ceil_mode in [false, true] {
            let dilation = Dims::from_slice(&numbers[3]);
            let op = Op::from(MaxPool { window: window(numbers, ceil_mode), dilation });
            let outs = run(&op, &[&packed]).unwrap();
            let [_, oh, ow] = *outs[0].layout.dims() else { panic!() };
            let (mut best, mut at) = (Vec::new(), Vec::new());
            let mut best_byte = Vec::new();
            let windows = places(SIZE, [oh, ow], numbers);
            for (plane, bytes) in values.chunks(PLANE).zip(bytes.chunks(PLANE)) {
                for window in &windows {
                    let last_nan = window.iter().copied().rev().find(|&i| plane[i].is_nan());
                    // `max_by` gives the last of equals.
                    let largest = || {
                        window.iter().copied().rev().max_by(|&i, &j| plane[i].partial_cmp(&plane[j]).unwrap())
                    };
                    let i = last_nan.or_else(largest).unwrap();
                    best.push(plane[i]);
                    at.push(i as i64);
                    best_byte.push(window.iter().map(|&i| bytes[i]).max().unwrap());
                }
            }
            let same = |a: &[f32], b: &[f32]| {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || a.is_nan() && b.is_nan())
            };
            assert!(same(&outs[0].values::<f32>(), &best), "{op:?}");
            assert_eq!(outs[1].values::<i64>(), at, "{op:?}");
            let turned = run(&op, &[&scattered(&values)]).unwrap();
            assert!(same(&turned[0].values::<f32>(), &best), "{op:?}");
            assert_eq!(turned[1].values::<i64>(), at, "{op:?}");
            let narrow = run(&op, &[&halves]).unwrap();
            let wide: Vec<f32> = narrow[0].values::<f16>().iter().map(|x| x.to_f32()).collect();
            assert!(same(&wide, &best), "{op:?}");
            assert_eq!(narrow[1].values::<i64>(), at, "{op:?}");
            let narrow = run(&op, &[&coarse]).unwrap();
            let wide: Vec<f32> = narrow[0].values::<bf16>().iter().map(|x| x.to_f32()).collect();
            assert!(same(&wide, &best), "{op:?}");
            assert_eq!(narrow[1].values::<i64>(), at, "{op:?}");
            assert_eq!(run(&op, &[&whole]).unwrap()[0].values::<i8>(), best_byte, "{op:?}");

            // Gradients meet where windows overlap.
            let grads = noise(2, at.len());
            let mut want = vec![0.0f64; values.len()];
            for (i, (&g, &at)) in grads.iter().zip(&at).enumerate() {
                want[i / (oh * ow) * PLANE + at as usize] += f64::from(g);
            }
            let op = Op::MaxPoolBackward(MaxPoolBackward { spatial: Dims::from_slice(&SIZE) });
            let grads = Tensor::new(&[PLANES, oh, ow], &grads);
            close(&run1(&op, &[&grads, &Tensor::new(&[PLANES, oh, ow], &at)]), &want, 1e-5);
        }
    }
}

#[test]
fn means_are_those_of_plain_loops() {
    let values = noise(3, PLANES * PLANE);
    let packed = Tensor::new(&[PLANES, SIZE[0], SIZE[1]], &values);
    for numbers in WINDOWS.into_iter().filter(|numbers| numbers[3] == [1, 1]) {
        for (count_include_pad, divisor) in [(false, None), (false, Some(7))] {
            let pool = AvgPool { window: window(numbers, true), count_include_pad, divisor };
            let op = Op::from(pool.clone());
            let outs = run(&op, &[&packed]).unwrap();
            let [_, oh, ow] = *outs[0].layout.dims() else { panic!() };
            let grads = noise(4, PLANES * oh * ow);
            let (mut means, mut spread) = (Vec::new(), vec![0.0f64; values.len()]);
            let windows = places(SIZE, [oh, ow], numbers);
            for (p, plane) in values.chunks(PLANE).enumerate() {
                for (i, window) in windows.iter().enumerate() {
                    let count = divisor.unwrap_or(window.len()) as f64;
                    means.push(window.iter().map(|&i| f64::from(plane[i])).sum::<f64>() / count);
                    let share = f64::from(grads[p * oh * ow + i]) / count;
                    window.iter().for_each(|&place| spread[p * PLANE + place] += share);
                }
            }
            close(&outs[0].values::<f32>(), &means, 1e-5);
            close(&run1(&op, &[&scattered(&values)]), &means, 1e-5);
            let op = Op::from(AvgPoolBackward { pool, spatial: Dims::from_slice(&SIZE) });
            close(&run1(&op, &[&Tensor::new(&[PLANES, oh, ow], &grads)]), &spread, 1e-5);
        }
    }
}

#[test]
fn adaptive_windows_cover_everything() {
    let values = noise(5, PLANES * PLANE);
    let x = scattered(&values);
    for size in [[1, 1], [6, 40], [41, 150], [60, 7]] {
        let lens = Dims::from_slice(&size);
        let range = |axis: usize, o: usize| {
            let (len, n) = (SIZE[axis], size[axis]);
            (o * len / n, ((o + 1) * len).div_ceil(n))
        };
        let (mut means, mut largest) = (Vec::new(), Vec::new());
        for plane in values.chunks(PLANE) {
            for y in 0..size[0] {
                for x in 0..size[1] {
                    let ((top, bottom), (left, right)) = (range(0, y), range(1, x));
                    let part: Vec<f32> = (top..bottom)
                        .flat_map(|i| (left..right).map(move |j| plane[i * SIZE[1] + j]))
                        .collect();
                    means.push(part.iter().map(|&x| f64::from(x)).sum::<f64>() / part.len() as f64);
                    largest.push(part.iter().copied().fold(f32::NEG_INFINITY, f32::max));
                }
            }
        }
        close(&run1(&Op::AdaptiveAvgPool(AdaptiveAvgPool { size: lens.clone() }), &[&x]), &means, 1e-5);
        let outs = run(&Op::AdaptiveMaxPool(AdaptiveMaxPool { size: lens }), &[&x]).unwrap();
        assert_eq!(outs[0].values::<f32>(), largest);
        let planes = outs[1].values::<i64>();
        for (i, (&at, &x)) in planes.iter().zip(&largest).enumerate() {
            assert_eq!(values[i / (size[0] * size[1]) * PLANE + at as usize], x);
        }
        // Shares of ones add up to ones again.
        let ones = Tensor::new(&[1, size[0], size[1]], &vec![1.0f32; size[0] * size[1]]);
        let op = Op::AdaptiveAvgPoolBackward(AdaptiveAvgPoolBackward { spatial: Dims::from_slice(&SIZE) });
        let total: f32 = run1::<f32>(&op, &[&ones]).iter().sum();
        assert!((total - (size[0] * size[1]) as f32).abs() < 1e-2, "{total}");
    }
}

#[test]
fn interpolation_of_a_plane_hits_it() {
    // Away from the border, linear interpolation reproduces a linear function; backward is always the transpose.
    let plane = |y: f64, x: f64| 0.25 * y - 0.5 * x + 1.0;
    let values: Vec<f32> =
        (0..2 * PLANE).map(|i| plane((i % PLANE / SIZE[1]) as f64, (i % SIZE[1]) as f64) as f32).collect();
    let x = Tensor::new(&[2, SIZE[0], SIZE[1]], &values);
    let size = [97, 64];
    for mode in [InterpolateMode::Linear, InterpolateMode::Cubic] {
        for align_corners in [false, true] {
            let interpolate = Interpolate {
                mode,
                size: Dims::from_slice(&size),
                factors: smallvec![None, None],
                align_corners,
            };
            let op = Op::from(interpolate.clone());
            let y: Vec<f32> = run1(&op, &[&x]);
            let at = |axis: usize, o: usize| {
                let (len, n) = (SIZE[axis] as f64, size[axis] as f64);
                if align_corners {
                    o as f64 * (len - 1.0) / (n - 1.0)
                } else {
                    (o as f64 + 0.5) * len / n - 0.5
                }
            };
            for (i, &value) in y.iter().enumerate() {
                let (v, h) = (at(0, i / size[1] % size[0]), at(1, i % size[1]));
                let inner = |at: f64, len: usize| at >= 1.0 && at <= len as f64 - 2.0;
                if mode == InterpolateMode::Linear && inner(v, SIZE[0]) && inner(h, SIZE[1]) {
                    assert!((f64::from(value) - plane(v, h)).abs() < 2e-3, "{mode:?} {i}: {value}");
                }
            }
            let grads = noise(6, y.len());
            let op = Op::from(InterpolateBackward { interpolate, spatial: Dims::from_slice(&SIZE) });
            let back: Vec<f32> = run1(&op, &[&Tensor::new(&[2, size[0], size[1]], &grads)]);
            let dot = |a: &[f32], b: &[f32]| {
                a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
            };
            let (forth, back) = (dot(&y, &grads), dot(&values, &back));
            assert!(
                (forth - back).abs() < 1e-4 * dot(&y, &y).sqrt() * dot(&grads, &grads).sqrt(),
                "{forth} {back}"
            );
        }
    }
}
