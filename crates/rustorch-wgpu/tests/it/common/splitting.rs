//! Devices whose kernels see little at once, beside the same ones as they are.

#![allow(dead_code, unreachable_pub, reason = "shared by test programs")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use rustorch_core::{
    Backend, Buffer, DType, Fault, Layout, Op, Shape, TensorMeta, View, ViewMut, bf16, f16, packed_bytes,
    run_checked,
};
use rustorch_kernels::plan::Request;
use rustorch_kernels::{Engine, Hardware, family};
use rustorch_quant::quantize;
use rustorch_testkit::conformance::{Argument, Case, Extent, one_in};
use rustorch_testkit::{Requirement, skip};
use rustorch_wgpu::WgpuDriver;

/// What kernels see at once here.
pub const LIMIT: u64 = 16 << 10;

pub fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

/// Numbers below 1 of either sign.
pub fn values(n: usize, seed: u32) -> impl Iterator<Item = f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..n).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    })
}

pub fn argument(dtype: DType, dims: &[usize], seed: u32) -> Argument {
    let layout = layout(dims);
    let x = values(layout.numel(), seed);
    let bytes = match dtype {
        DType::F16 => x.flat_map(|x| f16::from_f32(x).to_le_bytes()).collect(),
        DType::BF16 => x.flat_map(|x| bf16::from_f32(x).to_le_bytes()).collect(),
        DType::U8 => x.map(|x| ((x + 1.0) * 127.0) as u8).collect(),
        DType::Bool => x.map(|x| u8::from(x > 0.0)).collect(),
        DType::Quant(quant) => {
            let x: Vec<f32> = x.collect();
            let mut bytes = vec![0; quant.bytes_for(x.len()).unwrap()];
            quantize(quant, &x, None, &mut bytes).unwrap();
            bytes
        }
        _ => x.flat_map(f32::to_le_bytes).collect(),
    };
    Argument { dtype, layout, bytes }
}

/// Indices below `n`.
pub fn indices(dtype: DType, dims: &[usize], n: usize, seed: u32) -> Argument {
    let layout = layout(dims);
    let ids = values(layout.numel(), seed).map(|x| ((x + 1.0) / 2.0 * n as f32) as i64);
    let bytes = match dtype {
        DType::I32 => ids.flat_map(|id| (id as i32).to_le_bytes()).collect(),
        _ => ids.flat_map(i64::to_le_bytes).collect(),
    };
    Argument { dtype, layout, bytes }
}

pub fn transposed(mut x: Argument) -> Argument {
    x.layout = x.layout.transpose(0, 1).unwrap();
    x
}

pub fn case<const N: usize>(op: Op, args: [Argument; N]) -> Case {
    Case { op, args: args.into() }
}

pub fn metas<'a>(case: &'a Case, backend: &dyn Backend) -> Vec<TensorMeta<'a>> {
    let device = backend.device();
    case.args.iter().map(|x| TensorMeta { dtype: x.dtype, layout: &x.layout, device }).collect()
}

/// The bytes of each result.
pub fn run(case: &Case, backend: &dyn Backend) -> Result<Vec<Vec<u8>>, Fault> {
    let [results] = repeated(case, backend)?;
    Ok(results)
}

/// The same, of `N` runs one after the other with the same arguments, of which the engine may remember something.
pub fn repeated<const N: usize>(case: &Case, backend: &dyn Backend) -> Result<[Vec<Vec<u8>>; N], Fault> {
    let outs = case.op.infer(&metas(case, backend)).unwrap();
    let mut buffers = Vec::new();
    for x in &case.args {
        let flat = layout(&[x.bytes.len()]);
        let mut buffer = backend.alloc(x.bytes.len())?;
        // SAFETY: the buffer has the size of the bytes.
        backend.copy_in(&x.bytes, &mut unsafe { ViewMut::new(&mut buffer, DType::U8, &flat) })?;
        buffers.push(buffer);
    }
    let views: Vec<View<'_>> = case
        .args
        .iter()
        .zip(&buffers)
        // SAFETY: every byte was written, with values of the dtype, and the layouts stay inside.
        .map(|(x, buffer)| unsafe { View::new(buffer, x.dtype, &x.layout) })
        .collect();
    let layouts: Vec<Layout> = outs.iter().map(|out| Layout::contiguous(out.shape.clone())).collect();
    let sizes: Vec<usize> = outs.iter().map(|out| packed_bytes(out.dtype, out.shape.numel())).collect();
    let once = || -> Result<Vec<Vec<u8>>, Fault> {
        let mut results: Vec<Buffer> =
            sizes.iter().map(|&bytes| backend.alloc(bytes)).collect::<Result<_, _>>()?;
        let mut places: Vec<ViewMut<'_>> = outs
            .iter()
            .zip(&mut results)
            .zip(&layouts)
            // SAFETY: fresh memory of the layout's size.
            .map(|((out, buffer), layout)| unsafe { ViewMut::new(buffer, out.dtype, layout) })
            .collect();
        run_checked(backend, &case.op, &views, &mut places)?;
        drop(places);
        let read = |((out, buffer), (layout, &bytes)): (
            (&rustorch_core::OutputMeta, &Buffer),
            (&Layout, &usize),
        )| {
            let mut host = vec![0; bytes];
            // SAFETY: a backend that ran has written every element.
            backend.copy_out(&unsafe { View::new(buffer, out.dtype, layout) }, &mut host)?;
            Ok(host)
        };
        outs.iter().zip(&results).zip(layouts.iter().zip(&sizes)).map(read).collect()
    };
    let mut runs = std::array::from_fn(|_| Vec::new());
    for run in &mut runs {
        *run = once()?;
    }
    Ok(runs)
}

