//! Quantization against gguf-py and ggml (`tools/oracle/quant_encode.py`).

use bytemuck::Zeroable;
use rustorch_core::QuantType::{self, *};
use rustorch_quant::{
    Block, BlockQ8_0, BlockQ8_1, BlockQ8K, QuantError, blocks_of, dequantize, quantize, quantize_q8_0,
    quantize_q8_1, quantize_q8_k,
};

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/encode/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn source() -> Vec<f32> {
    fixture("source.bin").chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn quantized(q: QuantType, x: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let mut out = vec![0xaa; q.bytes_for(x.len()).expect("whole blocks")];
    quantize(q, x, importance, &mut out).unwrap_or_else(|e| panic!("{q}: {e}"));
    out
}

fn dequantized(q: QuantType, blocks: &[u8]) -> Vec<f32> {
    let mut out = vec![0.0; blocks.len() / q.block_bytes() * q.block_len()];
    dequantize(q, blocks, &mut out).expect("whole blocks");
    out
}

#[test]
fn types_without_a_search_are_written_byte_for_byte_as_by_the_reference() {
    let x = source();
    for q in [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1, Q8_K, TQ1_0, TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0] {
        let expected = fixture(&format!("{q}.bin"));
        let got = quantized(q, &x, None);
        assert_eq!(got.len(), expected.len(), "{q}");
        let (size, len) = (q.block_bytes(), q.block_len());
        for (i, (got, expected)) in got.chunks_exact(size).zip(expected.chunks_exact(size)).enumerate() {
            assert_eq!(got, expected, "{q}: block {i}, values {:?}", &x[i * len..][..len]);
        }
    }
}

/// splitmix64 at the counters `stream * 2^32 + 1, …`.
fn uniform(stream: u64) -> impl Iterator<Item = u64> {
    (1u64..).map(move |i| {
        let mut z = (i + (stream << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    })
}

fn samples(n: usize) -> Vec<f32> {
    let sample = |(z, outlier): (u64, u64)| {
        let total = (0..4).map(|k| (z >> (16 * k) & 0xffff) as i64).sum::<i64>() - 2 * 65535;
        (total * if outlier.is_multiple_of(16) { 4 } else { 1 }) as f32 / (1u32 << 21) as f32
    };
    uniform(1).zip(uniform(2)).map(sample).take(n).collect()
}

fn importances(n: usize) -> Vec<f32> {
    uniform(3).map(|z| ((z & 1023) as f32 + 1.0) / (64u64 << ((z >> 10) % 7)) as f32).take(n).collect()
}

fn weighted_error(x: &[f32], y: &[f32], w: &[f32]) -> f64 {
    let (mut error, mut total) = (0.0, 0.0);
    for (i, (&x, &y)) in x.iter().zip(y).enumerate() {
        let w = f64::from(w[i % w.len()]);
        error += w * (f64::from(x) - f64::from(y)).powi(2);
        total += w;
    }
    error / total
}

#[test]
fn searched_types_come_as_close_as_ggml() {
    let (x, w) = (samples(16384), importances(1024));
    let square = weighted_error(&x, &vec![0.0; x.len()], &[1.0]);
    assert!((square - 6.301836646e-04).abs() < 1e-12, "the samples are not those of the oracle: {square:e}");
    let errors = String::from_utf8(fixture("errors.txt")).expect("text");
    for line in errors.lines() {
        let mut fields = line.split(' ');
        let q = QuantType::from_name(fields.next().expect("name")).expect("type");
        let mut number = || fields.next().expect("error").parse::<f64>().expect("number");
        let (plain, weighted) = (number(), number());
        let ours = weighted_error(&x, &dequantized(q, &quantized(q, &x, None)), &[1.0]);
        let ours_weighted = weighted_error(&x, &dequantized(q, &quantized(q, &x, Some(&w))), &w);
        let ratio = (ours / plain).sqrt();
        let ratio_weighted = (ours_weighted / weighted).sqrt();
        println!(
            "{q:8} root mean square error over ggml's: {ratio:.4}, with importances {ratio_weighted:.4}"
        );
        assert!(ratio <= 1.02, "{q}: {ratio}");
        assert!(ratio_weighted <= 1.02, "{q} with importances: {ratio_weighted}");
    }
}

fn activations<B: Block + PartialEq + std::fmt::Debug>(quantize: fn(&[f32], &mut [B])) {
    let x = source();
    let expected = fixture(&format!("activation.{}.bin", B::TYPE));
    let expected = blocks_of::<B>(&expected).expect("whole blocks");
    let mut got = vec![B::zeroed(); x.len() / B::LEN];
    quantize(&x, &mut got);
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got, expected, "{}: block {i}, values {:?}", B::TYPE, &x[i * B::LEN..][..B::LEN]);
    }
}

#[test]
fn activations_are_quantized_as_by_llama_cpp_on_x86() {
    activations::<BlockQ8_0>(quantize_q8_0);
    activations::<BlockQ8_1>(quantize_q8_1);
    activations::<BlockQ8K>(quantize_q8_k);
}

#[test]
fn activations_that_are_not_finite_give_a_nan_scale() {
    for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = [0.5; 256];
        x[77] = bad;
        let (mut q0, mut q1, mut qk) =
            ([BlockQ8_0::zeroed(); 8], [BlockQ8_1::zeroed(); 8], [BlockQ8K::zeroed()]);
        quantize_q8_0(&x, &mut q0);
        quantize_q8_1(&x, &mut q1);
        quantize_q8_k(&x, &mut qk);
        assert!(qk[0].d.get().is_nan());
        for (i, (q0, q1)) in q0.iter().zip(&q1).enumerate() {
            assert_eq!(q0.d.get().is_nan(), i == 2);
            assert_eq!(q1.d.get().is_nan() && q1.s.get().is_nan(), i == 2);
        }
    }
}

