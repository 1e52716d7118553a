//! Random numbers are the CPU's, to the bit where no logarithm or sine is taken.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use crate::common::plain;
use rustorch_core::{
    Backend, DType, Distribution, Layout, Op, PhiloxKey, Random, Shape, View, ViewMut, run_checked,
};
use rustorch_cpu::CpuBackend;
use rustorch_kernels::Engine;
use rustorch_testkit::{Requirement, skip};

const N: usize = 5003;

fn draw(backend: &dyn Backend, op: &Op, dtype: DType) -> Option<Vec<u8>> {
    backend.supports(op, &[]).ok()?;
    let layout = Layout::contiguous(Shape::new([N].as_slice()).unwrap());
    let mut out = vec![0; N * dtype.size().unwrap()];
    let mut result = backend.alloc(out.len()).unwrap();
    // SAFETY: fresh memory of the right size.
    run_checked(backend, op, &[], &mut [unsafe { ViewMut::new(&mut result, dtype, &layout) }]).unwrap();
    // SAFETY: the operation has written it.
    backend.copy_out(&unsafe { View::new(&result, dtype, &layout) }, &mut out).unwrap();
    Some(out)
}

#[test]
fn every_device_draws_the_same_numbers() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let cpu = CpuBackend::new(1);
    let key = PhiloxKey { seed: 0x1234_5678_9ABC, offset: u64::MAX - 3 };
    let laws = [
        Distribution::Uniform { low: -1.0, high: 3.0 },
        Distribution::Uniform { low: 1.0, high: 1.000_000_5 },
        Distribution::Integer { low: -3, high: 4 },
        Distribution::Integer { low: i64::MIN, high: i64::MAX },
        Distribution::Bernoulli { p: 0.3 },
        Distribution::Bernoulli { p: 1.0 },
    ];
    for adapter in adapters {
        let whole = Engine::new(adapter.open().unwrap()).unwrap();
        let plain = Engine::new(plain::Plain::new(adapter.open().unwrap())).unwrap();
        for engine in [&whole as &dyn Backend, &plain] {
            let mut compared = 0;
            for distribution in laws {
                for &dtype in DType::DENSE {
                    let shape = Shape::new([N].as_slice()).unwrap();
                    let op = Op::Random(Random { distribution, shape, dtype, key });
                    if op.infer(&[]).is_err() {
                        continue;
                    }
                    let Some(got) = draw(engine, &op, dtype) else { continue };
                    let want = draw(&cpu, &op, dtype).unwrap();
                    assert!(got == want, "{distribution:?} of {dtype}");
                    compared += 1;
                }
            }
            assert!(compared > 20, "{compared}");
        }
    }
}
