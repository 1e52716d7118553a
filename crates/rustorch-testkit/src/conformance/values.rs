//! Test values: reproducible, of both signs, within every function's domain, none of them round.

use rustorch_core::{C128, DType, bf16, f16};

/// The bytes of `n` values of a dense dtype. `least` and `most` bound them; integers are rounded.
pub(super) fn bytes(dtype: DType, n: usize, seed: u64, least: f64, most: f64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        least + (most - least) * ((state >> 11) as f64 / (1u64 << 53) as f64)
    };
    let mut out = Vec::with_capacity(n * dtype.size().unwrap_or(0));
    for _ in 0..n {
        let x = next();
        match dtype {
            DType::Bool => out.push(u8::from(x > (least + most) / 2.0)),
            DType::U8 => out.push(x.abs() as u8),
            DType::I8 => out.push(x as i8 as u8),
            DType::I16 => out.extend((x as i16).to_ne_bytes()),
            DType::I32 => out.extend((x as i32).to_ne_bytes()),
            DType::U32 => out.extend((x.abs() as u32).to_ne_bytes()),
            DType::I64 => out.extend((x as i64).to_ne_bytes()),
            DType::F16 => out.extend(f16::from_f64(x).to_ne_bytes()),
            DType::BF16 => out.extend(bf16::from_f64(x).to_ne_bytes()),
            DType::F32 => out.extend((x as f32).to_ne_bytes()),
            DType::F64 => out.extend(x.to_ne_bytes()),
            DType::C64 => [x, next()].iter().for_each(|&x| out.extend((x as f32).to_ne_bytes())),
            DType::C128 => [x, next()].iter().for_each(|&x| out.extend(x.to_ne_bytes())),
            // Conformance of block types belongs to the crate that knows their bytes.
            DType::Quant(_) => unreachable!("cases have dense dtypes"),
        }
    }
    out
}

/// The bytes of one value of a dense dtype: floats are rounded, integers saturate.
pub(super) fn encode(dtype: DType, re: f64, im: f64) -> Vec<u8> {
    match dtype {
        DType::Bool => vec![u8::from(re != 0.0)],
        DType::U8 => vec![re as u8],
        DType::I8 => vec![re as i8 as u8],
        DType::I16 => (re as i16).to_ne_bytes().to_vec(),
        DType::I32 => (re as i32).to_ne_bytes().to_vec(),
        DType::U32 => (re as u32).to_ne_bytes().to_vec(),
        DType::I64 => (re as i64).to_ne_bytes().to_vec(),
        DType::F16 => f16::from_f64(re).to_ne_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(re).to_ne_bytes().to_vec(),
        DType::F32 => (re as f32).to_ne_bytes().to_vec(),
        DType::F64 => re.to_ne_bytes().to_vec(),
        DType::C64 => [re as f32, im as f32].iter().flat_map(|x| x.to_ne_bytes()).collect(),
        DType::C128 => [re, im].iter().flat_map(|x| x.to_ne_bytes()).collect(),
        // Conformance of block types belongs to the crate that knows their bytes.
        DType::Quant(_) => unreachable!("cases have dense dtypes"),
    }
}

/// The values of a dense dtype as complex numbers, all integers but the largest exactly.
pub(super) fn decode(dtype: DType, bytes: &[u8]) -> Vec<C128> {
    fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<C128> {
        bytes.as_chunks().0.iter().map(|&b| C128::new(value(b), 0.0)).collect()
    }
    match dtype {
        DType::Bool | DType::U8 => each(bytes, |[b]| f64::from(b)),
        DType::I8 => each(bytes, |[b]| f64::from(b as i8)),
        DType::I16 => each(bytes, |b| f64::from(i16::from_ne_bytes(b))),
        DType::I32 => each(bytes, |b| f64::from(i32::from_ne_bytes(b))),
        DType::U32 => each(bytes, |b| f64::from(u32::from_ne_bytes(b))),
        DType::I64 => each(bytes, |b| i64::from_ne_bytes(b) as f64),
        DType::F16 => each(bytes, |b| f16::from_ne_bytes(b).to_f64()),
        DType::BF16 => each(bytes, |b| bf16::from_ne_bytes(b).to_f64()),
        DType::F32 => each(bytes, |b| f64::from(f32::from_ne_bytes(b))),
        DType::F64 => each(bytes, f64::from_ne_bytes),
        DType::C64 => {
            let parts = decode(DType::F32, bytes);
            parts.as_chunks().0.iter().map(|[re, im]| C128::new(re.re, im.re)).collect()
        }
        DType::C128 => {
            let parts = decode(DType::F64, bytes);
            parts.as_chunks().0.iter().map(|[re, im]| C128::new(re.re, im.re)).collect()
        }
        DType::Quant(_) => unreachable!("cases have dense dtypes"),
    }
}
