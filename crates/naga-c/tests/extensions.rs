//! What only some OpenCL devices have: 16-bit floats, subgroups, 64-bit atomics. Skipped on others, but run as CUDA's text
//! on this processor.

#![allow(clippy::print_stdout, reason = "says what is skipped")]

mod support;

use half::f16;
use naga_c::Dialect;
use support::Runner;
use support::opencl::{Device, device};
use support::table::{bytes, words};

/// Runs a shader on the OpenCL device, if it can, and (if `host`) as CUDA's text on this processor.
fn run_all(wgsl: &str, groups: u32, buffers: &[Vec<u8>], host: bool) -> Vec<Vec<Vec<u8>>> {
    let mut results = Vec::new();
    results.extend(device().and_then(|device| run(device, wgsl, groups, buffers)));
    if let Some(host) = support::host::host().filter(|_| host) {
        let mut buffers = buffers.to_vec();
        host.run(wgsl, [groups, 1, 1], &mut buffers);
        results.push(buffers);
    }
    results
}

fn run(device: &Device, wgsl: &str, groups: u32, buffers: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let output = support::written(wgsl, Dialect::OpenCl);
    if !device.can_run(&output) {
        println!("skipped: the device lacks one of {:?}, subgroups: {}", output.extensions, output.subgroups);
        return None;
    }
    let mut buffers = buffers.to_vec();
    device.run_output(&output, [groups, 1, 1], &mut buffers);
    Some(buffers)
}

/// The nearest 16-bit float. (`f16::from_f64` drops the lower half of the digits before it rounds.)
fn rounded(value: f64) -> f16 {
    let mut near = value as f32;
    if f64::from(near).abs() > value.abs() {
        near = f32::from_bits(near.to_bits() - 1);
    }
    // To odd: what was cut off shows in the last digit, which a second rounding then sees.
    let sticky = u32::from(f64::from(near) != value && near.is_finite());
    f16::from_f32(f32::from_bits(near.to_bits() | sticky))
}

#[test]
fn half_precision() {
    let wgsl = "enable f16;
        struct Block { scale: f16, low: vec3<f16>, pair: vec2<f16> }
        @group(0) @binding(0) var<storage, read> x: array<f16>;
        @group(0) @binding(1) var<storage, read_write> y: array<f16>;
        @group(0) @binding(2) var<storage, read_write> n: array<i32>;
        @group(0) @binding(3) var<storage, read_write> blocks: array<Block, 2>;
        @compute @workgroup_size(1) fn f(@builtin(workgroup_id) id: vec3<u32>) {
            let a = x[id.x * 3u]; let b = x[id.x * 3u + 1u]; let c = x[id.x * 3u + 2u];
            let v = fma(vec3(a, b, c), vec3(b, c, a), vec3(c)) - vec3<f16>(0.1h, 1.0h, 65504.0h);
            let o = id.x * 12u;
            y[o] = a + b; y[o + 1u] = a * b - c; y[o + 2u] = a / b; y[o + 3u] = fma(a, b, c); y[o + 4u] = sqrt(abs(a));
            y[o + 5u] = f16(f32(a) * 0.3); y[o + 6u] = round(a) + floor(b) - trunc(c); y[o + 7u] = v.x; y[o + 8u] = v.z;
            y[o + 9u] = f16(n[id.x]); y[o + 10u] = clamp(a, -1.0h, 1.0h); y[o + 11u] = select(a, b, a < c);
            n[id.x] = i32(a) + i32(dot(v, v) > 1.0h);
            if id.x == 0u { blocks[1] = Block(a, vec3(a, b, c), vec2(b, c)); blocks[0].low.y = blocks[1].low.z * 2.0h; }
        }";
    let values =
        [1.0, 0.1, -2.5, 3.25, 1000.0, -0.0003, 7.0, 65504.0, 6e-8, -1.5, 0.333, 42.0].map(f16::from_f32);
    let x: Vec<f16> = (0..60).map(|i| values[(i * i + i / 3) % values.len()]).collect();
    let n: Vec<u32> = (0..20).map(|i: u32| i.wrapping_mul(100_003) % 70_000).collect();
    let half_bytes = |halves: &[f16]| halves.iter().flat_map(|h| h.to_le_bytes()).collect::<Vec<_>>();
    let buffers = [half_bytes(&x), vec![0; 20 * 12 * 2], bytes(&n), vec![0; 48]];
    for after in run_all(wgsl, 20, &buffers, false) {
        let y: Vec<_> = after[1].chunks_exact(2).map(|c| f16::from_le_bytes([c[0], c[1]])).collect();
        let r = rounded;
        for (i, row) in x.chunks_exact(3).enumerate() {
            let [a, b, c] = [0, 1, 2].map(|k| row[k].to_f64());
            // Sums and products of two are exact in f64, so each is rounded once.
            let fused = [r(a * b + c), r(b * c + c), r(c * a + c)];
            let product = r(a * b);
            let want = [
                r(a + b),
                r(product.to_f64() - c),
                r(a / b),
                r(a.mul_add(b, c)),
                r(a.abs().sqrt()),
                f16::from_f32(a as f32 * 0.3),
                r(r(a.round_ties_even() + b.floor()).to_f64() - c.trunc()),
                r(fused[0].to_f64() - f16::from_f32(0.1).to_f64()),
                r(fused[2].to_f64() - 65504.0),
                r(f64::from(n[i])),
                r(a.clamp(-1.0, 1.0)),
                if a < c { row[1] } else { row[0] },
            ];
            for (k, want) in want.iter().enumerate() {
                let got = y[i * 12 + k];
                let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
                assert!(same, "row {i} ({a} {b} {c}), result {k}: {got}, want {want}");
            }
        }
        let block: Vec<_> = after[3].chunks_exact(2).map(|c| f16::from_le_bytes([c[0], c[1]])).collect();
        // scale 0, low 4, pair 8; 12 halves apart.
        assert_eq!((block[12], &block[16..19], &block[20..22]), (x[0], &x[..3], &x[1..3]));
        assert_eq!(block[5], r(x[2].to_f64() * 2.0));
    }
}

