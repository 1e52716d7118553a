//! Runs a captured network by Core ML, where there is one, until its program is admitted or refused, and tells what became of it.
//!
//! ```text
//! cargo run --release -p rustorch --example coreml_device
//! ```

#![allow(clippy::print_stdout, reason = "an example tells what it does")]

use rustorch::core::Decline;
use rustorch::nn::{Layer, Linear, Module, ReLU, seq};
use rustorch::{DType, Tensor, TensorSpec, autograd::no_grad, capture, devices, manual_seed};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all: where this process was started to examine a program, it does that and ends.
    rustorch::coreml::child();

    let executor = match devices::executor("coreml".parse()?, None) {
        Ok(executor) => executor,
        Err(error) => {
            println!("{error}");
            return Ok(());
        }
    };
    manual_seed(1);
    executor.scope(|| {
        let model =
            seq![Linear::new(1024, 4096)?, ReLU, Linear::new(4096, 4096)?, ReLU, Linear::new(4096, 1024)?];
        model.eval();
        let spec = TensorSpec::new([256, 1024], DType::F32)?;
        let program = capture(&[spec], |x| no_grad(|| Ok(vec![model.forward(&x[0])?.softmax(-1)?])))?;
        let x = Tensor::randn([256, 1024], DType::F32)?;
        let started = Instant::now();
        loop {
            program.run(&[&x])?;
            let explanation = program.explain()?;
            let declined = explanation.regions.iter().filter_map(|region| region.report.declined.as_ref());
            let is_settled = declined.clone().all(|decline| *decline != Decline::Compiling);
            // The last word after a few runs more, of which the times are.
            if is_settled || started.elapsed() > Duration::from_secs(900) {
                for _ in 0..20 {
                    program.run(&[&x])?;
                }
                println!("{}", program.explain()?);
                declined.for_each(|decline| println!("not by Core ML: {decline}"));
                return Ok(());
            }
        }
    })
}
