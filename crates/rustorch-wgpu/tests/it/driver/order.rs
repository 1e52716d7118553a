//! Work is done in the order in which it is given, whatever is batched how.

use super::common::*;
use rustorch_kernels::{BufferBinding, Driver};
use rustorch_testkit::{Requirement, skip};

/// What a sequence of affine maps makes of a value.
fn expected(start: u32, maps: impl IntoIterator<Item = (u32, u32)>) -> u32 {
    maps.into_iter().fold(start, |value, (factor, term)| value.wrapping_mul(factor).wrapping_add(term))
}

#[test]
fn launches_see_writes_and_reads_see_launches() {
    on_each(|driver| {
        let kernel = compile(driver, "affine", AFFINE, 1, 16);
        let values: Vec<u32> = (0..1000).collect();
        let memory = upload(driver, &values);
        affine(driver, &kernel, &memory, 1000, 3, 7);
        let want: Vec<u32> = values.iter().map(|v| v * 3 + 7).collect();
        assert_eq!(download(driver, &memory, 1000), want);
        // A second read waits for nothing and sees the same.
        assert_eq!(download(driver, &memory, 1000), want);
    });
}

#[test]
fn many_launches_run_in_order() {
    on_each(|driver| {
        let kernel = compile(driver, "affine", AFFINE, 1, 16);
        let memory = upload(driver, &[5; 100]);
        let maps: Vec<(u32, u32)> = (0..2000).map(|i| (2 * i + 3, i * i)).collect();
        for &(factor, term) in &maps {
            affine(driver, &kernel, &memory, 100, factor, term);
        }
        assert_eq!(download(driver, &memory, 100), [expected(5, maps); 100]);
    });
}

#[test]
fn a_launch_sees_another_memory_written_by_the_launch_before() {
    on_each(|driver| {
        let kernel = compile(driver, "add", ADD, 2, 16);
        let count = 500;
        let memories = [upload(driver, &vec![1; 500]), upload(driver, &vec![0; 500])];
        for i in 0..301 {
            let (from, to) = (&memories[i % 2], &memories[(i + 1) % 2]);
            let buffers = [whole(from, 4 * 500, false), whole(to, 4 * 500, true)];
            launch(driver, &kernel, &buffers, &[count, i as u32, 0, 0], count).unwrap();
        }
        assert_eq!(download(driver, &memories[1], 500), vec![1 + 300 * 301 / 2; 500]);
    });
}

/// Writes after launches that use the memory must not overtake them, nor be overtaken by those that follow.
#[test]
fn writes_between_launches_keep_their_place() {
    on_each(|driver| {
        let kernel = compile(driver, "affine", AFFINE, 1, 16);
        for count in [16, 64, 5000, 100_000] {
            let memory = upload(driver, &vec![0; count as usize]);
            let seen = driver.allocate(count as usize * 4 * 8).unwrap();
            for round in 0..8 {
                driver.write(&memory, 0, &bytes(&vec![round; count as usize])).unwrap();
                affine(driver, &kernel, &memory, count, 10, 1);
                // Over half of it again, within the batch.
                driver.write(&memory, 0, &bytes(&vec![round + 100; count as usize / 2])).unwrap();
                affine(driver, &kernel, &memory, count, 10, 2);
                driver.copy(&memory, 0, &seen, (round * count * 4) as usize, count as usize * 4).unwrap();
            }
            let seen = download(driver, &seen, count as usize * 8);
            for (round, seen) in (0..).zip(seen.chunks(count as usize)) {
                let (first, second) = seen.split_at(count as usize / 2);
                assert!(first.iter().all(|&v| v == (round + 100) * 10 + 2), "{count} round {round}");
                assert!(second.iter().all(|&v| v == (round * 10 + 1) * 10 + 2), "{count} round {round}");
            }
        }
    });
}

