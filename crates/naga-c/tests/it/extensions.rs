//! What only some OpenCL devices have: 16-bit floats, subgroups, 64-bit atomics. Skipped on others, but run as CUDA source
//! on this CPU.

#![allow(clippy::print_stdout, reason = "says what is skipped")]

use crate::common as support;
use crate::common::Runner;
use crate::common::opencl::{Device, device};
use crate::common::table::{bytes, words};
use half::f16;
use naga_c::Dialect;
use rustorch_testkit::{Requirement, skip};

/// Runs a shader on the OpenCL device, if it can, and (if `host`) as CUDA source on this CPU.
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
        skip(
            Requirement::Intel,
            format!("the device lacks one of {:?}, subgroups: {}", output.extensions, output.subgroups),
        );
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

/// Values of all types that subgroups exchange, the last of which has not all of its invocations; after a loop from which
/// invocations come at different times, and in a function.
#[test]
fn subgroups_exchange_values_of_every_type() {
    let wgsl = "
        @group(0) @binding(0) var<storage, read_write> out: array<i32>;
        fn sum_from(v: f32, lane: u32, size: u32) -> f32 {
            var sum = v;
            for (var d = 1u; d < 128u; d = d << 1u) {
                let other = subgroupShuffleDown(sum, d);
                if lane + d < size { sum += other; }
            }
            return sum;
        }
        @compute @workgroup_size(77) fn f(
            @builtin(local_invocation_index) index: u32, @builtin(subgroup_invocation_id) lane: u32,
            @builtin(subgroup_id) group: u32, @builtin(num_subgroups) count: u32,
        ) {
            var v = 0;
            for (var i = 0u; i <= index; i++) { v += 3; }
            v -= 40;
            let size = subgroupAdd(1u);
            let o = index * 20u;
            out[o] = i32(lane); out[o + 1u] = i32(group); out[o + 2u] = i32(count); out[o + 3u] = i32(size); out[o + 4u] = v;
            out[o + 5u] = i32(sum_from(f32(v), lane, size));
            out[o + 6u] = i32(subgroupAdd(f64(v)) * 2.0lf);
            out[o + 7u] = i32(subgroupAdd(i64(v) << 33u) >> 33u);
            out[o + 8u] = i32(subgroupInclusiveAdd(f32(v))); out[o + 9u] = i32(subgroupExclusiveAdd(f64(v)));
            out[o + 10u] = subgroupMin(v); out[o + 11u] = i32(subgroupMax(f64(v)));
            let low = subgroupMin(vec2(f32(v), -f32(v)));
            out[o + 12u] = i32(low.x + 1000.0 * low.y);
            out[o + 13u] = i32(subgroupMax(i64(v) << 33u) >> 33u);
            let up = subgroupShuffleUp(vec3(f32(v), f32(lane), 1.0), 2u);
            out[o + 14u] = select(7, i32(up.x + 1000.0 * up.y + up.z), lane >= 2u);
            let down = subgroupShuffleDown(i64(v) << 33u, 1u);
            out[o + 15u] = select(7, i32(down >> 33u), lane + 1u < size);
            out[o + 16u] = i32(subgroupBroadcastFirst(f64(v)));
            let all = subgroupBallot();
            out[o + 17u] = i32(countOneBits(all.x) + countOneBits(all.y) + countOneBits(all.z) + countOneBits(all.w));
            out[o + 18u] = subgroupOr(v); out[o + 19u] = i32(subgroupExclusiveMul(1.0 + f32(lane & 1u)));
        }";
    for after in run_all(wgsl, 1, &[vec![0; 77 * 20 * 4]], true) {
        let out: Vec<i32> = words(&after[0]).iter().map(|&word| word as i32).collect();
        let rows: Vec<&[i32]> = out.chunks_exact(20).collect();
        let mut groups = 0;
        for row in &rows {
            let mut mates: Vec<_> = rows.iter().filter(|other| other[1] == row[1]).collect();
            mates.sort_by_key(|other| other[0]);
            let v: Vec<i32> = mates.iter().map(|mate| mate[4]).collect();
            groups = groups.max(row[1] + 1);
            let lane = row[0] as usize;
            let (sum, most) = (v.iter().sum::<i32>(), *v.iter().max().unwrap());
            let low = (*v.iter().min().unwrap(), -most);
            let want = [
                v.len() as i32,
                v[lane],
                v[lane..].iter().sum(),
                2 * sum,
                sum,
                v[..=lane].iter().sum(),
                v[..lane].iter().sum(),
                low.0,
                most,
                low.0 + 1000 * low.1,
                most,
                if lane >= 2 { v[lane - 2] + 1000 * (lane as i32 - 2) + 1 } else { 7 },
                v.get(lane + 1).copied().unwrap_or(7),
                v[0],
                v.len() as i32,
                v.iter().fold(0, |a, b| a | b),
                // The invocations of odd numbers before this one each double it; no subgroup has more than 64.
                if lane / 2 < 31 { 1 << (lane / 2) } else { row[19] },
            ];
            assert_eq!(row[3..], want, "lane {lane} of subgroup {} of {}", row[1], row[2]);
        }
        assert!(rows.iter().all(|row| row[2] == groups), "{groups} subgroups");
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
