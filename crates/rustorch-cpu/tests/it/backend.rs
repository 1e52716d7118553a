//! `CpuBackend::run` may be called by anybody: what `Op::infer` would not give is an error, never an access.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use rustorch_core::{
    Backend, BinaryOp, Buffer, Clamp, DType, Device, Embedding, Fault, HOST_ALIGN, Layout, MatMul, Op,
    Scalar, Shape, UnaryOp, View, ViewMut,
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

#[test]
fn the_name_tells_cpu_and_thread_counts_apart() {
    let name = |threads| CpuBackend::new(threads).capability().name.clone();
    assert!(name(2).contains("2 threads") && name(1) != name(2), "{}", name(2));
    assert!(!name(1).starts_with(','), "{}", name(1));
}

#[test]
fn memory_of_every_size_is_aligned_and_can_be_written() {
    let cpu = CpuBackend::new(1);
    for bytes in [0, 1, 4096, (2 << 20) - 1, 2 << 20, (6 << 20) + 5] {
        let mut buffer = cpu.alloc(bytes).unwrap();
        assert_eq!((buffer.location(), buffer.bytes()), (Device::CPU, bytes));
        let align = if cfg!(target_os = "linux") && bytes >= 2 << 20 { 2 << 20 } else { HOST_ALIGN };
        assert_eq!(buffer.host_address().unwrap().as_ptr() as usize % align, 0);
        let layout = Layout::contiguous(Shape::new([bytes].as_slice()).unwrap());
        let data: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        // SAFETY: as many bytes as were allocated.
        assert!(unsafe { ViewMut::new(&mut buffer, DType::U8, &layout) }.write_bytes(&data));
        // SAFETY: as above, and written.
        assert_eq!(unsafe { View::new(&buffer, DType::U8, &layout) }.as_bytes(), Some(&data[..]));
    }
}

#[test]
fn too_much_memory_is_refused() {
    for bytes in [usize::MAX, isize::MAX as usize, 1 << 60] {
        assert_eq!(
            CpuBackend::new(1).alloc(bytes).unwrap_err(),
            Fault::OutOfMemory { device: Device::CPU, requested: bytes }
        );
    }
}
