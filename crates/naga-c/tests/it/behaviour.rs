//! Whole kernels on a real OpenCL device, and as CUDA source on this CPU: layouts, control flow, workgroups, atomics.

use crate::common as support;
use crate::common::opencl::device;
use crate::common::table::{bytes, words};
use crate::common::{Runner, runners};
use naga_c::{ArgumentKind, Dialect, Options};

/// Runs a shader on buffers of words.
fn run(device: &dyn Runner, wgsl: &str, groups: [u32; 3], buffers: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let mut buffers: Vec<_> = buffers.iter().map(|buffer| bytes(buffer)).collect();
    device.run(wgsl, groups, &mut buffers);
    buffers.iter().map(|buffer| words(buffer)).collect()
}

#[test]
fn structs_lie_as_in_wgsl() {
    for device in runners() {
        let wgsl = "
        struct Inner { v: vec3<f32>, w: f32, x: vec3<u32> }
        struct Outer { a: u32, inner: array<Inner, 2>, b: vec2<f32>, small: array<vec2<u32>, 3>, tail: array<vec3<u32>> }
        struct Parameters { x: vec3<u32>, y: u32, z: vec2<u32>, rows: array<vec4<u32>, 2>, last: vec3<u32> }
        @group(0) @binding(0) var<storage, read_write> data: Outer;
        @group(0) @binding(1) var<uniform> parameters: Parameters;
        @group(0) @binding(2) var<uniform> alone: vec3<u32>;
        @group(0) @binding(3) var<storage, read_write> triples: array<vec3<u32>, 2>;
        @compute @workgroup_size(1) fn layout_of() {
            data.a = 1u;
            data.inner[0] = Inner(vec3(2.0, 3.0, 4.0), 5.0, vec3(6u, 7u, 8u));
            data.inner[1].v = data.inner[0].v.zyx;
            data.inner[1].w = 9.0;
            data.inner[1].x.y = 10u;
            data.b = vec2(11.0, 12.0);
            data.small[2] = vec2(13u, arrayLength(&data.tail));
            data.tail[0] = parameters.x + alone;
            data.tail[1] = vec3(parameters.y, parameters.z);
            data.tail[2] = parameters.rows[1].yzw;
            data.tail[2].z = parameters.last.z;
            var copy = data.inner[1];
            copy.x.z = 77u;
            data.inner[1] = copy;
            triples[1] = vec3(20u, 21u, 22u);
            var i = parameters.y % 3u;
            triples[0][i] = 23u;
            triples[0][i + 1u] = triples[1][i + 1u];
        }";
        let parameters =
            vec![100, 101, 102, 103, 104, 105, 0, 0, 1, 2, 3, 4, 5, 106, 107, 108, 109, 110, 111, 0];
        // Offsets in words: a 0, inner 4 and 12, b 20, small 22, tail 28 (the next multiple of 4), three elements of 4.
        let before = vec![vec![0xaaaa_aaaa; 40], parameters, vec![1, 2, 3], vec![0xbbbb_bbbb; 8]];
        let after = run(device, wgsl, [1, 1, 1], &before);
        let f = |value: f32| value.to_bits();
        let mut want = vec![0xaaaa_aaaa; 40];
        want[0] = 1;
        want[4..11].copy_from_slice(&[f(2.0), f(3.0), f(4.0), f(5.0), 6, 7, 8]);
        want[12..16].copy_from_slice(&[f(4.0), f(3.0), f(2.0), f(9.0)]);
        want[17] = 10;
        want[18] = 77;
        want[20..22].copy_from_slice(&[f(11.0), f(12.0)]);
        want[26..28].copy_from_slice(&[13, 3]);
        want[28..31].copy_from_slice(&[101, 103, 105]);
        want[32..35].copy_from_slice(&[103, 104, 105]);
        want[36..39].copy_from_slice(&[106, 107, 111]);
        // Padding inside of a struct that is stored as a whole is nobody's.
        let mut got = after[0].clone();
        for padding in [11, 19] {
            got[padding] = want[padding];
        }
        assert_eq!(got, want);
        let triples = &after[3];
        assert_eq!((&triples[4..7], triples[1], triples[2]), (&[20, 21, 22][..], 23, 22));
        assert_eq!((triples[0], triples[3]), (0xbbbb_bbbb, 0xbbbb_bbbb));
    }
}