/// The launches of a case.
pub fn launches(case: &Case, engine: &Engine<WgpuDriver>, hardware: &Hardware) -> usize {
    let args = metas(case, engine);
    let outs = case.op.infer(&args).unwrap();
    let layouts: Vec<Layout> = outs.iter().map(|out| Layout::contiguous(out.shape.clone())).collect();
    let outs: Vec<TensorMeta<'_>> = outs
        .iter()
        .zip(&layouts)
        .map(|(out, layout)| TensorMeta { dtype: out.dtype, layout, device: engine.device() })
        .collect();
    family::plan(&Request::new(&case.op, &args, &outs, hardware)).unwrap().steps.len()
}

/// Every device twice: as it is, and as if its kernels saw `limit` bytes at once, which wgpu then holds them to.
pub fn engines(limit: u64) -> Vec<[Engine<WgpuDriver>; 2]> {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => {
            skip(Requirement::Vulkan, none);
            Vec::new()
        }
    };
    let both = |adapter: &rustorch_wgpu::Adapter| {
        let narrow = adapter.open_within(limit, rustorch_core::cache_dir().as_deref()).unwrap();
        assert_eq!(rustorch_kernels::Driver::hardware(&narrow).max_binding, limit);
        [adapter.open().unwrap(), narrow].map(|driver| Engine::new(driver).unwrap())
    };
    adapters.iter().map(both).collect()
}

/// Cases in chunks give the bits that they give whole, and give them again with the same arguments; one in 18, and one of each
/// kind of operation at least, unless `RUSTORCH_CONFORMANCE=all`.
pub fn same_bits(cases: Vec<Case>) {
    let cases = one_in(Extent::share(18), cases);
    for [whole, narrow] in engines(LIMIT) {
        let (mut wrong, mut count) = (Vec::new(), 0);
        for case in &cases {
            let args = metas(case, &whole);
            if whole.supports(&case.op, &args).is_err() {
                continue;
            }
            count += 1;
            if let Err(decline) = narrow.supports(&case.op, &args) {
                wrong.push(format!("{case}: {decline}"));
                continue;
            }
            let [all, pieces] = [&whole, &narrow].map(|engine| launches(case, &whole, engine.hardware()));
            let (got, want) = (repeated(case, &narrow), run(case, &whole));
            match (got, want) {
                (Ok([got, again]), Ok(want)) if got == want && again == want && pieces > all => {}
                (Ok([got, again]), Ok(want)) => {
                    let (got, run) = if got == want { (again, "second") } else { (got, "first") };
                    let at = got.iter().flatten().zip(want.iter().flatten()).position(|(a, b)| a != b);
                    wrong.push(format!(
                        "{case}: the {run} differs at byte {at:?}, {pieces} launches for {all}"
                    ));
                }
                (got, want) => wrong.push(format!("{case}: {:?}, {:?}", got.err(), want.err())),
            }
        }
        assert!(
            wrong.is_empty(),
            "{}: {} of {}\n{}",
            whole.device(),
            wrong.len(),
            cases.len(),
            wrong.join("\n")
        );
        eprintln!("{}: {count} of {} cases", whole.hardware().name, cases.len());
        assert!(2 * count >= cases.len(), "{}: most are declined, whole or in pieces", whole.device());
    }
}
