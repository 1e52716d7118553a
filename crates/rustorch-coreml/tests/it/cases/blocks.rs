//! Weights of block types.

use super::{Case, indices, values};
use rustorch_core::{DType, MatMul, Numerics, Op, QuantType};
use rustorch_coreml::QuantWeights;
use rustorch_tensor::autograd::apply;
use rustorch_tensor::{Result, Tensor};

/// Types that stay in blocks.
const BLOCKS: [QuantType; 10] = [
    QuantType::Q8_0,
    QuantType::Q4_0,
    QuantType::Q4_1,
    QuantType::Q5_0,
    QuantType::Q5_1,
    QuantType::Q2_K,
    QuantType::Q3_K,
    QuantType::Q4_K,
    QuantType::Q5_K,
    QuantType::Q6_K,
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for quant in BLOCKS {
        cases.push(weight(quant));
        cases.push(weight(quant).in_f16());
    }
    // One without a form.
    cases.push(weight(QuantType::IQ4_NL));
    cases.push(weight(QuantType::IQ4_NL).in_f16());
    let mut dense = weight(QuantType::Q4_K).in_f16();
    dense.name.push_str("_dense");
    dense.options.quant_weights = QuantWeights::F16;
    cases.push(dense);
    cases.extend([flat(), flat().in_f16()]);
    cases
}

/// A table and a matmul whose weight is made of blocks.
fn weight(quant: QuantType) -> Case {
    let weight = values(&[5, 256], 1).to_dtype(DType::Quant(quant)).unwrap();
    let name = format!("blocks_{}", quant.name().to_lowercase());
    Case::new(&name, &[indices(&[3], 5, 2)], |x| of_rows(&weight, &x[0]))
}

/// Blocks whose scale is 0, with and without a minimum, between others.
fn flat() -> Case {
    let mut rows = values(&[5, 256], 3).to_vec::<f32>().unwrap();
    rows[256..512].fill(0.75);
    rows[512..768].fill(-0.75);
    rows[768..1024].fill(0.0);
    let rows = Tensor::from_vec(rows, [5, 256]).unwrap();
    let weights = [QuantType::Q4_1, QuantType::Q5_1, QuantType::Q4_K, QuantType::Q2_K, QuantType::Q8_0]
        .map(|quant| rows.to_dtype(DType::Quant(quant)).unwrap());
    Case::new("blocks_flat", &[indices(&[7], 5, 2)], |x| {
        let mut outputs = Vec::new();
        for weight in &weights {
            outputs.extend(of_rows(weight, &x[0])?);
        }
        Ok(outputs)
    })
}

fn of_rows(weight: &Tensor, ids: &Tensor) -> Result<Vec<Tensor>> {
    let matmul = MatMul { numerics: Numerics::F32, ..Default::default() };
    let rows = weight.embedding(ids)?;
    let y = apply(&Op::MatMul(matmul), &[&rows, &weight.t()?])?;
    Ok(vec![rows, y[0].clone()])
}