/// The arguments in order, with their kinds and sizes.
#[test]
fn arguments_are_described() {
    let wgsl = "
        struct P { a: vec3<f32>, b: u32, c: array<vec4<u32>, 2> }
        @group(1) @binding(0) var<storage, read> z: array<f32>;
        @group(0) @binding(7) var<uniform> p: P;
        @group(0) @binding(2) var<storage, read_write> y: array<f32>;
        @group(0) @binding(1) var<storage, read_write> unused: array<f32>;
        var<workgroup> w: array<vec3<f32>, 5>;
        var<workgroup> n: atomic<u32>;
        fn helper() -> u32 { return arrayLength(&z) + p.b; }
        @compute @workgroup_size(3, 2) fn kernel() { y[0] = f32(helper()) + w[0].x + f32(atomicLoad(&n)); }
        @compute @workgroup_size(1) fn nothing() {}";
    for dialect in [Dialect::OpenCl, Dialect::Cuda] {
        let output = support::written(wgsl, dialect);
        let [kernel, nothing] = &output.entry_points[..] else { panic!("two entry points") };
        let arguments: Vec<_> = kernel.arguments.iter().map(|a| (a.group, a.binding, a.kind)).collect();
        assert_eq!(
            arguments,
            [
                (0, 2, ArgumentKind::Storage { read_only: false }),
                (0, 7, ArgumentKind::Uniform { size: 48 }),
                (1, 0, ArgumentKind::Storage { read_only: true }),
                (1, 0, ArgumentKind::StorageSize),
            ]
        );
        assert_eq!((kernel.name.as_str(), kernel.source_name.as_str()), ("kernel_", "kernel"));
        assert_eq!((kernel.workgroup_size, kernel.workgroup_memory), ([3, 2, 1], 84));
        assert_eq!((nothing.arguments.len(), nothing.workgroup_memory), (0, 0));
        let (module, info) = support::module(wgsl);
        let one = naga_c::write(&module, &info, Some("nothing"), &Options::new(dialect)).unwrap();
        assert_eq!(one.entry_points.len(), 1);
        assert!(!one.source.contains("helper"));
    }
}

#[test]
fn the_same_module_gives_the_same_text() {
    let wgsl = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shaders/structures.wgsl"))
        .unwrap();
    let first = support::written(&wgsl, Dialect::Cuda);
    for _ in 0..5 {
        assert_eq!(support::written(&wgsl, Dialect::Cuda), first);
    }
}

/// `tests/shaders/control.wgsl` in Rust.
fn control(id: i32) -> i32 {
    let (mut n, mut total) = (id, 0_i32);
    while n <= 100 {
        let mut i = 0_i32;
        loop {
            let step = i * 2;
            // `false`: the loop is continued at once.
            'body: {
                match i {
                    0 => {
                        i += 1;
                        break 'body;
                    }
                    1 | 2 => {
                        if n != 3 {
                            total += step;
                        }
                    }
                    5 => {}
                    _ => {
                        if step > 12 {
                            total -= 1;
                        } else {
                            break 'body;
                        }
                    }
                }
                while total > 1000 {
                    total /= 2;
                    if total == 3 {
                        continue;
                    }
                    total -= 1;
                }
            }
            i += 1;
            total += step;
            if i > 9 + step % 3 {
                break;
            }
        }
        for k in 0..3 {
            if k == n {
                continue;
            }
            total += k;
            if total < 0 {
                return 0;
            }
        }
        n += 50;
    }
    total + 1 + 1
}

