//! Experts that do not exist are found among choices that are grouped, each time that they are used.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, too")]

use rustorch_core::{
    Backend, Buffer, DType, Error, Fault, Layout, MulMatId, Numerics, Op, QuantType, Shape, View, ViewMut,
    run_checked,
};
use rustorch_kernels::Engine;
use rustorch_testkit::{Requirement, skip};

const EXPERTS: usize = 3;
const TOKENS: usize = 8;

struct Array(Buffer, DType, Layout);

fn array(engine: &dyn Backend, dtype: DType, dims: &[usize], bytes: &[u8]) -> Array {
    let layout = Layout::contiguous(Shape::new(dims).unwrap());
    let mut buffer = engine.alloc(bytes.len()).unwrap();
    // SAFETY: the buffer has room for the layout, and nobody else uses it.
    engine.copy_in(bytes, &mut unsafe { ViewMut::new(&mut buffer, dtype, &layout) }).unwrap();
    Array(buffer, dtype, layout)
}

impl Array {
    fn view(&self) -> View<'_> {
        // SAFETY: it was written, and nobody writes it while this is read.
        unsafe { View::new(&self.0, self.1, &self.2) }
    }
}

/// What reading the matmul gives.
fn mul_mat_id(engine: &dyn Backend, x: &Array, weight: &Array, choices: &Array) -> Result<Vec<u8>, Fault> {
    let bytes = vec![0; 4 * TOKENS * 2 * 32];
    let mut out = array(engine, DType::F32, &[TOKENS, 2, 32], &bytes);
    // SAFETY: nobody else uses it.
    let place = unsafe { ViewMut::new(&mut out.0, out.1, &out.2) };
    run_checked(
        engine,
        &Op::MulMatId(MulMatId { numerics: Numerics::Ggml }),
        &[x.view(), weight.view(), choices.view()],
        &mut [place],
    )?;
    let mut bytes = bytes;
    engine.copy_out(&out.view(), &mut bytes).map(|()| bytes)
}

#[test]
fn mistakes_among_many_choices_are_found() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    for adapter in adapters {
        let engine = Engine::new(adapter.open().unwrap()).unwrap();
        let numbers: Vec<u8> = (0..TOKENS * 64).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let x = array(&engine, DType::F32, &[TOKENS, 1, 64], &numbers);
        let quant = DType::Quant(QuantType::Q8_0);
        let bytes = vec![1; quant.bytes_for(EXPERTS * 32 * 64).unwrap()];
        let weight = array(&engine, quant, &[EXPERTS, 32, 64], &bytes);
        let choices = |wrong: Option<i64>| {
            let mut ids: Vec<i64> = (0..TOKENS as i64 * 2).map(|i| i * 5 % EXPERTS as i64).collect();
            if let Some(wrong) = wrong {
                ids[11] = wrong;
            }
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            array(&engine, DType::I64, &[TOKENS, 2], &bytes)
        };
        let right = choices(None);
        let expected = mul_mat_id(&engine, &x, &weight, &right).unwrap();
        for wrong in [EXPERTS as i64, -1, 1 << 32] {
            let choices = choices(Some(wrong));
            // The second time, the choices are grouped already.
            for _ in 0..2 {
                let fault = mul_mat_id(&engine, &x, &weight, &choices).unwrap_err();
                let found = match &fault {
                    Fault::Invalid(error) => {
                        matches!(**error, Error::Index { index, len: EXPERTS, .. } if index == wrong)
                    }
                    _ => false,
                };
                assert!(found, "{wrong} on {}: {fault:?}", adapter.name());
            }
            assert!(mul_mat_id(&engine, &x, &weight, &right).unwrap() == expected);
        }
    }
}
