//! Properties of quantizers and dequantizers on arbitrary input.

use proptest::prelude::*;
use rustorch_core::QuantType::{self, *};
use rustorch_quant::{Codes, dequantize, expand, quantize};

fn any_type() -> impl Strategy<Value = QuantType> {
    prop::sample::select(QuantType::ALL)
}

/// How far a dequantized value may be from the source, as a part of the largest magnitude of the block.
fn error_bound(q: QuantType) -> f32 {
    match q {
        // One step where the largest positive value is cut off, else half a step.
        Q4_0 => 0.1252,
        Q5_0 => 0.0627,
        Q4_1 => 0.0685,
        Q5_1 => 0.0340,
        Q8_0 | Q8_1 => 0.0045,
        Q8_K => 0.0040,
        TQ1_0 | TQ2_0 | Q2_0 => 0.5005,
        // From 6 to 8 there are no codes.
        MXFP4 => 0.2501,
        NVFP4 => 0.2501,
        // Zero becomes the mean magnitude.
        Q1_0 => 1.001,
        // The searched types trade the worst error for the mean one.
        IQ4_NL => 0.25,
        IQ4_XS => 0.30,
        Q2_K => 0.75,
        Q3_K => 0.45,
        Q4_K => 0.25,
        Q5_K => 0.15,
        Q6_K => 0.08,
        // One of eight signs may be wrong, whatever the values.
        IQ2_XXS | IQ2_XS | IQ3_XXS => 1.3,
        IQ2_S => 1.0,
        IQ3_S => 0.6,
        IQ1_S | IQ1_M => 1.3,
    }
}

fn quantizer() -> impl Strategy<Value = (QuantType, Vec<f32>)> {
    prop::sample::select(QuantType::ALL).prop_flat_map(|q| {
        let value = prop_oneof![
            4 => -1f32..1.0,
            1 => Just(0.0),
            1 => prop::sample::select(vec![1.0, -1.0, 0.5, 1e-3, -1e-3]),
        ];
        let values = prop::collection::vec(value, q.block_len());
        (values, -8..8i32, any::<bool>()).prop_map(move |(mut values, exponent, positive)| {
            let scale = 2f32.powi(exponent);
            values.iter_mut().for_each(|v| *v = if positive { v.abs() } else { *v } * scale);
            (q, values)
        })
    })
}

fn quantized(q: QuantType, x: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let mut blocks = vec![0; q.bytes_for(x.len()).expect("whole blocks")];
    quantize(q, x, importance, &mut blocks).expect("finite values of moderate size");
    blocks
}

fn dequantized(q: QuantType, blocks: &[u8]) -> Vec<f32> {
    let mut out = vec![f32::NAN; blocks.len() / q.block_bytes() * q.block_len()];
    dequantize(q, blocks, &mut out).expect("whole blocks");
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_dequantize_or_are_an_error((q, bytes, values) in any_type().prop_flat_map(|q| {
        let bytes = prop::collection::vec(any::<u8>(), 0..4 * q.block_bytes());
        (Just(q), bytes, 0..5usize).prop_map(|(q, mut bytes, blocks)| {
            if blocks > 0 {
                bytes.truncate(bytes.len() / q.block_bytes() * q.block_bytes());
            }
            (q, bytes, blocks.saturating_sub(1) * q.block_len())
        })
    })) {
        let fits = bytes.len().is_multiple_of(q.block_bytes())
            && bytes.len() / q.block_bytes() * q.block_len() == values;
        prop_assert_eq!(dequantize(q, &bytes, &mut vec![0.0; values]).is_ok(), fits);
        let mut codes = Codes::new();
        prop_assert_eq!(expand(q, &bytes, &mut codes).is_ok(), bytes.len() == q.block_bytes());
    }

    #[test]
    fn dequantized_values_are_near_the_source((q, x) in quantizer()) {
        let largest = x.iter().fold(0f32, |m, v| m.max(v.abs()));
        // The scales themselves have a smallest step: for f16 2^-24, times up to 32 codes; for E4M3 2^-9, halved by
        // rounding, times 6.
        let step = if q == NVFP4 { 2f32.powi(-10) * 6.0 } else { 2f32.powi(-24) * 32.0 };
        let bound = error_bound(q) * largest + step;
        for (i, (x, y)) in x.iter().zip(dequantized(q, &quantized(q, &x, None))).enumerate() {
            prop_assert!((x - y).abs() <= bound, "{}: value {} of {:e} became {:e}, bound {:e}", q, i, x, y, bound);
        }
    }

    #[test]
    fn importances_never_spoil_a_block(
        ((q, x), w) in (quantizer(), prop::collection::vec(prop_oneof![Just(0f32), 0f32..1.0, 0f32..1e6], 256))
    ) {
        let largest = x.iter().fold(0f32, |m, v| m.max(v.abs()));
        let y = dequantized(q, &quantized(q, &x, Some(&w[..x.len()])));
        // An entry of a codebook may have a high code where it hardly matters.
        let most = if matches!(q, IQ2_XXS | IQ2_XS | IQ2_S | IQ3_XXS | IQ3_S) { 5.0 } else { 2.0 };
        for y in y {
            prop_assert!(y.abs() <= most * largest + 1e-4, "{}: {} out of at most {}", q, y, largest);
        }
    }

    #[test]
    fn each_block_is_quantized_alone((q, x) in quantizer()) {
        let twice = [x.as_slice(), &x].concat();
        let once = quantized(q, &x, None);
        prop_assert_eq!(quantized(q, &twice, None), [once.as_slice(), &once].concat());
    }
}
