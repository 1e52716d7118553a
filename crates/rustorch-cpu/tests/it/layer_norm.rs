//! Layer norm.

use crate::testing::{Tensor, close, noise, run1};
use rustorch_core::{LayerNorm, Op};

/// As in PyTorch, whatever their sum rounds to: `layer_norm(torch.full((2, 5), 0.1), (5,), eps=1e-12)` is 0.
#[test]
fn equal_elements_leave_the_bias() {
    for (x, n) in [(0.1f32, 5), (3.3, 1000), (1e6 + 0.3, 4099)] {
        let bias: Vec<f32> = (0..n).map(|i| i as f32 * 0.37).collect();
        let args = [
            &Tensor::new(&[2, n], &vec![x; 2 * n]),
            &Tensor::new(&[n], &vec![1.5f32; n]),
            &Tensor::new(&[n], &bias),
        ];
        let out = run1::<f32>(&Op::LayerNorm(LayerNorm { dims: 1, eps: 1e-12 }), &args);
        assert_eq!(out, [&bias[..], &bias[..]].concat(), "{n} times {x}");
    }
}

/// Rows that are prefetched, whole and with some elements more than whole lanes, and longer ones; with and without weight and bias.
#[test]
fn rows_of_any_length_by_the_definition() {
    for n in [1, 63, 64, 1024, 2000, 2049, 5003] {
        let (x, weight, bias) = (noise(1, 3 * n), noise(2, n), noise(3, n));
        let args = [Tensor::new(&[3, n], &x), Tensor::new(&[n], &weight), Tensor::new(&[n], &bias)];
        for count in 1..=3 {
            let args: Vec<&Tensor> = args[..count].iter().collect();
            let out = run1::<f32>(&Op::LayerNorm(LayerNorm { dims: 1, eps: 1e-5 }), &args);
            let mut want = Vec::new();
            for row in x.chunks(n) {
                let wide = row.iter().map(|&x| f64::from(x));
                let mean = wide.clone().sum::<f64>() / n as f64;
                let variance = wide.clone().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
                want.extend(wide.enumerate().map(|(i, x)| {
                    let hat = (x - mean) / (variance + 1e-5).sqrt();
                    let scaled = if count > 1 { hat * f64::from(weight[i]) } else { hat };
                    if count > 2 { scaled + f64::from(bias[i]) } else { scaled }
                }));
            }
            close(&out, &want, 2e-6);
        }
    }
}
