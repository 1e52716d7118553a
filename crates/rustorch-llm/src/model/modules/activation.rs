//! Activations of feed-forward networks.

use crate::Result;
use crate::arch::Activation;
use crate::model::config::MetadataReader;
use rustorch_core::{DType, Numerics};
use rustorch_tensor::{Expr, Fused, Tensor, fuse};

/// The activation of a gate, times a tensor where there is one.
pub(in crate::model) struct ActivationFn {
    activation: Activation,
    /// What has no operation of its own, without and with a tensor to multiply with.
    fused: Option<[Fused; 2]>,
}

impl ActivationFn {
    pub(super) fn new(activation: Activation, metadata: &MetadataReader<'_>) -> Result<ActivationFn> {
        let activation = match activation {
            Activation::Named => named(metadata)?,
            activation => activation,
        };
        ActivationFn::of(activation)
    }

    pub(in crate::model) fn of(activation: Activation) -> Result<ActivationFn> {
        let fused = match activation {
            // `new` has resolved the name.
            Activation::Silu | Activation::Named => None,
            Activation::GeluTanh => Some([fuse(|[x]| ggml_gelu(x))?, fuse(|[x, up]| ggml_gelu(x) * up)?]),
            Activation::ReluSquared => {
                Some([fuse(|[x]| x.relu().square())?, fuse(|[x, up]| x.relu().square() * up)?])
            }
            Activation::ClampedSwiglu { alpha, limit } => Some([
                fuse(|[x]| clamped_silu(x, alpha, limit))?,
                fuse(|[x, up]| clamped_silu(x, alpha, limit) * (up.clamp(-limit, limit) + 1.0))?,
            ]),
        };
        Ok(ActivationFn { activation, fused })
    }

    pub(in crate::model) fn forward(
        &self,
        gate: &Tensor,
        up: Option<&Tensor>,
        numerics: Numerics,
    ) -> Result<Tensor> {
        Ok(match (self.activation, up, &self.fused) {
            (Activation::GeluTanh, Some(up), _) if numerics != Numerics::Ggml => gate.geglu_tanh(up)?,
            (Activation::GeluTanh, None, _) if numerics != Numerics::Ggml => gate.gelu_tanh()?,
            (_, Some(up), Some([_, gated])) => gated.apply(&[gate, up])?,
            (_, None, Some([plain, _])) => plain.apply(&[gate])?,
            (_, Some(up), None) => gate.swiglu(up)?,
            (_, None, None) => gate.silu()?,
        })
    }
}

/// The activation that the metadata names.
fn named(metadata: &MetadataReader<'_>) -> Result<Activation> {
    const KEY: &str = "hidden_activation";
    match metadata.find_text(KEY)? {
        None | Some("gelu" | "geglu") => Ok(Activation::GeluTanh),
        Some("silu" | "swiglu") => Ok(Activation::Silu),
        Some(other) => {
            Err(metadata.error(KEY, format!("`{other}` is not supported; gelu, geglu, silu and swiglu are")))
        }
    }
}

/// GELU by its tanh approximation, as ggml's CPU takes it from a table: of `f16` values below 10, which are results in `f16`.
fn ggml_gelu(x: Expr<'_>) -> Expr<'_> {
    let rounded = x.to_dtype(DType::F16).to_dtype(DType::F32).gelu_tanh();
    x.lt(10.0f32).where_cond(rounded.to_dtype(DType::F16).to_dtype(DType::F32), x)
}

fn clamped_silu(x: Expr<'_>, alpha: f32, limit: f32) -> Expr<'_> {
    let x = x.clamp_max(limit);
    x * (x * f64::from(alpha)).sigmoid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_core::f16;

    /// Expected: ggml's table by `tools/oracle/ggml_gelu.py`. One of its values depends on how ggml is compiled: at -1.999 GCC's
    /// contraction to fused multiply-adds crosses a rounding boundary of `f16`.
    #[test]
    fn gelu_has_the_values_of_ggmls_table() {
        let inputs = (0..=u16::MAX).map(f16::from_bits).filter(|x| x.to_f32().abs() < 10.0);
        let inputs: Vec<f16> = inputs.collect();
        let x = Tensor::from_slice(&inputs, [inputs.len()]).unwrap().to_dtype(DType::F32).unwrap();
        let gelu = ActivationFn::of(Activation::GeluTanh).unwrap();
        let results = gelu.forward(&x, None, Numerics::Ggml).unwrap().to_vec::<f32>().unwrap();
        let mut hash: u64 = 0xCBF2_9CE4_8422_2325;
        for (&x, &y) in inputs.iter().zip(&results) {
            let bits = match (x.to_bits(), f16::from_f32(y).to_bits()) {
                (0xBFFF, 0xA9D2) => 0xA9D3,
                (_, bits) => bits,
            };
            for byte in bits.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
        assert_eq!((results.len(), hash), (37376, 0xC6E6_387B_BBD2_64FA));
    }
}
