//! `CpuBackend::run` may be called by anybody: what `Op::infer` would not give is an error, never an access.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use rustorch_core::{
    Backend, BinaryOp, Buffer, Clamp, DType, Embedding, Layout, MatMul, Op, Scalar, Shape, UnaryOp, View,
    ViewMut,
};
use rustorch_cpu::CpuBackend;

struct Array(Buffer, DType, Layout);

impl Array {
    fn new(cpu: &CpuBackend, dtype: DType, dims: &[usize]) -> Array {
        let layout = Layout::contiguous(Shape::new(dims).unwrap());
        let bytes = dtype.bytes_for(layout.numel()).unwrap();
        let mut buffer = cpu.alloc(bytes).unwrap();
        // SAFETY: the buffer was made for the layout.
        let mut view = unsafe { ViewMut::new(&mut buffer, dtype, &layout) };
        cpu.copy_in(&vec![0; bytes], &mut view).unwrap();
        Array(buffer, dtype, layout)
    }
}

/// The message with which an operation on arrays of these dtypes and shapes is refused.
fn refusal(op: &Op, args: &[(DType, &[usize])], outs: &[(DType, &[usize])]) -> String {
    let cpu = CpuBackend::new(2);
    let args: Vec<Array> = args.iter().map(|&(dtype, dims)| Array::new(&cpu, dtype, dims)).collect();
    let mut outs: Vec<Array> = outs.iter().map(|&(dtype, dims)| Array::new(&cpu, dtype, dims)).collect();
    // SAFETY: made for their layouts, and written.
    let views: Vec<View<'_>> = args.iter().map(|x| unsafe { View::new(&x.0, x.1, &x.2) }).collect();
    // SAFETY: as above.
    let mut places: Vec<ViewMut<'_>> =
        outs.iter_mut().map(|x| unsafe { ViewMut::new(&mut x.0, x.1, &x.2) }).collect();
    cpu.run(op, &views, &mut places).unwrap_err().to_string()
}

#[test]
fn what_infer_would_not_give_is_refused() {
    let (f32, f64, i64) = (DType::F32, DType::F64, DType::I64);
    let add = Op::Binary(BinaryOp::Add);
    let sum_of = |outs: &[(DType, &[usize])]| refusal(&add, &[(f32, &[4]), (f32, &[4])], outs);
    let cases = [
        (sum_of(&[(f32, &[3])]), "shape"),
        (sum_of(&[(f32, &[400])]), "shape"),
        (sum_of(&[(f64, &[4])]), "dtype"),
        (sum_of(&[]), "1 results, 0 outputs"),
        (sum_of(&[(f32, &[4]), (f32, &[4])]), "1 results, 2 outputs"),
        (refusal(&add, &[(f32, &[4]), (f64, &[4])], &[(f32, &[4])]), "f64"),
        (refusal(&add, &[(f32, &[4]), (f32, &[3])], &[(f32, &[4])]), "[3]"),
        (refusal(&add, &[(f32, &[4])], &[(f32, &[4])]), "add"),
        (refusal(&Op::Unary(UnaryOp::Neg), &[], &[(f32, &[4])]), "neg"),
        (refusal(&Op::Embedding(Embedding), &[(f32, &[2, 8]), (i64, &[3])], &[(f32, &[3, 9])]), "shape"),
        (
            refusal(&Op::MatMul(MatMul::default()), &[(f32, &[2, 3]), (f32, &[3, 4])], &[(f32, &[4, 4])]),
            "shape",
        ),
        (
            refusal(
                &Op::Clamp(Clamp { min: Some(Scalar::Int(0)), max: None }),
                &[(f32, &[9])],
                &[(f32, &[1])],
            ),
            "shape",
        ),
    ];
    for (message, word) in cases {
        assert!(message.contains(word), "{message} lacks {word}");
    }
}
