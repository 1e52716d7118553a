//! Cross entropy and its gradient.

use crate::testing::{Tensor, close, fails, noise, run};
use rustorch_core::{CrossEntropy, CrossEntropyBackward, Op};

/// Losses, logsumexp and the gradient by the definition, in `f64`. `target` has the probabilities of each row; none is ignored.
fn want(
    x: &[f32],
    target: &[Option<Vec<f64>>],
    weight: &[f64],
    smoothing: f64,
    grad: &[f32],
) -> [Vec<f64>; 3] {
    let len = weight.len();
    let mut out = [Vec::new(), Vec::new(), Vec::new()];
    for ((x, target), &grad) in x.chunks(len).zip(target).zip(grad) {
        let sum: f64 = x.iter().map(|&x| f64::from(x).exp()).sum();
        out[1].push(sum.ln());
        let Some(y) = target else {
            out[0].push(0.0);
            out[2].extend(vec![0.0; len]);
            continue;
        };
        let spread = smoothing / len as f64;
        let q: Vec<f64> = y.iter().zip(weight).map(|(y, w)| w * ((1.0 - smoothing) * y + spread)).collect();
        let total: f64 = q.iter().sum();
        out[0].push(q.iter().zip(x).map(|(q, &x)| q * (sum.ln() - f64::from(x))).sum());
        let each = q.iter().zip(x).map(|(q, &x)| f64::from(grad) * (total * f64::from(x).exp() / sum - q));
        out[2].extend(each);
    }
    out
}

#[test]
fn losses_and_gradients_by_the_definition() {
    for (rows, len) in [(1, 1), (5, 3), (2, 67), (3, 5000), (400, 33)] {
        let (x, grad) = (noise(1, rows * len), noise(2, rows));
        let share: Vec<f32> = noise(3, rows * len).iter().map(|x| x.abs()).collect();
        let classes: Vec<i64> =
            (0..rows).map(|i| if i % 4 == 3 { -7 } else { (i * 31 % len) as i64 }).collect();
        let weight: Vec<f32> = noise(4, len).iter().map(|w| w.abs() + 0.5).collect();
        for (has_classes, weighted, smoothing) in [
            (true, false, 0.0),
            (true, true, 0.0),
            (true, false, 0.2),
            (true, true, 0.2),
            (false, false, 0.0),
            (false, true, 0.3),
        ] {
            let rows_of: Vec<Option<Vec<f64>>> = (0..rows)
                .map(|i| match (has_classes, usize::try_from(classes[i])) {
                    (true, Ok(class)) => Some((0..len).map(|c| f64::from(u8::from(c == class))).collect()),
                    (true, Err(_)) => None,
                    (false, _) => Some(share[i * len..][..len].iter().map(|&y| y.into()).collect()),
                })
                .collect();
            let factors: Vec<f64> = weight.iter().map(|&w| if weighted { w.into() } else { 1.0 }).collect();
            let want = want(&x, &rows_of, &factors, smoothing, &grad);
            let logits = Tensor::new(&[rows, len], &x);
            let target = match has_classes {
                true => Tensor::new(&[rows], &classes),
                false => Tensor::new(&[rows, len], &share),
            };
            let weight = Tensor::new(&[len], &weight);
            let mut last = vec![&target];
            last.extend(weighted.then_some(&weight));
            let op = CrossEntropy { axis: 1, ignore_index: -7, label_smoothing: smoothing };
            let outs = run(&Op::CrossEntropy(op), &[vec![&logits], last.clone()].concat()).unwrap();
            close(&outs[0].values::<f32>(), &want[0], 1e-4);
            close(&outs[1].values::<f32>(), &want[1], 1e-4);
            let op = CrossEntropyBackward { axis: 1, ignore_index: -7, label_smoothing: smoothing };
            let grad = Tensor::new(&[rows], &grad);
            let args = [vec![&grad, &logits, &outs[1], &outs[2]], last].concat();
            let got = run(&Op::CrossEntropyBackward(op), &args).unwrap();
            close(&got[0].values::<f32>(), &want[2], 1e-4);
        }
    }
}

#[test]
fn a_class_out_of_range_is_an_error() {
    let logits = Tensor::new(&[3, 4], &[0f32; 12]);
    let op = Op::CrossEntropy(CrossEntropy { axis: 1, ignore_index: -100, label_smoothing: 0.0 });
    for wrong in [4i64, -1, i64::MAX, i64::MIN] {
        let error = fails(&op, &[&logits, &Tensor::new(&[3], &[0, 3, wrong])]).to_string();
        assert!(error.contains("row 2") && error.contains(&wrong.to_string()), "{error}");
    }
    assert!(run(&op, &[&logits, &Tensor::new(&[3], &[0i64, 3, -100])]).is_ok());
}