#[test]
fn loops_and_switches() {
    for device in runners() {
        let wgsl =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shaders/control.wgsl"))
                .unwrap();
        let after = run(device, &wgsl, [120, 1, 1], &[vec![0; 120]]);
        let want: Vec<_> = (0..120).map(|id| control(id) as u32).collect();
        assert_eq!(after[0], want);
    }
}

#[test]
fn values_are_computed_where_they_are_written() {
    for device in runners() {
        // Loads before and after stores, calls with side effects, results used later, several returns.
        let wgsl = "
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        var<private> calls: u32;
        fn next(by: u32) -> u32 { calls += by; return calls; }
        fn sort(a: ptr<function, u32>, b: ptr<function, u32>) { if *a > *b { let t = *a; *a = *b; *b = t; } }
        fn classify(v: u32) -> u32 {
            if v < 2u { return 10u; }
            for (var i = 2u; i < v; i++) { if v % i == 0u { return i; } }
            return 1u;
        }
        fn store_and_answer(v: u32) -> bool { x[9] = v; return v > 5u; }
        @compute @workgroup_size(1) fn order() {
            let old = x[0];
            x[0] = old + 1u;
            let newer = x[0];
            x[1] = old * 100u + newer;
            let first = next(1u);
            let second = next(2u);
            x[2] = first * 100u + second * 10u + calls;
            var a = 9u; var b = 4u;
            let before = a;
            sort(&a, &b);
            x[3] = before * 100u + a * 10u + b;
            x[4] = classify(1u) * 1000u + classify(7u) * 100u + classify(15u);
            x[5] = u32(store_and_answer(6u) || store_and_answer(7u));
            x[6] = u32(false && store_and_answer(8u)) + x[9];
            var table = array<u32, 4>(1u, 2u, 3u, 4u);
            let snapshot = table;
            table[x[0] & 3u] = 50u;
            x[7] = snapshot[x[0] & 3u] * 1000u + table[x[0] & 3u];
            var i = 0u;
            let p = &table[i];
            i = 2u;
            *p = 60u;
            x[8] = table[0] + table[2];
        }";
        let after = run(device, wgsl, [1, 1, 1], &[vec![4, 0, 0, 0, 0, 0, 0, 0, 0, 0]]);
        assert_eq!(after[0], [5, 405, 133, 949, 10103, 1, 6, 2050, 63, 6]);
    }
}

#[test]
fn workgroups() {
    for device in runners() {
        // A reduction over a workgroup; memory that starts at zero in each; three dimensions.
        let wgsl = "
        @group(0) @binding(0) var<storage, read> input: array<u32>;
        @group(0) @binding(1) var<storage, read_write> output: array<u32>;
        var<workgroup> partial: array<u32, 32>;
        var<workgroup> nested: array<array<vec3<u32>, 3>, 2>;
        var<workgroup> count: atomic<u32>;
        var<workgroup> answer: u32;
        @compute @workgroup_size(4, 4, 2)
        fn reduce(
            @builtin(local_invocation_index) index: u32, @builtin(local_invocation_id) local: vec3<u32>,
            @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
            @builtin(global_invocation_id) global: vec3<u32>,
        ) {
            let number = group.x + group.y * groups.x + group.z * groups.x * groups.y;
            let zeros = partial[31u - index] + atomicLoad(&count) + answer + nested[1][2].z + nested[index & 1u][index % 3u].y;
            workgroupBarrier();
            partial[index] = input[number * 32u + index] + zeros;
            nested[index & 1u][index % 3u] = vec3(9u);
            atomicAdd(&count, index);
            workgroupBarrier();
            for (var step = 16u; step > 0u; step >>= 1u) {
                if index < step { partial[index] += partial[index + step]; }
                workgroupBarrier();
            }
            if index == 31u { answer = partial[0]; }
            let sum = workgroupUniformLoad(&answer);
            if index == 5u {
                output[number * 4u] = sum;
                output[number * 4u + 1u] = atomicLoad(&count);
                output[number * 4u + 2u] = local.x * 100u + local.y * 10u + local.z;
                output[number * 4u + 3u] = global.x * 100u + global.y * 10u + global.z;
            }
        }";
        let groups = [2, 3, 2];
        let input: Vec<u32> = (0..12 * 32).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
        let after = run(device, wgsl, groups, &[input.clone(), vec![0; 48]]);
        for number in 0..12_u32 {
            let start = number as usize * 32;
            let sum = input[start..start + 32].iter().fold(0_u32, |sum, x| sum.wrapping_add(*x));
            let group = [number % 2, number / 2 % 3, number / 6];
            let global = (group[0] * 4 + 1) * 100 + (group[1] * 4 + 1) * 10 + group[2] * 2;
            assert_eq!(after[1][number as usize * 4..][..4], [sum, 496, 110, global], "workgroup {number}");
        }
    }
}

