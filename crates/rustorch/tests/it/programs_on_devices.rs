//! Programs whose operations a device made ready when they were captured.

use crate::common;
use rustorch::autograd::apply;
use rustorch::core::{Attention, CachedAttention, DType, Device, Op};
use rustorch::{Result, Tensor, TensorSpec, capture};

/// What a program returns that writes keys to a cache at a position, and attends to those so far, for some positions: to the last bit what
/// attention gives that knows the position.
fn decoded_on(device: Device) -> Result<Vec<Vec<f32>>> {
    let numbers = |n: i64, from: f64| Tensor::arange(from, from + n as f64, 1.0)?.to_dtype(DType::F32)?.sin();
    let cache = Tensor::zeros([2, 300, 8], DType::F16)?.to_device(device)?;
    let inputs = |position: i64| -> Result<[Tensor; 3]> {
        let q = numbers(32, position as f64 + 0.25)?.reshape([4, 1, 8])?;
        let k = numbers(16, position as f64 * 3.0)?.reshape([2, 1, 8])?.to_dtype(DType::F16)?;
        Ok([
            q.to_device(device)?,
            k.to_device(device)?,
            Tensor::from_slice(&[position], [])?.to_device(device)?,
        ])
    };
    let specs = inputs(0)?.each_ref().map(TensorSpec::from);
    let program = capture(&specs, |x| {
        cache.slice_update_(1, &x[1], &x[2])?;
        let attention = CachedAttention { attention: Attention::new(0.35) };
        Ok(apply(&Op::CachedAttention(attention), &[&x[0], &cache, &cache, &x[2]])?.into_vec())
    })?;
    let nodes = program.graph().nodes.len();
    assert!(device.is_cpu() || (0..nodes).all(|node| program.is_prepared(node)), "{:?}", program.graph());
    let run = |position: i64| {
        let inputs = inputs(position)?;
        let result = program.run(&inputs.each_ref())?.remove(0).to_vec::<f32>()?;
        let causal = Attention { causal: Some(position as usize), ..Attention::new(0.35) };
        let known = apply(&Op::Attention(causal), &[&inputs[0], &cache, &cache])?[0].to_vec::<f32>()?;
        assert_eq!(result, known, "at {position}");
        Ok(result)
    };
    [0, 1, 2, 130, 299].into_iter().map(run).collect()
}

fn decode_on(name: &str) {
    let Some((device, executor)) = common::executor(name) else { return };
    let cpu = decoded_on(Device::CPU).unwrap();
    let found = executor.scope(|| decoded_on(device).unwrap());
    for (found, cpu) in found.iter().flatten().zip(cpu.iter().flatten()) {
        assert!((found - cpu).abs() < 1e-5, "{found}, and {cpu} by the CPU");
    }
}

#[test]
fn vulkan_writes_and_reads_a_cache_at_positions_that_are_data() {
    decode_on("vulkan");
}

#[test]
fn opencl_writes_and_reads_a_cache_at_positions_that_are_data() {
    decode_on("opencl");
}

/// Writing to a part of a state leaves what follows in the same word.
fn write_in_place_on(name: &str) {
    let Some((device, executor)) = common::executor(name) else { return };
    executor.scope(|| {
        let numbers = |n: usize| Tensor::arange(0.0f32, n as f64, 1.0)?.to_dtype(DType::F16);
        let state = numbers(10).unwrap().to_device(device).unwrap();
        let x = numbers(3).unwrap().to_device(device).unwrap();
        let program = capture(&[TensorSpec::from(&x)], |x| {
            let negative = x[0].neg()?;
            state.narrow(0, 0, 3)?.copy_(&negative)?;
            state.narrow(0, 0, 5)?.add_(1)?;
            Ok(vec![negative])
        })
        .unwrap();
        assert!(program.is_prepared(0), "{:?}", program.graph());
        for turn in 0..2 {
            let negative = program.run(&[&x]).unwrap().remove(0);
            assert_eq!(negative.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap(), [0.0, -1.0, -2.0]);
            let more = turn as f32;
            let expected = [1.0, 0.0, -1.0, 4.0 + more, 5.0 + more, 5.0, 6.0, 7.0, 8.0, 9.0];
            assert_eq!(state.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap(), expected, "{turn}");
        }
    });
}

#[test]
fn vulkan_leaves_the_rest_of_a_state() {
    write_in_place_on("vulkan");
}

#[test]
fn opencl_leaves_the_rest_of_a_state() {
    write_in_place_on("opencl");
}