#[test]
fn a_write_to_fresh_memory_within_a_batch_is_seen() {
    on_each(|driver| {
        let kernel = compile(driver, "add", ADD, 2, 16);
        let sums: Vec<_> = (0..200u32)
            .map(|i| {
                let from = upload(driver, &[i; 64]);
                let to = driver.allocate(256).unwrap();
                let buffers = [whole(&from, 256, false), whole(&to, 256, true)];
                launch(driver, &kernel, &buffers, &[64, 1000, 0, 0], 64).unwrap();
                // `from` is dropped before the launch runs.
                to
            })
            .collect();
        for (i, sum) in (0..).zip(&sums) {
            assert_eq!(download(driver, sum, 64), [i + 1000; 64]);
        }
    });
}

#[test]
fn copies_keep_their_place_and_bounds() {
    on_each(|driver| {
        let kernel = compile(driver, "affine", AFFINE, 1, 16);
        let a = upload(driver, &[1; 64]);
        let b = upload(driver, &(0..64).collect::<Vec<_>>());
        affine(driver, &kernel, &a, 64, 2, 5);
        driver.copy(&a, 4, &b, 8, 12).unwrap();
        affine(driver, &kernel, &a, 64, 0, 0);
        affine(driver, &kernel, &b, 3, 10, 0);
        driver.copy(&a, 0, &b, 200, 0).unwrap();
        let mut want: Vec<u32> = (0..64).collect();
        want[2..5].fill(7);
        want[..3].iter_mut().for_each(|v| *v *= 10);
        assert_eq!(download(driver, &b, 64), want);
        assert_eq!(download(driver, &a, 64), [0; 64]);
    });
}

#[test]
fn parts_are_read_and_written() {
    on_each(|driver| {
        let memory = upload(driver, &(0..256).collect::<Vec<_>>());
        driver.write(&memory, 40, &bytes(&[777, 778])).unwrap();
        let mut part = [0; 16];
        driver.read(&memory, 36, &mut part).unwrap();
        assert_eq!(part[..], bytes(&[9, 777, 778, 12]));
        driver.read(&memory, 0, &mut []).unwrap();
        driver.write(&memory, 0, &[]).unwrap();
        driver.finish().unwrap();
        driver.finish().unwrap();
    });
}

#[test]
fn windows_show_parts() {
    on_each(|driver| {
        let step = driver.hardware().window.unwrap();
        let words = step as usize / 4;
        let kernel = compile(driver, "affine", AFFINE, 1, 16);
        let memory = upload(driver, &vec![1; 8 * words]);
        let window = BufferBinding { memory: &memory, start: 3 * u64::from(step), bytes: 4, writes: true };
        launch(driver, &kernel, &[window], &[1, 5, 5, 0], 1).unwrap();
        // Two windows of one memory, both written.
        let twice = "
            @group(0) @binding(0) var<storage, read_write> a: array<u32>;
            @group(0) @binding(1) var<storage, read_write> b: array<u32>;
            @compute @workgroup_size(64)
            fn main(@builtin(local_invocation_index) i: u32) {
                if i < arrayLength(&a) { a[i] = i + 100u; }
                if i < arrayLength(&b) { b[i] = i + 200u; }
            }";
        let kernel = compile(driver, "twice", twice, 2, 0);
        let buffers = [
            BufferBinding { memory: &memory, start: 0, bytes: 8, writes: true },
            BufferBinding { memory: &memory, start: 5 * u64::from(step), bytes: 12, writes: true },
        ];
        launch(driver, &kernel, &buffers, &[], 64).unwrap();
        let mut want = vec![1; 8 * words];
        want[3 * words] = 10;
        want[..2].copy_from_slice(&[100, 101]);
        want[5 * words..5 * words + 3].copy_from_slice(&[200, 201, 202]);
        assert_eq!(download(driver, &memory, 8 * words), want);
    });
}