#[test]
fn atomics() {
    for device in runners() {
        let wgsl = "
        struct State { add: atomic<u32>, min: atomic<i32>, max: atomic<i32>, and: atomic<u32>, or: atomic<u32>,
            xor: atomic<u32>, sub: atomic<i32>, taken: atomic<u32>, bins: array<atomic<u32>, 8> }
        @group(0) @binding(0) var<storage, read_write> state: State;
        @group(0) @binding(1) var<storage, read_write> seen: array<atomic<u32>>;
        @compute @workgroup_size(16)
        fn count(@builtin(global_invocation_id) id: vec3<u32>) {
            let i = i32(id.x) - 40;
            let before = atomicAdd(&state.add, 1u);
            atomicStore(&seen[before], id.x + 1u);
            atomicMin(&state.min, i);
            atomicMax(&state.max, i);
            atomicAnd(&state.and, ~(1u << (id.x & 15u)));
            atomicOr(&state.or, 1u << (id.x & 31u));
            atomicXor(&state.xor, id.x);
            atomicSub(&state.sub, i);
            atomicAdd(&state.bins[id.x % 8u], id.x);
            loop {
                let old = atomicLoad(&state.taken);
                let result = atomicCompareExchangeWeak(&state.taken, old, old * 3u + 1u);
                if result.exchanged { break; }
            }
        }";
        let after = run(
            device,
            wgsl,
            [6, 1, 1],
            &[vec![0, 0, 0, u32::MAX, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], vec![0; 96]],
        );
        let mut taken = 1_u32;
        (0..96).for_each(|_| taken = taken.wrapping_mul(3).wrapping_add(1));
        let xor = (0..96).fold(0, |a, b| a ^ b);
        let sum: i32 = (0..96).map(|i| i - 40).sum();
        let state = [96, -40_i32 as u32, 55, 0xffff_0000, u32::MAX, xor, -sum as u32, taken];
        assert_eq!(after[0][..8], state);
        let bins: Vec<u32> = (0..8).map(|bin| (0..96).filter(|i| i % 8 == bin).sum()).collect();
        assert_eq!(after[0][8..], bins);
        let mut seen = after[1].clone();
        seen.sort_unstable();
        assert_eq!(seen, (1..=96).collect::<Vec<_>>());
    }
}

