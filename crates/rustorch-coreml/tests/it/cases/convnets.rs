//! Convolutional networks: a ResNet and a U-Net.

use super::{Case, values};
use rustorch_tensor::{ConvOptions, MaxPoolOptions, Result, Tensor};

pub(super) fn cases() -> Vec<Case> {
    vec![resnet(), unet()]
}

/// A convolution and a batch norm in evaluation.
struct ConvNorm {
    weight: Tensor,
    running: [Tensor; 2],
    affine: [Tensor; 2],
    options: ConvOptions,
}

impl ConvNorm {
    fn new(before: usize, after: usize, kernel: usize, stride: usize) -> ConvNorm {
        let seed = (before * 31 + after * 7 + kernel * 3 + stride) as u32;
        let each = |i: u32| values(&[after], seed + i);
        let small = 1.0 / (before * kernel * kernel) as f64;
        ConvNorm {
            weight: values(&[after, before, kernel, kernel], seed).mul(small.sqrt()).unwrap(),
            running: [each(1).mul(0.1).unwrap(), each(2).abs().unwrap().add(0.5).unwrap()],
            affine: [each(3).mul(0.25).unwrap().add(1).unwrap(), each(4).mul(0.1).unwrap()],
            options: ConvOptions::new().stride(stride).padding(kernel / 2),
        }
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let ([mean, variance], [weight, bias]) = (&self.running, &self.affine);
        let y = x.conv2d(&self.weight, None, &self.options)?;
        y.batch_norm(Some((mean, variance)), Some(weight), Some(bias), false, 0.1, 1e-5)
    }
}

/// A ResNet-18 of an eighth of the usual width, on an image of 32 by 32.
fn resnet() -> Case {
    let stem = ConvNorm::new(3, 8, 7, 2);
    let mut blocks = Vec::new();
    let mut before = 8;
    for (after, stride) in [(8, 1), (8, 1), (16, 2), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1)] {
        let shortcut = (before != after).then(|| ConvNorm::new(before, after, 1, stride));
        blocks.push((ConvNorm::new(before, after, 3, stride), ConvNorm::new(after, after, 3, 1), shortcut));
        before = after;
    }
    let (head, bias) = (values(&[10, 64], 5).mul(0.1).unwrap(), values(&[10], 6));
    Case::new("resnet18", &[values(&[1, 3, 32, 32], 1)], |x| {
        let mut x =
            stem.forward(&x[0])?.relu()?.max_pool2d(3, &MaxPoolOptions::new().stride(2).padding(1))?;
        for (first, second, shortcut) in &blocks {
            let y = second.forward(&first.forward(&x)?.relu()?)?;
            let beside = shortcut.as_ref().map_or_else(|| Ok(x.clone()), |shortcut| shortcut.forward(&x))?;
            x = y.add(&beside)?.relu()?;
        }
        Ok(vec![x.mean([-2, -1], false)?.linear(&head, Some(&bias))?])
    })
}

/// Down by pooling, up by a transposed convolution, and the two joined.
fn unet() -> Case {
    let (first, deep, last) =
        (ConvNorm::new(2, 6, 3, 1), ConvNorm::new(6, 10, 3, 1), ConvNorm::new(12, 4, 3, 1));
    let (up, bias) = (values(&[10, 6, 2, 2], 7).mul(0.2).unwrap(), values(&[6], 8));
    Case::new("unet", &[values(&[2, 2, 12, 8], 2)], |x| {
        let whole = first.forward(&x[0])?.relu()?;
        let half = deep.forward(&whole.max_pool2d(2, &MaxPoolOptions::new())?)?.silu()?;
        let up = half.conv_transpose2d(&up, Some(&bias), &ConvOptions::new().stride(2))?;
        Ok(vec![last.forward(&Tensor::cat(&[&whole, &up], 1)?)?])
    })
}
