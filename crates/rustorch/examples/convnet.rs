//! The forward pass of a small convolutional network, and what surrounds one: random weights, an input of another size, and an
//! optimizer's step in place.
#![allow(clippy::print_stdout, reason = "it is what the example is for")]

use rustorch::{
    AvgPoolOptions, ConvOptions, DType, Generator, InterpolateOptions, Interpolation, MaxPoolOptions,
    Padding, Result, Tensor, fuse,
};

/// Two convolutions, of which the first halves the image, pooling, and a classifier.
pub struct ConvNet {
    stem: Tensor,
    depthwise: Tensor,
    head: Tensor,
    bias: Tensor,
}

impl ConvNet {
    /// Random weights for images of three channels.
    pub fn new(seed: u64, classes: usize) -> Result<ConvNet> {
        let g = Generator::new(seed);
        Ok(ConvNet {
            stem: g.normal(0.0, 0.2, [8, 3, 3, 3], DType::F32)?,
            depthwise: g.normal(0.0, 0.2, [8, 1, 3, 3], DType::F32)?,
            head: g.uniform(-0.5, 0.5, [classes, 8], DType::F32)?,
            bias: Tensor::zeros([classes], DType::F32)?,
        })
    }

    /// The logits `[n, classes]` of images `[n, 3, height, width]` of any size.
    pub fn forward(&self, images: &Tensor) -> Result<Tensor> {
        let size = InterpolateOptions::size([32, 32]).mode(Interpolation::Bilinear).align_corners(false);
        let x = images.interpolate(&size)?;
        let x = x.conv2d(&self.stem, None, &ConvOptions::new().stride(2).padding(1))?.relu()?;
        let same = ConvOptions::new().groups(8).padding(Padding::Same);
        let x = x.conv2d(&self.depthwise, None, &same)?.gelu()?;
        let x = x.max_pool2d(2, &MaxPoolOptions::new().stride(2))?;
        let x = x.avg_pool2d(3, &AvgPoolOptions::new().padding(1).count_include_pad(false))?;
        x.mean([-2, -1], false)?.linear(&self.head, Some(&self.bias))
    }
}

fn main() -> Result<()> {
    let mut net = ConvNet::new(7, 10)?;
    let images = Generator::new(1).rand([2, 3, 48, 40], DType::F32)?;
    let logits = net.forward(&images)?;
    let (best, class) = logits.softmax(-1)?.max(-1, false)?;
    println!("classes {class} with probabilities {best}");

    // Moves the classifier's bias towards the classes found.
    let step = fuse(|[p, target]| (p - target) * 0.1)?;
    let target = Tensor::zeros(logits.shape(), DType::F32)?.scatter(1, &class.unsqueeze(1)?, 1)?;
    net.bias -= &step.apply(&[&logits.softmax(-1)?, &target])?.sum(0, false)?;
    let (better, _) = net.forward(&images)?.softmax(-1)?.max(-1, false)?;
    assert!(better.gt(&best)?.all_all()?.item()?.to_bool());
    println!("after a step {better}");
    Ok(())
}