/// What WGSL cannot say but naga's IR can: tests for NaN and infinity, cases that fall through.
#[test]
fn beyond_wgsl() {
    let wgsl = "
        @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(1) fn f(@builtin(workgroup_id) id: vec3<u32>) {
            let v = vec2(x[id.x], x[id.x]);
            let nan = v == vec2(0.0);
            let infinite = x[id.x] != 0.0;
            out[id.x * 2u] = u32(nan.x) + u32(nan.y) * 2u + u32(infinite) * 4u;
            var sum = 1u;
            switch id.x {
                case 0u: { sum += 10u; }
                case 1u: { sum *= 7u; }
                case 2u: { sum += 100u; }
                default: { sum += 1000u; }
            }
            out[id.x * 2u + 1u] = sum;
        }";
    let (mut module, _) = support::module(wgsl);
    let function = &mut module.entry_points[0].function;
    let handles: Vec<_> = function.expressions.iter().map(|(handle, _)| handle).collect();
    for handle in handles {
        if let naga::Expression::Binary { op, left, .. } = function.expressions[handle] {
            let fun = match op {
                naga::BinaryOperator::Equal => naga::RelationalFunction::IsNan,
                naga::BinaryOperator::NotEqual => naga::RelationalFunction::IsInf,
                _ => continue,
            };
            function.expressions[handle] = naga::Expression::Relational { fun, argument: left };
        }
    }
    for statement in function.body.iter_mut() {
        if let naga::Statement::Switch { cases, .. } = statement {
            cases[0].fall_through = true;
            cases[1].fall_through = true;
        }
    }
    let flags = naga::valid::ValidationFlags::all();
    let info =
        naga::valid::Validator::new(flags, naga::valid::Capabilities::all()).validate(&module).unwrap();
    let output = naga_c::write(&module, &info, None, &Options::new(Dialect::OpenCl)).unwrap();
    let Some(device) = device() else { return };
    let values =
        [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, 1.0, f32::MAX, f32::from_bits(1)];
    let mut buffers = [bytes(&values.map(f32::to_bits)), vec![0; 64]];
    device.run_output(&output, [8, 1, 1], &mut buffers);
    let want = [3, (1 + 10) * 7 + 100, 3, 7 + 100, 4, 101, 4, 1001, 0, 1001, 0, 1001, 0, 1001, 0, 1001];
    assert_eq!(words(&buffers[1]), want);
}

#[test]
fn overrides() {
    let wgsl = "
        override count: u32 = 3;
        override scale: u32;
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        var<workgroup> tile: array<array<u32, 2>, count>;
        @compute @workgroup_size(count) fn f(@builtin(local_invocation_index) i: u32) {
            tile[i][1] = i * scale;
            workgroupBarrier();
            out[i] = tile[count - 1u - i][1] + tile[i][0];
        }";
    let (module, info) = support::module(wgsl);
    let values = [("count".to_string(), 5.0), ("scale".to_string(), 10.0)].into_iter().collect();
    let entry = (naga::ShaderStage::Compute, "f");
    let (module, info) =
        naga::back::pipeline_constants::process_overrides(&module, &info, Some(entry), &values).unwrap();
    for dialect in [Dialect::OpenCl, Dialect::Cuda] {
        let output = naga_c::write(&module, &info, Some("f"), &Options::new(dialect)).unwrap();
        assert_eq!(
            (output.entry_points[0].workgroup_size, output.entry_points[0].workgroup_memory),
            ([5, 1, 1], 40)
        );
        if let Some(device) = device().filter(|_| dialect == Dialect::OpenCl) {
            let mut buffers = [vec![0; 20]];
            device.run_output(&output, [1, 1, 1], &mut buffers);
            assert_eq!(words(&buffers[0]), [40, 30, 20, 10, 0]);
        }
    }
}

#[test]
fn sums_of_floats_by_all() {
    for device in runners() {
        let wgsl = "@group(0) @binding(0) var<storage, read_write> sum: atomic<f32>;
        @compute @workgroup_size(16) fn f(@builtin(global_invocation_id) id: vec3<u32>) {
            atomicAdd(&sum, f32(id.x));
            atomicSub(&sum, 0.5);
        }";
        let after = run(device, wgsl, [8, 1, 1], &[vec![1.0_f32.to_bits()]]);
        assert_eq!(f32::from_bits(after[0][0]), 1.0 + 127.0 * 64.0 - 64.0);
    }
}