#[test]
fn subgroups() {
    let wgsl = "
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(40) fn f(
            @builtin(local_invocation_index) index: u32, @builtin(subgroup_size) size: u32,
            @builtin(subgroup_invocation_id) lane: u32, @builtin(num_subgroups) count: u32, @builtin(subgroup_id) group: u32,
        ) {
            let v = index * 7u + 3u;
            let o = index * 24u;
            let ballot = subgroupBallot((v & 1u) == 1u);
            let pair = subgroupShuffleXor(vec2(v, lane), 1u);
            out[o] = size; out[o + 1u] = lane; out[o + 2u] = count; out[o + 3u] = group; out[o + 4u] = v;
            out[o + 5u] = subgroupAdd(v); out[o + 6u] = subgroupMul(v); out[o + 7u] = subgroupMin(v); out[o + 8u] = subgroupMax(v);
            out[o + 9u] = subgroupAnd(v); out[o + 10u] = subgroupOr(v); out[o + 11u] = subgroupXor(v);
            out[o + 12u] = u32(subgroupAll(v > 100u)); out[o + 13u] = u32(subgroupAny(v > 100u));
            out[o + 14u] = subgroupInclusiveAdd(v); out[o + 15u] = subgroupExclusiveAdd(v);
            out[o + 16u] = subgroupInclusiveMul(v); out[o + 17u] = subgroupExclusiveMul(v);
            out[o + 18u] = ballot.x; out[o + 19u] = subgroupBroadcastFirst(v); out[o + 20u] = subgroupBroadcast(v, 2u);
            out[o + 21u] = subgroupShuffle(v, lane ^ 1u); out[o + 22u] = pair.x * 1000u + pair.y;
            out[o + 23u] = u32(subgroupMax(f32(v)) + subgroupAdd(f32(v)));
        }";
    for after in run_all(wgsl, 1, &[vec![0; 40 * 24 * 4]], true) {
        let out = words(&after[0]);
        let rows: Vec<&[u32]> = out.chunks_exact(24).collect();
        for row in &rows {
            let mut mates: Vec<_> = rows.iter().filter(|other| other[3] == row[3]).collect();
            mates.sort_by_key(|other| other[1]);
            let v: Vec<u32> = mates.iter().map(|mate| mate[4]).collect();
            let lane = row[1] as usize;
            assert!(row[0] as usize >= v.len() && row[2] > row[3], "{row:?}");
            assert_eq!(v[lane], row[4]);
            let product = |values: &[u32]| values.iter().fold(1_u32, |a, b| a.wrapping_mul(*b));
            let odd = v
                .iter()
                .enumerate()
                .filter(|(lane, v)| *v & 1 == 1 && *lane < 32)
                .map(|(lane, _)| 1_u32 << lane)
                .sum();
            let (first, third) = (v[0], v[2]);
            let want = [
                v.iter().sum(),
                product(&v),
                *v.iter().min().unwrap(),
                *v.iter().max().unwrap(),
                v.iter().fold(u32::MAX, |a, b| a & b),
                v.iter().fold(0, |a, b| a | b),
                v.iter().fold(0, |a, b| a ^ b),
                u32::from(v.iter().all(|v| *v > 100)),
                u32::from(v.iter().any(|v| *v > 100)),
                v[..=lane].iter().sum(),
                v[..lane].iter().sum(),
                product(&v[..=lane]),
                product(&v[..lane]),
                odd,
                first,
                third,
                v[lane ^ 1],
                v[lane ^ 1] * 1000 + (lane as u32 ^ 1),
                v.iter().max().unwrap() + v.iter().sum::<u32>(),
            ];
            assert_eq!(row[5..], want, "lane {lane} of subgroup {} of {}", row[3], row[2]);
        }
    }
}

#[test]
fn long_atomics() {
    let wgsl = "
        @group(0) @binding(0) var<storage, read_write> u: array<atomic<u64>, 4>;
        @group(0) @binding(1) var<storage, read_write> i: array<atomic<i64>, 2>;
        @compute @workgroup_size(16) fn f(@builtin(global_invocation_id) id: vec3<u32>) {
            let x = u64(id.x) << 33u;
            atomicAdd(&u[0], x);
            atomicMax(&u[1], x);
            atomicSub(&u[2], x);
            atomicOr(&u[3], x);
            atomicMin(&i[0], -i64(x));
            loop {
                let old = atomicLoad(&i[1]);
                if atomicCompareExchangeWeak(&i[1], old, old - i64(x)).exchanged { break; }
            }
        }";
    let buffers = [bytes(&[0; 8]), bytes(&[0; 4])];
    for after in run_all(wgsl, 4, &buffers, true) {
        let values = |buffer: &[u8]| -> Vec<u64> {
            buffer.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect()
        };
        let sum = (0..64_u64).map(|x| x << 33).sum::<u64>();
        assert_eq!(values(&after[0]), [sum, 63 << 33, sum.wrapping_neg(), 63 << 33]);
        assert_eq!(values(&after[1]), [(63_u64 << 33).wrapping_neg(), sum.wrapping_neg()]);
    }
}
