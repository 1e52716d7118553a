//! Pointwise functions write rows into the midst of other data, and leave that as it is.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use rustorch_core::{
    Backend, BinaryOp, Buffer, Cast, Clamp, DType, Layout, Op, Scalar, Shape, View, ViewMut, Where,
    run_checked,
};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::{Engine, SubgroupUse};
use rustorch_testkit::{Requirement, skip};

fn packed(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

/// A buffer full of small numbers of a dtype, whatever its layout reaches.
fn filled(backend: &dyn Backend, dtype: DType, elements: usize, seed: usize) -> Buffer {
    let values: Vec<f32> = (0..elements).map(|i| ((i * 7 + seed) % 23) as f32 - 4.0).collect();
    let cpu = CpuBackend::new(1);
    let layout = packed(&[elements]);
    let (mut wide, mut bytes) = (cpu.alloc(4 * elements).unwrap(), vec![0; elements * dtype.size().unwrap()]);
    let raw: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    // SAFETY: the buffers are fresh and have room for the layout.
    unsafe {
        cpu.copy_in(&raw, &mut ViewMut::new(&mut wide, DType::F32, &layout)).unwrap();
        let mut narrow = cpu.alloc(bytes.len()).unwrap();
        let from = [View::new(&wide, DType::F32, &layout)];
        cpu.run(&Op::Cast(Cast { to: dtype }), &from, &mut [ViewMut::new(&mut narrow, dtype, &layout)])
            .unwrap();
        cpu.copy_out(&View::new(&narrow, dtype, &layout), &mut bytes).unwrap();
        let mut buffer = backend.alloc(bytes.len()).unwrap();
        backend.copy_in(&bytes, &mut ViewMut::new(&mut buffer, dtype, &layout)).unwrap();
        buffer
    }
}

/// All bytes of a buffer into whose midst a result was written.
fn result(backend: &dyn Backend, op: &Op, args: &[(DType, Layout)], out: (DType, &Layout)) -> Vec<u8> {
    let buffers: Vec<Buffer> = args
        .iter()
        .enumerate()
        .map(|(i, (dtype, layout))| filled(backend, *dtype, layout.end(), i))
        .collect();
    let room = out.1.end() + 5;
    let target = filled(backend, out.0, room, 9);
    // SAFETY: all have been written, and the layouts are inside.
    let views: Vec<View<'_>> = args
        .iter()
        .zip(&buffers)
        .map(|((dtype, layout), buffer)| unsafe { View::new(buffer, *dtype, layout) })
        .collect();
    // SAFETY: as above, and nobody else uses the target.
    let place = unsafe { ViewMut::from_shared(&target, out.0, out.1) };
    run_checked(backend, op, &views, &mut [place]).unwrap();
    let mut bytes = vec![0; target.bytes()];
    let all = packed(&[room]);
    // SAFETY: as above.
    backend.copy_out(&unsafe { View::new(&target, out.0, &all) }, &mut bytes).unwrap();
    bytes
}

#[test]
fn rows_are_written_where_they_belong() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let cpu = CpuBackend::new(1);
    // Rows of four, of six and of three: whole words, whole words of 16 bits, and neither.
    let places: Vec<Layout> = [4, 6, 3]
        .iter()
        .flat_map(|&len| {
            let cache = packed(&[2, 7, len]);
            // New rows of each head, every second row, one row of each, and heads in the other order of dimensions.
            let new = cache.slice(1, 3, 2, 1).unwrap();
            let second = cache.slice(1, 1, 3, 2).unwrap();
            let one = cache.slice(1, 5, 1, 1).unwrap();
            [new.transpose(0, 1).unwrap(), new, second, one]
        })
        .collect();
    for adapter in adapters {
        let engine = Engine::new(adapter.open().unwrap()).unwrap();
        let mut count = 0;
        for place in &places {
            let dims = place.dims();
            let across = packed(&[dims[1], dims[0], dims[2]]).transpose(0, 1).unwrap();
            let one = packed(&[dims[2]]);
            let mut check = |op: Op, args: &[(DType, Layout)], dtype: DType| {
                let [ours, expected] =
                    [&engine as &dyn Backend, &cpu].map(|x| result(x, &op, args, (dtype, place)));
                assert_eq!(ours, expected, "{op:?} of {args:?} to {dtype} {place:?} on {}", adapter.name());
                count += 1;
            };
            for dtype in [DType::F16, DType::BF16, DType::U8, DType::I16, DType::I64, DType::Bool] {
                check(Op::Cast(Cast { to: dtype }), &[(DType::F32, packed(dims))], dtype);
            }
            check(Op::Cast(Cast { to: DType::F16 }), &[(DType::F32, across.clone())], DType::F16);
            let add = || Op::Binary(BinaryOp::Add);
            for dtype in [DType::F32, DType::F16] {
                check(add(), &[(dtype, across.clone()), (dtype, one.clone())], dtype);
            }
            let clamp = Op::Clamp(Clamp { min: Some(Scalar::Int(0)), max: Some(Scalar::Int(5)) });
            check(clamp, &[(DType::I16, across.clone())], DType::I16);
            check(
                Op::Where(Where),
                &[(DType::Bool, one.clone()), (DType::F16, across.clone()), (DType::F16, packed(dims))],
                DType::F16,
            );
        }
        assert_eq!(count, 11 * places.len());
    }
}

/// So many that threads write vectors, on software devices with subgroups only.
#[test]
fn many_rows_are_written_where_they_belong() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let cpu = CpuBackend::new(1);
    for adapter in adapters {
        let engine = Engine::with(adapter.open().unwrap(), SubgroupUse::On).unwrap();
        // Rows of whole vectors, and of whole words.
        for len in [256, 260] {
            let place = packed(&[2, 600, len]).slice(1, 3, 520, 1).unwrap();
            let across = packed(&[520, 2, len]).transpose(0, 1).unwrap();
            let add = Op::Binary(BinaryOp::Add);
            for dtype in [DType::F32, DType::F16] {
                let args = [(dtype, across.clone()), (dtype, packed(&[len]))];
                let [ours, expected] =
                    [&engine as &dyn Backend, &cpu].map(|x| result(x, &add, &args, (dtype, &place)));
                assert!(ours == expected, "{dtype} in rows of {len} on {}", adapter.name());
            }
            let args = [(DType::F32, packed(place.dims()))];
            let cast = Op::Cast(Cast { to: DType::F16 });
            let [ours, expected] =
                [&engine as &dyn Backend, &cpu].map(|x| result(x, &cast, &args, (DType::F16, &place)));
            assert!(ours == expected, "casts in rows of {len} on {}", adapter.name());
        }
    }
}
