//! Matmuls in which each row chooses its matrix.

use super::weight::{activations, random_blocks, weight};
use super::{Random, Tensor, bits, invariant, matmul, run, run_into};
use rustorch_core::{DType, Error, Fault, Layout, MulMatId, Numerics, Op, QuantType, Shape};

/// Rows one by one as plain matmuls that are batch-invariant.
fn one_by_one(x: &Tensor, w: &Tensor, ids: &[i32], slots: usize, chosen: usize) -> Vec<u32> {
    let mut out = Vec::new();
    for (i, &id) in ids.iter().enumerate() {
        let (t, slot) = (i / chosen, if slots == 1 { 0 } else { i % chosen });
        let row = Tensor {
            buffer: rustorch_core::Buffer::host(0).unwrap(),
            dtype: x.dtype,
            layout: x.layout.select(0, t).unwrap().slice(0, slot, 1, 1).unwrap(),
        };
        let matrix = w.layout.select(0, id as usize).unwrap().transpose(0, 1).unwrap();
        let row = Tensor { buffer: clone(x), ..row };
        let matrix = Tensor { buffer: clone(w), dtype: w.dtype, layout: matrix };
        out.extend(bits(&run(1, &invariant(), &[&row, &matrix]).values()));
    }
    out
}

fn clone(x: &Tensor) -> rustorch_core::Buffer {
    let all = Layout::contiguous(Shape::new([x.buffer.bytes()].as_slice()).unwrap());
    // SAFETY: all of the buffer, which was written when it was made.
    let bytes = unsafe { rustorch_core::View::new(&x.buffer, DType::U8, &all) }.as_bytes().unwrap();
    Tensor::new(DType::U8, all.clone(), bytes).buffer
}

#[test]
fn rows_equal_plain_matmuls() {
    let random = &mut Random::new(7);
    let (experts, n, k) = (5, 37, 512);
    let quantized = [QuantType::Q4_K, QuantType::Q6_K, QuantType::Q5_1, QuantType::IQ2_XS, QuantType::MXFP4];
    let mut weights: Vec<Tensor> = quantized
        .iter()
        .map(|&q| weight(q, &[experts, n, k], &random_blocks(q, experts * n * k, random)))
        .collect();
    let floats = random.floats(experts * n * k);
    let halves: Vec<rustorch_core::bf16> = floats.iter().map(|&v| rustorch_core::bf16::from_f32(v)).collect();
    weights.push(Tensor::of(&[experts, n, k], &floats));
    weights.push(Tensor::of(&[experts, n, k], &halves));
    for w in &weights {
        for (t, slots, chosen) in [(1, 1, 2), (40, 1, 2), (9, 3, 3)] {
            let x = Tensor::of(&[t, slots, k], &activations(t * slots * k, random));
            let ids: Vec<i32> = (0..t * chosen).map(|_| (random.bits() % experts as u64) as i32).collect();
            let want = one_by_one(&x, w, &ids, slots, chosen);
            for threads in [1, 3] {
                let got = run(
                    threads,
                    &Op::MulMatId(MulMatId { numerics: Numerics::Ggml }),
                    &[&x, w, &Tensor::of(&[t, chosen], &ids)],
                );
                assert_eq!(bits(&got.values()), want, "{} {t} {slots} {chosen} {threads}", w.dtype);
            }
        }
    }
}

#[test]
fn an_expert_that_does_not_exist_is_the_callers_mistake() {
    let random = &mut Random::new(8);
    let w = weight(QuantType::Q8_0, &[2, 4, 32], &random_blocks(QuantType::Q8_0, 256, random));
    let x = Tensor::of(&[1, 1, 32], &random.floats(32));
    for bad in [2i64, -1] {
        let mut out = Tensor::of(&[1, 1, 4], &[0f32; 4]);
        let ids = Tensor::of(&[1, 1], &[bad]);
        let fault =
            run_into(1, &Op::MulMatId(MulMatId { numerics: Numerics::Ggml }), &[&x, &w, &ids], &mut out)
                .unwrap_err();
        assert_eq!(fault, Fault::from(Error::Index { op: "mul_mat_id", index: bad, len: 2 }));
    }
}

/// Memory in which only the chosen expert can be read at all: another page touched ends the process.
#[cfg(target_os = "linux")]
#[test]
fn experts_that_nobody_chose_are_not_touched() {
    use rustorch_core::{Buffer, Device};
    use std::ptr::NonNull;

    struct Mapping(*mut u8, usize);
    // SAFETY: an owned mapping.
    unsafe impl Send for Mapping {}
    // SAFETY: as above.
    unsafe impl Sync for Mapping {}
    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: mapped with this length below.
            unsafe { libc::munmap(self.0.cast(), self.1) };
        }
    }

    let random = &mut Random::new(9);
    let (experts, chosen) = (4, 2);
    for (dtype, k) in
        [(DType::Quant(QuantType::Q8_0), 2048), (DType::Quant(QuantType::IQ4_XS), 2048), (DType::BF16, 256)]
    {
        // A matrix of whole 64 KiB, which are whole pages everywhere.
        let row = dtype.bytes_for(k).unwrap();
        let n = (1 << 16) / (1usize << row.trailing_zeros());
        let (matrix, step) = (n * row, n * row / (1 << 16));
        assert_eq!(step << 16, matrix);
        let bytes = match dtype {
            DType::Quant(quant) => random_blocks(quant, n * k, random),
            _ => {
                (0..n * k).flat_map(|_| rustorch_core::bf16::from_f32(random.float()).to_ne_bytes()).collect()
            }
        };
        // SAFETY: a fresh private mapping; the part that is written is made writable first.
        let buffer = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let base = libc::mmap(std::ptr::null_mut(), experts * matrix, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            let base = base.cast::<u8>();
            let open = base.add(chosen * matrix);
            assert_eq!(libc::mprotect(open.cast(), matrix, libc::PROT_READ | libc::PROT_WRITE), 0);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), open, matrix);
            let address = NonNull::new(base).unwrap();
            Buffer::device(
                Device::CPU,
                experts * matrix,
                Some(address),
                Box::new(Mapping(base, experts * matrix)),
            )
        };
        let w = Tensor {
            buffer,
            dtype,
            layout: Layout::contiguous(Shape::new([experts, n, k].as_slice()).unwrap()),
        };
        for t in [1, 20] {
            let x = activations(t * k, random);
            let ids = vec![chosen as i32; t];
            let args = [&Tensor::of(&[t, 1, k], &x), &w, &Tensor::of(&[t, 1], &ids)];
            let got = run(2, &Op::MulMatId(MulMatId { numerics: Numerics::Ggml }), &args).values::<f32>();
            let plain =
                Tensor::new(dtype, Layout::contiguous(Shape::new([n, k].as_slice()).unwrap()), &bytes);
            let want = run(1, &matmul(), &[&Tensor::of(&[t, k], &x), &plain.transposed()]).values::<f32>();
            assert_eq!(bits(&got), bits(&want), "{dtype} {t}");
        }
    }
}
