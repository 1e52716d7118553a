//! Dequantization against gguf-py (`tools/oracle/quant_decode.py`), bit for bit.

use rustorch_core::QuantType;
use rustorch_quant::{
    BlockMxfp4, Codes, QuantError, dequantize, expand, pack_scales_mins, unpack_scales_mins,
};
use rustorch_testkit::{Requirement, skip};

/// Blocks in the digest.
const DIGESTED: usize = 4096;

struct Fixture {
    blocks: Vec<u8>,
    expected: Vec<u32>,
    digest: u64,
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("a fixture of the length that its header says")
}

fn fixture(q: QuantType) -> Fixture {
    let path = format!("{}/tests/fixtures/decode/{}.bin", env!("CARGO_MANIFEST_DIR"), q.name());
    let file = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let n = u32::from_le_bytes(array(&file[..4])) as usize;
    let (blocks, rest) = file[4..].split_at(n * q.block_bytes());
    let (expected, digest) = rest.split_at(4 * n * q.block_len());
    Fixture {
        blocks: blocks.to_vec(),
        expected: expected.chunks_exact(4).map(|b| u32::from_le_bytes(array(b))).collect(),
        digest: u64::from_le_bytes(array(digest)),
    }
}

fn bits(v: f32) -> u32 {
    if v.is_nan() { 0x7fc0_0000 } else { v.to_bits() }
}

fn splitmix64(n: usize) -> Vec<u8> {
    (1..=n as u64 / 8)
        .flat_map(|i| {
            let mut z = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            (z ^ z >> 31).to_le_bytes()
        })
        .collect()
}

fn digest(values: &[f32]) -> u64 {
    values.iter().enumerate().fold(0, |sum: u64, (i, &v)| {
        let mut z = u64::from(bits(v)).wrapping_add((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ z >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        sum.wrapping_add(z ^ z >> 32)
    })
}

#[test]
fn every_type_dequantize_as_gguf_py_does() {
    for &q in QuantType::ALL {
        let f = fixture(q);
        let mut out = vec![f32::NAN; f.expected.len()];
        dequantize(q, &f.blocks, &mut out).unwrap();
        for (i, (&got, &expected)) in out.iter().zip(&f.expected).enumerate() {
            assert_eq!(
                bits(got),
                expected,
                "{q}: value {} of block {}: {got} instead of {}",
                i % q.block_len(),
                i / q.block_len(),
                f32::from_bits(expected)
            );
        }
    }
}

#[test]
fn random_bytes_dequantize_as_in_gguf_py() {
    for &q in QuantType::ALL {
        let blocks = splitmix64(DIGESTED * q.block_bytes());
        let mut out = vec![0.0; DIGESTED * q.block_len()];
        dequantize(q, &blocks, &mut out).unwrap();
        assert_eq!(digest(&out), fixture(q).digest, "{q}");
    }
}

#[test]
fn blocks_may_start_at_any_byte() {
    for &q in QuantType::ALL {
        let f = fixture(q);
        let mut shifted = vec![0; f.blocks.len() + 1];
        shifted[1..].copy_from_slice(&f.blocks);
        let mut out = vec![0.0; f.expected.len()];
        dequantize(q, &shifted[1..], &mut out).unwrap();
        assert!(out.iter().map(|&v| bits(v)).eq(f.expected), "{q}");
    }
}

#[test]
fn levels_scales_and_minima_are_the_values() {
    for &q in QuantType::ALL {
        let f = fixture(q);
        let mut codes = Codes::new();
        for (block, expected) in
            f.blocks.chunks_exact(q.block_bytes()).zip(f.expected.chunks_exact(q.block_len()))
        {
            expand(q, block, &mut codes).unwrap();
            for (i, &expected) in expected.iter().enumerate() {
                let value = codes.scale[i / 16] * f32::from(codes.q[i]) - codes.min[i / 16];
                assert_eq!(bits(value), expected, "{q}: value {i}");
            }
        }
    }
}

#[test]
fn e2m1_codes_are_those_of_the_ocp_specification() {
    let doubled = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
    let codes_of = std::array::from_fn(|i| i as u8 | (15 - i as u8) << 4);
    let (block, mut codes) = (BlockMxfp4 { e: 127, qs: codes_of }, Codes::new());
    expand(QuantType::MXFP4, bytemuck::bytes_of(&block), &mut codes).unwrap();
    assert_eq!(codes.q[..16], doubled);
    assert!(codes.q[16..32].iter().eq(doubled.iter().rev()));
}

#[test]
fn scales_and_minima_survive_packing() {
    for seed in 0..64u8 {
        let scales = std::array::from_fn(|j| (seed.wrapping_mul(7) ^ (j as u8 * 9)) & 63);
        let mins = std::array::from_fn(|j| (seed.wrapping_mul(13) ^ (j as u8 * 21)) & 63);
        assert_eq!(unpack_scales_mins(&pack_scales_mins(&scales, &mins)), (scales, mins));
    }
}

#[test]
fn wrong_lengths_are_errors() {
    for &q in QuantType::ALL {
        let bytes = vec![0; 3 * q.block_bytes()];
        let values = 3 * q.block_len();
        let mut out = vec![0.0; values + 1];
        assert_eq!(
            dequantize(q, &bytes[1..], &mut out[..values]),
            Err(QuantError::PartialBlock { quant: q, bytes: bytes.len() - 1 })
        );
        for wrong in [0, values - 1, values + 1] {
            assert_eq!(
                dequantize(q, &bytes, &mut out[..wrong]),
                Err(QuantError::LengthMismatch { quant: q, bytes: bytes.len(), held: values, values: wrong })
            );
        }
        assert_eq!(dequantize(q, &[], &mut []), Ok(()));
        for wrong in [0, q.block_bytes() - 1, 2 * q.block_bytes()] {
            assert!(expand(q, &bytes[..wrong], &mut Codes::new()).is_err());
        }
    }
}

/// The digests are those of `tools/oracle/quant_models.py`.
#[test]
fn tensors_of_models_dequantize_as_in_gguf_py() {
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/models");
    if !std::path::Path::new(models).is_dir() {
        return skip(Requirement::Shared, format!("{models} does not exist"));
    }
    let (mut file, mut tensors) = ((String::new(), Vec::new()), 0);
    for line in include_str!("../fixtures/models.txt").lines() {
        if let Some(name) = line.strip_prefix("= ") {
            file =
                (name.to_owned(), std::fs::read(format!("{models}/{name}")).expect("a model of the fixture"));
            continue;
        }
        let fields: Vec<_> = line.split(' ').collect();
        let offset: usize = fields[0].parse().expect("offset");
        let q = QuantType::from_name(fields[1]).expect("type");
        let mut values = vec![0.0; fields[2].parse().expect("number of values")];
        let bytes = q.bytes_for(values.len()).expect("whole blocks");
        dequantize(q, &file.1[offset..][..bytes], &mut values).unwrap();
        assert_eq!(format!("{:016x}", digest(&values)), fields[3], "{}: tensor at {offset}", file.0);
        tensors += 1;
    }
    println!("{tensors} tensors");
}
