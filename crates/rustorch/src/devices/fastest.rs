//! The device on which a model's weights are fastest.

use rustorch_core::{Backend, CostModel, DTypeSet, Device, OpKind, OpType, Result};
use rustorch_formats::gguf::DTypeSummary;
use rustorch_runtime::HybridExecutor;
use std::sync::Arc;

/// Where a model of such weights generates fastest, by measurement: each token multiplies with every weight once, at the rate
/// that was measured for its dtype, and takes some hundred launches.
///
/// The CPU where there is nothing else, without measuring anything.
///
/// # Errors
/// If the environment asks for a fallback order that makes no sense.
pub fn fastest_for_weights(
    executor: &HybridExecutor,
    weights: &[DTypeSummary],
    launches: usize,
) -> Result<Device> {
    let mut devices = executor.fallback_order()?;
    // Core ML has no operations.
    devices.retain(|device| {
        let capability = |backend: Arc<dyn Backend>| backend.capability().dtypes(OpType::LinearAlgebra);
        executor.backend(*device).is_ok_and(|backend| capability(backend) != DTypeSet::EMPTY)
    });
    if devices.len() < 2 {
        return Ok(Device::CPU);
    }
    let token_us = |device: &Device| {
        executor.cost_model(*device).map_or(f64::INFINITY, |cost| token_us(&cost, weights, launches))
    };
    let fastest = devices.into_iter().min_by(|a, b| token_us(a).total_cmp(&token_us(b)));
    Ok(fastest.unwrap_or(Device::CPU))
}

/// The expected time of a token, in microseconds.
fn token_us(cost: &CostModel, weights: &[DTypeSummary], launches: usize) -> f64 {
    let products = weights.iter().map(|of| {
        let (flops, bandwidth) = cost.rates(OpKind::MatMul, OpType::LinearAlgebra, of.dtype);
        1e6 * (2.0 * of.parameters as f64 / flops).max(of.bytes as f64 / bandwidth)
    });
    launches as f64 * cost.launch_us + products.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_core::{DType, Link, QuantType, Rate, RateOf};

    /// A device as the CPU of the report: a sum reads 294 GB/s from its caches, a matmul with Q4_K weights 24 GB/s.
    #[test]
    fn quantized_weights_are_weighed_at_their_own_rate() {
        let q4 = DType::Quant(QuantType::Q4_K);
        let rate = Rate { of: RateOf::Op(OpKind::MatMul), dtype: q4, flops: f64::INFINITY, bandwidth: 24e9 };
        let cost = CostModel {
            launch_us: 1.0,
            flops: 1e12,
            bandwidth: 294e9,
            rates: vec![rate],
            upload: Link::NONE,
            download: Link::NONE,
        };
        let weights = |dtype| [DTypeSummary { dtype, tensors: 1, parameters: 1 << 20, bytes: 24_000_000 }];
        assert!((token_us(&cost, &weights(q4), 100) - 1100.0).abs() < 1e-6);
        assert!(token_us(&cost, &weights(DType::F32), 0) < 100.0);
    }
}