#[test]
fn parameters_of_every_size_arrive() {
    on_each(|driver| {
        // Below, at and above what fits in a command, up to the least limit of uniform buffers.
        for vectors in [1, 7, 8, 9, 15, 16, 17, 64, 1024] {
            let source = format!(
                "@group(0) @binding(0) var<storage, read_write> sum: array<u32>;
                 @group(0) @binding(1) var<uniform> p: array<vec4<u32>, {vectors}>;
                 @compute @workgroup_size(64)
                 fn main(@builtin(local_invocation_index) at: u32) {{
                     if at != 0u {{ return; }}
                     for (var i = 0u; i < {vectors}u; i++) {{
                         sum[0] = sum[0] * 31u + p[i].x + 3u * p[i].y + 5u * p[i].z + 7u * p[i].w;
                     }}
                 }}"
            );
            let kernel = compile(driver, "sum", &source, 1, 16 * vectors);
            let memory = upload(driver, &[0]);
            let mut want = 0u32;
            // More than a batch's worth.
            for round in 0..100 {
                let p: Vec<u32> = (0..4 * vectors as u32).map(|i| i * i + round).collect();
                for v in p.chunks(4) {
                    want = want.wrapping_mul(31).wrapping_add(v[0] + 3 * v[1] + 5 * v[2] + 7 * v[3]);
                }
                launch(driver, &kernel, &[whole(&memory, 16, true)], &p, 64).unwrap();
            }
            assert_eq!(download(driver, &memory, 1), [want], "{vectors} vectors");
        }
    });
}

#[test]
fn workgroup_memory_begins_as_zero() {
    on_each(|driver| {
        let source = "
            var<workgroup> shared_: array<u32, 2048>;
            @group(0) @binding(0) var<storage, read_write> sum: array<u32>;
            @compute @workgroup_size(64)
            fn main(@builtin(local_invocation_index) i: u32, @builtin(workgroup_id) group: vec3<u32>) {
                for (var j = i; j < 2048u; j += 64u) { sum[group.x * 64u + i] |= shared_[j]; }
                workgroupBarrier();
                for (var j = i; j < 2048u; j += 64u) { shared_[j] = 0xffffffffu; }
            }";
        let kernel = compile(driver, "shared", source, 1, 0);
        let memory = upload(driver, &[0; 64 * 32]);
        launch(driver, &kernel, &[whole(&memory, 4 * 64 * 32, true)], &[], 64 * 32).unwrap();
        assert_eq!(download(driver, &memory, 64 * 32), [0; 64 * 32]);
    });
}

#[test]
fn a_kernel_may_take_nothing() {
    on_each(|driver| {
        let source = "@compute @workgroup_size(64) fn main() {}";
        let kernel = compile(driver, "nothing", source, 0, 0);
        launch(driver, &kernel, &[], &[], 64).unwrap();
        driver.finish().unwrap();
    });
}

#[test]
fn big_buffers_are_written_and_read_whole() {
    on_each(|driver| {
        // More than one chunk of writing and reading, and not a multiple of one.
        let words = 18_000_004;
        if driver.hardware().max_buffer < 4 * words as u64 {
            return skip(Requirement::Feature, "its buffers are too small");
        }
        let data: Vec<u8> =
            bytes(&(0..words as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect::<Vec<_>>());
        let memory = driver.allocate(data.len()).unwrap();
        driver.write(&memory, 0, &data).unwrap();
        let mut back = vec![0; data.len()];
        driver.read(&memory, 0, &mut back).unwrap();
        assert!(back == data);
    });
}

#[test]
fn threads_share_a_device() {
    on_each(|driver| {
        let kernel = compile(driver, "affine", AFFINE, 1, 16);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let kernel = &kernel;
                scope.spawn(move || {
                    for round in 0..20 {
                        let memory = upload(driver, &[thread; 64]);
                        let maps: Vec<(u32, u32)> = (0..30).map(|i| (i + 2, round + thread)).collect();
                        for &(factor, term) in &maps {
                            affine(driver, kernel, &memory, 64, factor, term);
                        }
                        assert_eq!(download(driver, &memory, 64), [expected(thread, maps); 64]);
                    }
                });
            }
        });
    });
}