#[test]
fn tables_of_constants() {
    for device in runners() {
        let wgsl = "
        struct Entry { key: u32, at: vec3<f32>, list: array<i32, 2> }
        const ENTRIES = array<Entry, 3>(
            Entry(7u, vec3(0.1, -2.5, 3e38), array(-1, -2147483648)), Entry(),
            Entry(9u, vec3(1.0), array(4, 5)));
        const GRID = array<vec2<u32>, 2>(vec2(1u, 2u), vec2(3u));
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(1) fn look_up(@builtin(workgroup_id) id: vec3<u32>) {
            let i = id.x;
            out[i * 8u] = ENTRIES[i].key;
            out[i * 8u + 1u] = bitcast<u32>(ENTRIES[i].at.x);
            out[i * 8u + 2u] = bitcast<u32>(ENTRIES[i].at[i]);
            out[i * 8u + 3u] = bitcast<u32>(ENTRIES[i].list[i & 1u]);
            let copy = ENTRIES[i];
            out[i * 8u + 4u] = bitcast<u32>(copy.list[1]);
            out[i * 8u + 5u] = GRID[i & 1u].y;
            var all = GRID;
            all[i & 1u].x += 5u;
            out[i * 8u + 6u] = all[0].x * 10u + all[1].x;
        }";
        let after = run(device, wgsl, [3, 1, 1], &[vec![0; 24]]);
        let f = |value: f32| value.to_bits();
        let min = i32::MIN as u32;
        assert_eq!(after[0][..7], [7, f(0.1), f(0.1), u32::MAX, min, 2, 63]);
        assert_eq!(after[0][8..15], [0, 0, 0, 0, 0, 3, 18]);
        assert_eq!(after[0][16..23], [9, f(1.0), f(1.0), 4, 5, 2, 63]);
    }
}

#[test]
fn checked_indices_stay_inside_and_loops_end() {
    let wgsl = "
        struct Row { head: u32, tail: array<vec2<u32>> }
        @group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        @group(0) @binding(2) var<storage, read_write> row: Row;
        @group(0) @binding(3) var<storage, read_write> counts: array<atomic<u32>, 2>;
        var<workgroup> tile: array<u32, 4>;
        var<private> own: array<u32, 2>;
        fn load(i: u32) -> u32 { return x[i]; }
        fn element(p: ptr<function, array<u32, 3>>, i: i32) -> u32 { return (*p)[i]; }
        @compute @workgroup_size(2) fn f(@builtin(local_invocation_index) id: u32) {
            let wild = x[0] + id * 1000000u;
            let negative = -i32(wild);
            var local = array<u32, 3>(7u, 8u, 9u);
            y[wild] = 1u;
            y[7] = load(wild);
            y[0] = x[negative];
            y[1] = element(&local, negative);
            let value = local;
            y[2] = value[wild];
            tile[wild] = 5u + id * 0u;
            workgroupBarrier();
            own[negative] = tile[3] + tile[wild * 3u];
            y[3] = own[1];
            var v = vec3(1u, 2u, 3u);
            v[wild] = 20u;
            y[4] = v.z;
            row.tail[wild].y = 30u;
            row.tail[1][wild] = 40u;
            atomicAdd(&counts[wild], 1u);
            var turns = 0u;
            loop {
                turns++;
                if turns < 10u { continue; }
                if turns == 20u { break; }
                continuing { y[5] = turns; }
            }
        }";
    let (module, info) = support::module(wgsl);
    for device in runners() {
        let options = Options { bounds_checks: true, ..Options::new(device.dialect()) };
        let output = naga_c::write(&module, &info, None, &options).unwrap();
        let kinds: Vec<_> = output.entry_points[0].arguments.iter().map(|a| (a.binding, a.kind)).collect();
        assert_eq!(kinds[4..], [0, 1, 2, 3].map(|binding| (binding, ArgumentKind::StorageSize)));
        let words_of = |buffer: &[u32]| bytes(buffer);
        let mut buffers = [
            words_of(&[1 << 20, 2, 66]),
            words_of(&[0; 7]),
            // The last element is cut off: it does not count.
            words_of(&[0; 7]),
            words_of(&[0; 2]),
        ];
        device.run_output(&output, [1, 1, 1], &mut buffers);
        assert_eq!(words(&buffers[1]), [66, 9, 9, 10, 20, 19, 66]);
        assert_eq!(words(&buffers[2]), [0, 0, 0, 0, 0, 40, 0]);
        assert_eq!(words(&buffers[3]), [0, 2]);
    }
}