#[test]
fn zeros_stay_zeros() {
    for &q in QuantType::ALL {
        // Q1_0 has no code for zero, but its scale is zero.
        let out = dequantized(q, &quantized(q, &vec![0.0; 2 * q.block_len()], None));
        assert!(out.iter().all(|&v| v == 0.0), "{q}");
    }
}

#[test]
fn bad_sources_are_errors() {
    for &q in QuantType::ALL {
        let (len, size) = (q.block_len(), q.block_bytes());
        let mut out = vec![0; 2 * size];
        let mut x = vec![0.25; 2 * len];
        assert_eq!(
            quantize(q, &x[1..], None, &mut out),
            Err(QuantError::LengthMismatch { quant: q, bytes: 2 * size, held: 2 * len, values: 2 * len - 1 })
        );
        assert_eq!(
            quantize(q, &x, None, &mut out[1..]),
            Err(QuantError::PartialBlock { quant: q, bytes: 2 * size - 1 })
        );
        assert_eq!(quantize(q, &[], Some(&[]), &mut []), Ok(()));
        for columns in [0, len - 1, 3 * len] {
            let error = quantize(q, &x, Some(&vec![1.0; columns]), &mut out);
            assert_eq!(error, Err(QuantError::ImportanceLength { quant: q, columns, values: 2 * len }));
        }
        let mut w = vec![1.0; len];
        w[3] = -1.0;
        let error = quantize(q, &x, Some(&w), &mut out);
        assert_eq!(error, Err(QuantError::BadImportance { column: 3, value: -1.0 }));
        x[len + 1] = f32::NEG_INFINITY;
        let error = quantize(q, &x, None, &mut out);
        assert_eq!(error, Err(QuantError::NotFinite { index: len + 1, value: f32::NEG_INFINITY }));
    }
}

#[test]
fn values_beyond_the_scales_are_errors() {
    // Blocks with a scale of more than 16 bits hold these; NVFP4 cuts them off as ggml does.
    for &q in QuantType::ALL.iter().filter(|q| ![Q8_K, MXFP4, NVFP4].contains(q)) {
        let mut x = vec![0.5; 2 * q.block_len()];
        x[q.block_len()..].fill(-3e38);
        let error = quantize(q, &x, None, &mut vec![0; 2 * q.block_bytes()]);
        assert_eq!(
            error,
            Err(QuantError::OutOfRange { quant: q, index: q.block_len(), largest: 3e38 }),
            "{q}"
        );
    }
}

#[test]
fn columns_without_importance_do_not_spoil_their_group() {
    for &q in QuantType::ALL {
        let x = samples(1024);
        let w: Vec<f32> = (0..256).map(|i| if i / 32 % 2 == 0 { 0.0 } else { 1.0 }).collect();
        let y = dequantized(q, &quantized(q, &x, Some(&w)));
        let part = |keep: usize| {
            let pick = |v: &[f32]| -> Vec<f32> {
                v.iter().enumerate().filter(|(i, _)| i / 32 % 2 == keep).map(|(_, v)| *v).collect()
            };
            (weighted_error(&pick(&x), &pick(&y), &[1.0]) / 6.4e-4).sqrt()
        };
        let limit = if q.block_bytes() * 8 < 5 * q.block_len() / 2 { 1.2 } else { 0.5 };
        assert!(part(0) < limit && part(1) < limit, "{q}: {} and {}", part(0), part(1));
    }
}
