//! Layer norm.

use crate::testing::{Tensor, run1};
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
