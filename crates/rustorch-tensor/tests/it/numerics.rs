//! Numerics are parameters of operations: dtypes that differ are refused, and no scope changes a bit of a result.

use proptest::prelude::*;
use rustorch_core::{Device, DeviceType};
use rustorch_runtime::{DeviceManager, HybridExecutor, OnFault, Placement};
use rustorch_tensor::{Attention, DType, Generator, Numerics, QuantType, Result, Tensor};
use rustorch_testkit::FakeDevice;
use std::sync::Arc;

const GPU: Device = Device::vulkan(0);

/// The CPU behind two devices of other names.
fn executor() -> HybridExecutor {
    let fake = |device| Arc::new(FakeDevice::new(device, Arc::new(rustorch_cpu::CpuBackend::new(1))));
    HybridExecutor::builder().threads(2).backend(fake(GPU)).backend(fake(Device::opencl(0))).build().unwrap()
}

/// Matmuls and attention in which an activation meets operands of fewer bits, and one in which it does not.
fn results(x: &Tensor, w: &Tensor) -> Result<Vec<Vec<u32>>> {
    let mut all = vec![x.matmul(&w.t()?)?, x.linear(w, None)?];
    for dtype in [DType::F16, DType::BF16, DType::Quant(QuantType::Q8_0)] {
        let narrow = w.to_dtype(dtype)?;
        let rows = narrow.dims()[0];
        let experts = narrow.reshape([1, rows, narrow.dims()[1]])?;
        let ids = Tensor::zeros([x.dims()[0], 1], DType::I64)?;
        for numerics in [Numerics::Ggml, Numerics::F32] {
            all.push(x.linear_with(&narrow, None, numerics)?);
            all.push(x.linear_batch_invariant(&narrow, None, numerics)?);
            all.push(x.unsqueeze(1)?.mul_mat_id(&experts, &ids, numerics)?);
        }
        if dtype.is_quant() {
            all.push(x.linear(&narrow, None)?);
            all.push(x.matmul(&narrow.t()?)?);
        }
    }
    let (q, k) = (x.unsqueeze(0)?, w.unsqueeze(0)?.to_dtype(DType::F16)?);
    for numerics in [Numerics::Ggml, Numerics::F32] {
        let attention = Attention { numerics, ..Attention::new(0.2) };
        all.push(Tensor::attention(&q, &k, &k, None, &attention)?);
    }
    all.iter().map(|y| Ok(y.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn no_scope_changes_a_bit_of_a_result(seed in 0u64..1 << 40, m in 1usize..4, n in 1usize..20, blocks in 1usize..3) {
        let base = executor();
        let g = Generator::new(seed);
        let (x, w) = (g.randn([m, 32 * blocks], DType::F32).unwrap(), g.randn([n, 32 * blocks], DType::F32).unwrap());
        let want = results(&x, &w).unwrap();
        let run = || results(&x, &w).unwrap();
        let placements =
            [Placement::Auto, Placement::FirstSupported, Placement::Resident, Placement::Prefer(GPU), Placement::CpuOnly];
        for placement in placements {
            let scoped = base.scope(|| rustorch_runtime::with_placement(placement.clone(), run).unwrap());
            prop_assert_eq!(&scoped, &want, "{:?}", placement);
        }
        for wanted in [DeviceType::Auto, DeviceType::Hybrid, DeviceType::Only(GPU), DeviceType::Only(Device::CPU)] {
            let resolved = base.resolve(wanted).unwrap().executor;
            prop_assert_eq!(&resolved.scope(run), &want, "{:?}", wanted);
            let manager = DeviceManager::new(base.clone());
            manager.set_device(wanted).unwrap();
            prop_assert_eq!(&manager.scope(run), &want, "{:?}", wanted);
        }
        prop_assert_eq!(&base.with_number_check(true).with_on_fault(OnFault::Error).scope(run), &want);
    }
}

/// In `f64`: what [`Numerics::F32`] has to come near to.
fn precise(x: &Tensor, w: &Tensor) -> Result<Vec<f64>> {
    let wide = |t: &Tensor| t.to_dtype(DType::F32)?.to_dtype(DType::F64);
    wide(x)?.matmul(&wide(w)?.t()?)?.to_vec()
}

fn error(got: &Tensor, want: &[f64]) -> Result<f64> {
    let got = got.to_vec::<f32>()?;
    Ok(got.iter().zip(want).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max))
}

#[test]
fn numerics_say_whether_activations_are_rounded() -> Result<()> {
    let g = Generator::new(7);
    let (x, w) = (g.randn([4, 256], DType::F32)?, g.randn([5, 256], DType::F32)?);
    for dtype in [DType::F16, DType::BF16, DType::Quant(QuantType::Q8_0), DType::Quant(QuantType::Q4_K)] {
        let w = w.to_dtype(dtype)?;
        let want = precise(&x, &w)?;
        let rounded = x.linear_with(&w, None, Numerics::Ggml)?;
        let whole = x.linear_with(&w, None, Numerics::F32)?;
        let (rounded_error, error) = (error(&rounded, &want)?, error(&whole, &want)?);
        assert!(error < 1e-4 && rounded_error > 4.0 * error, "{dtype}: {rounded_error:e} {error:e}");
        if dtype.is_quant() {
            // `linear` is ggml's matmul, `matmul` rounds neither operand.
            assert_eq!(x.linear(&w, None)?.to_vec::<f32>()?, rounded.to_vec::<f32>()?);
            assert_eq!(x.matmul(&w.t()?)?.to_vec::<f32>()?, whole.to_vec::<f32>()?);
        }
    }
    Ok(())
}

#[test]
fn matmul_and_linear_refuse_different_dense_dtypes_as_pytorch_does() -> Result<()> {
    let float = [DType::F16, DType::BF16, DType::F32, DType::F64, DType::C64, DType::C128];
    let whole = [DType::U8, DType::I8, DType::I16, DType::I32, DType::I64];
    let all = || float.iter().chain(&whole);
    for (&a, &b) in all().flat_map(|a| all().map(move |b| (a, b))) {
        let (x, w, v) = (Tensor::ones([2, 2], a)?, Tensor::ones([2, 2], b)?, Tensor::ones(2, b)?);
        let batch = Tensor::ones([3, 2, 2], b)?;
        let given = [
            ("matmul", x.matmul(&w)),
            ("matmul", x.matmul(&v)),
            ("matmul", x.matmul(&batch)),
            ("matmul", x.mm(&w)),
            ("matmul", x.mv(&v)),
            ("linear", x.linear(&w, None)),
        ];
        for (op, result) in given {
            match result {
                Ok(y) => assert!(a == b && y.dtype() == a, "{op}: {a} × {b}"),
                Err(error) => {
                    let text = error.to_string();
                    let names = [op, &a.to_string(), &b.to_string()];
                    assert!(a != b && names.iter().all(|name| text.contains(*name)), "{a} × {b}: {text}");
                }
            }
        }
    }
    Ok(())
}
