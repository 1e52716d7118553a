//! A kernel of one's own, for the CPU and in WGSL, on every device of the machine, with its gradient: saxpy, `a · x + y`.
#![allow(clippy::print_stdout, reason = "it is what the example is for")]

use rustorch::autograd::CustomBackward;
use rustorch::devices::{DiscoveredDevice, discover};
use rustorch::{CustomOp, DType, OutputMeta, Result, Tensor};

const SAXPY: &str = "
struct Params { a: f32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < arrayLength(&out); i += 64u * groups.x) {
        out[i] = params.a * x[i] + y[i];
    }
}";

/// `a · x + y` of two `f32` tensors of one shape; `a` is a parameter.
pub fn saxpy() -> Result<CustomOp> {
    CustomOp::builder("saxpy", 1)
        .infer(|args, _| {
            let [x, y] = args else {
                return Err(format!("takes x and y, not {} tensors", args.len()).into());
            };
            if x.shape() != y.shape() {
                return Err(
                    format!("x is {} and y is {}: they must have one shape", x.shape(), y.shape()).into()
                );
            }
            Ok(vec![OutputMeta { dtype: x.dtype, shape: x.shape().clone() }])
        })
        .cpu(|args, outs, params| {
            let a = params[0].to_f64() as f32;
            let (x, y) = (args[0].slice::<f32>()?, args[1].slice::<f32>()?);
            for ((out, x), y) in outs[0].slice_mut::<f32>()?.iter_mut().zip(x).zip(y) {
                *out = a * x + y;
            }
            Ok(())
        })
        .wgsl(SAXPY, |_, outs, _| {
            // At most 65535 workgroups; each invocation takes several elements where there are more.
            [outs[0].shape().numel().div_ceil(64).min(65535) as u32, 1, 1]
        })
        .backward(CustomBackward::new(|grads, params| {
            // In tensor operations, so that it can be differentiated again.
            let Some(grad) = grads.output(0)? else { return Ok(vec![None, None]) };
            Ok(vec![Some(grad.mul(params[0].to_f64())?), Some(grad.clone())])
        }))
        .build()
}

fn main() -> Result<()> {
    let doubled = saxpy()?.with_params([2.0_f32]);
    for found in discover() {
        let DiscoveredDevice::Present(backend) = found else { continue };
        let device = backend.device();
        let x = Tensor::ones([4], (DType::F32, device))?;
        let y = Tensor::full([4], 3.0, (DType::F32, device))?;
        x.requires_grad_(true)?;
        let results = Tensor::custom(&doubled, &[&x, &y])?;
        println!("{device}: {}", results[0]);
        assert_eq!(results[0].detach().to_vec::<f32>()?, [5.0; 4]);
        results[0].sum_all()?.backward()?;
        assert_eq!(x.grad().map(|grad| grad.to_vec::<f32>()).transpose()?, Some(vec![2.0; 4]));
    }
    Ok(())
}
